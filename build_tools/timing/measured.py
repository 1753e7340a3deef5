"""``build_tools/timing/measured.json``: AITER's measured rows, which the model is tested against without a checkout.

A table keeps the winner of a shape only. Tables of earlier commits name others for the same shape, so that a row here has all
variants that were ever measured for it, each with its last time. ``tune --blind --older FOLDER`` writes the file.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from build_tools.errors import NotReadyError
from build_tools.timing.families import FAMILIES, kernels_of
from build_tools.timing.rows import candidates
from build_tools.timing.tiles import tile_of
from build_tools.tools.tree import Tree

NAME: Final = "build_tools/timing/measured.json"
EDITION: Final = 1
#: A family of assembly -> the family of Composable Kernel's instances that takes the same calls.
RIVALS: Final[Mapping[str, str]] = {"fp8gemm_blockscale": "a8w8_blockscale_bpreshuffle"}
#: Families of Composable Kernel's instances: the word before ``_tuned_gemm`` in their tables' names.
TILED: Final = ("a8w8", "a8w8_bpreshuffle", "a8w8_blockscale", "a8w8_blockscale_bpreshuffle")
_CARDS: Final = {80: "gfx942", 304: "gfx942", 256: "gfx950"}
#: Shapes of one table and card that are kept, drawn at random; as many again with several variants, and all of a rival's.
_KEPT: Final = 300


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant that was measured: its ``kernel``'s name, K in ``parts``, microseconds."""

    kernel: str
    parts: int
    us: float


