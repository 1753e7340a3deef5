"""Paths for tests that run from the repository: the sources of both halves. `tests/dist` does not use them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT, ROOT / "src", ROOT / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The embedded device last: its tests load a real HIP library, and beside that the runtime rightly refuses a stub driver."""
    items.sort(key=lambda item: item.path.is_relative_to(ROOT / "tests" / "emulator"))
