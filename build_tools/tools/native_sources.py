"""Copy the pinned sources that the native extension is compiled with into a folder: ``python -m build_tools.tools.native_sources
FOLDER``. cibuildwheel's container runs it, so that it needs the standard library and pip alone.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from build_tools.errors import BuildToolsError
from build_tools.tools.fetch import NATIVE_SOURCES, fetch

ROOT = Path(__file__).resolve().parents[2]


def main(words: list[str]) -> int:
    """Copy them; 2 where no folder is named."""
    if len(words) != 1:
        sys.stderr.write("usage: python -m build_tools.tools.native_sources FOLDER\n")
        return 2
    try:
        for name in NATIVE_SOURCES.values():
            shutil.copytree(fetch(name, ROOT), Path(words[0]) / name, dirs_exist_ok=True)
    except BuildToolsError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