@dataclass(frozen=True, slots=True)
class Shape:
    """A measured call. ``out``: bytes of an element of the result. ``candidates``: the fastest first."""

    m: int
    n: int
    k: int
    out: int
    candidates: tuple[Candidate, ...]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K."""
        return self.m, self.n, self.k


@dataclass(frozen=True, slots=True)
class Family:
    """Measured rows of a family on a card. ``shapes``: all, or drawn at random; ``others``: more shapes with several variants."""

    name: str
    target: str
    cus: int
    shapes: tuple[Shape, ...]
    others: tuple[Shape, ...]

    @property
    def case(self) -> str:
        """``f4gemm gfx950 256``."""
        return f"{self.name} {self.target} {self.cus}"

    @property
    def contested(self) -> list[Shape]:
        """Shapes for which two variants or more were measured."""
        return [each for each in (*self.shapes, *self.others) if len(each.candidates) > 1]


def document(tree: Tree, older: Sequence[Path]) -> dict[str, Any]:
    """Read a tree's tables and those of earlier commits, a folder each, the oldest first.

    Raises:
        FetchError: the tree lacks a table.
    """
    assembled = list(_assembled(tree, older))
    found = [*assembled, *_tiled(tree, older, assembled)]
    return {
        "edition": EDITION,
        "rows_of": f"{tree.pin.distribution} {tree.version}, MIT licence",
        "columns": "M, N, K, bytes of a result, then kernel, parts of K, microseconds of each variant",
        "families": {each.case: _written(each) for each in found},
    }


def read(path: Path) -> dict[str, Family]:
    """Read the file.

    Raises:
        NotReadyError: it is not there, or of another edition.
    """
    again = f"Take {NAME} of this project's history"
    try:
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotReadyError(f"read {path}", str(error), again) from None
    if said.get("edition") != EDITION:
        raise NotReadyError(f"read {path}", f"edition {said.get('edition')}, not {EDITION}", again)
    return {case: _read(case, each) for case, each in said["families"].items()}


def _assembled(tree: Tree, older: Sequence[Path]) -> Iterator[Family]:
    for family in FAMILIES:
        found = candidates(family, kernels_of(family, tree), tree, older)
        for card in family.cards:
            shapes = [
                Shape(shape.m, shape.n, shape.k, shape.out, _sorted((r.kernel.symbol, r.parts, r.us) for r in rows))
                for shape, rows in sorted(found.items())
                if shape.cus == card
            ]  # fmt: skip
            if shapes:
                yield Family(family.name, family.target, card, tuple(shapes), ())


def _tiled(tree: Tree, older: Sequence[Path], assembled: Iterable[Family]) -> Iterator[Family]:
    rivals = {(RIVALS.get(each.name), each.cus): {shape.sizes for shape in each.shapes} for each in assembled}
    texts = [
        (path.name, path.read_text(encoding="utf-8"))
        for folder in older
        for path in sorted(folder.rglob("*.csv"))
    ]
    texts += [(name, tree.text(f"aiter:configs/{name}")) for name in tree.names("aiter:configs", ".csv")]
    for name in TILED:
        mine = list(dict.fromkeys(text for file, text in texts if f"{name}_tuned_gemm" in file))
        found: dict[tuple[int, int, int, int, str], dict[str, float]] = {}
        for row in _instances(mine):
            key = (*(int(row[column]) for column in ("cu_num", "M", "N", "K")), row.get("q_dtype_w", ""))
            found.setdefault(key, {})[row["kernelName"]] = float(row["us"])  # type: ignore[arg-type]
        for card, target in _CARDS.items():
            shapes = [
                Shape(m, n, k, 2, _sorted((kernel, 1, us) for kernel, us in times.items()))
                for (cus, m, n, k, _), times in sorted(found.items())
                if cus == card
            ]
            if shapes:
                yield _drawn(Family(name, target, card, tuple(shapes), ()), rivals.get((name, card), set()))


def _instances(texts: Iterable[str]) -> Iterator[dict[str, str]]:
    """Rows that name an instance, with K in one part: the recipes have no other."""
    for text in texts:
        for row in csv.DictReader(text.splitlines()):
            named = row.get("kernelName") or ""
            known = named.startswith("a8w8_") and tile_of(named) is not None and "cu_num" in row
            if known and row.get("splitK") in ("", "0", None) and float(row["us"] or 0) > 0:
                yield row


def _drawn(family: Family, rival: Collection[tuple[int, int, int]]) -> Family:
    dice = random.Random(1)  # noqa: S311  # no secret
    shapes = dice.sample(family.shapes, min(_KEPT, len(family.shapes)))
    left = [each for each in family.shapes if each not in set(shapes)]
    several = [each for each in left if len(each.candidates) > 1]
    kept = set(dice.sample(several, min(_KEPT, len(several))))
    others = tuple(each for each in left if each in kept or each.sizes in rival)
    return Family(family.name, family.target, family.cus, tuple(shapes), others)


def _sorted(found: Iterable[tuple[str, int, float]]) -> tuple[Candidate, ...]:
    return tuple(
        sorted((Candidate(*each) for each in found), key=lambda each: (each.us, each.kernel, each.parts))
    )


def _written(family: Family) -> dict[str, Any]:
    every = (*family.shapes, *family.others)
    kernels = sorted({each.kernel for shape in every for each in shape.candidates})

    def numbers(shape: Shape) -> list[float]:
        more = [
            value for each in shape.candidates for value in (kernels.index(each.kernel), each.parts, each.us)
        ]
        return [shape.m, shape.n, shape.k, shape.out, *more]

    return {
        "kernels": kernels,
        "shapes": [numbers(each) for each in family.shapes],
        "others": [numbers(each) for each in family.others],
    }


def _read(case: str, said: Mapping[str, Any]) -> Family:
    name, target, cus = case.split()

    def shape(row: Sequence[float]) -> Shape:
        m, n, k, out, *rest = row
        variants = (
            Candidate(said["kernels"][int(rest[at])], int(rest[at + 1]), rest[at + 2])
            for at in range(0, len(rest), 3)
        )
        return Shape(int(m), int(n), int(k), int(out), tuple(variants))

    parts = (tuple(shape(row) for row in said[part]) for part in ("shapes", "others"))
    return Family(name, target, int(cus), *parts)
