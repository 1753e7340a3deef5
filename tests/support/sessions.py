"""Read the source of the sessions of nox."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "ci" / "sessions"


def text() -> str:
    """Return ``noxfile.py`` and the modules that it imports, one after the other."""
    files = [ROOT / "noxfile.py", *sorted(FOLDER.glob("*.py"))]
    return "\n\n\n".join(path.read_text(encoding="utf-8").rstrip() for path in files) + "\n\n\n"


def names() -> set[str]:
    """Return the names of all sessions."""
    return set(re.findall(r"^def (\w+)\(session: nox\.Session\) -> None", text(), re.MULTILINE))
