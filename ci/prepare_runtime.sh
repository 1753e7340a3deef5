#!/bin/sh
# Before cibuildwheel builds the runtime wheel in its container: the pinned sources of zstd and DLPack to build/sources, where
# pyproject.toml's [tool.cibuildwheel.config-settings] points. Usage: ci/prepare_runtime.sh PROJECT
set -eu
cd "$1"
PYTHONPATH=src /opt/python/cp312-cp312/bin/python -m build_tools.tools.native_sources build/sources
