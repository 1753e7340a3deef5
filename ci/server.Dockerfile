# A server image with the wheels of dist:
#   docker build -f ci/server.Dockerfile --build-arg BASE=YOUR-ENGINE-IMAGE --build-arg EXTRAS=gfx942,bridge -t server .
#   docker run --read-only --user 12345:0 --device /dev/kfd --device /dev/dri --group-add video server
# It runs under any user id, with a read-only root file system: the runtime writes no file.
ARG BASE=python:3.12-slim-bookworm
FROM ${BASE}
ARG EXTRAS=gfx942
# The wheels are mounted and not copied, so that no layer keeps them. --no-index: the engine's own packages stay as they are.
RUN --mount=type=bind,source=dist,target=/tmp/dist \
    python3 -m pip --isolated install --no-cache-dir --no-index --find-links /tmp/dist "aiter-prebuilt[${EXTRAS}]"
USER 65534:65534
CMD ["aiter-prebuilt", "doctor"]
