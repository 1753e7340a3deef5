"""``aiter-prebuilt verify``: every code object of the installed bundles, checked without a GPU."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from aiter_prebuilt import locate
from aiter_prebuilt.commands.output import nothing, print_json, print_table
from aiter_prebuilt.verify import verify

HELP = "check every code object: hash, ELF, target, descriptor, argument layout"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("--target", help="only this target")


def execute(options: argparse.Namespace) -> int:
    """Print verdicts; 0 when all is right, 1 when something is not or nothing is installed."""
    installed = locate.installed()
    bundles = [bundle for bundle in installed if options.target in (None, bundle.target)]
    verdicts = [verify(bundle) for bundle in bundles]
    ok = bool(verdicts) and all(verdict.ok for verdict in verdicts)
    if options.json:
        print_json(
            "verify", {"ok": ok, "bundles": [{**asdict(verdict), "ok": verdict.ok} for verdict in verdicts]}
        )
        return 0 if ok else 1
    if not verdicts:
        print(nothing(installed, options.target, None))
        return 1
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
    return 0 if ok else 1
