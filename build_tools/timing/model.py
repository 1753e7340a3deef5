"""A call's time: cycles of its workgroups in rounds, and memory beyond the L1, each over constants of a card.

    us = start + filling * load + zeroing * split + added bytes / adding
       + norm(rounds * (cycles of a workgroup + round) / megahertz, bytes out of an XCD's L2 / l2, bytes into it / fabric,
              bytes of the call / memory)

``load``: share of the compute units that have a workgroup. The norm, of a power that is a constant, too, lets what takes longest
decide, and the others add some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from build_tools.timing.families import Family, Kernel
from build_tools.timing.rows import Shape
from build_tools.timing.simulate import Cycles

Floats: TypeAlias = npt.NDArray[np.float64]


def xcds(cus: int) -> int:
    """Count a card's XCDs from its compute units.

    As the emulator deals workgroups out.
    """
    return 8 if cus >= 128 else 4 if cus >= 64 else 1


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a call.

    ``cycles``: of a workgroup; ``near``: bytes that the busiest XCD's L1s fetch from its L2; ``shared``: those that it fetches
    itself, each once a round; ``memory``: bytes of the call's tensors; ``added``: bytes that parts of K add up; ``split``: 1
    where the result is cleared first, else 0.
    """

    rounds: float
    cycles: float
    near: float
    shared: float
    memory: float
    added: float
    split: float
    load: float


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of a card.

    Microseconds, cycles, MHz (cycles a microsecond), bytes a microsecond.
    """

    start: float
    filling: float
    zeroing: float
    round: float
    megahertz: float
    l2: float
    fabric: float
    memory: float
    adding: float
    power: float


_FIELDS: Final = tuple(field.name for field in fields(Work))
NAMES: Final = tuple(field.name for field in fields(Constants))
#: Where a fit begins, and what it is drawn to where rows do not say: the order of size of data sheets.
USUAL: Final = Constants(4.0, 1.0, 2.0, 500.0, 1600.0, 2e6, 6e5, 4.5e6, 2e6, 3.0)
_POWERS: Final = (1.2, 12.0)


def constants_of(document: Mapping[str, float]) -> Constants:
    """Read constants as :func:`as_document` writes them."""
    return Constants(*(float(document[name]) for name in NAMES))


def as_document(constants: Constants) -> dict[str, float]:
    """Four digits: more are not known."""
    return {name: float(f"{value:.4g}") for name, value in zip(NAMES, astuple(constants), strict=True)}


def work_of(family: Family, kernel: Kernel, parts: int, shape: Shape, cycles: Cycles) -> Work:
    """Return a product with K in ``parts``."""
    columns = family.columns(shape.k, parts)
    across, down, deep = -(-shape.n // kernel.tile_n), -(-shape.m // kernel.tile_m), -(-shape.k // columns)
    groups = across * down * deep
    resident = min(groups, shape.cus)
    # Workgroups go round the XCDs in their order: which panels of both operands the first one asks for in a full round.
    ids = np.arange(0, resident, xcds(shape.cus))
    rows, slabs = ids // across, ids // across // down
    panels_a = np.unique(rows).size * min(kernel.tile_m, shape.m)
    panels_b = np.unique(ids % across + across * slabs).size * kernel.tile_n
    result = shape.m * shape.n * shape.out
    return Work(
        rounds=-(-groups // shape.cus),
        cycles=cycles.fixed + cycles.column * columns,
        near=(cycles.bytes_fixed + cycles.bytes_column * columns) * groups / resident * ids.size,
        shared=(panels_a + panels_b) * family.element * columns * groups / resident,
        memory=(shape.m + shape.n) * shape.k * family.element + result,
        added=result * deep if deep > 1 else 0,
        split=float(deep > 1),
        load=resident / shape.cus,
    )


def matrix(works: Sequence[Work]) -> Floats:
    """Build the matrix with a column for each constant."""
    columns: Floats = (
        np.array([astuple(work) for work in works], dtype=np.float64).reshape(-1, len(_FIELDS)).T
    )
    return columns


def predict(constants: Constants, works: Floats) -> Floats:
    """Microseconds of each."""
    c = constants
    rounds, cycles, near, shared, memory, added, split, load = works
    power = min(max(c.power, _POWERS[0]), _POWERS[1])
    parts = (rounds * (cycles + c.round) / c.megahertz, near / c.l2, shared / c.fabric, memory / c.memory)
    longest = np.sum([part**power for part in parts], axis=0) ** (1 / power)
    return np.asarray(c.start + c.filling * load + c.zeroing * split + added / c.adding + longest)
