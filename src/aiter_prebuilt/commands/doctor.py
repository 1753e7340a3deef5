"""``aiter-prebuilt doctor``: what is here, what would be used, and why not."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiter_prebuilt.bundles import extras, locate, opening, overlap, own_bundles, ownership
from aiter_prebuilt.commands import bridge, doctor_text
from aiter_prebuilt.commands.output import print_json
from aiter_prebuilt.contract.provenance import editions
from aiter_prebuilt.contract.version import BUNDLE_FORMAT, NATIVE_ABI, RECIPE, VERSION
from aiter_prebuilt.devices import device, hip_library, native
from aiter_prebuilt.errors import CHECK, AiterPrebuiltError, NoDeviceError
from aiter_prebuilt.launch import user_tables

HELP = "show devices, drivers, bundles and versions, and problems with them"
EXAMPLE = "aiter-prebuilt doctor"
_LIBRARY = {"amd": "AITER_PREBUILT_HIP", "nvidia": "AITER_PREBUILT_CUDA"}
_MISS_LOG = "AITER_PREBUILT_MISS_LOG"
_VARIABLES = (
    locate.VARIABLE,
    own_bundles.WITHOUT,
    *_LIBRARY.values(),
    user_tables.VARIABLE,
    "AITER_PREBUILT_TRACE",
    _MISS_LOG,
    CHECK,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the verb has none of its own."""
    del parser


def execute(options: argparse.Namespace) -> int:
    """Print the report; 0 when every GPU has a bundle and there is one, 1 when a GPU lacks its bundle or something is
    broken, 3 when no GPU is here that a bundle serves.
    """
    report = examine()
    if options.json:
        print_json("doctor", report)
    else:
        print("\n".join(doctor_text.lines(report)))
    return int(report["exit_code"])


