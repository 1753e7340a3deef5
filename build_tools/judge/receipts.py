"""Receipts: which recipes were executed and found right, on what, how far off. ``manifests/<family>/receipts.json``.

A receipt is about a recipe by content (``contract/receipt.py``): its code objects, grids, arguments and conditions. Builds are
the same bytes everywhere, so it holds wherever the same recipe comes out; a kernel, a grid or an argument that changes has none
until it is executed again, nor has an operator of which something else is asked (:func:`holding`). A file per family, sorted, a
line per recipe, so that two changes do not collide.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.records import Operator, Recipe
from build_tools.errors import ManifestError
from build_tools.files.reproducible import write_atomic
from build_tools.judge import findings
from build_tools.judge.findings import Finding

FOLDER: Final = "manifests"
NAME: Final = "receipts.json"
EDITION: Final = 3
NOT_EXECUTED: Final = json.dumps({"executed": False})
#: Hexadecimal digits: enough to tell the lists of one recipe apart.
_DIGITS: Final = 16
_AGAIN: Final = "take it away, and write it again: python -m build_tools prove"


@dataclass(frozen=True, slots=True)
class CardProof:
    """The golden calls that were right on a card. ``worst``: the largest share of the allowed error."""

    calls: int
    worst: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """One recipe was right in every call that chose it. ``digest``: of the recipe; ``kernel``: ``operator.kernel``; ``variant``:
    with its element types; ``code_objects``: SHA-256 of those that it launches; ``reference``: the state of all that was asked
    of the operator (``cases/receipt_state.py``); ``cases``: the calls that chose it, by :func:`named`, ``calls`` of them;
    ``worst``: the largest share of the allowed error that was used for certain; ``tools``: what compiled it, name to version.
    ``cards``: name and driver of each card whose certificate (``aiter-prebuilt certify``) has it -> what it says.
    """

    digest: str
    family: str
    kernel: str
    variant: str
    target: str
    device: str
    checks: str
    code_objects: frozenset[str]
    reference: str
    cases: str
    calls: int
    worst: float
    tools: Mapping[str, str]
    cards: Mapping[str, CardProof] = field(default_factory=dict)

    @property
    def operator(self) -> str:
        """Its name."""
        return self.kernel.partition(".")[0]

    @property
    def order(self) -> tuple[str, str, str, str]:
        """In which receipts are listed."""
        return (self.kernel, self.target, self.variant, self.digest)

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "operator": self.operator,
            "family": self.family,
            "kernel": self.kernel,
            "variant": self.variant,
            "target": self.target,
            "device": self.device,
            "checks": self.checks,
            "calls": self.calls,
            "worst": self.worst,
            "code_objects": sorted(self.code_objects),
            "recipe": self.digest,
            "reference": self.reference,
            "cases": self.cases,
            "tools": dict(sorted(self.tools.items())),
            "cards": _cards(self),
        }


def _cards(receipt: Receipt) -> dict[str, dict[str, Any]]:
    return {name: {"calls": each.calls, "worst": each.worst} for name, each in sorted(receipt.cards.items())}


def named(calls: Iterable[str]) -> str:
    """Name a set of calls briefly, each by its own name.

    See ``cases/bind.py``.
    """
    return hashlib.sha256("\n".join(sorted(set(calls))).encode()).hexdigest()[:_DIGITS]


def text_of(receipts: Sequence[Receipt | None]) -> str:
    """Build the receipt text of a bundle's entry.

    It comes from the receipts of the recipes that launch it; a missing one leaves it unproved.
    """
    found = [receipt for receipt in receipts if receipt is not None]
    if not found or len(found) < len(receipts):
        return NOT_EXECUTED
    devices = "; ".join(sorted({receipt.device for receipt in found}))
    checks = "; ".join(sorted({receipt.checks for receipt in found}))
    # An entry ran on a card where each of its recipes did.
    cards = frozenset.intersection(*(frozenset(receipt.cards) for receipt in found))
    return _receipt_text(
        devices, checks, sum(receipt.calls for receipt in found), max(receipt.worst for receipt in found),
        "; ".join(sorted(cards)),
    )  # fmt: skip


def proofs_of(proved: Mapping[str, Receipt]) -> str:
    """Hash the texts of all receipts that bundles carry."""
    text = repr([(digest, text_of([receipt])) for digest, receipt in sorted(proved.items())])
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1 << 14, typed=True)
def _receipt_text(device: str, checks: str, cases: int, worst: float, cards: str) -> str:
    """Cache the receipt's text.

    A build writes each several times, into the keys of bundles, and into their entries.
    """
    said = {"executed": True, "device": device, "checks": checks, "cases": cases, "worst": worst}
    return json.dumps(said | ({"cards": cards} if cards else {}))


def holding(
    known: Mapping[str, Receipt], meanings: Mapping[tuple[str, str, str], str], found: Collection[Finding]
) -> dict[str, Receipt]:
    """Select the receipts whose state is unchanged.

    The same is asked as then, with the same passed over. ``meanings``: (family, operator, target) -> its state
    (``cases/receipt_state.py``).
    """
    passed = [finding for finding in found if finding.served]
    objects = {finding.sha256 for finding in passed}
    return {
        digest: receipt
        for digest, receipt in known.items()
        if receipt.reference
        and meanings.get((receipt.family, receipt.operator, receipt.target)) == receipt.reference
        and (
            not receipt.checks.startswith(findings.EMBEDDED_CHECKS)
            or receipt.checks
            == findings.checks(
                () if objects.isdisjoint(receipt.code_objects) else passed, receipt.code_objects
            )
        )
    }


def files(root: Path) -> tuple[str, ...]:
    """List the receipt files below ``root``."""
    found = sorted((root / FOLDER).glob(f"*/{NAME}"))
    return tuple(path.relative_to(root).as_posix() for path in found)


def read(root: Path) -> dict[str, Receipt]:
    """All receipts by recipe, those of all families.

    Raises:
        ManifestError: a file cannot be read.
    """
    found: dict[str, Receipt] = {}
    problems = []
    for name in files(root):
        try:
            for receipt in _receipts(
                json.loads((root / name).read_text(encoding="utf-8")), Path(name).parent.name
            ):
                found.setdefault(receipt.digest, receipt)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problems.append(f"{name}: {type(error).__name__}: {error}; {_AGAIN}")
    if problems:
        raise ManifestError(problems)
    return found


def _receipts(table: Any, family: str) -> Iterator[Receipt]:
    if table["edition"] != EDITION:
        raise ValueError(f"edition {table['edition']!r} is not {EDITION}")
    for place in table["devices"]:
        for digest, row in place["recipes"].items():
            if not 0 <= row["worst"] <= 1:
                raise ValueError(f"recipe {digest} was wrong: {row['worst']!r} of what is allowed")
            yield Receipt(
                digest, family, row["kernel"], row["variant"], place["target"], place["device"], place["checks"],
                frozenset(row["code_objects"]), str(row["reference"]), str(row["cases"]), int(row["calls"]), float(row["worst"]),
                dict(table["tools"][row["tools"]]),
                {name: CardProof(int(each["calls"]), float(each["worst"])) for name, each in row.get("cards", {}).items()},
            )  # fmt: skip


def write(root: Path, receipts: Iterable[Receipt]) -> tuple[str, ...]:
    """Write every family's file, and take away those of families that have none; the names of files whose bytes changed."""
    families: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        families.setdefault(receipt.family, []).append(receipt)
    changed = []
    for name in files(root):
        if Path(name).parent.name not in families:
            (root / name).unlink()
            changed.append(name)
    for family, mine in families.items():
        path = root / FOLDER / family / NAME
        data = _text(mine).encode()
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
            changed.append(path.relative_to(root).as_posix())
    return tuple(sorted(changed))


