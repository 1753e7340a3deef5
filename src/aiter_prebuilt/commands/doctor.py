"""``aiter-prebuilt doctor``: what is here, what would be used, and why not."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from dataclasses import asdict
from typing import Any

from aiter_prebuilt import device, locate, native
from aiter_prebuilt.commands.output import print_json
from aiter_prebuilt.contract.version import BUNDLE_FORMAT, NATIVE_ABI, RECIPE, VERSION
from aiter_prebuilt.errors import AiterPrebuiltError

HELP = "devices, drivers, bundles and versions: what would be used, and why"
_LIBRARY = {"amd": "AITER_PREBUILT_HIP", "nvidia": "AITER_PREBUILT_CUDA"}
_VARIABLES = (locate.VARIABLE, *_LIBRARY.values())


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb has no arguments of its own."""
    del parser


def execute(options: argparse.Namespace) -> int:
    """Print the report; 0 when every GPU has a bundle and there is one, 1 when a GPU lacks its bundle or something is
    broken, 2 when there is no GPU.
    """
    report = examine()
    if options.json:
        print_json("doctor", report)
    else:
        _print(report)
    return int(report["exit_code"])


def examine() -> dict[str, Any]:
    """All facts and the conclusion, as plain data."""
    problems: list[str] = []
    drivers: list[device.DriverFacts] = []
    bundles: list[dict[str, Any]] = []
    try:
        native.module()
        bundles = _bundles(problems)
        drivers = [device.probe(vendor) for vendor in device.VENDORS]
    except AiterPrebuiltError as error:
        problems.append(str(error))
    devices = []
    for driver in drivers:
        problems += driver.problems
        variable = _LIBRARY[driver.vendor]
        if driver.error and variable in os.environ:
            problems.append(f"{variable}={os.environ[variable]} cannot be used: {driver.error}")
        for facts in driver.devices:
            serving = [row["file"] for row in bundles if row["target"] == facts.target and row["ok"]]
            complete = any(row["profile"] == "ck-free" for row in bundles if row["file"] in serving)
            # An NVIDIA card in a machine with AMD bundles is not what they were installed for.
            stray = facts.vendor == "nvidia" and any(row["target"].startswith("gfx") for row in bundles)
            if not complete and not stray:
                extra = locate.extra_of(facts.target)
                lacking = "what CK adds, but not its ck-free bundle" if serving else "no bundle"
                problems.append(f"{facts} has {lacking}: pip install 'aiter-prebuilt[{extra}]'")
            devices.append({**asdict(facts), "features": sorted(facts.features), "bundles": serving})
    code = 1 if problems else (0 if devices else 2)
    return {
        "runtime": VERSION,
        "contract": {"bundle_format": BUNDLE_FORMAT, "recipe": RECIPE, "native_abi": NATIVE_ABI},
        "python": platform.python_version(),
        "torch": _torch(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "drivers": [
            {"vendor": driver.vendor, "path": driver.path, "version": driver.version, "error": driver.error}
            for driver in drivers
        ],
        "devices": devices,
        "bundles": bundles,
        "problems": problems,
        "exit_code": code,
    }


def _bundles(problems: list[str]) -> list[dict[str, Any]]:
    rows = []
    for bundle in locate.installed():
        row: dict[str, Any] = {
            "file": bundle.path,
            "target": bundle.target,
            "profile": bundle.profile,
            "ok": True,
        }
        try:
            opened = locate.open_bundle(bundle)
            row.update(version=opened.version, distribution=opened.distribution, operators=len(opened.names))
            if opened.version != VERSION:
                problems.append(
                    f"{opened.distribution} is of version {opened.version}, the runtime of {VERSION}: "
                    f"pip install 'aiter-prebuilt[{bundle.extra}]=={VERSION}'"
                )
        except AiterPrebuiltError as error:
            row.update(ok=False, problem=str(error))
            problems.append(str(error))
        rows.append(row)
    if not rows:
        problems.append(
            "no bundle is installed: pip install 'aiter-prebuilt[gfx942]' or 'aiter-prebuilt[gfx950]'"
        )
    return rows


def _torch() -> str:
    """The version of an installed torch, read from its metadata: importing it here would take seconds."""
    if "torch" in sys.modules:
        return str(sys.modules["torch"].__version__)
    from importlib import metadata

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "not installed"


def _print(report: dict[str, Any]) -> None:
    contract = report["contract"]
    print(f"aiter-prebuilt {report['runtime']}, Python {report['python']}, torch {report['torch']}")
    numbers = f"bundle format {contract['bundle_format']}, recipe {contract['recipe']}, native ABI {contract['native_abi']}"
    print(f"contract: {numbers}")
    for name, value in report["environment"].items():
        print(f"{name}={value}")
    for driver in report["drivers"]:
        state = driver["error"] or f"{driver['path']}, version {driver['version']}"
        print(f"driver {driver['vendor']}: {state}")
    for facts in report["devices"]:
        serving = ", ".join(facts["bundles"]) or "no bundle"
        print(
            f"device {facts['vendor']}:{facts['ordinal']}: {facts['name']}, {facts['arch']}, "
            f"{facts['compute_units']} CUs: {serving}"
        )
    if not report["devices"]:
        print("no GPU here: bundles can be listed, explained and verified, nothing can be executed")
    for bundle in report["bundles"]:
        state = (
            f"{bundle['operators']} operators, version {bundle['version']}"
            if bundle["ok"]
            else bundle["problem"]
        )
        print(f"bundle {bundle['target']} ({bundle['profile']}): {state}")
    for problem in report["problems"]:
        print(f"problem: {problem}")
