"""What the bridge says of itself: to ``aiter-prebuilt doctor`` without an import of AITER, to ``bridge status`` after one."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt_bridge import cache_data, folder, record, triton_cache
from aiter_prebuilt_bridge.errors import NoAiterError
from aiter_prebuilt_bridge_hook import VARIABLE, install, installed

_DISTRIBUTION = "aiter-prebuilt-bridge"
_AITER = ("amd-aiter", "aiter")
_STUBS = ("pybind", "develop", "ctypes")


def facts() -> dict[str, Any]:
    """Versions, what the variable says, and whether AITER will be found by the bridge; what is wrong with that."""
    problems = []
    own = _version((_DISTRIBUTION,))
    if own not in ("", VERSION):
        problems.append(
            f"{_DISTRIBUTION} is of version {own}, the runtime of {VERSION}: pip install 'aiter-prebuilt[bridge]=={VERSION}'"
        )
    off = os.environ.get(VARIABLE) == "0"
    if own and not off and not installed():
        problems.append(
            "the bridge is installed and not active: this Python read no .pth file (-S, or a folder on PYTHONPATH); "
            "vLLM and SGLang load it all the same, other programs call aiter_prebuilt_bridge_hook.install()"
        )
    caches = cache_data.summary()
    problems += [row["problem"] for row in caches if row["problem"]]
    return {
        "bridge": VERSION,
        "mode": "off" if off else "strict" if record.strict() else "on",
        "active": installed(),
        "aiter": _version(_AITER) or ("of a checkout" if _found() else "not installed"),
        "caches": caches,
        "problems": problems,
    }


def examine() -> dict[str, Any]:
    """Import AITER through the bridge, and say what became of each name that it looked at.

    Raises:
        NoAiterError: there is none, or it cannot be imported.
    """
    told = facts()
    if install():
        _import_aiter()
    rows = sorted(record.NAMES.values(), key=lambda row: (row.module, row.name))
    said = [
        {"module": row.module, "name": row.name, "way": row.way, "needs": row.compiles, "why": row.why}
        | ({"only": _only(row)} if row.words else {})
        for row in rows
    ]
    return {
        **told,
        "answered": sorted(record.ANSWERED),
        "replaced": [row for row in said if not row["why"] and row["way"] not in _STUBS],
        "stub": [row for row in said if not row["why"] and row["way"] in _STUBS],
        "left": [row for row in said if row["why"]],
        "triton": triton_cache.report(),
        "exit_code": 0 if any(row.replaced for row in rows) else 1,
    }


def _only(row: record.Name) -> dict[str, list[str]]:
    """Options with which alone a call reaches ours -> their values."""
    return (
        {each.name: [repr(value) for value in each.values] for each in row.words.limits} if row.words else {}
    )


def _import_aiter() -> None:
    if not _found():
        raise NoAiterError(
            "import aiter", "there is no such package", "Install the amd-aiter that your client pins"
        )
    try:
        importlib.import_module("aiter")
    except Exception as error:
        raise NoAiterError(
            "import aiter",
            f"{type(error).__name__}: {error}",
            "Mend that first; with AITER_PREBUILT_BRIDGE=0 it is imported without the bridge",
        ) from error


def _found() -> bool:
    return importlib.util.find_spec("aiter") is not None


def _version(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def write_folder(place: Path | None) -> dict[str, Any]:
    """Write the modules of the AITER that is installed for ``AITER_JIT_DIR``.

    Raises:
        NoAiterError: there is none, or nobody said where to write.
    """
    spec = importlib.util.find_spec("aiter")
    if spec is None or not spec.origin or place is None:
        raise NoAiterError(
            "write modules for AITER_JIT_DIR",
            "no folder is named" if place is None else "there is no package aiter",
            "Type: aiter-prebuilt bridge folder FOLDER, where the amd-aiter that your client pins is installed",
        )
    served, left = folder.write(Path(spec.origin).parent, place)
    return {"folder": str(place), "served": served, "left_modules": left, "exit_code": 0 if served else 1}


def cache_lines(report: dict[str, Any]) -> list[str]:
    """What there is of kernels inside AITER that are ready, for people."""
    told = [
        f"kernels inside AITER for {row['target']}: {build['entries']} for {build['tool']} {build['version']} "
        f"({build['key'][:12]}), of {', '.join(row['trees'])}"
        for row in report["caches"]
        for build in row["compilers"]
    ]
    triton = report.get("triton")
    if triton is not None:
        state = triton["why"] or (
            "looked up here" if triton["active"] else "not looked up: Triton is not loaded"
        )
        told.append(f"Triton's cache: {state}")
        told += [f"  {name}: {count} times found" for name, count in triton["hits"].items()]
        told += [f"  {name}: {count} times not found" for name, count in triton["misses"].items()]
    return told


def lines(report: dict[str, Any]) -> list[str]:
    """A report for people."""
    if "folder" in report:
        return [
            *(f"{report['folder']}/{name}.py" for name in report["served"]),
            *(f"{name}: not written: {why}" for name, why in sorted(report["left_modules"].items())),
            f"set AITER_JIT_DIR={report['folder']}",
        ]
    reasons = Counter(row["why"] for row in report["left"])
    return [
        f"bridge {report['bridge']}: {report['mode']}, AITER {report['aiter']}",
        f"answered without a program: {', '.join(report['answered']) or 'nothing'}",
        *cache_lines(report),
        f"public names that are ours: {len(report['replaced'])}",
        f"stubs of the JIT that are ours: {len(report['stub'])}",
        *(
            f"  {row['name']} only with {name} {' or '.join(values)}"
            for row in (*report["replaced"], *report["stub"])
            for name, values in row.get("only", {}).items()
            if "anything" not in values
        ),
        f"left to AITER: {len(report['left'])}",
        *(f"  {count}: {why}" for why, count in reasons.most_common() if count > 1),
        *(
            f"  {row['module']}.{row['name']}: {row['why']}"
            for row in report["left"]
            if reasons[row["why"]] == 1
        ),
        *(f"problem: {problem}" for problem in report["problems"]),
    ]
