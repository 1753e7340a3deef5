"""A code object's target and kernels, as ``verify`` needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class KernelImage:
    """One kernel; ``symbol`` is the name that a driver finds it by, ``args`` are (offset, size, kind) of its explicit arguments.

    Sizes in bytes. ``padding``: offsets of what assemblers list between two arguments and nothing reads.
    """

    symbol: str
    kernarg_size: int
    args: tuple[tuple[int, int, str], ...]
    lds_static: int
    max_threads: int
    wave: int
    padding: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Image:
    """One code object. ``target`` is ``gfx942`` and the like, or ``sm_90``."""

    machine: int
    target: str
    kernels: tuple[KernelImage, ...]

    @cached_property
    def by_symbol(self) -> dict[str, KernelImage]:
        """The kernels by their symbols; the first one where a file has two."""
        return {kernel.symbol: kernel for kernel in reversed(self.kernels)}
