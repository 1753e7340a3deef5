"""``run --pmc`` and ``run --perfetto``, in rocprofv3's words, and the verb ``counters``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import textwrap
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt_emulator import native

_VARIABLE: Final = "AITER_PREBUILT_EMULATOR"
#: The library puts the process's number there: a command may have children.
_PROCESS: Final = "%pid%"


class ProfileError(ValueError):
    """A counter or a file that cannot be had; the library has said which, and what there is."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``run``."""
    parser.add_argument(
        "--pmc",
        nargs="+",
        default=[],
        metavar="NAME[,NAME]",
        help="rocprofv3's counters for each launch; `aiter-prebuilt-emulator counters` lists them",
    )
    parser.add_argument(
        "-d",
        "--output-directory",
        type=Path,
        default=Path(),
        help="folder of the counters' files (default: this one)",
    )
    parser.add_argument(
        "-o",
        "--output-file",
        default=_PROCESS,
        help=f"how their names begin (default: {_PROCESS.replace('%', '%%')}, the process's number)",
    )
    parser.add_argument(
        "--output-format",
        nargs="+",
        default=["csv"],
        metavar="csv|json",
        help="csv (default), json, or both with a comma or a space between",
    )
    parser.add_argument(
        "--kernel-include-regex", default="", help="only kernels that it is found in, as grep -E reads it"
    )
    parser.add_argument("--kernel-exclude-regex", default="", help="no kernels that it is found in")
    parser.add_argument("--perfetto", type=Path, help="a file for the waves' timeline, for ui.perfetto.dev")


def environment(options: argparse.Namespace) -> dict[str, str]:
    """Variables for the library in the command.

    Raises:
        OSError: a folder is not there and cannot be made.
    """
    variables: dict[str, str] = {}
    if options.pmc:
        options.output_directory.mkdir(parents=True, exist_ok=True)
        variables |= {
            f"{_VARIABLE}_PMC": ",".join(options.pmc),
            f"{_VARIABLE}_PMC_OUTPUT": str(options.output_directory.resolve() / options.output_file),
            f"{_VARIABLE}_PMC_FORMAT": ",".join(options.output_format),
        }
    if options.perfetto is not None:
        path = options.perfetto.resolve()
        if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise OSError(f"--perfetto {options.perfetto}: no file can be written there")
        variables[f"{_VARIABLE}_PERFETTO"] = str(path)
    if variables:
        variables |= {
            f"{_VARIABLE}_PMC_INCLUDE": options.kernel_include_regex,
            f"{_VARIABLE}_PMC_EXCLUDE": options.kernel_exclude_regex,
        }
    return variables


def check() -> None:
    """Let the library read the environment that the command will get.

    Raises:
        ProfileError: it does not understand it.
    """
    if any(
        name in os.environ for name in (f"{_VARIABLE}_PMC", f"{_VARIABLE}_PERFETTO")
    ) and native.opened().hipInit(0):
        raise ProfileError("the command was not started: see the line above")


def register(verbs: Any) -> None:  # argparse does not name the type of what add_subparsers returns
    """Register the verb ``counters``."""
    verb = verbs.add_parser(
        "counters", help="rocprofv3's counters that this device has, and why it lacks the others"
    )
    verb.add_argument("--target", choices=("gfx942", "gfx950"), help="only those of one target")
    verb.add_argument("--json", action="store_true", help="machine output with a version")
    verb.set_defaults(execute=_counters)


def _counters(options: argparse.Namespace) -> int:
    found = native.pmc()
    if options.target:
        found["counters"] = [one for one in found["counters"] if options.target in one["targets"]]
    if options.json:
        print(json.dumps({"version": found["version"], "verb": "counters"} | found, indent=1))
        return 0
    for one in found["counters"]:
        only = "" if len(one["targets"]) > 1 else f" ({one['targets'][0]} only)"
        _print(f"{one['name']:32} {one['exactness']:9}", one["meaning"] + only)
    print("\nNot here:")
    for one in found["absent"]:
        _print(f"{one['names'] + '...':32}", one["reason"])
    return 0


def _print(head: str, text: str) -> None:
    room = shutil.get_terminal_size().columns - len(head) - 1  # 80 columns in a pipe
    lines = textwrap.wrap(text, max(room, 20))
    print(head, lines[0])
    for line in lines[1:]:
        print(" " * len(head), line)
