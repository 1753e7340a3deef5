"""FlyDSL's own compiler and launcher, unmodified, run our softmax kernel: its host code opens ``libamdhip64.so.7`` by name.

``python flydsl_client.py KERNEL_SOURCE TARGET``; one row, as the source's own launcher has it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from typing import Any

os.environ["FLYDSL_GPU_ARCH"] = sys.argv[2]
import flydsl.compiler as flyc
import flydsl.expr as fx
import numpy as np

HIP = ctypes.CDLL("libamdhip64.so.7")


def upload(values: Any) -> int:
    """New device memory with ``values``; its address."""
    pointer = ctypes.c_void_p()
    assert HIP.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(values.nbytes)) == 0
    assert (
        HIP.hipMemcpy(pointer, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes), 1) == 0
    )
    return int(pointer.value or 0)


def main() -> int:
    spec = importlib.util.spec_from_file_location("kernels", sys.argv[1])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    launch, _ = module.softmax_rows({"T": "f32", "BLOCK": 256, "WIDE": 0, "TILES": 4, "CACHED": 1})
    row = np.random.default_rng().standard_normal(1000, dtype=np.float32)
    out, x = upload(np.full(1000, np.nan, np.float32)), upload(row)
    pointers = [flyc.from_c_void_p(fx.Float32, address, assumed_align=4) for address in (out, x)]
    launch(*pointers, fx.Int32(1000), fx.Int64(1000), fx.Int64(1000))
    found = np.empty_like(row)
    assert HIP.hipDeviceSynchronize() == 0
    assert (
        HIP.hipMemcpy(
            found.ctypes.data_as(ctypes.c_void_p), ctypes.c_void_p(out), ctypes.c_size_t(found.nbytes), 2
        )
        == 0
    )
    powers = np.exp(row.astype(np.float64))
    assert np.abs(found / (powers / powers.sum()) - 1).max() < 1e-5
    print("right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