def _text(receipts: Iterable[Receipt]) -> str:
    """Write a family's file.

    Plain JSON, with a line for each set of tools and each recipe.
    """
    tools: dict[str, Mapping[str, str]] = {}
    places: dict[tuple[str, str, str], dict[str, str]] = {}
    for receipt in receipts:
        name = _name_of(receipt.tools)
        tools[name] = receipt.tools
        row = {
            "kernel": receipt.kernel, "variant": receipt.variant, "code_objects": sorted(receipt.code_objects),
            "reference": receipt.reference, "cases": receipt.cases, "calls": receipt.calls, "worst": receipt.worst, "tools": name,
        }  # fmt: skip
        rows = places.setdefault((receipt.target, receipt.device, receipt.checks), {})
        rows[receipt.digest] = json.dumps(row | ({"cards": _cards(receipt)} if receipt.cards else {}))
    told = {name: json.dumps(dict(sorted(row.items()))) for name, row in tools.items()}
    devices = []
    for (target, device, checks), rows in sorted(places.items()):
        words = json.dumps({"target": target, "device": device, "checks": checks})
        devices.append(f'{words.removesuffix("}")}, "recipes": {_lines(rows)}}}')
    return (
        f'{{\n"edition": {EDITION},\n"tools": {_lines(told)},\n"devices": [\n'
        + ",\n".join(devices)
        + "\n]\n}\n"
    )


def _lines(rows: Mapping[str, str]) -> str:
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {text}" for name, text in sorted(rows.items())) + "\n}"


