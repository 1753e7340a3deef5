"""The report of ``aiter-prebuilt doctor`` for people: one line a fact, and at the end what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aiter_prebuilt.bundles import extras
from aiter_prebuilt.bundles.overlap import Overlap
from aiter_prebuilt.commands.output import styled, with_command, wrapped

_VENDORS: Final = {"amd": "AMD", "nvidia": "NVIDIA"}


def lines(report: dict[str, Any]) -> list[str]:
    """Return the lines of a report. A command to type stands on a line of its own, whole."""
    contract = report["contract"]
    facts = [
        f"aiter-prebuilt {report['runtime']}, Python {report['python']}, torch {report['torch']}",
        f"Reads bundle format {contract['bundle_format']}, recipe {contract['recipe']}, native ABI {contract['native_abi']}",
        *(f"Setting: {name}={value}" for name, value in report["environment"].items()),
        *_drivers(report),
        *_bundles(report),
        *_bridge(report["bridge"]),
        *(
            f"Tuned table {table['file']}: {table['rows']} rows for {table['operator']}, used before those of the bundles"
            for table in report["tuned_tables"]
        ),
    ]
    found = [line for fact in facts for line in wrapped(fact)]
    found += [line for text in report["warnings"] for line in with_command(f"Note: {text}")]
    for text in report["problems"]:
        first, *rest = with_command(f"Problem: {text}")
        found += [styled(first, "red"), *rest]
    return [*found, "", *_conclusion(report)]


def _drivers(report: dict[str, Any]) -> Iterator[str]:
    """Describe the drivers and devices that a bundle here is for. NVIDIA's is nobody's who has AMD's bundles alone."""
    amd_alone = bool(report["bundles"]) and all(row["target"].startswith("gfx") for row in report["bundles"])
    for driver in report["drivers"]:
        vendor = driver["vendor"]
        if vendor == "nvidia" and (amd_alone or (driver["error"] and not report["bundles"])):
            continue
        if driver["error"]:
            why = driver["error"].removeprefix(f"Cannot open the {vendor} driver: ").partition(". ")[0]
            yield f"{_VENDORS[vendor]} driver: {why.removesuffix('.')}"
        else:
            yield f"{_VENDORS[vendor]} driver: {driver['path']}, version {driver['version']} ({driver['why']})"
        for path in driver["others"]:
            yield f"Not used: {path}, a second HIP runtime in this process. Tensors of its memory cannot be launched on"
        for facts in report["devices"]:
            if facts["vendor"] == vendor:
                card = f"{facts['name']}, {facts['arch']}, {facts['compute_units']} CUs"
                yield f"GPU {vendor}:{facts['ordinal']}: {card}: {'ready' if facts['bundles'] else facts['why']}"


def _bundles(report: dict[str, Any]) -> Iterator[str]:
    for row in report["bundles"]:
        name = f"Bundle {row['target']} ({row['profile']})"
        have = f"{row['operators']} operators, " if row["ok"] else ""
        have += "".join(f"with {name}, " for name in row.get("editions", ()))
        yield f"{name}: {have}{row['why']}"
    for each in report["overlaps"]:
        yield Overlap(**{**each, "kernels": tuple(each["kernels"])}).text
    for each in report["shadowed"]:
        yield f"Not used: {each['file']}, since {each['by']} comes first on sys.path"


def _bridge(facts: dict[str, Any] | None) -> Iterator[str]:
    if facts is None:
        return
    yield f"Bridge {facts['bridge']}: {facts['mode']}, AITER {facts['aiter']}"
    for row in facts["caches"]:
        # Wheels of one compiler's version differ by platform and Python; each has all kernels.
        builds = dict.fromkeys(
            f"{each['entries']} for {each['tool']} {each['version']}" for each in row["compilers"]
        )
        yield f"Kernels inside AITER for {row['target']}: {', '.join(builds) or 'none'}"


def _conclusion(report: dict[str, Any]) -> list[str]:
    """Say whether calls are served, and what to type."""
    if report["exit_code"] == 0:
        served = [facts for facts in report["devices"] if facts["bundles"]]
        text = f"Ready: {len(served)} GPU{'s are' if len(served) > 1 else ' is'} served."
        return [styled(text, "green")]
    if report["exit_code"] == 1:
        count = len(report["problems"])
        text = f"Not ready: {count} problem{'s' if count > 1 else ''}."
        return [styled(text, "red"), *([f"Run: {report['install']}"] if report["install"] else [])]
    return [
        "No GPU is here that a bundle serves. You can list, explain and verify kernels.",
        "To run them, install ROCm's HIP runtime, or use the emulator:",
        *(f"    {line}" for line in extras.emulated("aiter-prebuilt verify --execute").split(" && ")),
    ]
