"""Triton's own AMD driver, unmodified, compiling and running JIT kernels: nothing of this project but the library that it opens.

``TRITON_LIBHIP_PATH`` names the library. torch has no GPU here, so what Triton asks torch (device, stream) is answered below.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.amd.driver import HIPDriver

HIP = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])


class Array:
    """Device memory with what Triton wants of a tensor: ``data_ptr`` and ``dtype``."""

    def __init__(self, values: Any, dtype: torch.dtype) -> None:
        self.values, self.dtype = np.ascontiguousarray(values), dtype
        self.pointer = ctypes.c_void_p()
        assert HIP.hipMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(self.values.nbytes)) == 0
        source = self.values.ctypes.data_as(ctypes.c_void_p)
        assert HIP.hipMemcpy(self.pointer, source, ctypes.c_size_t(self.values.nbytes), 1) == 0

    def data_ptr(self) -> int:
        return int(self.pointer.value or 0)

    def read(self) -> Any:
        found = np.empty_like(self.values)
        assert HIP.hipDeviceSynchronize() == 0
        assert (
            HIP.hipMemcpy(
                found.ctypes.data_as(ctypes.c_void_p), self.pointer, ctypes.c_size_t(found.nbytes), 2
            )
            == 0
        )
        return found


@triton.jit
def add(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x: tl.tensor, out: tl.tensor, columns: tl.tensor, BLOCK: tl.constexpr) -> None:
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * columns + at, power / tl.sum(power, axis=0), mask=at < columns)


@triton.jit
def product(
    a: tl.tensor,
    b: tl.tensor,
    out: tl.tensor,
    K: tl.tensor,
    N: tl.constexpr,
    M: tl.constexpr,
    BK: tl.constexpr,
) -> None:
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + start + inner[None, :])
        right = tl.load(b + (start + inner[:, None]) * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * N + columns[None, :], total)


@triton.jit
def count(slots: tl.tensor, n: tl.tensor, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(slots + at % 7, 1, mask=at < n)


def main() -> int:
    driver = HIPDriver()
    driver.get_current_device = lambda: 0
    driver.set_current_device = lambda device: None
    driver.get_current_stream = lambda device: 0
    triton.runtime.driver.set_active(driver)
    print("target", driver.get_current_target().arch)
    random = np.random.default_rng()
    n = 1003
    x, y = (Array(random.standard_normal(n, dtype=np.float32), torch.float32) for _ in range(2))
    out = Array(np.full(n, np.nan, np.float32), torch.float32)
    add[(math.ceil(n / 256),)](x, y, out, n, BLOCK=256)
    assert np.array_equal(out.read(), x.values + y.values)
    rows = Array(random.standard_normal((5, 777), dtype=np.float32), torch.float32)
    share = Array(np.full((5, 777), np.nan, np.float32), torch.float32)
    softmax[(5,)](rows, share, 777, BLOCK=1024)
    powers = np.exp(rows.values.astype(np.float64))
    assert np.abs(share.read() / (powers / powers.sum(axis=1, keepdims=True)) - 1).max() < 1e-5
    a, b = (
        Array(random.standard_normal(shape).astype(np.float16), torch.float16)
        for shape in ((32, 96), (96, 64))
    )
    made = Array(np.full((32, 64), np.nan, np.float32), torch.float32)
    product[(1,)](a, b, made, 96, N=64, M=32, BK=32)
    wanted = a.values.astype(np.float64) @ b.values.astype(np.float64)
    assert np.abs(made.read() - wanted).max() < 1e-4
    slots = Array(np.zeros(7, np.int32), torch.int32)
    count[(5,)](slots, n, BLOCK=256)
    assert np.array_equal(slots.read(), np.bincount(np.arange(n) % 7, minlength=7))
    print("right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
