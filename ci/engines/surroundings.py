"""Surroundings of an engine: its Python files, AITER, the emulator as its GPUs, and no compiler that AITER could start."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).resolve().parent
#: Names of compilers that AITER's JIT starts.
_COMPILERS: Final = ("hipcc", "amdclang++", "clang++", "ninja")
_TELLS: Final = '#!/bin/sh\necho "$0 $*" >> "{log}"\nexit 1\n'


@dataclass(frozen=True)
class Place:
    """The folders of an engine's runs."""

    folder: Path
    engine: Path
    aiter: Path | None

    @property
    def compilers(self) -> Path:
        """The file that the stand-ins of compilers write to."""
        return self.folder / "compilers.log"


def environment(
    place: Place, base: Mapping[str, str], runner: str = "v1", more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the variables of an engine's process.

    Args:
        place: the folders.
        base: the variables of this process. Those of our own are not taken over.
        runner: vLLM's ``v1`` or ``v2`` model runner.
        more: variables of one run.
    """
    programs = _programs(place)
    paths = [str(place.engine), str(_HERE.parent), str(_HERE / "stand_in")]
    if place.aiter is not None:
        paths.append(str(place.aiter))
    kept = {
        name: value
        for name, value in base.items()
        if not name.startswith(("AITER_", "VLLM_")) and name != "PYTHONPATH"
    }
    return kept | {
        "PATH": os.pathsep.join((str(programs), str(Path(sys.executable).parent), base.get("PATH", ""))),
        "PYTHONPATH": os.pathsep.join(paths),
        "AITER_PREBUILT_BRIDGE": "strict",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ROCM_USE_AITER": "1",
        # vLLM's own kernels for few rows are compiled modules, which are not here.
        "VLLM_ROCM_USE_SKINNY_GEMM": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "1" if runner == "v2" else "0",
        # Models run eagerly: vLLM compiles small functions of its own all the same.
        "TORCHDYNAMO_DISABLE": "1",
        **(more or {}),
    }


def started(target: str) -> list[str]:
    """Return the words before a program's, which give it a device."""
    emulator = Path(sys.executable).parent / "aiter-prebuilt-emulator"
    return [str(emulator), "run", "--devices", target, "--torch", "--"]


def _programs(place: Place) -> Path:
    """Write programs in the place of compilers; each tells that it was called, and fails."""
    folder = place.folder / "compilers"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _COMPILERS:
        path = folder / name
        path.write_text(_TELLS.format(log=place.compilers), encoding="utf-8")
        path.chmod(0o755)
    return folder
