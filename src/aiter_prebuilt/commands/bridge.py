"""``aiter-prebuilt bridge``: what stands in the place of AITER's functions. The bridge is a package of its own: it says it."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Final

from aiter_prebuilt.bundles import extras
from aiter_prebuilt.commands.output import print_json, wrapped
from aiter_prebuilt.errors import ArgumentError, NoBridgeError

HELP = "list the AITER names that the bridge serves or leaves, with reasons"
EXAMPLE = "aiter-prebuilt bridge status --model llama3 --engine vllm"
#: All that the runtime knows of it.
_STATUS: Final = "aiter_prebuilt_bridge.status"
#: The action that an argument is for.
_ACTION_OF: Final = {
    "folder": "folder",
    "module": "folder",
    "operator": "folder",
    "check": "folder",
    "model": "status",
    "engine": "status",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "action",
        choices=("status", "folder"),
        help="status: import AITER and list its names; folder: write modules for AITER_JIT_DIR",
    )
    parser.add_argument("folder", nargs="?", type=Path, help="where to write them")
    parser.add_argument(
        "--model",
        help="status: the calls of its steps instead, each with the name of AITER's that it goes through: "
        "llama3, qwen3moe, deepseek_v3 or gptoss",
    )
    parser.add_argument("--engine", help="with --model: only calls of vllm or sglang")
    parser.add_argument(
        "--module", action="append", default=[], help="folder: this module of AITER's JIT; again for more"
    )
    parser.add_argument(
        "--operator",
        action="append",
        default=[],
        help="folder: the modules with this function; again for more",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="folder: write nothing, say what is not as it would be written now",
    )


def execute(options: argparse.Namespace) -> int:
    """Print what the bridge says; 0, or 1 when it serves nothing.

    Raises:
        NoBridgeError: it is not installed.
        ArgumentError: an option of the other action.
    """
    _check(options)
    status = module()
    if status is None:
        raise NoBridgeError("show the bridge", "it is not installed", f"Run: {extras.pip_line('bridge')}")
    if options.action == "folder":
        choice = status.folder.Choice(tuple(options.module), tuple(options.operator))
        report = status.write_folder(options.folder, choice, check=options.check)
    elif options.model:
        report = status.of_model(options.model, options.engine)
    else:
        report = status.examine()
    if options.json:
        print_json("bridge", report)
    else:
        for line in status.lines(report):
            # A table keeps its columns; an empty line stays one.
            print(line if "calls" in report or not line else "\n".join(wrapped(line)))
    return int(report["exit_code"])


def _check(options: argparse.Namespace) -> None:
    """Refuse options that the action would ignore.

    Raises:
        ArgumentError: one was given.
    """
    for name, action in _ACTION_OF.items():
        if getattr(options, name) and options.action != action:
            option = "a folder" if name == "folder" else f"--{name}"
            found = f"{option} belongs to `bridge {action}`, not to `bridge {options.action}`"
            raise ArgumentError("", found, "See: aiter-prebuilt bridge --help")
    if options.engine and not options.model:
        raise ArgumentError("", "--engine needs --model", f"For example: {EXAMPLE}")


def module() -> ModuleType | None:
    """Import the bridge's status module; None without a bridge."""
    package = _STATUS.partition(".")[0]
    return importlib.import_module(_STATUS) if importlib.util.find_spec(package) else None
