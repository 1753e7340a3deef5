"""A Triton kernel that stores where no memory is: Triton's own driver, with the table of lines that it writes by default."""

from __future__ import annotations

import ctypes
import os
import sys

import torch
import triton
import triton.language as tl
from triton.backends.amd.driver import HIPDriver

HIP = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])


class Pointer:
    """What Triton wants of a tensor: an address and a type."""

    dtype = torch.float32

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()
        assert HIP.hipMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(1024)) == 0

    def data_ptr(self) -> int:
        return int(self.pointer.value or 0)


@triton.jit
def beyond(out: tl.tensor, value: tl.tensor, far: tl.tensor, BLOCK: tl.constexpr) -> None:
    at = tl.arange(0, BLOCK)
    tl.store(out + at, at * value)
    tl.store(out + at + far, at * value)  # here


def main() -> int:
    driver = HIPDriver()
    driver.get_current_device = lambda: 0
    driver.set_current_device = lambda device: None
    driver.get_current_stream = lambda device: 0
    triton.runtime.driver.set_active(driver)
    out = Pointer()
    beyond[(1,)](out, 3, 0, BLOCK=128)
    assert HIP.hipDeviceSynchronize() == 0
    print("right", flush=True)
    beyond[(1,)](out, 3, int(sys.argv[1]), BLOCK=128)
    return 0


if __name__ == "__main__":
    sys.exit(main())
