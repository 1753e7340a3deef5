"""The families of assembled kernels that AITER measured: their rows, their kernels, AITER's rule of choice, and our integer cost.

Facts of AITER's launchers (``csrc/py_itfs_cu/asm_gemm_*.cu``), in our words. A rule walks the kernels in the order of a hash map,
so it is given an order. Where the manifests have the family, its cost stands there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple


class Kernel(NamedTuple):
    """A row of a table of kernels. ``parts``: whether it can split K."""

    symbol: str
    tile_m: int
    tile_n: int
    parts: bool


class Shape(NamedTuple):
    """The shape of a call, and its device's compute units."""

    cus: int
    m: int
    n: int
    k: int


def cdiv(a: int, b: int) -> int:
    """Divide and round up."""
    return -(-a // b)


def tiles(kernel: Kernel, shape: Shape) -> int:
    """Workgroups of a product whose K is not split."""
    return max(1, cdiv(shape.m, kernel.tile_m) * cdiv(shape.n, kernel.tile_n))


#: Into how many parts a kernel may split K in a call.
Parts = Callable[[Kernel, Shape], Sequence[int]]
#: AITER's choice among kernels, walked in this order; None when it has none.
Rule = Callable[[Sequence[Kernel], Shape], Kernel | None]


@dataclass(frozen=True, slots=True)
class Family:
    """``tables``: words in the names of its measured tables; ``symbols``: a part of its symbols; ``kernels``: the table of these;
    ``kept``: cells that a kernel's row must have; ``operator``: whose cost it is, or else ``cost``; ``seen``: all of its rows had
    a say when the cost was fitted, none is held out.
    """

    name: str
    target: str
    tables: tuple[str, ...]
    symbols: str
    kernels: str
    kept: tuple[tuple[str, str], ...]
    parts: Parts
    rule: Rule
    operator: str = ""
    cost: str = ""
    seen: bool = False


def _fill(kernel: Kernel, shape: Shape) -> list[int]:
    """Choose as many parts as fill the device.

    A kernel that does not split has one part, one that must has two at least.
    """
    room = shape.cus // tiles(kernel, shape)
    return [max(2, min(room, 16, shape.k // 64))] if kernel.parts else [1]


def _fill_64(kernel: Kernel, shape: Shape) -> list[int]:
    return [max(1, min(64, shape.cus // tiles(kernel, shape)))]


def _as_recipe(kernel: Kernel, shape: Shape) -> list[int]:
    """Return no choice of parts: the operator splits by itself."""
    del kernel, shape
    return [0]


def _rows_rule(parts: Parts) -> Rule:
    """Fewest rounds; then fewer idle units or fewer rows beyond the end; then the better ratio of work to loads."""

    def choose(kernels: Sequence[Kernel], shape: Shape) -> Kernel | None:
        best: Kernel | None = None
        rounds, idle, ratio, beyond = 1 << 32, shape.cus, 1.0, shape.m
        for kernel in kernels:
            if shape.n % kernel.tile_n:
                continue
            groups = tiles(kernel, shape) * parts(kernel, shape)[0]
            now, work = (
                cdiv(groups, shape.cus),
                kernel.tile_m * kernel.tile_n / (kernel.tile_m + kernel.tile_n),
            )
            left, over = now * shape.cus - groups, -shape.m % kernel.tile_m
            same = left == idle and kernel.tile_m - shape.m % kernel.tile_m == beyond and work > ratio
            if now < rounds or (now == rounds and (left < idle or over < beyond or same)):
                best, rounds, idle, ratio, beyond = kernel, now, left, work, over
        return best

    return choose


def _units_rule(parts: Parts, *, kept_ratio: bool, any_n: bool) -> Rule:
    """Fewest rounds; then fewer idle units or a better ratio of work to loads (than the best, or, once, than 1)."""

    def choose(kernels: Sequence[Kernel], shape: Shape) -> Kernel | None:
        best: Kernel | None = None
        rounds, idle, ratio = 1 << 32, shape.cus, 1
        for kernel in kernels:
            if shape.n % kernel.tile_n and not (any_n and (kernel.tile_m, kernel.tile_n) != (128, 512)):
                continue
            for split in parts(kernel, shape):
                groups = tiles(kernel, shape) * split
                now, work = (
                    cdiv(groups, shape.cus),
                    kernel.tile_m * kernel.tile_n // (kernel.tile_m + kernel.tile_n),
                )
                left = now * shape.cus - groups
                if now < rounds or (now == rounds and (left < idle or work > ratio)):
                    best, rounds, idle = kernel, now, left
                    ratio = work if kept_ratio else ratio
        return best

    return choose


def _powers(kernel: Kernel, shape: Shape) -> list[int]:
    del shape
    return [2, 4, 8, 16] if kernel.parts else [1]


def _one_or_powers(kernel: Kernel, shape: Shape) -> list[int]:
    return [1, *(part for part in (2, 4, 8, 16) if kernel.parts and shape.k % part == 0)]


def _up_to_16(kernel: Kernel, shape: Shape) -> list[int]:
    return [part for part in range(1, 17 if kernel.parts else 2) if part <= max(1, shape.k // 128)]


def _never(kernel: Kernel, shape: Shape) -> list[int]:
    del kernel, shape
    return [1]


#: Clock cycles of one compute unit. 128 columns of K: 8 bits each, 2048 products a cycle. Where a sum is split,
#: the output is filled with zeros first.
_I8: Final = (
    "cdiv(cdiv(M, tileM) * cdiv(N, tileN) * splitK, CUS) * (cdiv(cdiv(K, 128), splitK)"
    " * (max(tileM * tileN // 16, 2 * (tileM + tileN)) + 160) + 8000)"
    " + (splitK - 1) * tileM * tileN * 3 // 128 + (8000 if splitK > 1 else 0)"
)

#: With scales of blocks; nothing was fitted to its rows.
_FP8: Final = _I8

_BF16: Final = ("bf16", "tuned_gemm")
_SHUFFLED: Final = (("bpreshuffle", "1"),)

#: Of the pinned tree.
PINNED: Final = (
    Family(
        "bf16gemm", "gfx942", _BF16, "bf16gemm_", "bf16gemm/bf16gemm_outf32.csv", (("tn", "1"),), _as_recipe,
        _rows_rule(_fill_64), operator="gemm_a16w16_asm", seen=True,
    ),
    Family(
        "f4gemm", "gfx950", ("a4w4", "tuned_gemm"), "f4gemm_", "f4gemm/f4gemm_bf16_per1x32Fp4.csv", _SHUFFLED, _one_or_powers,
        _units_rule(_powers, kept_ratio=False, any_n=False), operator="gemm_a4w4_asm",
    ),
    Family(
        "i8gemm", "gfx942", ("a8w8_bpreshuffle", "tuned_gemm"), "I8gemm_", "i8gemm/i8gemm_bf16_perTokenI8.csv", _SHUFFLED,
        _up_to_16, _units_rule(_never, kept_ratio=False, any_n=False), cost=_I8,
    ),
)  # fmt: skip

#: Of a checkout of August 2026: other kernels, and rules that have changed.
LATER: Final = (
    *(
        Family(
            "bf16gemm", target, _BF16, "bf16gemm_", "bf16gemm/bf16gemm_fp32bf16.csv", (("tn", "1"), ("bpreshuffle", "0")),
            _fill, _rows_rule(_fill), operator="gemm_a16w16_asm",
        )
        for target in ("gfx942", "gfx950")
    ),
    Family(
        "f4gemm", "gfx950", ("a4w4", "tuned_gemm"), "f4gemm_", "f4gemm/f4gemm_bf16_per1x32Fp4.csv", _SHUFFLED, _one_or_powers,
        _units_rule(_powers, kept_ratio=True, any_n=True), operator="gemm_a4w4_asm",
    ),
    Family(
        "i8gemm", "gfx942", ("a8w8_bpreshuffle", "tuned_gemm"), "I8gemm_", "i8gemm/i8gemm_bf16_perTokenI8.csv", _SHUFFLED,
        _up_to_16, _units_rule(_never, kept_ratio=False, any_n=False), cost=_I8,
    ),
    *(
        Family(
            "fp8gemm_blockscale", target, ("a8w8_blockscale", "tuned_gemm"), "fp8gemm_",
            "fp8gemm_blockscale/fp8gemm_bf16_blockscale.csv", _SHUFFLED, _up_to_16,
            _units_rule(_never, kept_ratio=True, any_n=False), cost=_FP8,
        )
        for target in ("gfx942", "gfx950")
    ),
)  # fmt: skip
