"""A function on a thread of Python's with a small stack."""

from __future__ import annotations

import threading
from collections.abc import Callable

#: The smallest that Python allows. Bytes.
SMALLEST = 32768


def in_thread(function: Callable[[], object], size: int) -> None:
    """Run it on a thread of Python's with a stack of ``size`` bytes."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001  # raised again by the caller
            failed.append(error)

    threading.stack_size(size)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    threading.stack_size(0)
    if failed:
        raise failed[0]
