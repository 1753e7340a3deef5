"""A child of ``test_ranks.py``: one rank of ``CustomAllreduce``, or all of them as threads, on embedded devices.

Arguments: the world, the folder that ranks meet in, a seed, the rank or "threads", and perhaps how they meet ("gloo") or what
does not fit. Tensors have no framework. Each rank draws all ranks' inputs, so that it knows every right result; what is wrong is
an AssertionError and ends the process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aiter_prebuilt import CustomAllreduce
from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.ops import _ranks
from build_tools.cases.numbers import decode, encode, rounded, stored

CAPACITY = 1 << 20
#: Half a unit in the last place of a 16-bit float and of fp8, relative.
UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-23}


class Folder:
    """Ranks that exchange files."""

    def __init__(self, folder: Path, rank: int, size: int) -> None:
        self.folder, self.rank, self.size, self.round = folder, rank, size, 0

    def exchange(self, mine: bytes) -> list[bytes]:
        """What each said in this round."""
        self.round += 1
        path = self.folder / f"{self.round}-{self.rank}"
        path.with_suffix(".part").write_bytes(mine)
        path.with_suffix(".part").rename(path)
        others = [self.folder / f"{self.round}-{r}" for r in range(self.size)]
        while not all(other.exists() for other in others):
            time.sleep(0.001)
        return [other.read_bytes() for other in others]


class Rank:
    """One rank's device and its communicator."""

    def __init__(self, ranks: Any, rank: int, world: int, seed: int) -> None:
        self.rank, self.world, self.seed = rank, world, seed
        facts = device.facts("amd", rank)
        self.fp8 = "e4m3fnuz" if facts.target == "gfx942" else "e4m3fn"
        self.memory = DeviceMemory(facts, device.probe("amd").path)
        self.all: Any = CustomAllreduce(ranks, rank, max_size=CAPACITY)
        assert not self.all.disabled

    def put(self, values: Any, kind: str) -> Any:
        """Values in device memory."""
        return DeviceArray(self.memory, kind, values.shape, encode(values, kind).tobytes())

    def get(self, tensor: Any) -> Any:
        """Values from device memory."""
        return decode(np.frombuffer(tensor.read(), stored(tensor.dtype)), tensor.dtype).reshape(tensor.shape)

    def drawn(self, number: int, shape: tuple[int, ...], kind: str) -> list[Any]:
        """All ranks' inputs of a call, and one tensor more that all have."""
        rng = np.random.default_rng((self.seed, number))
        return [rounded(rng.normal(size=shape), kind) for _ in range(self.world + 1)]

    def near(self, found: Any, right: Any, unit: float, what: str, slack: float = 0.0) -> None:
        """Equal but for rounding."""
        off = np.abs(found - right) - unit * np.abs(right) - slack
        assert np.isfinite(found).all() and off.max(initial=-1.0) <= 0, (
            f"rank {self.rank} of {self.world}, {what}: {off.max()} beyond the bound"
        )

    def sums(self, number: int) -> None:
        """All-reduce of a type and a size; every sixth in place of nothing: a rank is late."""
        kind = ("bf16", "f16", "f32")[number % 3]
        shapes = ((1, 4096), (3, 40), (33, 2880), (8,), (2, 7, 1024), (16, 16384), (511, 1024))
        drawn = self.drawn(number, shapes[number % len(shapes)], kind)
        if number % 6 == self.rank:
            time.sleep(0.01)
        mine = self.put(drawn[self.rank], kind)
        found = self.all.custom_all_reduce(mine)
        assert found is not None and found.shape == mine.shape
        parts = drawn[: self.world]
        self.near(self.get(found), sum(parts), UNIT[kind], f"all_reduce {number}", 1e-6 * self.world)

    def norms(self, number: int) -> None:
        """Fused norms, short and long, plain and quantised."""
        kind = ("bf16", "f16")[number % 2]
        shape = ((1, 4096), (5, 2880), (70, 1024), (3, 2, 512))[number % 4]
        drawn = self.drawn(number, shape, kind)
        weight = rounded(np.random.default_rng(number).normal(size=shape[-1:]), kind)
        mine, residual = self.put(drawn[self.rank], kind), self.put(drawn[-1], kind)
        total = sum(drawn)
        norm = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * weight
        given = (mine, residual, self.put(weight, kind), 1e-5)
        out, res_out = self.all.custom_fused_ar_rms(*given, number % 3 == 0)
        step = 3 * UNIT[kind]  # a long message is rounded before the residual
        self.near(self.get(res_out), total, step, f"residual {number}", step * self.world)
        self.near(self.get(out), norm, 2 * step, f"norm {number}", 2 * step * self.world)
        codes, _, scale, plain = self.all.custom_fused_ar_rms_quant(*given, False, emit_bf16=True)
        self.near(self.get(plain), norm, 2 * step, f"norm {number}", 2 * step * self.world)
        self.near(self.get(codes) * self.get(scale), self.get(plain), 2.0**-4, f"codes {number}", 0.02)
        codes, _, scale = self.all.custom_fused_ar_rms_quant(*given, False)
        self.near(self.get(codes) * self.get(scale), norm, 2.0**-4 + 2 * step, f"codes {number}", 0.1)
        if shape[-1] % 128 == 0:
            for transposed in (False, True):
                codes, _, scale, plain = self.all.custom_fused_ar_rms_per_group_quant(
                    *given, emit_bf16=True, transpose_scale=transposed
                )
                found = self.get(scale)
                if transposed:
                    found = found.reshape(-1, *shape[:-1]).transpose(*range(1, len(shape)), 0)
                scales = np.repeat(found, 128, axis=-1)
                self.near(self.get(codes) * scales, self.get(plain), 2.0**-4, f"groups {number}", 0.02)

    def padded(self, number: int) -> None:
        """Rows with columns behind them, of the input, of the result, and of both."""
        kind = ("bf16", "f16")[number % 2]
        for given, wanted, width in ((2880, 3072, 2880), (3072, 0, 2880), (520, 640, 513)):
            drawn = self.drawn(number, (5, given), kind)
            weight = rounded(np.random.default_rng(number).normal(size=width), kind)
            residual = drawn[-1][:, :width]
            total = sum(drawn[: self.world])[:, :width] + residual
            norm = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * weight
            out, res_out = self.all.custom_fused_ar_rms(
                self.put(drawn[self.rank], kind),
                self.put(residual, kind),
                self.put(weight, kind),
                1e-5,
                True,
                wanted,
            )
            step = 3 * UNIT[kind]
            assert out.shape == (5, wanted or given) and res_out.shape == (5, width)
            self.near(self.get(res_out), total, step, f"padded residual {number}", step * self.world)
            self.near(
                self.get(out)[:, :width], norm, 2 * step, f"padded norm {number}", 2 * step * self.world
            )
            assert not self.get(out)[:, width:].any()

    def moves(self, number: int) -> None:
        """All-gather and reduce-scatter along each dim."""
        shape, kind = (8 * self.world, 2 * self.world, 8 * self.world), "bf16"
        drawn = self.drawn(number, shape, kind)[: self.world]
        for dim in (0, 1, -1):
            gathered = self.all.custom_all_gather(self.put(drawn[self.rank], kind), dim)
            assert gathered is not None
            assert np.array_equal(self.get(gathered), np.concatenate(drawn, axis=dim)), f"all_gather {dim}"
            mine = self.put(drawn[self.rank], kind)
            right = np.split(sum(drawn), self.world, axis=dim)[self.rank]
            assert self.all.should_custom_rs(mine, dim)
            out = mine.new_empty(right.shape)
            self.all.custom_reduce_scatter(mine, out, dim)
            self.near(self.get(out), right, UNIT[kind], f"reduce_scatter {dim}", 1e-6)

    def run(self) -> None:
        """Calls of all kinds in turns, of sizes that use one workgroup and many."""
        for number in range(14):
            self.sums(number)
            if number < 4:
                self.norms(number)
        self.moves(99)
        self.padded(98)
        self.padded(97)
        self.refusals()
        self.all.close()
        self.all.close()
        self.memory.close()

    def refusals(self) -> None:
        """What is not served is None, and no other rank waits for it."""
        assert self.all.custom_all_reduce(self.put(np.zeros((3, 5)), "bf16")) is None
        assert self.all.custom_all_reduce(self.put(np.zeros(CAPACITY), "bf16")) is None
        assert self.all.custom_all_reduce(self.put(np.zeros((4, 8)), "i32")) is None
        off = DeviceArray(self.memory, "bf16", (2, 64), offset=1)
        assert self.all.custom_all_reduce(off) is None and self.all.custom_all_gather(off) is None
        wide = self.put(np.zeros((2, 64)), "f32")
        assert self.all.custom_fused_ar_rms(wide, wide, wide, 1e-5, False) is None
        narrow = self.put(np.zeros((2, 96)), "bf16")
        assert self.all.custom_fused_ar_rms_per_group_quant(narrow, narrow, narrow, 1e-5) is None
        odd = self.put(np.ones((8, 9)), "bf16")
        out, _ = self.all.custom_fused_ar_rms(odd, odd, self.put(np.ones(9), "bf16"), 1e-5, True)
        self.near(self.get(out), np.ones((8, 9)), 2.0**-7, "rows of no whole packs")
        x, weight = self.put(np.zeros((2, 64)), "bf16"), self.put(np.zeros(64), "bf16")
        for words in ({"gemma_norm": True}, {"post_per_token_quant": True}):
            try:
                self.all.fused_ar_rms(x, x, w=weight, eps=1e-5, out_hidden_dim=128, **words)
            except UnsupportedError:
                continue
            raise AssertionError(f"padded rows were not refused: {words}")


