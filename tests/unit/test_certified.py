"""Certificates of cards, joined to receipts: what a receipt gains, what takes it away, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.proving import line, provable

from aiter_prebuilt.contract.calls import Call
from build_tools.errors import UsageError
from build_tools.judge import findings, receipts
from build_tools.judge.receipts import CardProof, Found, Receipt
from build_tools.prove import certified

RECIPES = {"a": provable("add", "v", "a!"), "b": provable("add", "w", "b!")}
CARD = "AMD Instinct MI300X, driver 7"


def receipt(digest: str) -> Receipt:
    known = RECIPES[digest]
    return Receipt(
        digest, known.family, known.kernel, known.variant, known.target, "gfx942 of it", "checks", known.code_objects,
        known.reference, "cases", 30, 0.25, known.tools,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, Receipt]:
    """The receipts that there are: one, of the emulator."""
    known = {"a": receipt("a")}

    def write(root: Path, found: Iterable[Receipt]) -> tuple[str, ...]:
        mine = {each.digest: each for each in found}
        known.clear()
        known.update(mine)
        return ("file",)

    named = {("gfx942", "add", f"M={m}"): f"add M={m}" for m in range(1, 4)}
    monkeypatch.setattr(certified, "load", lambda folder: None)
    monkeypatch.setattr(certified, "meanings", lambda folder: {})
    monkeypatch.setattr(certified, "built", lambda *words: RECIPES)
    monkeypatch.setattr(certified, "names", lambda *words, **more: named)
    monkeypatch.setattr(findings, "read", lambda root: ())
    monkeypatch.setattr(receipts, "holding", lambda every, *words: dict(every))
    monkeypatch.setattr(receipts, "read", lambda root: dict(known))
    monkeypatch.setattr(receipts, "write", write)
    return known


def document(*lines: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"version": 1, "verb": "certify", "card": {"embedded": False}, "golden": {"lines": lines}, **more}


def said(label: str, *recipes: str, **words: Any) -> dict[str, Any]:
    return dict(line(Call("add", label, {}, ()), *recipes, **{"device": CARD, **words}))


def join(folder: Path, *documents: dict[str, Any]) -> certified.Certified:
    paths = [folder / f"certify{place}.json" for place in range(len(documents))]
    for path, each in zip(paths, documents, strict=True):
        path.write_text(json.dumps(each))
    return certified.join(folder, folder / "bundles", paths)


def test_a_receipt_gains_the_card_and_stays_what_it_was(tmp_path: Path, kept: dict[str, Receipt]) -> None:
    before = kept["a"]
    found = join(tmp_path, document(said("M=1", "a"), said("M=2", "a"), said("M=3", "b")))
    assert found == certified.Certified((CARD,), 1, 0, 1, ("file",))
    assert kept.keys() == {"a"} and set(kept["a"].cards) == {CARD} and kept["a"].cards[CARD].calls == 2
    assert replace(kept["a"], cards={}) == before
    other = "AMD Instinct MI325X, driver 8"
    join(tmp_path, document(said("M=1", "a", device=other)))
    assert set(kept["a"].cards) == {CARD, other}


def test_a_wrong_call_on_a_card_takes_the_receipt_away(tmp_path: Path, kept: dict[str, Receipt]) -> None:
    found = join(tmp_path, document(said("M=1", "a"), said("M=2", "a", problems=["nan"])))
    assert found.wrong == 1 and found.proved == 0 and kept == {}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (document(said("M=1", "a"), card={"embedded": True}), "it is of the embedded device"),
        (document(said("M=1", "a"), version=2), "its version is 2, and 1 is read here"),
        (document({"operator": "add"}), "a golden call lacks a field"),
        ({"version": 1, "verb": "certify"}, "it has no 'card'"),
        (document(said("M=1", "far")), "none of its 1 calls is about a recipe"),
    ],
)
def test_refuses_what_is_no_certificate_of_a_card(
    tmp_path: Path, kept: dict[str, Receipt], wrong: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        join(tmp_path, wrong)
    assert kept == {"a": receipt("a")}


def test_lines_of_a_machine_are_no_certificate(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text(json.dumps(said("M=1", "a")) + "\n" + json.dumps(said("M=2", "a")) + "\n")
    assert not certified.is_certificate(path)
    path.write_text(json.dumps(document()))
    assert certified.is_certificate(path)


def test_a_newer_proof_of_the_same_keeps_the_cards() -> None:
    known = replace(receipt("a"), cards={CARD: CardProof(2, 0.5)})
    newer = replace(receipt("a"), calls=31)
    assert receipts.merged({"a": known}, Found({"a": newer}, frozenset()))["a"] == replace(
        newer, cards=known.cards
    )
    asked = replace(newer, reference="other")
    assert receipts.merged({"a": known}, Found({"a": asked}, frozenset()))["a"] == asked


def test_an_entry_names_the_cards_on_which_all_of_its_recipes_ran() -> None:
    one = replace(receipt("a"), cards={CARD: CardProof(2, 0.5), "other": CardProof(1, 0.5)})
    two = replace(receipt("b"), cards={CARD: CardProof(1, 0.5)})
    assert json.loads(receipts.text_of([one, two]))["cards"] == CARD
    assert "cards" not in json.loads(receipts.text_of([one, receipt("b")]))


def test_cards_are_written_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    mine = replace(receipt("a"), cards={CARD: CardProof(2, 0.5)})
    (tmp_path / "manifests" / mine.family).mkdir(parents=True)
    receipts.write(tmp_path, [mine])
    assert receipts.read(tmp_path) == {"a": mine}
