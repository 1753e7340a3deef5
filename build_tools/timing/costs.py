"""Today's rule within a family: the lowest integer cost of the manifest's kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aiter_prebuilt.contract.bytecode import evaluate
from aiter_prebuilt.contract.expression import Scope, compile_expression
from build_tools.manifest.model import Manifest
from build_tools.timing import families, heuristics, tiles
from build_tools.timing.measured import Candidate, Family, Shape

#: Family of Composable Kernel's instances -> the kernel whose cost the manifests have.
_INSTANCES: Final = {
    "a8w8": "a8w8",
    "a8w8_bpreshuffle": "gemm_a8w8_bpreshuffle_ck",
    "a8w8_blockscale": "a8w8_blockscale",
    "a8w8_blockscale_bpreshuffle": "a8w8_blockscale_bpreshuffle",
}
_SLOTS: Final = ("M", "N", "K", "CUS", "splitK", "KB", "LOG", "kernelName")


@dataclass(frozen=True)
class Cost:
    """A kernel's cost, as a manifest writes it."""

    text: str
    target: str
    cus: int
    programs: dict[str, bytes] = field(default_factory=dict)

    def of(self, shape: Shape) -> list[int]:
        """Return the cost of each measured variant of a shape."""
        return [self._of(shape, each) for each in shape.candidates]

    def _of(self, shape: Shape, each: Candidate) -> int:
        parts, k = each.parts, shape.k
        values = (shape.m, shape.n, k, self.cus, parts, k // 2, parts.bit_length() - 1, 0)
        return evaluate(self._program(each.kernel), values)

    def _program(self, kernel: str) -> bytes:
        if kernel not in self.programs:
            slots = {name: place for place, name in enumerate(_SLOTS)}
            scope = Scope(slots, _constants(kernel), None, {"target": self.target}, None, ["kernelName"])
            self.programs[kernel] = compile_expression(self.text, scope)
        return self.programs[kernel]


def costs_of(manifest: Manifest, measured: Mapping[str, Family]) -> dict[str, Cost]:
    """Return the cost of each family that has one, by case."""
    made = {}
    for case, family in measured.items():
        text = _text(manifest, family)
        if text:
            made[case] = Cost(text, family.target, family.cus)
    return made


def _text(manifest: Manifest, family: Family) -> str:
    kernels = [
        kernel for part in manifest.families.values() for each in part.operators for kernel in each.kernels
    ]
    if (name := _INSTANCES.get(family.name)) is not None:
        return next(
            (str(each.cost) for each in kernels if each.name == name and family.target in each.targets), ""
        )
    rules = [each for each in heuristics.LATER if (each.name, each.target) == (family.name, family.target)]
    if not rules:
        return ""
    if not rules[0].operator:
        return rules[0].cost
    return next(
        (str(each.cost) for each in kernels if each.name == family.name and family.target in each.targets), ""
    )


def _constants(kernel: str) -> dict[str, int]:
    if (tile := tiles.tile_of(kernel)) is not None:
        return {
            "BM": tile.rows,
            "BN": tile.columns,
            "BK": tile.depth,
            "PIPE": tile.pipe,
            "BLOCK": tile.threads,
        }
    rows, columns = families.tile_of(kernel)
    return {"tileM": rows, "tileN": columns}
