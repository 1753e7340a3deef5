"""Answer AITER's questions about the machine without a program.

The kernel's list of GPUs or the driver library has the answers.

The kernel's list comes first: opening HIP where a server will fork its workers would break them, and ``import aiter`` is no
call of a GPU. Where somebody names a driver (``AITER_PREBUILT_HIP``), or the kernel has no list, the driver is asked.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.devices import device
from aiter_prebuilt_bridge.errors import MachineError

_NODES: Final = Path("/sys/class/kfd/kfd/topology/nodes")
_LIBRARY: Final = "AITER_PREBUILT_HIP"
#: Beside this file, in the wheel: what AITER takes for a folder of its JIT where its own cannot be written.
_FOLDER: Final = Path(__file__).with_name("jit")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One AMD GPU."""

    target: str
    compute_units: int


@lru_cache(maxsize=1)
def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs of this machine, in order.

    None where there is no driver.
    """
    listed = () if os.environ.get(_LIBRARY) else from_nodes(_NODES)
    return listed or tuple(Gpu(facts.target, facts.compute_units) for facts in device.probe("amd").devices)


def from_nodes(folder: Path) -> tuple[Gpu, ...]:
    """Return the GPUs in the kernel's list below ``folder``.

    What this process may not read is not its GPU.
    """
    found = []
    for node in sorted(folder.glob("*/properties"), key=lambda path: int(path.parent.name)):
        try:
            rows = dict(line.split() for line in node.read_text(encoding="ascii").splitlines() if line)
            version, simds = int(rows["gfx_target_version"]), int(rows["simd_count"])
            per_unit = int(rows["simd_per_cu"])
        except (OSError, ValueError, KeyError):
            continue
        if version and simds and per_unit:
            target = f"gfx{version // 10000}{version // 100 % 100}{version % 100:x}"
            found.append(Gpu(target, simds // per_unit))
    return tuple(found)


def architecture() -> str:
    """Return the target of the first GPU.

    Raises:
        MachineError: there is none.
    """
    for gpu in gpus():
        return gpu.target
    named = os.environ.get("GPU_ARCHS", "native").rpartition(";")[2]
    if named not in ("", "native"):
        return named
    raise MachineError(
        "",
        "AITER asks for the GPU, and no AMD GPU is here",
        "aiter-prebuilt doctor shows the drivers. Set GPU_ARCHS and CU_NUM to import AITER without one: "
        "export GPU_ARCHS=gfx942 CU_NUM=304",
    )


def chosen(numbers: Mapping[str, Any]) -> Any:
    """AITER's number of the target that ``GPU_ARCHS`` names (the last of several), or of the first GPU."""
    named = os.environ.get("GPU_ARCHS", "native")
    target = architecture() if named == "native" else named.rpartition(";")[2]
    if target not in numbers:
        raise KeyError(f"AITER knows no GPU {target}; it knows {', '.join(numbers)}")
    return numbers[target]


def compute_units() -> int:
    """Count a GPU's compute units.

    ``CU_NUM`` counts first; else the GPUs must agree.

    Raises:
        MachineError: there is no GPU, or they differ.
    """
    told = int(os.environ.get("CU_NUM") or 0)
    if told:
        return told
    architecture()
    counts = sorted({gpu.compute_units for gpu in gpus()})
    if len(counts) > 1:
        raise MachineError(
            "say how many compute units a GPU has, once for all",
            f"the GPUs have {' and '.join(map(str, counts))}",
            "Set CU_NUM to the number that AITER shall choose for",
        )
    return counts[0]


def hip_version() -> str:
    """Return the version of HIP.

    Torch's, else the driver's.
    """
    torch = sys.modules.get("torch")
    told = getattr(getattr(torch, "version", None), "hip", None)
    if told:
        return str(told)
    number = device.probe("amd").version
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def balances_numa(setting: Path = Path("/proc/sys/kernel/numa_balancing")) -> bool:
    """Tell whether the kernel moves memory between nodes."""
    try:
        return setting.read_text(encoding="ascii").strip() == "1"
    except OSError:
        return False


def jit_folder(own: str) -> str:
    """Choose the folder in which AITER's JIT would work.

    It is the one that ``AITER_JIT_DIR`` names, or ``own`` if it can be written, or one that exists and is never written. AITER
    would copy itself into the user's home.
    """
    named = os.environ.get("AITER_JIT_DIR")
    if named is not None:
        Path(named).mkdir(parents=True, exist_ok=True)
        sys.path.insert(0, named)
        return named
    return own if os.access(own, os.W_OK) else str(_FOLDER)


def tables_folder(own: str) -> str:
    """Choose the folder in which AITER merges its tuned tables.

    It is ``own``, with its slash, unless another user's tables are there; then a folder of this user's. AITER's import would fail
    there.
    """
    place, user = Path(own), os.geteuid()
    nearest = next(each for each in (place, *place.parents) if each.exists())
    others = [each for each in place.glob("*tuned*.csv") if each.lstat().st_uid != user]
    if os.access(nearest, os.W_OK) and not others:
        return own
    try:
        mine = Path(tempfile.gettempdir()) / f"aiter-prebuilt-{user}"
        mine.mkdir(mode=0o700, exist_ok=True)
        if mine.is_symlink() or mine.stat().st_uid != user:
            mine = Path(tempfile.mkdtemp(prefix="aiter-prebuilt-"))
    except OSError:
        return own
    return f"{mine}/"


def unwritten(wanted: Path) -> str:
    """Find a ``build`` folder that is never written.

    It serves where ``wanted`` does not exist and cannot be made; else "".
    """
    if wanted.is_dir():
        return ""
    there = next(parent for parent in wanted.absolute().parents if parent.exists())
    return "" if os.access(there, os.W_OK) else str(_FOLDER)
