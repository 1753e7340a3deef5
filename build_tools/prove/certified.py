"""Certificates of cards (``aiter-prebuilt certify``): to the receipts whose recipes ran there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from build_tools.cases.receipt_state import meanings
from build_tools.errors import UsageError
from build_tools.judge import findings, receipts
from build_tools.judge.receipts import CardProof, Receipt
from build_tools.manifest.parse import load
from build_tools.prove.recorded import built, names
from build_tools.prove.workers import Line

#: Of ``schemas/certify.json``.
_VERSION: Final = 1
_AGAIN: Final = "Name a certify.json that aiter-prebuilt certify of this release wrote on a card"


@dataclass(frozen=True, slots=True)
class Certified:
    """The outcome of joining certificates.

    ``proved``: receipts that now name the cards; ``wrong``: code objects of a wrong call, whose receipts are gone; ``unproved``:
    recipes that ran and have no receipt that holds, since golden calls alone make none; ``changed``: files.
    """

    cards: tuple[str, ...]
    proved: int
    wrong: int
    unproved: int
    changed: tuple[str, ...]


def is_certificate(path: Path) -> bool:
    """Is the file a document of ``certify``, of whatever version?"""
    return _document(path) is not None


def _document(path: Path) -> Mapping[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("verb") == "certify" else None


def join(root: Path, bundles: Path, files: Iterable[Path]) -> Certified:
    """Add what certificates say of recipes of ``bundles`` to the receipts below ``root``.

    A receipt stays what it was: the emulator's calls are more than a certificate's. It gets the name of the card.

    Raises:
        UsageError: a file is no certificate of a card, or none of its calls is about a code object that is built here.
        ManifestError: the receipts that are there cannot be read.
    """
    lines = [line for path in files for line in _lines(path)]
    manifest = load(root / "manifests")
    states = meanings(root / "manifests")
    recipes, golden = built(bundles, manifest, states), names(root, manifest, lines, golden=True)
    known = receipts.read(root)
    holding = receipts.holding(known, states, findings.read(root))
    cards = tuple(sorted({line["device"] for line in lines}))
    added: dict[str, Receipt] = {}
    unproved: set[str] = set()
    wrong: set[str] = set()
    for card in cards:
        mine = [line for line in lines if line["device"] == card]
        found = receipts.collect(mine, "golden calls", recipes, golden)
        wrong |= found.wrong
        for digest, receipt in found.receipts.items():
            before = added.get(digest, holding.get(digest))
            if before is None:
                unproved.add(digest)
                continue
            added[digest] = replace(
                before, cards={**before.cards, card: CardProof(receipt.calls, receipt.worst)}
            )
    if not added and not wrong:
        raise UsageError(
            f"join the certificate of {' and '.join(cards) or 'no card'}",
            f"none of its {len(lines)} calls is about a recipe that is built in {bundles} and has a receipt",
            "Build the release that was certified (python -m build_tools build)",
        )
    every = receipts.merged({**known, **added}, receipts.Found({}, frozenset(wrong)))
    return Certified(
        cards,
        len(added.keys() & every.keys()),
        len(wrong),
        len(unproved),
        receipts.write(root, every.values()),
    )


def _lines(path: Path) -> Sequence[Line]:
    """Return the golden calls of a certificate.

    Raises:
        UsageError: it is of another version, damaged, or of the embedded device.
    """
    document = _document(path) or {}
    try:
        if document["version"] != _VERSION:
            raise ValueError(f"its version is {document['version']}, and {_VERSION} is read here")
        if document["card"]["embedded"]:
            raise ValueError("it is of the embedded device, which prove uses: it is no proof on a card")
        lines: Sequence[Line] = document["golden"]["lines"]
        needed = {
            "operator",
            "label",
            "device",
            "target",
            "launched",
            "recipes",
            "reference",
            "judge",
            "worst",
            "problems",
        }
        if not all(line.keys() >= needed for line in lines):
            raise ValueError("a golden call lacks a field")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        text = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"read the certificate {path}", text, _AGAIN) from error
    return lines
