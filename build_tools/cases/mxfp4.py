"""References of MXFP4 products: bytes of two 4-bit floats, a power of two for each 32 columns, AITER's layouts."""

from __future__ import annotations

from typing import Final

import numpy as np

from build_tools.cases.near import Values

#: Columns that share a scale.
BLOCK: Final = 32
_FP4: Final = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
#: Half a unit of the last place of f32, and its smallest normal number.
_ROUNDING, _LOST = 2.0**-24, 2.0**-126


def pairs(codes: Values) -> Values:
    """Decode bytes [rows, width]: two fp4 each, the lower half first."""
    rows, width = codes.shape
    halves = np.stack([codes & 15, codes >> 4], axis=-1).reshape(rows, 2 * width)
    found: Values = _FP4[halves & 7] * np.where(halves & 8, -1.0, 1.0)
    return found


def scaled(codes: Values, scales: Values) -> Values:
    """Decode fp4 pairs times e8m0 scales.

    ``scales``: [rows or more, blocks or more]; 255 is NaN.
    """
    exact = pairs(codes)
    powers = np.where(scales == 255, np.nan, np.ldexp(1.0, scales - 127))
    found: Values = exact * np.repeat(powers, BLOCK, axis=1)[: exact.shape[0], : exact.shape[1]]
    return found


def rows_of_scales(codes: Values) -> Values:
    """e8m0 from the layout of ``e8m0_shuffle`` to rows.

    Of 32 rows and 8 columns (r, c) stands at [c % 4][r % 16][c // 4][r // 16].
    """
    rows, columns = codes.shape
    blocks = codes.reshape(rows // 32, columns // 8, 4, 16, 2, 2).transpose(0, 5, 3, 1, 4, 2)
    found: Values = blocks.reshape(rows, columns)
    return found


def rows_of_bytes(stored: Values) -> Values:
    """Bytes [n, k] from the layout of ``shuffle_weight`` (16, 16), of 16 rows by 16 bytes, to rows."""
    n, k = stored.shape
    usual: Values = stored.reshape(n // 16, k // 16, 16, 16).transpose(0, 2, 1, 3).reshape(n, k)
    return usual


def unfolded(stored: Values, rows: int) -> Values:
    """[n / rows, rows * k] as [n, k]."""
    count, width = stored.shape
    found: Values = stored.reshape(count * rows, width // rows)
    return found


def quantised(x: Values) -> Values:
    """16-bit rows as AITER's Triton kernels make them MXFP4: each 32 columns with a scale of 2^(e - 2).

    2^e is the largest size, rounded to a power of two, from 1.75 of one on to the next. Codes are rounded to the nearest, away
    from zero halfway, 6 at most. An infinity or NaN makes all 32 NaN.
    """
    groups = x.reshape(*x.shape[:-1], x.shape[-1] // BLOCK, BLOCK)
    sizes = np.abs(groups)
    top = sizes.max(axis=-1, keepdims=True)
    lost = ~np.isfinite(top)
    fraction, power = np.frexp(np.where(lost, 1.0, top))
    power = np.where(top > 0, power - 1 + (fraction >= 0.875), -127)
    # e8m0 begins with 2^-127; of what would be 2^128 the kernel has the scale 2^127.
    scale = np.ldexp(1.0, np.where(power >= 128, 127, np.maximum(power - 2, -127)))
    near = sizes / scale
    halfway = (_FP4[1:] + _FP4[:-1]) / 2
    codes = _FP4[np.searchsorted(halfway, np.where(lost, 0.0, near), side="right")]
    made = np.where(lost, np.nan, np.copysign(codes * scale, groups))
    found: Values = made.reshape(x.shape)
    return found


def sum_error(a: Values, b: Values, product: Values) -> Values:
    """Bound the error of a @ b^T on the matrix units.

    They add in fp32, at least four products at a time.

    Each addition may lose half a unit of a partial sum; partial sums are about as large as the root of the sum of the squared
    products, or as the result where all products have one sign.
    """
    size = np.sqrt((a * a) @ (b * b).T)
    error: Values = _ROUNDING * (a.shape[1] / 4 + 72) * (2 * size + np.abs(product)) + a.shape[1] * _LOST
    return error
