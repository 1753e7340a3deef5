"""Set up a program's environment to find the emulator as HIP."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from aiter_prebuilt_emulator import LIBRARY, library


def with_library(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` with the library in it: by path for those that ask; loaded already, as libamdhip64.so.7, for those that
    link it; by folder for the others.

    Raises:
        FileNotFoundError: the library was not built.
    """
    path = library()
    found = {**environment, "AITER_PREBUILT_HIP": path, "TRITON_LIBHIP_PATH": path}
    for name, value, separator in (("LD_PRELOAD", path, " "), ("LD_LIBRARY_PATH", str(LIBRARY.parent), ":")):
        found[name] = separator.join(filter(None, (value, found.get(name))))
    return found


def with_torch(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` in which torch has the emulator's devices, in each Python that starts with it."""
    start = str(Path(__file__).resolve().parent / "torch_start")
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join(filter(None, (start, environment.get("PYTHONPATH")))),
    }
