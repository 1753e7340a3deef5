"""Families of assembled products whose times AITER measured: their kernels, and how one is launched for a tile alone.

Facts of AITER's launchers (``csrc/py_itfs_cu/asm_*.cu``), in our words: each argument stands in 16 bytes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias

from build_tools.tools.tree import Tree

#: ("ptr", bytes of memory behind it; 0: null), ("i32", value) or ("f32", value).
Argument: TypeAlias = tuple[str, float]
#: Rows, columns, K and its parts.
Arguments: TypeAlias = Callable[[int, int, int, int], list[Argument]]
#: Bytes behind each pointer: more than any tile of these kernels reads.
_ROOM: Final = 1 << 26
_TILE: Final = re.compile(r"_(\d+)x(\d+)(?=_|E)")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A row of a family's table. ``splits``: it takes K in parts; ``shuffled``: its weight is."""

    symbol: str
    file: str
    tile_m: int
    tile_n: int
    splits: bool
    shuffled: bool


@dataclass(frozen=True, slots=True)
class Family:
    """``cards``: compute units of the cards with measured rows; ``tables``: words in the names of these rows' files; ``kernels``:
    the table of kernels; ``element``: bytes of an element of an operand, its scales included; ``step``: columns of K that a part
    is a multiple of; ``logarithm``: rows say parts so; ``parts``: what a kernel that splits may be launched with; ``any_n``:
    tiles may reach beyond the last column.
    """

    name: str
    target: str
    cards: tuple[int, ...]
    tables: tuple[str, ...]
    kernels: str
    element: float
    step: int
    arguments: Arguments
    parts: tuple[int, ...]
    logarithm: bool = False
    any_n: bool = False

    def ways(self, kernel: Kernel, n: int, k: int) -> Sequence[int]:
        """Into how many parts the kernel may split K in a call; none: it does not take the call."""
        if n % kernel.tile_n and (not self.any_n or (kernel.tile_m, kernel.tile_n) == (128, 512)):
            return ()
        if not kernel.splits:
            return (1,)
        return [each for each in self.parts if each == 1 or self._whole(k, each)]

    def _whole(self, k: int, parts: int) -> bool:
        """Tell whether each part has work."""
        return -(-k // self.columns(k, parts)) == parts

    def columns(self, k: int, parts: int) -> int:
        """Count the columns of K in a part."""
        return -(-k // (parts * self.step)) * self.step


def _f4(m: int, n: int, k: int, parts: int) -> list[Argument]:
    room: Argument = ("ptr", _ROOM)
    strides = [0, 0, n, 0, k, 0, k, 0, m, n, k]
    scales = [k // 32, 0, k // 32, 0, parts.bit_length() - 1]
    return [
        room, ("ptr", 0), room, room, ("f32", 1.0), ("f32", 0.0), *_numbers(strides), room, room, *_numbers(scales),
    ]  # fmt: skip


def _fp8(m: int, n: int, k: int, parts: int) -> list[Argument]:
    return [*[("ptr", _ROOM)] * 6, *_numbers([m, n, k, k, k, n * 2, parts, m, -(-n // 128), -(-k // 128)])]


def _i8(m: int, n: int, k: int, parts: int) -> list[Argument]:
    return [*[("ptr", _ROOM)] * 6, *_numbers([m, n, k, k, k, n * 2, parts])]


def _bf16(m: int, n: int, k: int, parts: int) -> list[Argument]:
    room: Argument = ("ptr", _ROOM)
    sizes = [n * 2, 0, n * 2, 0, k * 2, 0, k * 2, 0, m, n, k, parts, 1]
    return [
        room, ("ptr", 0), room, room, ("f32", 1.0), ("f32", 0.0), *_numbers(sizes), room, ("i32", 0), room,
    ]  # fmt: skip


def _numbers(values: Sequence[int]) -> list[Argument]:
    return [("i32", value) for value in values]


_UP_TO_16: Final = tuple(range(1, 17))

FAMILIES: Final = (
    Family(
        "f4gemm", "gfx950", (256,), ("a4w4", "tuned_gemm"), "f4gemm/f4gemm_bf16_per1x32Fp4.csv", 0.5 + 1 / 32, 256, _f4,
        (1, 2, 4, 8, 16), logarithm=True, any_n=True,
    ),
    *(
        Family(
            "fp8gemm_blockscale", target, (card,), ("a8w8_blockscale", "tuned_gemm"),
            "fp8gemm_blockscale/fp8gemm_bf16_blockscale.csv", 1.0, 128, _fp8, _UP_TO_16,
        )
        for target, card in (("gfx950", 256), ("gfx942", 80))
    ),
    Family(
        "bf16gemm", "gfx950", (256,), ("bf16", "tuned_gemm"), "bf16gemm/bf16gemm_fp32bf16.csv", 2.0, 64, _bf16,
        _UP_TO_16[1:],
    ),
    Family(
        "i8gemm", "gfx942", (80, 304), ("a8w8_bpreshuffle", "tuned_gemm"), "i8gemm/i8gemm_bf16_perTokenI8.csv", 1.0, 128,
        _i8, _UP_TO_16,
    ),
)  # fmt: skip


def kernels_of(family: Family, tree: Tree) -> tuple[Kernel, ...]:
    """Return the family's kernels in a tree.

    None: the tree does not have the family.
    """
    name = f"aiter:hsa/{family.target}/{family.kernels}"
    if not tree.has(name):
        return ()
    rows = [
        {key.lower().replace("_", ""): cell for key, cell in row.items()}
        for row in csv.DictReader(tree.text(name).splitlines())
    ]
    folder = PurePosixPath(family.kernels).parent
    return tuple(_kernel(row, folder) for row in rows if {"splitk", "coname"} <= row.keys())


def _kernel(row: dict[str, Any], folder: PurePosixPath) -> Kernel:
    return Kernel(
        row["knlname"], (folder / row["coname"]).as_posix(), int(row["tilem"]), int(row["tilen"]), row["splitk"] == "1",
        row.get("bpreshuffle", "1") == "1",
    )  # fmt: skip


def tile_of(symbol: str) -> tuple[int, int]:
    """Read rows and columns of a kernel's tile from its symbol, ``..._32x128E``."""
    found = _TILE.search(symbol)
    assert found is not None, symbol
    return int(found[1]), int(found[2])
