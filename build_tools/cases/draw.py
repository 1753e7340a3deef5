"""Draw the inputs of a call.

The same seed, operator, label and tensor give the same values, whatever else is drawn.

A distribution takes (generator, shape, numbers...) and returns float64 or int64; a family's ``draw_NAME`` takes the sizes of
the call's symbols too, as a third argument.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from build_tools.cases import numbers
from build_tools.cases.words import Draw

Values: TypeAlias = npt.NDArray[Any]
Drawer: TypeAlias = Callable[..., Values]
#: (largest, smallest normal, smallest subnormal) of the types that edges are drawn for; what is stored is rounded from it.
_LIMITS: Final = {
    "f32": (3.4028234663852886e38, 2.0**-126, 2.0**-149), "bf16": (3.3895313892515355e38, 2.0**-126, 2.0**-133),
    "f16": (65504.0, 2.0**-14, 2.0**-24), "e4m3fn": (448.0, 2.0**-6, 2.0**-9), "e4m3fnuz": (240.0, 2.0**-7, 2.0**-10),
}  # fmt: skip


def generator(seed: int, operator: str, label: str, tensor: str) -> np.random.Generator:
    """Make the generator of one tensor of one call."""
    text = f"{seed}\0{operator}\0{label}\0{tensor}".encode()
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:16], "little"))


def normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0, mean: float = 0.0) -> Values:
    """Draw normally distributed values."""
    return rng.standard_normal(shape) * scale + mean


def uniform(rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> Values:
    """Evenly between ``low`` and ``high``."""
    return rng.uniform(low, high, shape)


def constant(rng: np.random.Generator, shape: tuple[int, ...], value: float) -> Values:
    """One value everywhere."""
    del rng
    return np.full(shape, value)


def zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Nothing but 0."""
    return constant(rng, shape, 0.0)


def ones(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Nothing but 1."""
    return constant(rng, shape, 1.0)


def ints(rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> Values:
    """Integers from ``low`` to ``high``, both included."""
    return rng.integers(int(low), int(high), shape, endpoint=True)


def ties(rng: np.random.Generator, shape: tuple[int, ...], step: float = 0.5) -> Values:
    """Few distinct values: normal, rounded to multiples of ``step``."""
    return np.rint(rng.standard_normal(shape) * 2 / step) * step


def permutation(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """0, 1, 2, ... in any order."""
    return rng.permutation(math.prod(shape)).reshape(shape)


def zero_rows(rng: np.random.Generator, shape: tuple[int, ...], every: float = 2.0) -> Values:
    """Draw normal values, with rows of zeros.

    Every second row is 0, or each ``every``-th one.
    """
    values = rng.standard_normal(shape)
    _rows(values)[1 :: int(every)] = 0.0
    return values


def _rows(values: Values) -> Values:
    return values.reshape(-1, values.shape[-1]) if values.ndim and values.size else values.reshape(0, 1)


def _sprinkle(rng: np.random.Generator, row: Values, value: float, share: float = 0.1) -> None:
    """``value`` at some places of the row, at least at one."""
    count = max(1, round(row.size * share))
    row[rng.choice(row.size, count, replace=False)] = value


def nonfinite(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Rows in turn: normal; one NaN; +inf; zeros with -0; -inf; nothing but -inf; both infinities."""
    values = rng.standard_normal(shape)
    for place, row in enumerate(_rows(values)):
        kind = place % 7
        if kind == 1:
            row[rng.integers(row.size)] = np.nan
        elif kind == 2:
            _sprinkle(rng, row, np.inf, 0.01)
        elif kind == 3:
            row[:] = 0.0
            _sprinkle(rng, row, -0.0, 0.5)
        elif kind == 4:
            _sprinkle(rng, row, -np.inf)
        elif kind == 5:
            row[:] = -np.inf
        elif kind == 6:
            _sprinkle(rng, row, np.inf, 0.01)
            _sprinkle(rng, row, -np.inf)
    return values


def extremes(rng: np.random.Generator, shape: tuple[int, ...], *, kind: str) -> Values:
    """Rows in turn: normal; the type's largest numbers here and there; its smallest normal and subnormal ones; these alone;
    numbers whose squares come near the largest one.
    """
    largest, smallest, subnormal = _LIMITS[kind]
    values = rng.standard_normal(shape)
    for place, row in enumerate(_rows(values)):
        turn = place % 5
        if turn == 1:
            _sprinkle(rng, row, largest)
            _sprinkle(rng, row, -largest)
        elif turn == 2:
            _sprinkle(rng, row, smallest)
            _sprinkle(rng, row, -subnormal)
        elif turn == 3:
            row[:] = rng.choice([smallest, -smallest, subnormal, -subnormal, 3 * subnormal], row.size)
        elif turn == 4:
            row[:] = row * (math.sqrt(largest) / 1024)
    return values


def edges(rng: np.random.Generator, shape: tuple[int, ...], *, kind: str) -> Values:
    """Rows of :func:`nonfinite` and of :func:`extremes` in turn."""
    first, second = nonfinite(rng, shape), extremes(rng, shape, kind=kind)
    turn = np.arange(len(_rows(first)))
    # Seven kinds and five kinds: two rows of each before the other, so that few rows show most of them.
    return np.where(((turn // 2) % 2 == 0)[:, None], _rows(_shifted(first)), _rows(_shifted(second))).reshape(
        shape
    )


def _shifted(values: Values) -> Values:
    """Move the special row to the front."""
    return np.roll(_rows(values), -1, axis=0).reshape(values.shape)


BUILT_IN: Final[dict[str, Drawer]] = {
    drawer.__name__: drawer
    for drawer in (
        normal, uniform, constant, zeros, ones, ints, ties, permutation, zero_rows, nonfinite, extremes, edges,
    )
}  # fmt: skip


def draw(
    how: Draw | None, own: Mapping[str, Drawer], rng: np.random.Generator, shape: tuple[int, ...], kind: str,
    sizes: Mapping[str, int],
) -> Values:  # fmt: skip
    """Values for a tensor of ``kind`` as it will be stored: rounded, and decoded again. ``own``: the family's ``draw_NAME``.

    Raises:
        ValueError: integers need a draw that is said; a distribution takes other numbers.
    """
    if how is None:
        if numbers.is_integer(kind):
            raise ValueError("integers have no usual values: say TENSOR~DRAW")
        how = Draw("normal")
    drawer = own.get(how.name) or BUILT_IN[how.name]
    given: list[Any] = [rng, shape, *([sizes] if how.name in own else [])]
    named = {"kind": kind} if "kind" in inspect.signature(drawer).parameters else {}
    try:
        with np.errstate(all="ignore"):
            values = drawer(*given, *how.numbers, **named)
    except (TypeError, KeyError) as error:
        raise ValueError(f"the draw {how.name} of {kind}: {error}") from None
    return numbers.rounded(values, kind, saturate=kind in numbers.SATURATING)
