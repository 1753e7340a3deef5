"""``aiter-prebuilt verify``: every code object of the installed bundles, checked without a GPU; ``--execute`` runs them, too."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.bundles import extras, locate, opening, trust
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.bundles.integrity import Verdict, verify
from aiter_prebuilt.bundles.minisign import PublicKey
from aiter_prebuilt.bundles.trust import Seal
from aiter_prebuilt.commands.output import (
    not_executed,
    nothing,
    print_json,
    print_table,
    with_command,
    wrapped,
)
from aiter_prebuilt.contract.provenance import left_out
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import ArgumentError, KeyFileError, NoDeviceError, NoKernelError
from aiter_prebuilt.execute import golden
from aiter_prebuilt.execute.run import EMBEDDED, Execution, embedded

HELP = "check every code object: hash, ELF, target, descriptor, argument layout"
EXAMPLE = "aiter-prebuilt verify --target gfx942"
#: What a call here needs none of.
_FRAMEWORKS: Final = {"flydsl", "numpy", "torch", "triton"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("--target", help="only this target")
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        dest="keys",
        metavar="FILE",
        help="a minisign public key: every bundle must be signed with it, or with one of several (may be repeated)",
    )
    parser.add_argument(
        "--release",
        metavar="FOLDER",
        help="check the files of a release's folder instead: SHA256SUMS, signed with --key, and all that it lists",
    )
    parser.add_argument(
        "--version",
        default="",
        metavar="VERSION",
        help="with --release: the release that the folder must hold; without, one that is older than this package is refused",
    )
    parser.add_argument(
        "--execute",
        action="store_true",
        dest="run",
        help="also run the golden calls of each operator on every device here that a bundle serves",
    )


def execute_cases(target: str | None) -> Iterator[Execution]:
    """Execute the golden calls on every served device.

    Only those of ``target``, when it is given.
    """
    served = locate.served_targets(locate.installed())
    for vendor in device.VENDORS:
        driver = device.probe(vendor)
        for facts in driver.devices:
            if facts.target in served and target in (None, facts.target):
                where = f"{facts}, {EMBEDDED}" if embedded(driver.path) else str(facts)
                for run in golden.execute(facts, driver.path):
                    yield replace(run, device=where)  # with its number: of eight cards it is one


def execute(options: argparse.Namespace) -> int:
    """Print verdicts; 0 when all is right, 1 when something is not or nothing is installed, 3 without a device to execute on."""
    setting = os.environ.get(opening.KEYS)
    keys = trust.keys_from(options.keys or ([] if setting is None else setting.split(os.pathsep)))
    if options.release is not None:
        return _release(options, keys)
    if options.version:
        raise ArgumentError(
            "verify",
            f"--version {options.version} needs --release",
            "Add --release FOLDER, or leave --version out",
        )
    installed = locate.installed()
    bundles = [bundle for bundle in installed if options.target in (None, bundle.target)]
    verdicts = [verify(bundle) for bundle in bundles]
    seals = [seal for bundle in bundles for seal in trust.seals_of(bundle, keys)] if keys else None
    ok = bool(verdicts) and all(each.ok for each in (*verdicts, *(seals or ())))
    # Nothing of a bundle that is damaged is launched.
    runs = list(execute_cases(options.target)) if options.run and ok else []
    lost = [run for run in runs if _left_out(run, bundles)]
    runs = [run for run in runs if run not in lost]
    ok = ok and all(run.ok for run in runs)
    code = (NoDeviceError.exit_code if options.run and not runs and not lost else 0) if ok else 1
    if options.json:
        rows = [{**asdict(verdict), "ok": verdict.ok} for verdict in verdicts]
        ran = [_row(run) for run in runs]
        without = [{"operator": run.operator, "label": run.label, "target": run.target} for run in lost]
        told: dict[str, Any] = (
            {"executions": ran, "left_out": without} if options.run else {"executions": None}
        )
        told["signatures"] = seals and [{**asdict(seal), "ok": seal.ok} for seal in seals]
        print_json("verify", {"ok": code == 0, "bundles": rows, **told})
        return code
    if not verdicts:
        print(nothing(installed, options.target, None))
        return 1
    _print_verdicts(verdicts)
    _print_seals(seals or ())
    if code == NoDeviceError.exit_code:
        print("No GPU is here that an installed bundle serves. Nothing was executed.")
        print(
            "\n".join(
                with_command(
                    f"The emulator executes it: {extras.emulated('aiter-prebuilt verify --execute')}"
                )
            )
        )
    _print_runs(runs)
    for run in lost:
        text = (
            f"{run.target} {run.operator}: its golden call was not executed: the bundle's kernel for it is not in the checkout "
            "that it was made of"
        )
        print("\n".join(wrapped(text)))
    return code


def _release(options: argparse.Namespace, keys: tuple[PublicKey, ...]) -> int:
    """Verify a release's folder.

    Who signed its list, and whether its files are those.
    """
    strange = [f"--{name}" for name, given in (("target", options.target), ("execute", options.run)) if given]
    if strange or not options.release:
        raise ArgumentError(
            f"check the release in {options.release!r}",
            f"{' and '.join(strange)} ask about what is installed" if strange else "that is no folder",
            "Leave them out. To check what is installed: aiter-prebuilt verify"
            if strange
            else "Write --release . for this folder",
        )
    if not keys:
        raise KeyFileError(
            f"check the release in {options.release}",
            "no key is named",
            "Add --key FILE, the public key of who released it",
        )
    seal, problems = trust.check_release(Path(options.release), keys, options.version)
    if options.json:
        row = {**asdict(seal), "ok": seal.ok}
        told = {"bundles": [], "executions": None, "signatures": [row], "problems": problems}
        print_json("verify", {"ok": not problems, **told})
    else:
        _print_seals([seal])
        print("\n".join(problems) or "all of its files are those that were released")
    return 1 if problems else 0


def _print_seals(seals: Sequence[Seal]) -> None:
    for seal in seals:
        print(seal.problem or f"{seal.path}: signed with the key {seal.key} ({seal.comment})")


def _left_out(run: Execution, bundles: Sequence[InstalledBundle]) -> bool:
    """Did no kernel take the call, where a bundle made of a checkout says that it lacks some of the operator's?"""
    if not any(problem.startswith(f"{NoKernelError.__name__}: ") for problem in run.problems):
        return False
    same = [bundle for bundle in bundles if bundle.target == run.target]
    mine = (read.root.provenance for read in opening.usable(same, opening.read_bundle))
    return any(run.operator in left_out(provenance) for provenance in mine)


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    print_table(
        ["bundle", "operators", "entries", "code objects", "executed", "KiB", "verdict"],
        [
            (f"{v.target} ({v.profile})", v.operators, v.entries, v.code_objects, v.executed, v.size // 1024,
             "right" if v.ok else f"{len(v.findings)} problems")
            for v in verdicts
        ],
    )  # fmt: skip
    left: Counter[str] = Counter()
    for verdict in verdicts:
        left[verdict.target] += verdict.entries - verdict.executed
    for line in not_executed(left):
        print("\n".join(wrapped(line)))
    for verdict in verdicts:
        for finding in verdict.findings:
            print(f"{finding.bundle}: {finding.entry + ': ' if finding.entry else ''}{finding.problem}")
        if not verdict.ok:
            bundle = InstalledBundle(verdict.path, verdict.target, verdict.profile)
            again = (
                f"install {bundle.tree} again"
                if bundle.tree
                else extras.pip_line(bundle.extra, reinstall=True)
            )
            print(f"mend it: {again}")


