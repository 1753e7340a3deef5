"""Lines of another machine, joined to receipts: what counts, what is counted, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.proving import line, provable

from aiter_prebuilt.contract.calls import Call
from build_tools.errors import UsageError
from build_tools.judge import receipts
from build_tools.judge.receipts import Receipt
from build_tools.prove import recorded

RECIPES = {"a": provable("add", "v", "a!"), "b": provable("add", "w", "b!")}


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, Receipt]:
    """The receipts that there are."""
    known: dict[str, Receipt] = {}

    def write(root: Path, found: Iterable[Receipt]) -> tuple[str, ...]:
        known.update({receipt.digest: receipt for receipt in found})
        return ("file",)

    monkeypatch.setattr(recorded, "load", lambda folder: None)
    monkeypatch.setattr(recorded, "meanings", lambda folder: {})
    monkeypatch.setattr(recorded, "built", lambda *words: RECIPES)
    named = {("gfx942", "add", f"M={m}"): f"add M={m}" for m in range(1, 6)}
    monkeypatch.setattr(recorded, "names", lambda *words, **more: named)
    monkeypatch.setattr(receipts, "read", lambda root: dict(known))
    monkeypatch.setattr(receipts, "write", write)
    return known


def said(label: str, *recipes: str, **words: Any) -> dict[str, Any]:
    return dict(line(Call("add", label, {}, ()), *recipes, **words))


def join(folder: Path, *files: list[dict[str, Any]]) -> recorded.Joined:
    paths = [folder / f"lines{place}" for place in range(len(files))]
    for path, rows in zip(paths, files, strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return recorded.join(folder, folder / "bundles", paths, "results")


def test_what_lines_bring_is_counted(tmp_path: Path, kept: dict[str, Receipt]) -> None:
    found = join(
        tmp_path,
        [said("M=1", "a", device="one"), said("M=2", "a", "other", device="two"), said("M=3", "far", "other", device="one")],
        [said("M=4", "b", reference="before", device=""), said("M=5", "b", "b", reference="older")],
    )  # fmt: skip
    assert found == recorded.Joined(5, ("d", "one", "two"), 1, 0, 3, 3, ("file",))
    assert kept.keys() == {"a"} and (kept["a"].calls, kept["a"].checks) == (2, "results")
    wrong = join(tmp_path, [said("M=1", "a", problems=["nan"])])
    assert wrong == recorded.Joined(1, ("d",), 0, 1, 0, 0, ("file",))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "no recipe that they chose is in a bundle"),
        ([said("M=1", "other"), said("M=2", "far")], "no recipe that they chose is in a bundle"),
        ([said("M=1", "a", reference="before"), said("M=2", "far", "b", reference="before")],
         "2 answers come from another state of their formulas, their cases or what judges them"),
    ],
)  # fmt: skip
def test_lines_of_which_none_counts_are_refused(
    tmp_path: Path, kept: dict[str, Receipt], lines: list[dict[str, Any]], why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        join(tmp_path, lines)
    assert caught.value.args == (
        "join what was executed elsewhere",
        f"{len(lines)} lines, and none counts for {tmp_path / 'bundles'}: {why}",
        "Build the same sources here (python -m build_tools build), or execute what was built here",
    )
    assert kept == {}
