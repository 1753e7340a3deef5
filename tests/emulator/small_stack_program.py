"""A child of ``test_small_stack.py``: a first call, a hit and a miss on threads with the smallest stack that Python allows."""

from __future__ import annotations

import sys
from functools import partial

from support.small_stack import SMALLEST, in_thread

from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator.memory import DeviceArray


def main() -> int:
    """Print how many launches there were."""
    operator = dispatch.operator("silu_and_mul")
    for rows in (3, 3, 70):
        x, out = DeviceArray("f16", (rows, 128), bytes(rows * 256)), DeviceArray("f16", (rows, 64))
        in_thread(partial(operator, out.raw, x.raw, 0.0), SMALLEST)
        assert out.read() == bytes(rows * 128)
    print(operator.stats()["launches"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
