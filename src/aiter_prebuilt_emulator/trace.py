"""``aiter-prebuilt-emulator run --trace``: which instructions are printed, as variables for the program that runs."""

from __future__ import annotations

import argparse

from aiter_prebuilt_emulator import native

_EXAMPLE = "kernel=NAME,workgroup=1:0:0,wave=2,pc=0x40-0x80,line=x.hip:12,class=mfma+lds"


class TraceFilterError(ValueError):
    """The filter is not understood; the text says what was found and what to write."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a verb that starts a program."""
    parser.add_argument(
        "--trace",
        default="",
        metavar="FILTER",
        help=f"print instructions with their registers' values before and after: {_EXAMPLE}; "
        "launch=N, lanes=0-3, registers=no, format=json",
    )
    parser.add_argument(
        "--trace-file",
        default="",
        metavar="FILE",
        help="where to, %%p is the process (default: standard error)",
    )
    parser.add_argument("--trace-json", action="store_true", help="a line of JSON for each instruction")


def environment(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables that the options set.

    Raises:
        TraceFilterError: the filter is not understood, or an option of it stands alone.
    """
    text: str = options.trace
    if not text:
        if options.trace_file or options.trace_json:
            raise TraceFilterError(
                f"found no --trace beside --trace-file or --trace-json, write: --trace {_EXAMPLE}"
            )
        return {}
    if problem := native.trace_problem(text):
        raise TraceFilterError(f"--trace {text}: {problem}")
    if options.trace_json:
        text += ",format=json"
    return {"AITER_PREBUILT_EMULATOR_TRACE": text, "AITER_PREBUILT_EMULATOR_TRACE_FILE": options.trace_file}
