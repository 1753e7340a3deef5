"""``python -m aiter_prebuilt_emulator.torch script.py``: the script, with torch on the embedded device."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from aiter_prebuilt_emulator.torch import install


def main() -> int:
    """Run the script, or a module after ``-m``."""
    words = sys.argv[1:]
    if not words or words == ["-m"]:
        print(
            "error: no program; write: python -m aiter_prebuilt_emulator.torch script.py, or -m MODULE",
            file=sys.stderr,
        )
        return 2
    install()
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
