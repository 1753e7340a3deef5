"""``aiter-prebuilt verify``: every code object of the installed bundles, checked without a GPU; ``--execute`` runs them, too."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from aiter_prebuilt import device, loading, locate
from aiter_prebuilt.commands.output import nothing, print_json, print_table
from aiter_prebuilt.execute import run as reference
from aiter_prebuilt.execute.run import Execution
from aiter_prebuilt.integrity import Verdict, verify

HELP = "check every code object: hash, ELF, target, descriptor, argument layout; --execute runs each operator on the devices here"
NO_DEVICE = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("--target", help="only this target")
    parser.add_argument(
        "--execute",
        action="store_true",
        dest="run",
        help="also run each operator's small reference case on every device here that a bundle serves",
    )


def execute_cases(target: str | None) -> Iterator[Execution]:
    """The reference cases on every device that an installed bundle serves (only those of ``target``, when it is given)."""
    served = {bundle.target for bundle in locate.installed() if bundle.profile == "ck-free"}
    for vendor in device.VENDORS:
        driver = device.probe(vendor)
        for facts in driver.devices:
            if facts.target in served and target in (None, facts.target):
                yield from reference.execute(facts, driver.path, loading.operators(vendor, facts.ordinal))


def execute(options: argparse.Namespace) -> int:
    """Print verdicts; 0 when all is right, 1 when something is not or nothing is installed, 2 without a device to execute on."""
    installed = locate.installed()
    bundles = [bundle for bundle in installed if options.target in (None, bundle.target)]
    verdicts = [verify(bundle) for bundle in bundles]
    ok = bool(verdicts) and all(verdict.ok for verdict in verdicts)
    # Nothing of a bundle that is damaged is launched.
    runs = list(execute_cases(options.target)) if options.run and ok else []
    ok = ok and all(run.ok for run in runs)
    code = (NO_DEVICE if options.run and not runs else 0) if ok else 1
    if options.json:
        rows = [{**asdict(verdict), "ok": verdict.ok} for verdict in verdicts]
        ran = [{**asdict(run), "ok": run.ok} for run in runs]
        print_json("verify", {"ok": code == 0, "bundles": rows, "executions": ran if options.run else None})
        return code
    if not verdicts:
        print(nothing(installed, options.target, None))
        return 1
    _print_verdicts(verdicts)
    if code == NO_DEVICE:
        print(
            "no device here that an installed bundle serves: nothing was executed "
            "(pip install 'aiter-prebuilt[emulator]' brings one)"
        )
    _print_runs(runs)
    return code


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    print_table(
        ["bundle", "operators", "entries", "code objects", "executed", "KiB", "verdict"],
        [
            (f"{v.target} ({v.profile})", v.operators, v.entries, v.code_objects, v.executed, v.size // 1024,
             "right" if v.ok else f"{len(v.findings)} problems")
            for v in verdicts
        ],
    )  # fmt: skip
    for verdict in verdicts:
        for finding in verdict.findings:
            print(f"{finding.bundle}: {finding.entry + ': ' if finding.entry else ''}{finding.problem}")
        if not verdict.ok:
            extra = locate.InstalledBundle(verdict.path, verdict.target, verdict.profile).extra
            print(f"mend it: pip install --force-reinstall 'aiter-prebuilt[{extra}]'")


def _print_runs(runs: Sequence[Execution]) -> None:
    for where in dict.fromkeys(run.device for run in runs):
        print(f"\nexecuted on {where}")
        rows = []
        for run in (run for run in runs if run.device == where):
            verdict = "right" if run.ok else "WRONG"
            error = run.problem if run.error is None else f"{run.error:.3f}"
            kernel = f"{run.kernel}[{run.variant}]" if run.kernel else ""
            rows.append((run.operator, verdict, error, f"{run.seconds * 1e3:.1f}", run.backend, kernel))
        print_table(["operator", "verdict", "error / bound", "ms", "backend", "kernel"], rows)
