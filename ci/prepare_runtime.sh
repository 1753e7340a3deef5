#!/bin/sh
# Before cibuildwheel builds the runtime wheel in its container: the pinned sources of zstd and DLPack to build/sources, where
# pyproject.toml's [tool.cibuildwheel.config-settings] points. Usage: ci/prepare_runtime.sh PROJECT
set -eu
cd "$1"
environment=$(mktemp -d)
/opt/python/cp312-cp312/bin/python -m venv "$environment"
"$environment/bin/python" -m pip install --quiet nox==2026.10.20
"$environment/bin/python" -m nox -s sources -- build/sources
rm -rf "$environment"
