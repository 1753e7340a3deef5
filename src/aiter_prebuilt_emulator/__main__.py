"""The ``aiter-prebuilt-emulator`` command."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt_emulator import VERSION, debug, library, native, profiling, trace
from aiter_prebuilt_emulator.surroundings import with_library, with_torch
from aiter_prebuilt_emulator.usage import Parser, devices

JSON_VERSION: Final = 1
#: Verb -> a command that shows its use.
EXAMPLES: Final = {
    "path": "aiter-prebuilt-emulator path",
    "coverage": "aiter-prebuilt-emulator coverage FILE.co",
    "run": "aiter-prebuilt-emulator run --devices gfx950 -- python prog.py",
    "debug": "aiter-prebuilt-emulator debug --console -- python prog.py",
    "counters": "aiter-prebuilt-emulator counters --target gfx942",
}


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """Build the parser of the command line.

    Returns:
        The parser, and that of each verb. Each verb's help ends with an example.
    """
    parser = Parser(
        prog="aiter-prebuilt-emulator",
        description="A libamdhip64 that executes gfx942 and gfx950 code objects on the processor.",
    )
    parser.add_argument("--version", action="version", version=f"aiter-prebuilt-emulator {VERSION}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verb = verbs.add_parser("path", help="print where the library is")
    verb.set_defaults(execute=_path)
    verb = verbs.add_parser(
        "coverage", help="list the instructions of code objects that the emulator cannot execute"
    )
    verb.add_argument("files", nargs="+", type=Path, metavar="FILE.co", help="code objects to read")
    verb.add_argument("--json", action="store_true", help="machine output with a version")
    verb.add_argument("--all", action="store_true", help="also list what is covered")
    verb.set_defaults(execute=_coverage)
    verb = verbs.add_parser("run", help="run a command that finds the emulator as its HIP library")
    verb.add_argument("--devices", default="", help="gfx942, gfx950:cus=80:memory=8G, or several with commas")
    verb.add_argument(
        "--checks",
        default="",
        help="all, or some of lds,races,hazards,alignment; and what a finding does: strict (it ends the launch), report, "
        "permissive (as a card lets it pass) or continue",
    )
    verb.add_argument(
        "--timing",
        default="",
        metavar="FILE",
        help="time launches by the model; kernels' clocks are its clocks",
    )
    verb.add_argument(
        "--sample",
        default="",
        metavar="N",
        help="with it: execute N workgroups of each launch, for their times alone",
    )
    verb.add_argument(
        "--torch",
        action="store_true",
        help="give torch's CPU build these devices, in the program and in each Python that it starts",
    )
    trace.add_options(verb)
    profiling.add_options(verb)
    verb.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its words"
    )
    verb.set_defaults(execute=_run)
    debug.add_verb(verbs)
    profiling.register(verbs)
    for name, example in EXAMPLES.items():
        verbs.choices[name].epilog = f"example: {example}"
    return parser, dict(verbs.choices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. Exit codes: 0 right; 1 something is missing, unreadable or not covered; 2 wrong usage."""
    parser, verbs = build_parser()
    options, rest = parser.parse_known_args(arguments)
    if options.verb is None:
        if rest:
            parser.refuse(rest)
        parser.error(f"VERB is required. The verbs are {', '.join(verbs)}.")
    if rest:
        verbs[options.verb].refuse(rest)
    try:
        if getattr(options, "devices", ""):
            options.devices = devices(options.devices)
    except ValueError as error:
        verbs[options.verb].error(f"--devices: {error}.")
    try:
        return int(options.execute(options))
    except (OSError, native.UnreadableCodeObjectError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _path(options: argparse.Namespace) -> int:
    del options
    print(library())
    return 0


def _run(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        print("error: no command; write: aiter-prebuilt-emulator run -- python serve.py", file=sys.stderr)
        return 2
    if shutil.which(command[0]) is None:  # seen before a file of an earlier run is replaced
        reason = errno.EACCES if Path(command[0]).exists() else errno.ENOENT
        raise OSError(f"cannot run {command[0]}: {os.strerror(reason)}")
    given = {
        "AITER_PREBUILT_EMULATOR": options.devices,
        "AITER_PREBUILT_EMULATOR_CHECKS": options.checks,
        "AITER_PREBUILT_EMULATOR_TIMING": options.timing,
        "AITER_PREBUILT_EMULATOR_SAMPLE": options.sample,
    }
    try:
        given |= trace.environment(options) | profiling.environment(options)
        os.environ.update({name: value for name, value in given.items() if value})
        profiling.check()
    except (trace.TraceFilterError, profiling.ProfileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    os.environ.update(with_library(os.environ))
    if options.torch:
        os.environ.update(with_torch(os.environ))
    try:
        os.execvp(command[0], command)  # noqa: S606  # this verb's purpose
    except OSError as error:
        raise OSError(f"cannot run {command[0]}: {error.strerror}") from None


def _coverage(options: argparse.Namespace) -> int:
    rows: dict[tuple[str, str], Counter[str]] = {}
    problems: dict[str, str] = {}
    for path in options.files:
        try:
            found = native.coverage(path.read_bytes())
        except OSError as error:
            problems[str(path)] = error.strerror or str(error)
            continue
        except native.UnreadableCodeObjectError as error:
            problems[str(path)] = str(error)
            continue
        for line in found["instructions"]:
            row = rows.setdefault((found["target"], line["mnemonic"]), Counter())
            row.update(count=line["count"], files=1)
            row["missing"] |= not (line["decoded"] and line["executable"])
    missing = sorted(key for key, row in rows.items() if row["missing"])
    if options.json:
        print(json.dumps(_as_json(rows, problems), indent=1))
    else:
        _print(rows, problems, options.all)
    return 1 if missing or problems else 0


def _as_json(rows: dict[tuple[str, str], Counter[str]], problems: dict[str, str]) -> dict[str, Any]:
    return {
        "version": JSON_VERSION,
        "verb": "coverage",
        "instructions": [
            {"target": target, "mnemonic": mnemonic, "count": row["count"], "files": row["files"], "covered": not row["missing"]}
            for (target, mnemonic), row in sorted(rows.items())
        ],
        "unreadable": problems,
    }  # fmt: skip


def _print(rows: dict[tuple[str, str], Counter[str]], problems: dict[str, str], everything: bool) -> None:
    for (target, mnemonic), row in sorted(rows.items()):
        if everything or row["missing"]:
            verdict = "MISSING" if row["missing"] else "covered"
            print(f"{verdict}  {target}  {mnemonic:34} {row['count']:9} times in {row['files']} files")
    for path, problem in problems.items():
        print(f"unreadable: {path}: {problem}")
    for target in sorted({target for target, _ in rows}):
        mine = [row for (name, _), row in rows.items() if name == target]
        covered = sum(not row["missing"] for row in mine)
        total = sum(row["count"] for row in mine)
        print(f"{target}: {covered} of {len(mine)} mnemonics covered, {total} instructions")


if __name__ == "__main__":
    sys.exit(main())
