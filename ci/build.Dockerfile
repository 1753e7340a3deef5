# An image that builds, also as a worker of a farm (ci/farm-kubernetes.yml):
#   docker build -f ci/build.Dockerfile -t build .
#   mkdir -p dist
#   docker run --user "$(id -u):$(id -g)" -v work:/project/build -v "$PWD/dist:/project/dist" build \
#     sh -ec 'python -m build_tools build --host; python -m build_tools wheels --output dist'
# Any user id can write /project/build and /project/dist, and nothing else. The volume `work` gets the rights of /project/build from the image; it
# keeps what was compiled, and is what a root file system that is --read-only needs.
ARG BASE=python:3.12-bookworm
FROM ${BASE}
WORKDIR /project
COPY build_tools/requirements.txt build_tools/requirements.txt
COPY build_tools/locks build_tools/locks
# In a layer of their own: gigabytes of compilers, which change less often than the sources.
RUN python3 -m venv /opt/build && \
    /opt/build/bin/python -m pip install --no-cache-dir --no-deps --require-hashes \
      -r build_tools/locks/makers.txt -r build_tools/requirements.txt -r build_tools/locks/build.txt \
      -r build_tools/locks/farm.txt -r build_tools/locks/release.txt
ENV PATH=/opt/build/bin:$PATH PYTHONPATH=src AITER_PREBUILT_CACHE=/project/build/cache HOME=/project/build/home
COPY CMakeLists.txt LICENSE README.md THIRD_PARTY.txt pyproject.toml ./
COPY build_tools build_tools
COPY csrc csrc
COPY hsa hsa
COPY manifests manifests
COPY src src
RUN mkdir -p build/home dist && chmod 777 build build/home dist
USER 65534:65534
CMD ["python", "-m", "build_tools", "build"]
