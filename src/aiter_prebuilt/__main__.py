"""The ``aiter-prebuilt`` command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.errors import AiterPrebuiltError

_VERBS = ("bench", "bridge", "coverage", "doctor", "explain", "list", "preload", "verify")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. Exit codes: 0 right, 1 something is wrong, 2 no GPU (doctor, preload, verify --execute) or wrong usage."""
    parser = argparse.ArgumentParser(
        prog="aiter-prebuilt", description="AITER kernels as ready code objects.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"aiter-prebuilt {VERSION}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in _VERBS:
        module = import_module(f"aiter_prebuilt.commands.{verb}")
        sub = verbs.add_parser(verb, help=module.HELP, description=module.HELP, allow_abbrev=False)
        sub.add_argument("--json", action="store_true", help="machine output with a version")
        module.configure(sub)
        sub.set_defaults(execute=module.execute)
    options, rest = parser.parse_known_args(arguments)
    # argparse takes no words of a list behind an option: `explain OP M=1 --target gfx950 N=2` would fail without this.
    if hasattr(options, "call") and all("=" in word and not word.startswith("-") for word in rest):
        options.call += rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return int(options.execute(options))
    except AiterPrebuiltError as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, a pager) has what it wanted. Python flushes standard output once more at exit: into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
