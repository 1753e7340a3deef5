"""``build_tools/timing/fitted.json``: what ``tune --fit`` found, for people and for ``tune --by-model``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from build_tools.errors import NotReadyError
from build_tools.files.reproducible import write_atomic
from build_tools.timing.model import Constants, constants_of
from build_tools.timing.report import EDITION

NAME: Final = "build_tools/timing/fitted.json"
_NUMBERS: Final = re.compile(r"\[\s+((?:-?[0-9][-+.0-9e]*,?\s+)+)\]")


def text_of(document: Mapping[str, Any]) -> str:
    """Write a document with lists of numbers in one line."""
    made = json.dumps(document, indent=1)
    return _NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", made) + "\n"


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document to a file."""
    write_atomic(path, text_of(document).encode())


def read(path: Path) -> dict[str, Any]:
    """Return a document of this edition.

    Raises:
        NotReadyError: it is not there, or of another edition.
    """
    again = f"Take {NAME} of this project's history, or write it again: AITER_DIR=CHECKOUT python -m build_tools tune --fit"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotReadyError(f"read {path}", str(error), again) from None
    if document.get("edition") != EDITION:
        raise NotReadyError(f"read {path}", f"edition {document.get('edition')}, not {EDITION}", again)
    return document


def card(document: Mapping[str, Any], target: str, cus: int) -> Constants:
    """Return the constants of a card, of all its families together.

    Raises:
        NotReadyError: nothing was measured on such a card.
    """
    cards = document["cards"]
    found = cards.get(f"{target} {cus}")
    if found is None:
        raise NotReadyError(
            f"predict times on {target} with {cus} compute units", f"measured rows are of {', '.join(cards)}",
            "Name one of these with --target and --cus",
        )  # fmt: skip
    return constants_of(found)
