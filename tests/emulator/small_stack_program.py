"""A child of ``test_small_stack.py``: a first call, a hit and a miss on threads with the smallest stack that Python allows."""

from __future__ import annotations

import sys
import threading
from typing import Any

from aiter_prebuilt import dispatch
from aiter_prebuilt_emulator.memory import DeviceArray

SMALLEST = 32768


def on_a_small_stack(function: Any, *arguments: Any) -> None:
    """Run it there; what it raises is raised here."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001  # raised again below
            failed.append(error)

    threading.stack_size(SMALLEST)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    threading.stack_size(0)
    if failed:
        raise failed[0]


def main() -> int:
    """Print how many launches there were."""
    operator = dispatch.operator("silu_and_mul")
    for rows in (3, 3, 70):
        x, out = DeviceArray("f16", (rows, 128), bytes(rows * 256)), DeviceArray("f16", (rows, 64))
        on_a_small_stack(operator, out.raw, x.raw, 0.0)
        assert out.read() == bytes(rows * 128)
    print(operator.stats()["launches"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
