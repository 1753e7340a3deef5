"""``explain`` names what decided: a row of a table, the order of kernels, a cost, or that nothing else takes the call."""

from __future__ import annotations

from typing import Any

import pytest

from aiter_prebuilt.inspection.deciding import decided_by, sentence


def row(kernel: str, *, chosen: bool = False, accepted: bool = True, **more: Any) -> dict[str, Any]:
    usual = {"cost": 12, "tuned": False, "row": "", "us": "", "source": ""}
    return {"kernel": kernel, "chosen": chosen, "accepted": accepted, **usual, **more}


@pytest.mark.parametrize(
    ("decisions", "word", "said"),
    [
        ([row("a", accepted=False)], "", ""),
        (
            [row("a", chosen=True), row("b", accepted=False)],
            "only",
            "Decided by: nothing else takes the call",
        ),
        ([row("a", chosen=True), row("b")], "order", "Decided by: the order, which puts a first"),
        (
            [row("a", chosen=True, cost=7), row("a"), row("b", cost=1)],
            "cost",
            "Decided by: the cost 7, the lowest of 2 variants of a, which the order puts first",
        ),
        (
            [row("a"), row("b", chosen=True, tuned=True)],
            "bundle row",
            "Decided by: a tuned row of the bundle, which has no time",
        ),
        (
            [row("b", chosen=True, tuned=True, row="t.csv:3", us="4.2", source="measured; device it")],
            "user row",
            "Decided by: a row of your table, t.csv:3: 4.2 us (measured; device it)",
        ),
        (
            [row("b", chosen=True, row="t.csv:3", us="4.2", source="modelled; 2026")],
            "predicted user row",
            "Decided by: a predicted row of your table, t.csv:3: 4.2 us (modelled; 2026)",
        ),
        (
            [row("b", chosen=True, row="t.csv:3")],
            "user row",
            "Decided by: a row of your table, t.csv:3, which has no time",
        ),
    ],
)
def test_names_what_decided(decisions: list[dict[str, Any]], word: str, said: str) -> None:
    assert decided_by(decisions) == word
    assert sentence(decisions) == said
