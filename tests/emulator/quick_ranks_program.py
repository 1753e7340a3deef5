"""A child of ``test_quick_ranks.py``: one rank of QuickReduce, or all of them as threads, on embedded devices.

Arguments: the world, the folder that ranks meet in, a seed, the rank or "threads". Each rank draws all ranks' inputs, so that it
knows every right result; what is wrong is an AssertionError and ends the process.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
from emulator.ranks_program import UNIT, Folder, of_all

import aiter_prebuilt as ap
from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import ArgumentError, UnsupportedError
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.ops import quick_all_reduce
from build_tools.cases.numbers import decode, encode, rounded, stored

#: A message that is longer is several launches.
vars(quick_all_reduce)["_AT_ONCE"] = 1 << 18
#: Level -> steps from zero to the end of the range.
HALF = {0: 1 << 30, 1: 128, 2: 32, 3: 8, 4: 4}
SHAPES = ((1, 4096), (3, 40), (33, 2880), (8,), (2, 7, 1024), (100, 2048))


class Rank:
    """One rank's device and its communicator."""

    def __init__(self, ranks: Folder, rank: int, world: int, seed: int) -> None:
        self.rank, self.world, self.seed, self.ranks = rank, world, seed, ranks
        self.memory = DeviceMemory(device.facts("amd", rank), device.probe("amd").path)
        self.fa = ap.init_custom_qr(rank, world, device=rank)
        mine = ctypes.create_string_buffer(64)
        ap.qr_get_handle(self.fa, ctypes.addressof(mine))
        handles = [ctypes.create_string_buffer(said, 64) for said in ranks.exchange(mine.raw)]
        ap.qr_open_handles(self.fa, [ctypes.addressof(each) for each in handles])

    def put(self, values: Any, kind: str) -> Any:
        """Values in device memory."""
        return DeviceArray(self.memory, kind, values.shape, encode(values, kind).tobytes())

    def get(self, tensor: Any) -> Any:
        """Values from device memory."""
        return decode(np.frombuffer(tensor.read(), stored(tensor.dtype)), tensor.dtype).reshape(tensor.shape)

    def drawn(self, number: int, shape: tuple[int, ...], kind: str) -> list[Any]:
        """All ranks' inputs of a call, and one tensor more that all have. Rows are of different sizes."""
        rng = np.random.default_rng((self.seed, number))
        sizes = 2.0 ** rng.integers(-6, 7, (*shape[:-1], 1))
        return [rounded(rng.normal(size=shape) * sizes, kind) for _ in range(self.world + 1)]

    def bound(self, parts: list[Any], level: int) -> Any:
        """How far a sum may be off: one step of each rank's code and one of the sum's, of 32 elements that share a scale."""
        steps = np.zeros(parts[0].size)
        for values in (*parts, sum(parts)):
            flat = np.concatenate([values.reshape(-1), np.zeros(-values.size % 32)])
            furthest = np.abs(flat).reshape(-1, 32).max(axis=1)
            steps += np.repeat(furthest, 32)[: values.size] * (1 + 2.0**-8) / HALF[level]
        # What the ranks' codes miss moves the furthest of the sum by so much of itself again.
        return (steps * (1 + 1 / HALF[level])).reshape(parts[0].shape)

    def near(self, found: Any, right: Any, error: Any, what: str) -> None:
        off = np.abs(found - right) - error
        assert np.isfinite(found).all() and off.max(initial=-1.0) <= 0, (
            f"rank {self.rank} of {self.world}, {what}: {off.max()} beyond the bound"
        )

    def sums(self, number: int, level: int) -> None:
        """A sum is as near as its codes allow, further off than bits that are kept would be, and the same in all ranks."""
        kind, shape = ("bf16", "f16")[number % 2], SHAPES[number % len(SHAPES)]
        parts = self.drawn(number, shape, kind)[: self.world]
        mine = self.put(parts[self.rank], kind)
        out = mine.new_empty(shape)
        ap.qr_all_reduce(self.fa, mine, out, level, bool(number % 3))
        found, right = self.get(out), sum(parts)
        rounding = UNIT[kind] * np.abs(right) + 2.0**-24
        self.near(found, right, self.bound(parts, level) + rounding, f"level {level}, call {number}")
        assert level == 0 or right.size < 1000 or (np.abs(found - right) > rounding).any()
        said = self.ranks.exchange(out.read())
        assert all(each == said[0] for each in said), f"ranks differ: level {level}, call {number}"

    def norms(self, number: int, level: int) -> None:
        kind, shape = ("bf16", "f16")[number % 2], ((5, 1024), (2, 3, 512))[number % 2]
        drawn = self.drawn(number, shape, kind)
        weight = rounded(np.random.default_rng(number).normal(size=shape[-1:]), kind)
        mine, residual = self.put(drawn[self.rank], kind), self.put(drawn[-1], kind)
        total, out = mine.new_empty(shape), mine.new_empty(shape)
        given = (self.fa, mine, residual, total, out, self.put(weight, kind), 1e-5, shape[-1], level)
        ap.qr_all_reduce_rmsnorm(*given)
        right, found = sum(drawn), self.get(total)
        self.near(
            found, right, self.bound(drawn[:-1], level) + 2 * UNIT[kind] * np.abs(right) + 0.1, "residual"
        )
        norm = found / np.sqrt((found**2).mean(-1, keepdims=True) + 1e-5) * weight
        self.near(self.get(out), norm, 2 * UNIT[kind] * (np.abs(norm) + 1), "norm")

    def refusals(self) -> None:
        """By name, before anything is launched: no other rank waits."""
        x = self.put(np.zeros((2, 64)), "bf16")
        y = x.new_empty((2, 64))
        refused(UnsupportedError, ap.qr_all_reduce, self.fa, x, y, 5)
        if self.world > 2:
            refused(UnsupportedError, ap.qr_all_reduce, self.fa, x, y, 4)
        refused(ArgumentError, ap.qr_all_reduce, 0, x, y, 3)
        refused(ArgumentError, ap.qr_all_reduce, self.fa, x, x.new_empty((2, 32)), 3)
        refused(ArgumentError, ap.qr_all_reduce, self.fa, x, self.put(np.zeros((2, 64)), "f16"), 3)
        odd = self.put(np.zeros(9), "bf16")
        refused(ArgumentError, ap.qr_all_reduce, self.fa, odd, odd.new_empty((9,)), 3)
        refused(ArgumentError, ap.qr_open_handles, self.fa, [0])
        given = (self.fa, x, x, y, x.new_empty((2, 64)), self.put(np.zeros(60), "bf16"))
        refused(ArgumentError, ap.qr_all_reduce_rmsnorm, *given, 1e-5, 60, 3)
        refused(UnsupportedError, ap.init_custom_qr, 0, 6, device=self.rank)
        refused(ArgumentError, ap.init_custom_qr, self.world, self.world, device=self.rank)

    def run(self) -> None:
        """Levels in turns, of sizes that use one workgroup, many, and several launches."""
        levels = (0, 1, 2, 3, 4)[: 5 if self.world == 2 else 4]
        for number in range(3 * len(levels)):
            self.sums(number, levels[number % len(levels)])
        for number, level in enumerate(levels[1:]):
            self.norms(number, level)
        self.refusals()
        self.ranks.exchange(b"through")
        ap.qr_destroy(self.fa)
        ap.qr_destroy(self.fa)
        refused(ArgumentError, ap.qr_get_handle, self.fa, 0)
        self.memory.close()


def refused(error: type[Exception], function: Any, *given: Any, **named: Any) -> None:
    """The call raises ``error``."""
    try:
        function(*given, **named)
    except error:
        return
    raise AssertionError(f"{function.__name__} took {given[1:]}")


def main(words: list[str]) -> int:
    """Of the command line."""
    world, folder, seed = int(words[0]), Path(words[1]), int(words[2])

    def one(rank: int) -> None:
        Rank(Folder(folder, rank, world), rank, world, seed).run()

    if words[3] == "threads":
        return of_all(world, one)
    one(int(words[3]))
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
