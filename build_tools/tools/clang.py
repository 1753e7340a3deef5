"""A clang for AMDGPU as a value: how to start it, and the flags that make its output depend on the inputs alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CODE_OBJECT_VERSION: Final = 5
"""Every ROCm since 5.5 loads version 5; version 6 adds nothing for these targets and needs ROCm 6.3."""

DEVICE_FLAGS: Final = (
    "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output",
    "-O3", "-std=c++20", f"-mcode-object-version={CODE_OBJECT_VERSION}",
    # The same bytes wherever and whenever it is compiled: no unit id made from the path, no debug lines, no compiler banner.
    "-fuse-cuid=none", "-g0", "-fno-ident",
    # Spelled out because a default could change: contraction within a statement and across, IEEE division, denormals kept.
    "-ffp-contract=fast-honor-pragmas", "-fhip-fp32-correctly-rounded-divide-sqrt", "-fno-gpu-flush-denormals-to-zero",
    "-Wall", "-Wextra", "-fno-color-diagnostics",
)  # fmt: skip

ASSEMBLY_FLAGS: Final = (
    "-target",
    "amdgcn-amd-amdhsa",
    f"-mcode-object-version={CODE_OBJECT_VERSION}",
    "-fno-color-diagnostics",
)

LINK_FLAGS: Final = ("-shared", "--no-undefined", "--build-id=none")


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One line of ``python -m build_tools toolchain``. ``sha256`` is "" where only the version was checked."""

    tool: str
    version: str
    where: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Clang:
    """``driver`` and ``lld``: argument lists that start clang++ and ld.lld. ``env``: variables they need.

    ``hip_flags``: where the HIP headers are. ``libraries``: bitcode files to link into every HIP compile, in order; with them
    goes one file of control constants per target, which :mod:`build_tools.tools.hermetic` makes. Empty when the driver
    finds its own. ``device_libraries``: ocml and ockl as files, for a compiler that links them itself.
    ``identity``: text that changes whenever the tools would give other bytes; it has no path in it.
    """

    driver: tuple[str, ...]
    lld: tuple[str, ...]
    hip_flags: tuple[str, ...]
    libraries: tuple[Path, ...]
    identity: str
    rows: tuple[ToolRow, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    device_libraries: tuple[Path, ...] = ()
