"""Generate ``docs/cli.md`` and ``docs/cli-build.md``.

A child writes them from the parsers of the commands: ``build_tools`` imports nothing of the runtime but its contract.
"""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from build_tools.errors import UsageError
from build_tools.files.run import run

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = "ci/cli_reference.py"
PAGES: Final = ("docs/cli.md", "docs/cli-build.md")


@cache
def files() -> dict[Path, str]:
    """Return the pages: path below the repository -> text.

    Raises:
        UsageError: a verb has no example, or a parser does not load.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = run([sys.executable, ROOT / PROGRAM, folder], cwd=ROOT)
        if not done.ok:
            raise UsageError(
                "write the pages of the commands",
                done.output.strip() or done.describe(),
                f"Mend the named file, then run: {sys.executable} {PROGRAM} FOLDER",
            )
        return {Path(page): (Path(folder) / page).read_text(encoding="utf-8") for page in PAGES}
