"""The bridge's report of itself.

``aiter-prebuilt doctor`` has it without an import of AITER, ``bridge status`` after one.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections import Counter
from pathlib import Path
from typing import Any

from aiter_prebuilt.bundles.extras import pip_line
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt_bridge import (
    cache_data,
    flydsl_cache,
    folder,
    installed,
    lookup_log,
    models,
    semantic_changes,
    triton_cache,
)
from aiter_prebuilt_bridge.errors import ForeignFileError, NoAiterError
from aiter_prebuilt_bridge_hook import VARIABLE, install
from aiter_prebuilt_bridge_hook import installed as is_active

_DISTRIBUTION = "aiter-prebuilt-bridge"
_STUBS = ("pybind", "develop", "ctypes")
#: The words of a report.
_LEGEND = (
    "",
    "public name: a function that AITER's users call",
    "stub of the JIT: a function that AITER's own code calls, and would compile first",
    "ours: calls run a prebuilt kernel; left to AITER: it serves the call itself, and compiles what it lacks",
)
_LEGEND_OF_MODEL = (
    "",
    "who: ours (a public name), stub (an operator behind AITER's function), left (AITER's own), or",
    "absent (this AITER has no such name, or its function does not take the call)",
    "kernels here: does a kernel serve the call in each of the model's sizes",
)


def facts() -> dict[str, Any]:
    """Versions, what the variable says, and whether AITER will be found by the bridge; what is wrong with that."""
    problems = []
    own = installed.version((_DISTRIBUTION,))
    if own not in ("", VERSION):
        problems.append(
            f"{_DISTRIBUTION} is of version {own}, the runtime of {VERSION}. Run: {pip_line('bridge', version=VERSION)}"
        )
    off = os.environ.get(VARIABLE) == "0"
    if own and not off and not is_active():
        problems.append(
            "the bridge is installed and not active: this Python read no .pth file (-S, or a folder on PYTHONPATH); "
            "vLLM and SGLang load it all the same, other programs call aiter_prebuilt_bridge_hook.install()"
        )
    caches = cache_data.summary()
    problems += [row["problem"] for row in caches if row["problem"]]
    return {
        "bridge": VERSION,
        "mode": "off" if off else "strict" if lookup_log.strict() else "on",
        "active": is_active(),
        "aiter": installed.description(),
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
    rows = sorted(lookup_log.NAMES.values(), key=lambda row: (row.module, row.name))
    said = [
        {"module": row.module, "name": row.name, "way": row.way, "needs": row.compiles, "why": row.why}
        | ({"only": _only(row)} if row.words and row.words.limits else {})
        for row in rows
    ]
    return {
        **told,
        "answered": sorted(lookup_log.ANSWERED),
        "rules": semantic_changes.rules(),
        "replaced": [row for row in said if not row["why"] and row["way"] not in _STUBS],
        "stub": [row for row in said if not row["why"] and row["way"] in _STUBS],
        "left": [row for row in said if row["why"]],
        "triton": triton_cache.report(),
        "flydsl": flydsl_cache.report(),
        "exit_code": 0 if any(row.replaced for row in rows) else 1,
    }


def of_model(model: str, engine: str | None) -> dict[str, Any]:
    """Import AITER through the bridge, and say of each call of a model's steps through which name it goes, and who answers there.

    Raises:
        NoAiterError: there is none, or it cannot be imported. ArgumentError: no such model, or engine.
    """
    told = facts()
    if install():
        _import_aiter()
    rows = models.examine(model, engine)
    return {**told, "model": model, "calls": rows, "exit_code": 0}


def _only(row: lookup_log.Name) -> dict[str, list[str]]:
    """Options with which alone a call reaches ours -> their values."""
    return (
        {each.name: [repr(value) for value in each.values] for each in row.words.limits} if row.words else {}
    )


def _import_aiter() -> None:
    if not installed.found():
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


def write_folder(place: Path | None, choice: folder.Choice, *, check: bool) -> dict[str, Any]:
    """Write the modules of the AITER that is installed for ``AITER_JIT_DIR``, or compare those that are there with them.

    Raises:
        NoAiterError: there is none, or nobody said where to write. ArgumentError: AITER has no such module, or operator.
        ForeignFileError: a file that somebody else wrote is in the way.
    """
    spec = importlib.util.find_spec("aiter")
    if spec is None or not spec.origin or place is None:
        raise NoAiterError(
            "write modules for AITER_JIT_DIR",
            "no folder is named" if place is None else "there is no package aiter",
            "Type: aiter-prebuilt bridge folder FOLDER, where the amd-aiter that your client pins is installed",
        )
    plan, place = folder.plan(Path(spec.origin).parent, choice), place.absolute()
    problems = folder.problems(plan, place) if check else []
    if not check:
        try:
            folder.write(plan, place)
        except ForeignFileError:
            raise
        except OSError as error:
            raise ForeignFileError(
                f"write modules into {place}",
                str(error),
                "Name a folder that can be written, or an empty one",
            ) from error
    return {
        "folder": str(place),
        "aiter": installed.description(),
        "served": sorted(plan.texts),
        "left_modules": dict(plan.left),
        "problems": problems,
        "exit_code": 0 if plan.texts and not problems else 1,
    }


def cache_lines(report: dict[str, Any]) -> list[str]:
    """Describe the prepared kernels inside AITER, for people."""
    told = [
        f"kernels inside AITER for {row['target']}: {build['entries']} for {build['tool']} {build['version']} "
        f"({build['key'][:12]}), of {', '.join(row['trees'])}"
        for row in report["caches"]
        for build in row["compilers"]
    ]
    for tool, name in (("triton", "Triton"), ("flydsl", "FlyDSL")):
        lookups = report.get(tool)
        if lookups is not None:
            state = "looked up here" if lookups["active"] else f"not looked up: {name} is not loaded"
            told.append(f"{name}'s cache: {lookups['why'] or state}")
            told += [f"  {kernel}: {count} times found" for kernel, count in lookups["hits"].items()]
            told += [f"  {kernel}: {count} times not found" for kernel, count in lookups["misses"].items()]
    return told


def lines(report: dict[str, Any]) -> list[str]:
    """Return a report for people."""
    if "folder" in report:
        return [
            *(f"{report['folder']}/{name}.py" for name in report["served"]),
            *(f"{name}: not served: {why}" for name, why in sorted(report["left_modules"].items())),
            *(f"problem: {problem}" for problem in report["problems"]),
            f"for AITER {report['aiter']}: set AITER_JIT_DIR={report['folder']}",
        ]
    if "calls" in report:
        return _lines_of_model(report)
    reasons = Counter(row["why"] for row in report["left"])
    return [
        f"bridge {report['bridge']}: {report['mode']}, AITER {report['aiter']}",
        f"answered without a program: {', '.join(report['answered']) or 'nothing'}",
        *cache_lines(report),
        *(f"{what} {rule or 'by no rule that is known here'}" for what, rule in report["rules"].items()),
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
        *_LEGEND,
    ]


def _lines_of_model(report: dict[str, Any]) -> list[str]:
    """Describe a model's calls in a table, with totals per client."""
    said = {True: "yes", False: "no", None: ""}
    table = [
        ("call", "client", "who", "kernels here", "through"),
        *(
            (row["form"], row["client"], row["state"], said[row["served"]], row["through"])
            for row in report["calls"]
        ),
    ]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    for client in models.CLIENTS:
        mine = [row for row in report["calls"] if client in row["client"]]
        ours = [row for row in mine if row["state"] in ("ours", "stub")]
        if mine:
            served = sum(row["served"] is True for row in ours)
            lines.append(
                f"{client}: {len(ours)} of {len(mine)} calls are ours, {served} of them with a kernel here for each size"
            )
    whys: dict[str, list[str]] = {}
    for row in report["calls"]:
        if row["why"]:
            whys.setdefault(f"{row['state']}: {row['through']}: {row['why']}", []).append(row["form"])
    return [
        f"{report['model']}: bridge {report['bridge']}, AITER {report['aiter']}",
        *lines,
        *(f"{why} ({', '.join(forms)})" for why, forms in whys.items()),
        *_LEGEND_OF_MODEL,
    ]
