"""``python -m aiter_prebuilt_emulator.torch script.py``: the script, with torch on the emulator."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from aiter_prebuilt_emulator.torch import install


def main(given: list[str] | None = None) -> int:
    """Run the script, or a module after ``-m``."""
    parser = argparse.ArgumentParser(
        prog="python -m aiter_prebuilt_emulator.torch",
        description="Run a program with torch on the emulator. AITER_PREBUILT_EMULATOR names its devices: gfx942, gfx950.",
        usage="%(prog)s SCRIPT [ARGUMENTS...]\n       %(prog)s -m MODULE [ARGUMENTS...]",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="run a module")
    parser.add_argument("program", help="file of the script, or name of the module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    words = parser.parse_args(given)
    if not words.module and not Path(words.program).exists():
        parser.error(f"there is no {words.program}; for a module: -m {words.program}")
    install()
    sys.argv = [words.program, *words.arguments]
    if words.module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(words.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(words.program).resolve().parent)
        runpy.run_path(words.program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
