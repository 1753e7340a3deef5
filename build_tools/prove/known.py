"""What is proved as things are now: receipts whose formula is still the operator's."""

from __future__ import annotations

from pathlib import Path

from build_tools.cases.receipt_state import meanings
from build_tools.judge import findings, receipts
from build_tools.judge.receipts import Receipt


def known(root: Path) -> dict[str, Receipt]:
    """The receipts below ``root`` that hold, by recipe.

    Raises:
        ManifestError: a file of receipts cannot be read.
    """
    return receipts.holding(receipts.read(root), meanings(root / "manifests"), findings.read(root))
