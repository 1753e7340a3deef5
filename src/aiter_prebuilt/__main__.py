"""The ``aiter-prebuilt`` command."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module

from aiter_prebuilt.bundles.products import known_target
from aiter_prebuilt.commands import VERBS
from aiter_prebuilt.commands.output import paged
from aiter_prebuilt.commands.suggest import Parser, check_words
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.errors import INTERRUPTED, AiterPrebuiltError

#: Verbs whose output may be longer than a screen.
_LONG = ("bridge", "coverage", "explain", "list")
#: A disk that is full, and a user who may write no more.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """Build the parser of the command line.

    Returns:
        The parser, and that of each verb. Each verb's help ends with an example.
    """
    parser = Parser(
        prog="aiter-prebuilt", description="AITER kernels as ready code objects.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"aiter-prebuilt {VERSION}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    subs: dict[str, Parser] = {}
    for verb in VERBS:
        module = import_module(f"aiter_prebuilt.commands.{verb}")
        sub = verbs.add_parser(
            verb,
            help=module.HELP,
            description=module.HELP,
            epilog=f"example: {module.EXAMPLE}",
            allow_abbrev=False,
        )
        if verb != "completion":
            sub.add_argument("--json", action="store_true", help="machine output with a version")
        module.configure(sub)
        sub.set_defaults(execute=module.execute)
        subs[verb] = sub
    return parser, subs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 right, 1 the output says what is wrong, else that of the error's class."""
    parser, subs = build_parser()
    words = sys.argv[1:] if arguments is None else arguments
    check_words(parser, subs, words)
    options, rest = parser.parse_known_args(words)
    if options.verb is None:
        parser.error(f"VERB is required. The verbs are {', '.join(subs)}.")
    # argparse takes no words of a list behind an option: `explain OP M=1 --target gfx950 N=2` would fail without this.
    if hasattr(options, "call") and not any(word.startswith("-") for word in rest):
        options.call += rest
    elif rest:
        sub = subs[options.verb]
        sub.error(f"Too many arguments: {' '.join(rest)}. {sub.example()}")
    try:
        if getattr(options, "target", None):
            options.target = known_target(options.target)
        return _execute(options)
    except AiterPrebuiltError as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, a pager) has what it wanted.
        _drop_output()
        return 1
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        _drop_output()
        print(f"error: Cannot write the output: {error.strerror}.", file=sys.stderr)
        return 1


def _execute(options: argparse.Namespace) -> int:
    with paged() if options.verb in _LONG and not options.json else nullcontext():
        code = int(options.execute(options))
    sys.stdout.flush()  # a full disk is found here, and not at exit
    return code


def _drop_output() -> None:
    """Send to nowhere what Python still has to write to standard output: it flushes once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
