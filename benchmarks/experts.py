"""Mixtures of experts that AITER measured: who names the winner of a shape, our plan's costs or AITER's rule.

Facts of AITER's launchers (``csrc/py_itfs_cu/asm_fmoe.cu``, ``asm_moe_2stage.cu``), in our words. A choice of ours is that of the
planned recipes without their tuned rows. All rows of the pinned tree had a say when costs were made: those that a later checkout
adds (``AITER_DIR``) are held out.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

from rows import Row

from aiter_prebuilt.contract.bytecode import evaluate
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.contract.records import Operator
from build_tools.compile.inputs import inputs_of
from build_tools.manifest.parse import load
from build_tools.plan.plan import make_plan
from build_tools.tools.tree import Tree

ORDERS: Final = 24
_TABLE: Final = "tuned_fmoe.csv"
_COLUMNS: Final = ("cu_num", "token", "model_dim", "inter_dim", "expert", "topk")


class Shape(NamedTuple):
    """What a row is about; ``rows``: of a block of sorted ids."""

    cus: int
    tokens: int
    width: int
    inner: int
    experts: int
    topk: int
    gelu: int
    rows: int

    def slots(self) -> dict[str, int]:
        """As calls have them."""
        blocks = -(-(self.tokens * self.topk + self.experts * self.rows - self.topk) // self.rows)
        e, d, i = self.experts, self.width, self.inner
        return {
            "T": self.tokens, "R": self.tokens, "N": self.tokens,
            "D": d, "I": i, "E": e, "topk": self.topk, "activation": self.gelu, "NB": blocks,
            "P": blocks * self.rows, "CUS": self.cus, "block_m": self.rows, "inter_dim": i, "quant_type": 2,
            "input_scales": self.tokens, "fc1_scales": 2 * i * e, "fc2_scales": d * e, "a1_scales": self.tokens,
            "w1_scales": 2 * i * e,
        }  # fmt: skip


class Tile(NamedTuple):
    """An object of one table. ``word``: ps or pf."""

    columns: int
    word: int


@dataclass(frozen=True, slots=True)
class Kind:
    """``names``: how rows call objects of it, with groups ``rows``, ``columns`` and ``word``; ``variant``: how recipes do;
    ``later``: this word goes before an earlier tile that is as good.
    """

    operator: str
    names: str
    variant: str
    stage: str
    later: int


#: AITER's rule for one stage takes ps where that is as good; its rule for the first of two takes what it meets first.
KINDS: Final = (
    Kind("fmoe_g1u1", r"fmoe_bf16_pertokenFp8_g1u1_vs_(?:si|ge)lu_1tg(?P<word>_ps)?_(?P<rows>\d+)x(?P<columns>\d+)E",
         r"(?P<rows>\d+)x(?P<columns>\d+)-smf0-ps(?P<word>\d)", "1", 1),
    Kind("moe_stage1_g1u1", r"fmoe_stage1_bf16_pertokenFp8_g1u1_(?P<rows>\d+)x(?P<columns>\d+)(?:_\dtg)?_pf(?P<word>\d)E",
         r"(?P<rows>\d+)x(?P<columns>\d+)-pf(?P<word>\d)", "0", -1),
)  # fmt: skip


def _tile(found: re.Match[str]) -> tuple[int, Tile]:
    word = found["word"] or "0"
    return int(found["rows"]), Tile(int(found["columns"]), 1 if word == "_ps" else int(word))


def measured(kind: Kind, tree: Tree, cus: Sequence[int]) -> dict[Shape, Tile]:
    """The fastest row of each shape."""
    best: dict[Shape, tuple[float, Tile]] = {}
    for name in tree.names("aiter:configs", ".csv"):
        if "untuned" in name or not name.endswith(_TABLE):
            continue
        for row in csv.DictReader(tree.text(f"aiter:configs/{name}").splitlines()):
            found = re.search(kind.names, row.get("kernelName1") or "")
            if not found or row["q_type"] != "QuantType.per_Token" or row["run_1stage"] != kind.stage:
                continue
            rows, tile = _tile(found)
            units, tokens, width, inner, experts, topk = (int(row[key]) for key in _COLUMNS)
            shape = Shape(units, tokens, width, inner, experts, topk, row["act_type"].endswith("Gelu"), rows)
            if shape.cus in cus and (shape not in best or float(row["us"]) < best[shape][0]):
                best[shape] = float(row["us"]), tile
    return {shape: tile for shape, (_, tile) in sorted(best.items())}


def planned(operator: str, target: str, root: Path) -> Operator:
    """The operator with its recipes."""
    made = make_plan(load(root / "manifests"), root, inputs_of(root), ("ck-free",), (target,))
    return next(each.operator for each in made.bundles[0].operators if each.operator.name == operator)


def _taking(kind: Kind, made: Operator, target: str, shape: Shape) -> Iterator[tuple[int, int, Tile]]:
    """(rank, cost, tile) of the recipes that take such a call in fp8 without options."""
    values = [shape.slots().get(name, 0) for name in made.slots]
    fp8 = BY_NAME["e4m3fnuz" if target == "gfx942" else "e4m3fn"].number
    for recipe in made.recipes:
        found = re.fullmatch(kind.variant, recipe.variant)
        kinds = (fp8, BY_NAME["bf16"].number)[: len(recipe.types)]
        if found and recipe.types == kinds and all(evaluate(each.code, values) for each in recipe.conditions):
            yield made.kernels[recipe.kernel].rank, evaluate(recipe.cost, values), _tile(found)[1]


def heuristic(kind: Kind, tiles: Sequence[Tile], shape: Shape) -> Tile | None:
    """AITER's: fewest rounds, then fewest idle units; ``tiles`` in the order in which it meets them."""
    best: Tile | None = None
    rounds, idle = 1 << 32, shape.cus
    for tile in tiles:
        if shape.inner % tile.columns:
            continue
        groups = shape.inner // tile.columns * shape.slots()["NB"]
        now = -(-groups // shape.cus)
        left = now * shape.cus - groups
        if now < rounds or (now == rounds and (left < idle or (left == idle and tile.word == kind.later))):
            best, rounds, idle = tile, now, left
    return best


def compare(kind: Kind, target: str, tree: Tree, root: Path, cus: Sequence[int]) -> list[Row]:
    """The lines of one operator; none without rows."""
    winners = measured(kind, tree, cus)
    if not winners:
        return []
    made = planned(kind.operator, target, root)
    ours: list[bool] = []
    theirs: list[list[bool]] = [[] for _ in range(ORDERS)]
    dice = random.Random(1)
    for shape, winner in winners.items():
        taking = list(_taking(kind, made, target, shape))
        ours.append(min(taking)[2] == winner if taking else False)
        tiles = sorted({tile for _, _, tile in taking} | {winner})
        for order in theirs:
            order.append(heuristic(kind, dice.sample(tiles, len(tiles)), shape) == winner)
    mine, means = 100 * mean(ours), [100 * mean(order) for order in theirs]
    units = "/".join(map(str, sorted({shape.cus for shape in winners})))
    group = f"{kind.operator} {target}, {units} units"
    spread = f"{min(means):.0f} to {max(means):.0f} by order"
    return [
        Row(group, "all: our cost names the winner", mine, "%", None, f"{len(winners)} rows"),
        Row(group, "all: AITER's heuristic names it", mean(means), "%", None, spread),
        Row(group, "all: AITER's share of ours", mean(means) / mine if mine else None, "x", 1.0),
    ]


def lines_of(tree: Tree, root: Path, cus: Mapping[str, Sequence[int]]) -> list[Row]:
    """All of them."""
    return [
        line for kind in KINDS for target in ("gfx942", "gfx950") for line in compare(kind, target, tree, root, cus[target])
    ]  # fmt: skip
