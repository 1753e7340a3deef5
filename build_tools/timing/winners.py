"""Does the model name the variant that was measured as the fastest?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from build_tools.timing.families import Family, Kernel
from build_tools.timing.model import Constants, matrix, predict, work_of
from build_tools.timing.rows import Measured, Shape
from build_tools.timing.simulate import Cycles


@dataclass(frozen=True, slots=True)
class Winners:
    """Counts of shapes whose winner the model names.

    Of ``rows`` shapes, the winner's kernel is the ``first``, or one of the first ``three``.
    """

    rows: int
    first: int
    three: int


def ranked(
    family: Family,
    kernels: Sequence[Kernel],
    cycles: Mapping[str, Cycles],
    constants: Constants,
    shape: Shape,
) -> list[tuple[float, Kernel, int]]:
    """(microseconds, kernel, parts) of each kernel that takes the shape, at its best parts; the fastest first."""
    ways = [
        (kernel, parts)
        for kernel in kernels
        if kernel.symbol in cycles and takes(kernel, shape)
        for parts in family.ways(kernel, shape.n, shape.k)
    ]
    if not ways:
        return []
    works = [work_of(family, kernel, parts, shape, cycles[kernel.symbol]) for kernel, parts in ways]
    best: dict[str, tuple[float, Kernel, int]] = {}
    for us, (kernel, parts) in zip(predict(constants, matrix(works)), ways, strict=True):
        known = best.get(kernel.symbol)
        if known is None or us < known[0]:
            best[kernel.symbol] = (float(us), kernel, parts)
    return sorted(best.values(), key=lambda way: (way[0], way[1].symbol))


def takes(kernel: Kernel, shape: Shape) -> bool:
    """Is the kernel for such a weight and such a result?"""
    shuffled = shape.shuffled != "False" if shape.shuffled else True
    only_16_bits = "gemm_bf16_tn" in kernel.symbol and shape.out != 2
    return kernel.shuffled == shuffled and not only_16_bits


def found(
    family: Family, kernels: Sequence[Kernel], cycles: Mapping[str, Cycles], constants: Constants,
    rows: Sequence[Measured],
) -> Winners:  # fmt: skip
    """Over measured rows."""
    places = []
    for row in rows:
        names = [kernel.symbol for _, kernel, _ in ranked(family, kernels, cycles, constants, row.shape)]
        places.append(names.index(row.kernel.symbol) if row.kernel.symbol in names else len(names))
    return Winners(len(places), places.count(0), sum(place < 3 for place in places))


def in_order(
    family: Family,
    cycles: Mapping[str, Cycles],
    constants: Constants,
    pairs: Sequence[tuple[Measured, Measured]],
) -> int:
    """For how many pairs the model says that the faster one is faster."""
    if not pairs:
        return 0
    times = [
        predict(
            constants,
            matrix([work_of(family, r.kernel, r.parts, r.shape, cycles[r.kernel.symbol]) for r in side]),
        )
        for side in zip(*pairs, strict=True)
    ]
    return int(np.sum(times[0] < times[1]))
