"""MXFP4 as AITER has it in memory, and as its kernels make it: 4-bit floats (e2m1), two a byte, the first in the lower half,
and a power of two (e8m0: a byte b is 2^(b - 127), 255 is NaN) for each 32 columns of a row.  What kernels share.

Layouts besides rows one behind the other:
    shuffled   a matrix of bytes as `shuffle_weight` (16, 16) has it: of 16 rows, 16 bytes of each, then the next 16 of each
    swizzled   scales as `e8m0_shuffle` has them: of 32 rows and 8 scales, scale c of row r at [c % 4][r % 16][c // 4][r // 16]
"""

import triton
import triton.language as tl


@triton.jit
def shuffled_place(row, column, width):
    """Where a byte of a shuffled matrix lies; 16 columns are contiguous."""
    return row // 16 * (16 * width) + (column // 16 * 256 + row % 16 * 16 + column % 16)


@triton.jit
def swizzled_place(row, column, width):
    """Where a scale lies in swizzled ones."""
    inner = column % 4 * 64 + row % 16 * 4 + column % 8 // 4 * 2 + row % 32 // 16
    return row // 32 * (32 * width) + column // 8 * 256 + inner


@triton.jit
def swizzled_scales(scales, ROWS: tl.constexpr):
    """Scales [ROWS, 8] of what was read as [ROWS // 32, 256]: 32 rows and 8 columns of swizzled ones are 256 bytes."""
    parts = tl.reshape(scales, [ROWS // 32, 4, 16, 2, 2])
    return tl.reshape(tl.permute(parts, (0, 4, 2, 3, 1)), [ROWS, 8])


@triton.jit
def quantised(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """(Pairs [ROWS, COLUMNS // 2], scales [ROWS, COLUMNS // 32]) of 16-bit x, as AITER's Triton kernels make them.

    A scale is 2^(e - 2), 2^e the largest size rounded to a power of two, from 1.75 of one on to the next; the codes are x / scale
    rounded to the nearest, away from zero halfway, 6 at most.  An infinity or NaN makes the scale NaN.
    """
    groups = tl.reshape(x.to(tl.float32), [ROWS, COLUMNS // 32, 32])
    top = tl.max(groups.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 2)
    power = (top + 0x200000) >> 23
    scale = tl.where(power == 255, 254, tl.maximum(power - 2, 0))
    # 2^-127 has a bit of its own.
    inverse = tl.where(scale == 254, 0x400000, (254 - scale) << 23).to(tl.float32, bitcast=True)
    # One is the smallest normal number of fp4: so is 2^-126 of fp32, whose bits are those of fp4 then, and more behind them.
    scaled = (groups * inverse[:, :, None] * 1.1754943508222875e-38).to(tl.int32, bitcast=True)
    codes = tl.minimum((scaled & 0x7FFFFFFF) + 0x200000 >> 22, 7) | ((scaled >> 28) & 8)
    first, second = tl.split(tl.reshape(codes, [ROWS, COLUMNS // 2, 2]))
    scale = tl.where(top >= 0x7F800000, 255, scale)
    return (first | (second << 4)).to(tl.uint8), scale.to(tl.uint8)
