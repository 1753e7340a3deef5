"""Say that the build's environment is missing, with the command that makes it. Needs the standard library alone."""

from __future__ import annotations

import sys
from typing import Final

#: Exit code when the machine, not the input, is in the way: a missing package, a path that cannot be written.
UNUSABLE: Final = 13
#: Makes the environment of all sessions of nox, and runs the same verb in it.
COMMAND: Final = "python3 -m nox -s toolchain && .nox/toolchain/bin/python -m build_tools"


def missing(error: ModuleNotFoundError, command: str = COMMAND) -> int:
    """Print one sentence about a missing package and the command to type.

    Args:
        error: names the package.
        command: what to type; the words of this call are added where it ends with the program.

    Returns:
        The exit code.
    """
    words = f" {' '.join(sys.argv[1:])}" if command == COMMAND else ""
    sys.stderr.write(
        f"error: the build needs the Python package {error.name!r}, which is not installed. Run: {command}{words}\n"
    )
    return UNUSABLE
