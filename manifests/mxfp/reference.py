"""Numbers in MX formats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Values

#: fp4 by its code, without the sign.
_FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def upcast_from_mxfp(tensor: Values, scale: Values) -> Values:
    """Each number times the power of two of its 32; a byte of 0 is 0, one of 255 infinity."""
    codes = np.stack([tensor & 15, tensor >> 4], axis=-1).reshape(len(tensor), 2 * tensor.shape[1])
    numbers = np.where(codes & 8, -1.0, 1.0) * _FP4[codes & 7]
    powers = np.where(scale == 0, 0.0, np.where(scale == 255, np.inf, 2.0 ** (scale - 127.0)))
    with np.errstate(invalid="ignore"):
        exact: Values = numbers * np.repeat(powers, 32, axis=-1)[:, : numbers.shape[1]]
    return exact


def draw_every_code(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Bytes, each as often as any other."""
    del sizes
    return rng.integers(0, 256, shape)


def draw_powers(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Scales about 1, some of which fp16 has not, and 0 and 255."""
    del sizes
    values = rng.integers(100, 150, shape)
    values.flat[3::7] = rng.choice([0, 1, 90, 200, 254, 255], values.flat[3::7].shape)
    return values