def _name_of(tools: Mapping[str, str]) -> str:
    """Name a set of tools by its content.

    Two changes that use the same tools write the same name.
    """
    digest = hashlib.sha256(json.dumps(sorted(tools.items())).encode()).hexdigest()
    return f"{tools.get('toolchain', 'unknown')}-{digest[:8]}"


@dataclass(frozen=True, slots=True)
class Found:
    """The content of the executor's lines.

    Receipts by recipe, and code objects that were launched by a wrong call.
    """

    receipts: Mapping[str, Receipt]
    wrong: frozenset[str]


@dataclass(frozen=True, slots=True)
class Provable:
    """A recipe of a bundle here, with what a receipt says of it beside what lines tell. ``kernel``: ``operator.kernel``;
    ``reference``: the state of all that is asked of its operator; ``judge``: of the program that executes and compares;
    ``open``: attributes and optional tensors that its calls may have as they like, ``ranged``: attributes that its conditions
    read, and its steps are given, ``sized``: dims that these are given; ``built``: as the bundle has it.
    """

    family: str
    kernel: str
    variant: str
    target: str
    code_objects: frozenset[str]
    reference: str
    judge: str
    tools: Mapping[str, str]
    open: frozenset[str] = frozenset()
    ranged: frozenset[str] = frozenset()
    sized: frozenset[str] = frozenset()
    built: tuple[Operator, Recipe] | None = field(default=None, repr=False, compare=False)

    @property
    def operator(self) -> str:
        """Its name."""
        return self.kernel.partition(".")[0]

    @property
    def named(self) -> str:
        """For people."""
        return f"{self.kernel}[{self.variant}]"

    def about(self, line: Mapping[str, Any]) -> bool:
        """Is this the recipe that the line means, and was the same asked, and judged in the same way, as now?"""
        told = (line["operator"], line["target"], line["reference"], line["judge"])
        return told == (self.operator, self.target, self.reference, self.judge)


def collect(
    lines: Iterable[Mapping[str, Any]],
    checks: str,
    provable: Mapping[str, Provable],
    names: Mapping[tuple[str, str, str], str],
) -> Found:
    """Receipts from lines of ``python -m aiter_prebuilt.execute``. What one wrong call launched gets none at all, in any recipe;
    a recipe needs right calls that launched all of its code objects (a step with an empty grid launches none), with answers of
    the formula as it is now.

    ``provable``: digest -> a recipe of this build; what it lacks gets none. ``names``: (target, operator, words) -> the name of
    a call as it is made now; a line of another call is about nothing.
    """
    mine = {digest for recipe in provable.values() for digest in recipe.code_objects}
    made: dict[str, Receipt] = {}
    calls: dict[str, list[str]] = {}
    wrong: set[str] = set()
    for line in lines:
        launched = mine.intersection(line["launched"])
        name = names.get((line["target"], line["operator"], line["label"]))
        if line["problems"] or line["worst"] is None or not 0 <= line["worst"] <= 1:
            wrong |= launched
            continue
        for digest in dict.fromkeys(line["recipes"]):
            recipe = provable.get(digest) if name else None
            seen = recipe.code_objects & launched if recipe else frozenset()
            if recipe and name and seen and recipe.about(line):
                told = Receipt(
                    digest, recipe.family, recipe.kernel, recipe.variant, line["target"],
                    line["device"], checks, seen, recipe.reference, "", 1, _rounded(line["worst"]), recipe.tools,
                )  # fmt: skip
                calls.setdefault(digest, []).append(name)
                made[digest] = _both(made[digest], told) if digest in made else told
    return Found(
        {
            digest: replace(receipt, cases=named(calls[digest]))
            for digest, receipt in made.items()
            if receipt.code_objects == provable[digest].code_objects and not receipt.code_objects & wrong
        },
        frozenset(wrong),
    )


def _both(known: Receipt, more: Receipt) -> Receipt:
    return replace(
        known, calls=known.calls + more.calls, worst=max(known.worst, more.worst),
        code_objects=known.code_objects | more.code_objects,
    )  # fmt: skip


def _rounded(worst: float) -> float:
    """Four digits tell how near a kernel is to its bound."""
    return float(f"{worst:.4g}")


def merged(known: Mapping[str, Receipt], found: Found) -> dict[str, Receipt]:
    """``known`` with what was found; a wrong call takes a receipt away. Cards stay where the same was asked of the recipe."""
    newer = {digest: _with_cards(receipt, known.get(digest)) for digest, receipt in found.receipts.items()}
    return {
        digest: receipt
        for digest, receipt in {**known, **newer}.items()
        if not receipt.code_objects & found.wrong
    }


def _with_cards(receipt: Receipt, before: Receipt | None) -> Receipt:
    if before is None or before.reference != receipt.reference:
        return receipt
    return replace(receipt, cards={**before.cards, **receipt.cards})
