#!/bin/sh
# One step of a release, on any CI service: ci/provider.sh plan | compile I/N | runtime | pack | publish
#
# Each step is a job of its own, on a clean checkout of one commit. A service hands the named folders on.
#   plan         lint, then the units of ci/matrix.json, one a line
#   compile I/N  units I, I+N, I+2N ... of ci/matrix.json                          -> build/store
#   runtime      the runtime wheel in cibuildwheel's container: docker or podman   -> wheelhouse
#   pack         build/store of all jobs laid over each other, wheelhouse          -> dist, build/site, build/screenshots
#   publish      dist, signed, and a package index of it                           -> dist, build/mirror
# `publish --install-only` makes the environments of publish before the key is there: what an index serves never runs beside it.
#
# CK: which instances of Composable Kernel (sample, curated, tuned). RUNTIME=none: no container here, nothing is compared with its wheel.
# MINISIGN_KEY: the secret key, its second line alone, or a file with it. AITER_PREBUILT_KEY_PASSWORD: its password. BUILDER, RUN, SOURCE: docs/provenance.md.
# SOURCE is the repository as URL@REF: plan checks its form if it is there, so that the last job does not fail for the first time.
# plan, where a service gives it the key, and publish check the form of MINISIGN_KEY before any work. Blank lines and spaces around it do no harm.
set -eu
cd "$(dirname "$0")/.."
CK=${CK:-curated}
environment=build/provider

fail() {
  echo "error: ci/provider.sh: $1" >&2
  exit 2
}

# Make the environment of nox, and of further locks by name. A workspace may keep one of an earlier commit: it is known by its locks.
prepare() {
  set -- nox "$@"
  made=$(python3 --version; for lock; do cat "build_tools/locks/$lock.txt"; done)
  if [ -x "$environment/bin/nox" ] && [ "$(cat "$environment/made" 2>/dev/null)" = "$made" ]; then return; fi
  files=
  for lock; do files="$files -r build_tools/locks/$lock.txt"; done
  python3 -m venv --clear "$environment"
  # shellcheck disable=SC2086 # words: names of locks have no space
  "$environment/bin/python" -m pip install --quiet --no-deps --require-hashes $files
  printf '%s\n' "$made" >"$environment/made"
}

# Refuse a SOURCE that publish would refuse. Its REF is compared with the wheels in publish.
check_source() {
  [ -z "${SOURCE:-}" ] || python3 ci/release_source.py "$SOURCE"
}

# Refuse a MINISIGN_KEY that is no key, where a service gives the job one. -I -S: no installed package runs beside it.
check_key() {
  [ -z "${MINISIGN_KEY:+x}" ] || python3 -I -S ci/release_key.py
}

nox() {
  "$environment/bin/python" -m nox "$@"
}

# The units of ci/matrix.json as words, or those of job I of N: ci/matrix_units.py says what is wrong with I/N.
units() {
  python3 ci/matrix_units.py "$@"
}

compile() {
  mine=$(units "$1")
  prepare
  [ -n "$mine" ] || echo "job $1 has no unit: there are fewer units than jobs"
  mkdir -p build/store
  echo "$mine" | while read -r unit target profile shard; do
    [ -n "$unit" ] || continue
    echo "unit $unit: $target $profile $shard"
    nox -s compile -- --target "$target" --profile "$profile" --shard "$shard" --ck "$CK" </dev/null
  done
}

runtime() {
  if [ "${RUNTIME:-}" = none ]; then
    echo "RUNTIME=none: no wheel of cibuildwheel's container is made"
    return
  fi
  command -v docker >/dev/null || command -v podman >/dev/null ||
    fail "runtime needs docker or podman, and neither is here. Install one, or set RUNTIME=none for runtime and pack"
  command -v docker >/dev/null || export CIBW_CONTAINER_ENGINE=podman
  rm -rf wheelhouse # of another time: so it is in pack and publish
  prepare container
  "$environment/bin/python" -m cibuildwheel --platform linux --output-dir wheelhouse
}

pack() {
  [ -d build/store ] || fail "pack needs the build/store of every compile job. Download their artifacts first"
  [ -d wheelhouse ] || [ "${RUNTIME:-}" = none ] ||
    fail "pack needs the wheelhouse of the step runtime. Download its artifact, or set RUNTIME=none"
  prepare
  rm -rf dist build/site build/screenshots
  # What the shards compiled, and nothing else: a job that packs and compiles would hide that a shard is missing.
  # A tenth of it is compiled again and compared: what came through artifacts is believed no further than that.
  nox -s wheels -- --ck "$CK" --stored-only --recheck 1/10
  nox -s reproduce
  if [ -d wheelhouse ]; then nox -s same_runtime -- dist wheelhouse; fi
  nox -s site
  if command -v npx >/dev/null; then nox -s browser; else echo "no npx here: the page was not opened in a browser"; fi
}

publish() {
  if [ "${1:-}" = --install-only ]; then
    check_source
    check_key
    [ -z "${MINISIGN_KEY:+x}" ] || echo "warning: the key is there while packages are installed" >&2
    prepare
    nox -s release mirror --install-only
    return
  fi
  # A trace of the shell prints each word: the key's value is no word of this script.
  [ -n "${MINISIGN_KEY:+x}" ] || fail "publish signs: set MINISIGN_KEY to the secret key, to its second line, or to a file with it"
  check_key
  [ -d dist ] || fail "publish needs the dist of the step pack. Download its artifact first"
  [ -d .nox/release ] || fail "publish installs nothing. Run ci/provider.sh publish --install-only first"
  rm -rf build/mirror
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT # also where signing fails
  # An error of the key names its file: by the name that its owner knows.
  python3 -I -S ci/release_key.py "$folder/MINISIGN_KEY"
  unset MINISIGN_KEY
  set -- --key "$folder/MINISIGN_KEY"
  nox -R -s release -- dist "$@" ${BUILDER:+--builder "$BUILDER"} ${RUN:+--invocation "$RUN"} ${SOURCE:+--source "$SOURCE"}
  nox -R -s mirror -- build/mirror "$@"
}

case ${RUNTIME:-none} in
none) ;;
*) fail "RUNTIME is none or not set, and it is '$RUNTIME'. Without it the runtime is built in a container" ;;
esac

step=${1:-}
[ $# -eq 0 ] || shift
case $step:$# in
plan:0 | runtime:0 | pack:0 | publish:0 | compile:*) ;;
publish:1) [ "$1" = --install-only ] || fail "publish takes --install-only or no word, not '$1'" ;;
plan:* | runtime:* | pack:* | publish:*) fail "$step takes fewer words. It got: $*" ;;
esac
case $step in
plan)
  check_source
  check_key
  unset MINISIGN_KEY AITER_PREBUILT_KEY_PASSWORD # GitLab gives them to every job: packages are installed without them
  prepare
  nox -s lint
  units
  ;;
compile) [ $# -eq 1 ] || fail "compile needs I/N, for example: ci/provider.sh compile 1/4" && compile "$1" ;;
runtime) runtime ;;
pack) pack ;;
publish) publish "$@" ;;
*) fail "the step is plan, compile I/N, runtime, pack or publish, not '$step'" ;;
esac
