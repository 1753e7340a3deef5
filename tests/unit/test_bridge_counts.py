"""Pages say of the bridge what ``tests/emulator/test_bridge.py`` counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COUNTS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "data" / "bridge_counts.json").read_text())


def test_the_page_of_the_bridge_counts_names() -> None:
    wheel, checkout = COUNTS["wheel"], COUNTS["checkout"]
    said = (
        f"Of the names in the pinned wheel of November 2025, {wheel['ours']} are ours and {wheel['left']} stay AITER's. "
        f"Of a checkout of August 2026, {checkout['ours']} are ours and {checkout['left']} stay (`gfx942`)."
    )
    assert said in (ROOT / "docs" / "bridge.md").read_text(), said


@pytest.mark.parametrize(
    ("tree", "row"),
    [
        ("checkout", "checkout of August 2026, without FlyDSL"),
        ("wheel", "wheel of November 2025"),
    ],
)
def test_the_page_of_support_counts_names_of_clients(tree: str, row: str) -> None:
    (names, there, ours), *others = COUNTS[tree]["clients"].values()
    cells = [f"{there} of {names} exist, {ours} served"]
    cells += [f"{there} of {names}, {ours}" for names, there, ours in others]
    said = f"| {row} | {' | '.join(cells)} |"
    assert said in (ROOT / "docs" / "support.md").read_text(), said


def test_clients_are_those_whose_names_are_recorded() -> None:
    recorded = json.loads((ROOT / "tests" / "data" / "client_names.json").read_text())
    for each in COUNTS.values():
        assert {client: len(names) for client, names in recorded.items()} == {
            client: names for client, (names, _, _) in each["clients"].items()
        }
