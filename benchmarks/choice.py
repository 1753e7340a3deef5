"""Who names the measured winner more often, our integer costs or AITER's heuristics: one command, one table, family by family.

    PYTHONPATH=src python benchmarks/choice.py [--json]                     # the pinned tree's rows
    PYTHONPATH=src AITER_DIR=CHECKOUT python benchmarks/choice.py [--json]  # a checkout's, with its own kernels

A measured table has the winner of a shape. Costs were fitted to the rows of half of the (N, K); "held out" is the other half.
AITER walks a hash map, so its rule is given 24 orders and the mean counts. What a wrong choice loses stands in no single table
(`tune --blind` reads those of many commits). Where the chosen kernel won a larger call of the same (N, K), it took that time at
most here.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import experts
from rows import Row, middle, report

from aiter_prebuilt.contract.bytecode import evaluate
from aiter_prebuilt.contract.expression import Scope, compile_expression
from build_tools.manifest.parse import load
from build_tools.timing.heuristics import LATER, PINNED, Family, Kernel, Shape
from build_tools.tools.tree import Tree, tree_of

ORDERS: Final = 24
#: What costs are computed of; manifests also count bytes of a row of 4-bit numbers, and parts by their logarithm.
SLOTS: Final = ("M", "N", "K", "CUS", "splitK", "KB", "LOG", "kernelName")


@dataclass(frozen=True, slots=True)
class Measured:
    """The fastest row of a shape."""

    shape: Shape
    symbol: str
    us: float

    @property
    def held_out(self) -> bool:
        """Was it left alone when the costs were fitted?"""
        text = f"{self.shape.n} {self.shape.k}"
        return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2 == 1


def kernels_of(family: Family, tree: Tree) -> list[Kernel]:
    """The family's table of kernels, in its order; columns are called ``tileM``, ``tile_M`` or ``tile_m``."""
    name = f"aiter:hsa/{family.target}/{family.kernels}"
    rows = csv.DictReader(tree.text(name).splitlines()) if tree.has(name) else []
    plain = [{key.lower().replace("_", ""): cell for key, cell in row.items()} for row in rows]
    return [
        Kernel(row["knlname"], int(row["tilem"]), int(row["tilen"]), row.get("splitk") == "1")
        for row in plain
        if all(row[key] == cell for key, cell in family.kept)
    ]


def rows_of(family: Family, tree: Tree, cus: Iterable[int]) -> tuple[list[Measured], int]:
    """(the fastest row of each shape, rows that name a kernel of the family which its table lacks)."""
    known = {kernel.symbol for kernel in kernels_of(family, tree)}
    best: dict[Shape, Measured] = {}
    lacking = 0
    for name in tree.names("aiter:configs", ".csv"):
        words = Path(name).name
        if "untuned" in words or not all(word in words for word in family.tables):
            continue
        for row in csv.DictReader(tree.text(f"aiter:configs/{name}").splitlines()):
            symbol = row.get("kernelName") or ""
            if family.symbols not in symbol or row.get("gfx", family.target) != family.target:
                continue
            shape = Shape(*(int(row[key]) for key in ("cu_num", "M", "N", "K")))
            if shape.cus not in cus or symbol not in known:
                lacking += shape.cus in cus
                continue
            made = Measured(shape, symbol, float(row["us"]))
            if shape not in best or made.us < best[shape].us:
                best[shape] = made
    return [best[shape] for shape in sorted(best)], lacking