def _row(run: Execution) -> dict[str, Any]:
    """Build an execution's row, version 1 of the schema."""
    row = asdict(run)
    problems, worst = row.pop("problems"), row.pop("worst")
    return {**row, "error": worst, "problem": "; ".join(problems), "ok": run.ok}


def _print_runs(runs: Sequence[Execution]) -> None:
    for where in dict.fromkeys(run.device for run in runs):
        print(f"\nexecuted on {where}")
        mine = [run for run in runs if run.device == where]
        columns = ["target", "operator", "verdict", "error / bound", "calls", "ms", "backend", "kernel"]
        print_table(columns, [_line(mine, name) for name in dict.fromkeys(run.operator for run in mine)])
        for run in mine:
            for problem in run.problems:
                print(" ".join(filter(None, (run.target, run.operator, run.label))) + f": {problem}")
    if runs:
        beside = sorted(_FRAMEWORKS & set(sys.modules))
        print(f"\nframeworks and compilers in this process: {', '.join(beside) or 'none'}")


def _line(runs: Sequence[Execution], name: str) -> tuple[object, ...]:
    """One operator on one device: all its golden calls."""
    mine = [run for run in runs if run.operator == name]
    right = all(run.ok for run in mine)
    kernels = dict.fromkeys(f"{run.kernel}[{run.variant}]" for run in mine if run.kernel)
    backends = dict.fromkeys(run.backend for run in mine if run.backend)
    worst = max(math.inf if run.worst is None else run.worst for run in mine)
    seconds = sum(run.seconds for run in mine)
    return (
        mine[0].target, name, "right" if right else "WRONG", f"{worst:.3f}", len(mine), f"{seconds * 1e3:.1f}",
        ", ".join(backends), ", ".join(kernels),
    )  # fmt: skip
