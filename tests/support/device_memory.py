"""Device memory of the embedded device for tests: allocations that the test reads and writes as host memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.emulator import library


@dataclass(frozen=True)
class Region:
    """A live allocation. ``address``: its first byte; device memory is host memory."""

    address: int
    size: int

    def read(self) -> bytes:
        """Its bytes now."""
        return ctypes.string_at(self.address, self.size)


@contextmanager
def region(contents: bytes) -> Iterator[Region]:
    """An allocation of exactly ``len(contents)`` bytes with these contents, freed at the end."""
    lib = library()
    pointer = ctypes.c_void_p()
    assert lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(len(contents))) == 0
    assert pointer.value is not None
    ctypes.memmove(pointer.value, contents, len(contents))
    try:
        yield Region(pointer.value, len(contents))
    finally:
        assert lib.hipFree(pointer) == 0
