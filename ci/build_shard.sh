#!/bin/sh
# One shard of the compiles of one bundle, into build/store: ci/build_shard.sh TARGET PROFILE I/N [words of `build` ...]
set -eu
cd "$(dirname "$0")/.."
python3 -m pip install --quiet --no-deps --require-hashes -r build_tools/locks/nox.txt
target=$1 profile=$2 shard=$3
shift 3
exec python3 -m nox -s compile -- --target "$target" --profile "$profile" --shard "$shard" "$@"