def process(world: int, folder: Path, seed: int, rank: int, how: str) -> int:
    """One rank."""
    ranks: Any = Folder(folder, rank, world)
    if how == "gloo":
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
        with torch.inference_mode():
            Rank(dist.group.WORLD, rank, world, seed).run()
        dist.destroy_process_group()
    elif how:
        print(misfit(ranks, how))
        return 0
    else:
        Rank(ranks, rank, world, seed).run()
    print("done")
    return 0


def misfit(ranks: Folder, how: str) -> str:
    """What a communicator says that cannot be."""
    zeros: Any = np.zeros((2, 8), np.float32)
    if how == "hosts":
        boot = ranks.folder / f"host-{ranks.rank}"
        boot.write_text(f"host {ranks.rank}")
        vars(_ranks)["_BOOT"] = boot
    if how == "off" or (how == "one off" and ranks.rank == 0):
        os.environ["AITER_CUSTOM_AR_MAX_SIZE"] = "0"
    try:
        made = CustomAllreduce(ranks, ranks.rank, max_size=CAPACITY << (ranks.rank if how == "sizes" else 0))
    except UnsupportedError as error:
        return type(error).__name__
    assert made.custom_all_reduce(zeros) is None
    made.close()
    return "disabled" if made.disabled else "it serves"


def main(words: list[str]) -> int:
    """Of the command line."""
    world, folder, seed = int(words[0]), Path(words[1]), int(words[2])
    if words[3] != "threads":
        return process(world, folder, seed, int(words[3]), words[4] if words[4:] else "")
    return of_all(world, lambda rank: Rank(Folder(folder, rank, world), rank, world, seed).run())


def of_all(world: int, work: Callable[[int], None]) -> int:
    """All ranks as threads; the first that fails ends the process, since the others wait for it for ever."""
    failed: list[str] = []

    def one(rank: int) -> None:
        try:
            work(rank)
        except BaseException as error:
            failed.append(f"rank {rank}: {error!r}")
            print(failed, file=sys.stderr, flush=True)
            raise

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not failed:
        time.sleep(0.01)
    print(failed or "done")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
