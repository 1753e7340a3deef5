"""Keep what Python compiled for the children of a test run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def kept(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose processes compile each module once in a run of the tests.

    AITER, Triton and pandas are 4 s of a core to compile. The folder goes when the run ends; nothing is written beside the
    sources.
    """
    places = {"PYTHONPYCACHEPREFIX": str(Path(os.environ["AITER_PREBUILT_TEST_SHARED"]) / "bytecode")}
    return {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"} | places
