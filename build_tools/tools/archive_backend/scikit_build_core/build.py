"""Build archives that name scikit-build-core.

The answer is the same as from the ``setuptools`` beside it.
"""

from __future__ import annotations

from importlib import import_module

#: By name, since type checkers would look into the real package.
prepare_metadata_for_build_wheel = import_module("setuptools.build_meta").prepare_metadata_for_build_wheel
