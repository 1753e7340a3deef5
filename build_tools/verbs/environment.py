"""Say that the build's environment is missing, with the command that makes it. Needs the standard library alone."""

from __future__ import annotations

import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Final

#: Exit code when the machine, not the input, is in the way: a missing package, a path that cannot be written.
UNUSABLE: Final = 13


def missing(error: ModuleNotFoundError, command: str = "") -> int:
    """Print one sentence about a missing package and the command to type.

    Args:
        error: names the package.
        command: installs it. The default makes the project's environment and runs the same verb there.

    Returns:
        The exit code.
    """
    sys.stderr.write(
        f"error: the build needs the Python package {error.name!r}, which is not installed. "
        f"Run: {command or same_verb(sys.argv[1:])}\n"
    )
    return UNUSABLE


def same_verb(words: list[str]) -> str:
    """Return the command that makes the environment of all nox sessions and runs a verb in it.

    Args:
        words: the verb and its arguments.
    """
    python = _this_python()
    steps = [
        f"{python} -m nox -s toolchain",
        shlex.join([".nox/toolchain/bin/python", "-m", "build_tools", *words]),
    ]
    if find_spec("nox") is None:
        steps.insert(0, f"{python} -m pip install {_past_the_system()}-r build_tools/locks/nox.txt")
    return " && ".join(steps)


def _this_python() -> str:
    """Return the shortest name under which a shell finds this interpreter."""
    here, found = Path(sys.executable), shutil.which("python3")
    # A virtual environment's interpreter is the same file as the one it was made from: only the folder tells them apart.
    same = found is not None and Path(found).parent == here.parent and here.samefile(found)
    return "python3" if same else str(here)


def _past_the_system() -> str:
    """Return pip's options for a Python that a distribution guards (PEP 668), with a space behind them."""
    own = sys.prefix != sys.base_prefix
    guarded = (Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED").is_file()
    return "--user --break-system-packages " if guarded and not own else ""