class Cost:
    """Our choice: the lowest cost, the first of equal ones."""

    def __init__(self, family: Family, kernels: Sequence[Kernel], text: str) -> None:
        self.family, self.kernels, self.programs = family, kernels, []
        slots = {name: place for place, name in enumerate(SLOTS)}
        for kernel in kernels:
            constants = {"tileM": kernel.tile_m, "tileN": kernel.tile_n}
            self.programs.append(
                compile_expression(
                    text, Scope(slots, constants, None, {"target": family.target}, None, ["kernelName"])
                )
            )

    def choose(self, shape: Shape) -> Kernel:
        """For one call."""
        m, n, k, cus = shape.m, shape.n, shape.k, shape.cus
        ways = (
            (evaluate(program, (m, n, k, cus, parts, k // 2, parts.bit_length() - 1, 0)), place)
            for place, (kernel, program) in enumerate(zip(self.kernels, self.programs, strict=True))
            for parts in self.family.parts(kernel, shape)
        )
        return self.kernels[min(ways)[1]]


def cost_text(family: Family) -> str:
    """The manifest's, or the one that a manifest would have."""
    if not family.operator:
        return family.cost
    families = load(ROOT / "manifests").families.values()
    operator = next(each for part in families for each in part.operators if each.name == family.operator)
    return str(next(kernel.cost for kernel in operator.kernels if family.target in kernel.targets))


def at_most(rows: Sequence[Measured], chosen: Mapping[Shape, str]) -> list[float]:
    """Bounds of the factors that wrong choices lose."""
    factors = []
    for row in rows:
        symbol, shape = chosen[row.shape], row.shape
        if symbol == row.symbol:
            continue
        larger = [
            other.us
            for other in rows
            if other.symbol == symbol
            and other.shape.m >= shape.m
            and (other.shape.cus, other.shape.n, other.shape.k) == (shape.cus, shape.n, shape.k)
        ]
        factors += [min(larger) / row.us] if larger else []
    return factors


def shares(rows: Sequence[Measured], choices: Sequence[Mapping[Shape, str]]) -> list[float]:
    """Of each set of choices, how many percent are the winner."""
    return [100 * mean(chosen[row.shape] == row.symbol for row in rows) for chosen in choices]


def compare(family: Family, tree: Tree, cus: Sequence[int]) -> list[Row]:
    """The lines of one family; none when there are no rows or no kernels."""
    kernels = kernels_of(family, tree)
    rows, lacking = rows_of(family, tree, cus)
    if not rows:
        return []
    cost = Cost(family, kernels, cost_text(family))
    ours = {row.shape: cost.choose(row.shape).symbol for row in rows}
    orders, dice = [], random.Random(1)
    for _ in range(ORDERS):
        order = dice.sample(kernels, len(kernels))
        named = {row.shape: family.rule(order, row.shape) for row in rows}
        orders.append({shape: kernel.symbol if kernel else "" for shape, kernel in named.items()})
    units = "/".join(map(str, sorted({row.shape.cus for row in rows})))
    group = f"{family.name} {family.target}, {units} units: {len(kernels)} kernels"
    lines = []
    held_out = [row for row in rows if row.held_out and not family.seen]
    for title, some in (("all", rows), ("held out", held_out)):
        if some:
            (mine,), theirs = shares(some, [ours]), shares(some, orders)
            note = (
                f"{len(some)} rows" + f", {lacking} more name kernels that are not there"
                if lacking
                else f"{len(some)} rows"
            )
            lines.append(Row(group, f"{title}: our cost names the winner", mine, "%", None, note))
            spread = f"{min(theirs):.0f} to {max(theirs):.0f} by order"
            lines.append(Row(group, f"{title}: AITER's heuristic names it", mean(theirs), "%", None, spread))
            ratio = mean(theirs) / mine if mine else None
            lines.append(Row(group, f"{title}: AITER's share of ours", ratio, "x", 1.0))
    for title, choices in (("our cost", [ours]), ("AITER's", orders)):
        bounds = [factor for chosen in choices for factor in at_most(rows, chosen)]
        wrong = sum(chosen[row.shape] != row.symbol for chosen in choices for row in rows)
        what, note = (
            f"a wrong choice, {title}: time at most",
            f"median; {len(bounds)} of {wrong} can be bounded",
        )
        lines.append(Row(group, what, middle(bounds) if bounds else None, "x", None, note))
    return lines


def main() -> int:
    """The verdict: 1 when a heuristic names more winners than a cost."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="machine output")
    options = parser.parse_args()
    tree = tree_of("aiter", ROOT)
    targets = load(ROOT / "manifests").targets
    families = PINNED if tree.has("aiter:hsa/gfx942/bf16gemm/bf16gemm_outf32.csv") else LATER
    lines = [line for family in families for line in compare(family, tree, targets[family.target].cus)]
    lines += experts.lines_of(tree, ROOT, {name: target.cus for name, target in targets.items()})
    return report(lines, options.json, {"rows of": f"{tree.pin.distribution} {tree.version}"})


if __name__ == "__main__":
    sys.exit(main())