def examine() -> dict[str, Any]:
    """All facts and the conclusion, as plain data."""
    problems: list[str] = []
    warnings: list[str] = []
    drivers: list[device.DriverFacts] = []
    bundles: list[dict[str, Any]] = []
    shadowed: list[dict[str, str]] = []
    searched = False
    loaded = hip_library.mapped()  # a probe loads one, if none is
    try:
        native.module()
        with own_bundles.quiet():
            bundles = _bundles(problems, warnings)
        shadowed = [{"file": each.bundle.path, "by": each.by.path} for each in locate.shadowed()]
        searched = True
        drivers = [device.probe(vendor) for vendor in device.VENDORS]
    except AiterPrebuiltError as error:
        problems.append(str(error))
    shared = _own(bundles, warnings) if searched else []
    devices, lacking = _devices(drivers, bundles, problems)
    install = extras.pip_line(*lacking) if lacking else ""
    if searched and not bundles:
        problems.append(f"no bundle is installed. Run: {install or extras.nothing_installed()}")
    for row in bundles:
        users = [
            f"{facts['vendor']}:{facts['ordinal']}" for facts in devices if row["file"] in facts["bundles"]
        ]
        row["used_by"] = users
        complete = any(
            each["ok"] and each["target"] == row["target"] and (each["tree"] or each["profile"] == "ck-free")
            for each in bundles
        )
        row["why"] = _why_bundle(row, users, lacking=not complete)
    tables = _tables(problems, bundles)
    _check_miss_log(problems)
    return {
        "bridge": _bridge(problems),
        "runtime": VERSION,
        "contract": {"bundle_format": BUNDLE_FORMAT, "recipe": RECIPE, "native_abi": NATIVE_ABI},
        "python": platform.python_version(),
        "torch": _torch(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "drivers": [
            {
                "vendor": driver.vendor,
                "path": driver.path,
                "version": driver.version,
                "why": _why_driver(driver, loaded),
                "error": driver.error,
                "others": _others(driver),
            }
            for driver in drivers
        ],
        "devices": devices,
        "install": install,
        "bundles": bundles,
        "shadowed": shadowed,
        "overlaps": shared,
        "refused": [each.facts for each in own_bundles.refusals()],
        "tuned_tables": tables,
        "problems": problems,
        "warnings": warnings,
        "exit_code": 1
        if problems
        else (0 if any(facts["bundles"] for facts in devices) else NoDeviceError.exit_code),
    }


def _devices(
    drivers: list[device.DriverFacts], bundles: list[dict[str, Any]], problems: list[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """List the devices, and the extras of bundles that they lack."""
    devices: list[dict[str, Any]] = []
    lacks: list[str] = []
    for driver in drivers:
        problems += driver.problems
        variable = _LIBRARY[driver.vendor]
        if driver.error and variable in os.environ:
            problems.append(f"{variable}={os.environ[variable]} cannot be used: {driver.error}")
        for facts in driver.devices:
            serving = [row["file"] for row in bundles if row["target"] == facts.target and row["ok"]]
            complete = any(
                row["tree"] or row["profile"] == "ck-free" for row in bundles if row["file"] in serving
            )
            # An NVIDIA card in a machine with AMD bundles is not what they were installed for.
            stray = facts.vendor == "nvidia" and any(row["target"].startswith("gfx") for row in bundles)
            if not complete and not stray:
                extra = extras.extra_of(facts.target)
                lacks += [extra] if extra in extras.EXTRAS and extra not in lacks else []
                lacking = "has what CK adds, but not its ck-free bundle" if serving else "has no bundle"
                problems.append(f"{facts} {lacking}. {extras.to_install(facts.target)}")
            why = f"its target is {facts.target}" + (
                "" if complete else ", and no complete bundle is for that"
            )
            devices.append(
                {
                    **asdict(facts),
                    "features": sorted(facts.features),
                    "bundles": serving if complete else [],
                    "why": why,
                }
            )
    return devices, lacks


def _why_driver(driver: device.DriverFacts, loaded: tuple[str, ...]) -> str:
    """Say why this library is used. ``loaded``: HIP runtimes that the process had before anybody asked for one."""
    if driver.error:
        return ""
    named = os.environ.get(_LIBRARY[driver.vendor], "")
    if named and Path(named).resolve() == Path(driver.path).resolve():
        return f"{_LIBRARY[driver.vendor]} names it"
    if driver.path in hip_library.candidates():
        return "it is the one that pip installed"
    if any(Path(driver.path).resolve() == Path(path).resolve() for path in loaded):
        return "this process had loaded it already"
    return "it is the first that the system's loader finds"


def _others(driver: device.DriverFacts) -> list[str]:
    """HIP runtimes in this process beside the one that is used."""
    if driver.vendor != "amd" or not driver.path:
        return []
    mine = Path(driver.path).resolve()
    return [path for path in hip_library.mapped() if Path(path).resolve() != mine]


def _why_bundle(row: dict[str, Any], users: list[str], *, lacking: bool) -> str:
    """Say who uses a bundle. ``lacking``: it adds to another one, which is not installed."""
    if not row["ok"]:
        return "refused" if row["tree"] else "not used: it cannot be read"
    if users:
        return f"used by {', '.join(users)}"
    if lacking:
        return f"not used: it needs the bundle {row['target']} (ck-free)"
    return f"ready: no {row['target']} GPU is here"


def _tables(problems: list[str], bundles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summarise the user's tuned tables.

    Rows in all, and those for a target that is installed.
    """
    try:
        read = user_tables.read(user_tables.setting())
    except AiterPrebuiltError as error:
        problems.append(str(error))
        return []
    targets = {row["target"] for row in bundles}
    return [
        {
            "file": user.path,
            "operator": user.operator,
            "rows": len(user.table.rows),
            "rows_for_installed_targets": sum(row.target in targets for row in user.table.rows),
        }
        for user in read
    ]


def _check_miss_log(problems: list[str]) -> None:
    name = os.environ.get(_MISS_LOG, "")
    path = Path(name)
    place = path if path.exists() else path.absolute().parent
    usable = path.is_file() or path.is_char_device() or not path.exists()
    if name and not (usable and os.access(place, os.W_OK)):
        problems.append(f"{_MISS_LOG}={name} cannot be written: name another file, or unset the variable")


def _bundles(problems: list[str], warnings: list[str]) -> list[dict[str, Any]]:
    rows = []
    for bundle in locate.installed():
        row: dict[str, Any] = {
            "file": bundle.path,
            "target": bundle.target,
            "profile": bundle.profile,
            "tree": bundle.tree,
            "ok": True,
        }
        try:
            opened = opening.open_bundle(bundle)
            for finding in ownership.findings(bundle.path):
                (problems if finding.anybody else warnings).append(finding.text)
            row.update(version=opened.version, distribution=opened.distribution, operators=len(opened.names))
            if found := editions(opened.provenance):
                row["editions"] = list(found)
            if opened.version != VERSION and not bundle.tree:
                problems.append(
                    f"{opened.distribution} is of version {opened.version}, the runtime of {VERSION}. "
                    f"Run: {extras.pip_line(bundle.extra, version=VERSION)}"
                )
        except AiterPrebuiltError as error:
            row.update(ok=False, problem=str(error))
            if bundle.tree:
                own_bundles.refuse(bundle.path, error)
            else:
                problems.append(str(error))
        rows.append(row)
    return rows


def _own(bundles: list[dict[str, Any]], warnings: list[str]) -> list[dict[str, Any]]:
    """Say what own bundles add to the product's operators, and of those that are refused, why."""
    sound = {row["file"] for row in bundles if row["ok"]}
    with own_bundles.quiet():
        shared = overlap.overlaps([bundle for bundle in locate.installed() if bundle.path in sound])
    warnings += [each.text for each in own_bundles.refusals()]
    return [asdict(each) for each in shared]


def _bridge(problems: list[str]) -> dict[str, Any] | None:
    """Read the bridge's status without an import of AITER.

    None where it is not installed.
    """
    status = bridge.module()
    if status is None:
        return None
    facts: dict[str, Any] = status.facts()
    problems += facts["problems"]
    return facts


def _torch() -> str:
    """Read the version of an installed torch from its metadata.

    An import would take seconds.
    """
    if "torch" in sys.modules:
        return str(sys.modules["torch"].__version__)
    from importlib import metadata

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "not installed"
    except (ValueError, KeyError, TypeError):
        return "installed, but its metadata cannot be read"
