"""AITER's measured rows of a family: the winner of each shape, and pairs of variants that were both measured for one."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from build_tools.timing.families import Family, Kernel
from build_tools.tools.tree import Tree

_FLOAT32: Final = "torch.float32"


class Shape(NamedTuple):
    """The shape of a call.

    ``out``: bytes of an element of the result; ``shuffled``: its weight is, "" where all are.
    """

    cus: int
    m: int
    n: int
    k: int
    out: int = 2
    shuffled: str = ""
    bias: str = ""


@dataclass(frozen=True, order=True)
class Measured:
    """A variant's time for a shape, in microseconds."""

    shape: Shape
    us: float
    kernel: Kernel
    parts: int


def measured(family: Family, kernels: Iterable[Kernel], tree: Tree) -> list[Measured]:
    """Return the fastest row of each shape in a tree's tables, sorted."""
    best: dict[Shape, Measured] = {}
    texts = (
        tree.text(f"aiter:configs/{name}") for name in _names(family, tree.names("aiter:configs", ".csv"))
    )
    for row in _rows(family, kernels, texts):
        if row.shape not in best or row.us < best[row.shape].us:
            best[row.shape] = row
    return [best[shape] for shape in sorted(best)]


def pairs(
    family: Family, kernels: Iterable[Kernel], folders: Iterable[Path]
) -> list[tuple[Measured, Measured]]:
    """Two variants of one shape out of folders with older tables: (faster, slower), the last measured time of each variant."""
    found: dict[Shape, dict[tuple[str, int], Measured]] = {}
    for row in _rows(family, kernels, _new_texts(family, folders)):
        found.setdefault(row.shape, {})[row.kernel.symbol, row.parts] = row
    made = []
    for shape in sorted(found):
        variants = sorted(found[shape].values(), key=lambda row: (row.us, row.kernel.symbol, row.parts))
        made += [(variants[0], other) for other in variants[1:]]
    return made


def candidates(
    family: Family, kernels: Iterable[Kernel], tree: Tree, folders: Iterable[Path]
) -> dict[Shape, list[Measured]]:
    """All variants that were measured for a shape, in the tree's tables or in folders with older ones; the last time counts."""
    known = list(kernels)
    texts = [
        tree.text(f"aiter:configs/{name}") for name in _names(family, tree.names("aiter:configs", ".csv"))
    ]
    found: dict[Shape, dict[tuple[str, int], Measured]] = {}
    for row in _rows(family, known, [*_new_texts(family, folders), *texts]):
        found.setdefault(row.shape, {})[row.kernel.symbol, row.parts] = row
    return {shape: list(variants.values()) for shape, variants in found.items()}


def _new_texts(family: Family, folders: Iterable[Path]) -> Iterator[str]:
    """Each content once: most tables are the same in most folders."""
    seen: set[bytes] = set()
    for folder in folders:
        files = sorted(folder.rglob("*.csv"))
        names = set(_names(family, (path.name for path in files)))
        for path in files:
            data = path.read_bytes() if path.name in names else b""
            digest = hashlib.sha256(data).digest()
            if data and digest not in seen:
                seen.add(digest)
                yield data.decode("utf-8")


def _names(family: Family, names: Iterable[str]) -> list[str]:
    return [
        name for name in names
        if "untuned" not in Path(name).name and all(word in Path(name).name for word in family.tables)
    ]  # fmt: skip


def _rows(family: Family, kernels: Iterable[Kernel], texts: Iterable[str]) -> Iterator[Measured]:
    known = {kernel.symbol: kernel for kernel in kernels}
    for text in texts:
        for row in csv.DictReader(text.splitlines()):
            kernel = known.get(row.get("kernelName") or "")
            if kernel is not None and row.get("gfx", family.target) == family.target:
                yield from _row(family, kernel, row)


def _row(family: Family, kernel: Kernel, row: Mapping[str, str]) -> Iterator[Measured]:
    cus, m, n, k = (int(row[key]) for key in ("cu_num", "M", "N", "K"))
    us, split = float(row["us"]), int(row["splitK"])
    if cus not in family.cards or not us > 0:
        return
    out = 4 if row.get("outdtype") == _FLOAT32 else 2
    shape = Shape(cus, m, n, k, out, row.get("bpreshuffle", ""), row.get("bias", ""))
    yield Measured(shape, us, kernel, 1 << split if family.logarithm else max(1, split))
