"""``CustomAllreduce`` on the NVIDIA GPUs that are here, one process each: is it right, and how fast beside NCCL.

    python ci/gpu_ranks.py [--world N] [--calls N] [--seed N] [--json FILE]

Needs an installed ``aiter-prebuilt`` with the bundle of the GPUs' target, and torch with gloo and NCCL; ``--world``
is 2, 4, 6 or 8, or as many of these as there are GPUs. Every rank draws all ranks' inputs and so knows the right
result in float64. Hundreds of calls of changing sizes, types and kinds follow each other without a wait, ranks are
late in turns, and captured graphs are replayed with new inputs; all ranks must have the same bits. Exit status: 0 all
right, 1 something is wrong, 2 fewer than two GPUs with a bundle.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
import torch.distributed as dist

from aiter_prebuilt import CustomAllreduce
from aiter_prebuilt.bundles import locate
from aiter_prebuilt.devices import device

#: A rank that waits longer for the others than this has lost them: then each says where it stood, and the program ends.
PATIENCE: Final = timedelta(seconds=180)
#: Keeps a GPU busy for so many cycles.
LATE: Final[Callable[[int], None]] = torch.cuda._sleep  # noqa: SLF001  # torch has no other
#: Half a unit in the last place, relative; sums are rounded once.
UNIT: Final = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-23}
#: Adding up to nine numbers in fp32, relative to the sum of their magnitudes.
ADDED: Final = 2.0**-21
#: Bytes of what is timed, and calls of one time.
SIZES: Final = tuple(8192 << step for step in range(12))
MOST: Final = 16 << 20
TURNS: Final = 15
TOGETHER: Final = 20

Check = Callable[[], str]


class Rank:
    """One rank: its GPU, its communicator, and what all ranks draw."""

    def __init__(self, rank: int, world: int, seed: int) -> None:
        self.rank, self.world, self.seed = rank, world, seed
        torch.cuda.set_device(rank)
        ranks = dist.group.WORLD
        assert ranks is not None
        self.all = CustomAllreduce(ranks, f"cuda:{rank}", max_size=MOST)
        assert not self.all.disabled

    def drawn(self, number: int, shape: tuple[int, ...], kind: torch.dtype) -> list[torch.Tensor]:
        """All ranks' inputs of a call, and a residual and weights that all have; drawn on each GPU from the same seed."""
        generator = torch.Generator(f"cuda:{self.rank}").manual_seed(self.seed * 100_003 + number)
        shapes = [shape] * (self.world + 1) + [shape[-1:]]
        return [
            torch.randn(each, device=f"cuda:{self.rank}", generator=generator).to(kind) for each in shapes
        ]

    def same(self, found: torch.Tensor, what: str) -> str:
        """Have all ranks the same bits?"""
        words = found.contiguous().view(torch.uint8).to(torch.int64)
        place = torch.arange(1, words.numel() + 1, device=words.device) % 65521
        mine = int((words.flatten() * place).sum())
        said: list[Any] = [None] * self.world
        dist.all_gather_object(said, mine)
        return "" if len(set(said)) == 1 else f"{what}: ranks have other bits"

    def summed(self, found: torch.Tensor, parts: list[torch.Tensor], what: str) -> str:
        """Is it the sum, rounded once?"""
        exact = torch.stack([part.double() for part in parts])
        right, magnitude = exact.sum(0), exact.abs().sum(0)
        least = 2.0**-24 if found.dtype == torch.float16 else 2.0**-133
        bound = UNIT[found.dtype] * right.abs() + ADDED * magnitude + least
        off = (found.double() - right).abs() - bound
        return "" if bool((off <= 0).all()) else f"{what}: {float(off.max())} beyond the bound"

    def reduce(self, number: int, shape: tuple[int, ...], kind: torch.dtype) -> Check:
        """Launch a sum; the check follows later."""
        parts = self.drawn(number, shape, kind)[: self.world]
        out = self.all.custom_all_reduce(parts[self.rank])
        what = f"call {number}, all_reduce {list(shape)} {kind}"
        assert out is not None, what
        return lambda: self.same(out, what) or self.summed(out, parts, what)

    def norm(self, number: int, shape: tuple[int, ...], kind: torch.dtype) -> Check:
        """Check a sum, a residual and a norm."""
        *parts, residual, weight = self.drawn(number, shape, kind)
        made = self.all.custom_fused_ar_rms(parts[self.rank], residual, weight, 1e-6, True)
        what = f"call {number}, all_reduce_rmsnorm {list(shape)} {kind}"
        assert made is not None, what
        out, total = made

        def check() -> str:
            seen = total.double()
            right = seen * (seen.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
            off = (out.double() - right).abs() - (UNIT[kind] + 2.0**-18) * right.abs() - 2.0**-24
            beyond = "" if bool((off <= 0).all()) else f"{what}: norm {float(off.max())} beyond the bound"
            return self.same(out, what) or beyond or self.summed(total, [*parts, residual], what)

        return check

    def gather(self, number: int, shape: tuple[int, ...], kind: torch.dtype) -> Check:
        """All inputs beside each other along the last dim."""
        parts = self.drawn(number, shape, kind)[: self.world]
        out = self.all.custom_all_gather(parts[self.rank], -1)
        what = f"call {number}, all_gather {list(shape)} {kind}"
        assert out is not None, what
        return lambda: "" if torch.equal(out, torch.cat(parts, -1)) else f"{what}: other elements"

    def scatter(self, number: int, shape: tuple[int, ...], kind: torch.dtype) -> Check:
        """Check this rank's part of the sum."""
        shape = (self.world * shape[0], *shape[1:])
        parts = self.drawn(number, shape, kind)[: self.world]
        out = parts[0].new_empty((shape[0] // self.world, *shape[1:]))
        self.all.reduce_scatter(parts[self.rank], out)
        what = f"call {number}, reduce_scatter {list(shape)} {kind}"
        return lambda: self.summed(out, [part.chunk(self.world)[self.rank] for part in parts], what)

    def one(self, number: int, most: int) -> Check:
        """Draw a call by lot; all ranks draw the same.

        Now and then one of them is late.
        """
        lot = random.Random(self.seed * 7919 + number)
        kind = lot.choice(list(UNIT))
        call = lot.choice([self.reduce, self.reduce, self.reduce, self.norm, self.gather, self.scatter])
        if call == self.norm and kind == torch.float32:
            kind = torch.bfloat16
        columns = lot.choice([64, 128, 520, 2048, 2880, 4096, 7168, 8192])
        share = self.world * 4 if call in (self.gather, self.scatter) else 4
        rows = max(1, int(lot.choice([0.0, 1.0]) * lot.uniform(0, 1) ** 3 * most / share / columns))
        if lot.random() < 0.2 and lot.randrange(self.world) == self.rank:
            LATE(lot.choice([10_000, 1_000_000, 20_000_000]))
        return call(number, (rows, columns), kind)


def back_to_back(rank: Rank, calls: int) -> list[str]:
    """Make calls without a wait between them, 25 at a time."""
    wrong: list[str] = []
    for first in range(0, calls, 25):
        checks = [rank.one(number, MOST // 4) for number in range(first, min(first + 25, calls))]
        torch.cuda.synchronize()
        wrong += filter(None, (check() for check in checks))
    whole = [(size // 2048, 512) for size in SIZES]
    checks = [rank.reduce(10**6 + step, shape, torch.float32) for step, shape in enumerate(whole)]
    torch.cuda.synchronize()
    return wrong + [said for check in checks if (said := check())]


def replayed(rank: Rank, turns: int = 20) -> list[str]:
    """Replay a captured graph of three calls with new inputs."""
    shape, wrong = (33, 2880), []
    parts = rank.drawn(0, shape, torch.bfloat16)
    mine, weight = parts[rank.rank].clone(), torch.ones(shape[1], device="cuda", dtype=torch.bfloat16)
    rank.all.custom_all_reduce(mine)
    rank.all.custom_fused_ar_rms(mine, mine, weight, 1e-6, True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with rank.all.capture(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        first = rank.all.all_reduce(mine)
        normed = rank.all.custom_fused_ar_rms(mine, mine, weight, 1e-6, True)
        last = rank.all.all_reduce(mine)
    assert normed is not None
    for turn in range(turns):
        parts = rank.drawn(2 * 10**6 + turn, shape, torch.bfloat16)[: rank.world]
        mine.copy_(parts[rank.rank])
        if turn % rank.world == rank.rank:
            LATE(2_000_000)
        graph.replay()
        eager = rank.all.all_reduce(mine)
        torch.cuda.synchronize()
        for name, out in (("first", first), ("last", last), ("eager", eager)):
            what = f"replay {turn}, the {name} sum"
            wrong.append(rank.same(out, what) or rank.summed(out, parts, what))
        total = [*parts, parts[rank.rank]]
        wrong.append(rank.summed(normed[1], total, f"replay {turn}, the sum that is normed"))
    return [said for said in wrong if said]


def microseconds(call: Callable[[], object]) -> float:
    """Time one call among several.

    The median of turns; the slowest rank's.
    """
    spans = []
    for _ in range(TURNS):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        first.record()
        for _ in range(TOGETHER):
            call()
        last.record()
        torch.cuda.synchronize()
        spans.append(first.elapsed_time(last) * 1e3 / TOGETHER)
    said: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(said, median(spans[3:]))
    return float(max(said))


def graphed(call: Callable[[], object]) -> Callable[[], object]:
    """Capture a call as a graph of one.

    A server replays such a graph, without the host's part.
    """
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # NCCL's watchdog asks for events in a thread of its own.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(TOGETHER):
            call()
    replay: Callable[[], object] = graph.replay
    return replay


def timed(rank: Rank) -> list[dict[str, Any]]:
    """Beside NCCL: eager calls, and calls in a graph, which cost the device alone."""
    nccl = dist.new_group(backend="nccl", timeout=PATIENCE)
    rows = []
    for size in SIZES:
        ours = torch.zeros(size // 2, dtype=torch.bfloat16, device="cuda")
        theirs = ours.clone()
        out = torch.empty_like(ours)
        calls = (
            lambda ours=ours, out=out: rank.all.all_reduce(ours, out=out),
            lambda theirs=theirs: dist.all_reduce(theirs, group=nccl),
        )
        eager = [microseconds(call) for call in calls]
        device_only = [microseconds(graphed(call)) / TOGETHER for call in calls]
        row = {
            "bytes": size,
            "ours": eager[0],
            "nccl": eager[1],
            "graph_ours": device_only[0],
            "graph_nccl": device_only[1],
        }
        rows.append({**row, "ratio": eager[1] / eager[0], "graph_ratio": device_only[1] / device_only[0]})
    return rows


def work(rank: int, world: int, store: str, seed: int, calls: int, folder: str) -> None:
    """One process."""
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=PATIENCE
    )
    mine = Rank(rank, world, seed)
    done: list[Any] = []
    for stage in (lambda: back_to_back(mine, calls), lambda: replayed(mine), lambda: timed(mine)):
        faulthandler.dump_traceback_later(PATIENCE.total_seconds(), exit=True)
        done.append(stage())
    faulthandler.cancel_dump_traceback_later()
    wrong, rows = done[0] + done[1], done[2]
    said: list[Any] = [None] * world
    dist.all_gather_object(said, wrong)
    mine.all.close()
    if rank == 0:
        document = {
            "wrong": [f"rank {at}: {each}" for at, one in enumerate(said) for each in one],
            "rows": rows,
        }
        Path(folder, "result.json").write_text(json.dumps(document))
    dist.barrier()
    dist.destroy_process_group()


def show(document: dict[str, Any]) -> None:
    """For people."""
    print(
        "all_reduce of bf16, microseconds of the slowest rank; ratio: NCCL's time by ours, above 1 is faster"
    )
    print(
        f"{'bytes':>10} {'ours':>9} {'NCCL':>9} {'ratio':>6}   in a graph: {'ours':>9} {'NCCL':>9} {'ratio':>6}"
    )
    for row in document["rows"]:
        eager = f"{row['bytes']:>10} {row['ours']:>9.1f} {row['nccl']:>9.1f} {row['ratio']:>6.2f}"
        print(
            f"{eager}               {row['graph_ours']:>9.1f} {row['graph_nccl']:>9.1f} {row['graph_ratio']:>6.2f}"
        )
    for each in document["wrong"]:
        print(each)
    print(
        f"{len(document['wrong'])} wrong of {document['calls']} calls and 20 replays on {document['world']} GPUs"
    )


def main() -> int:
    """Start the ranks, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--world", type=int, choices=(2, 4, 6, 8), help="how many GPUs; as many as there are")
    parser.add_argument("--calls", type=int, default=400, help="calls that follow each other")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", type=Path, help="also write everything as one document")
    options = parser.parse_args()
    targets = {bundle.target for bundle in locate.installed()}
    found = [facts for facts in device.probe("nvidia").devices if facts.target in targets]
    world = options.world or max((size for size in (2, 4, 6, 8) if size <= len(found)), default=0)
    if world < 2 or len(found) < world:
        print(
            f"{len(found)} NVIDIA GPUs with an installed bundle here, {max(world, 2)} are needed: nothing was executed"
        )
        return 2
    seed = options.seed if options.seed is not None else random.randrange(2**31)
    print(f"{world} of {found[0].name}, torch {torch.__version__}, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        words = (world, str(Path(folder, "store")), seed, options.calls, folder)
        launch: Any = torch.multiprocessing
        launch.spawn(work, args=words, nprocs=world)
        document = json.loads(Path(folder, "result.json").read_text())
    about = {
        "version": 1,
        "world": world,
        "device": found[0].name,
        "torch": torch.__version__,
        "seed": seed,
        "calls": options.calls,
    }
    document = {**about, **document}
    if options.json:
        options.json.write_text(json.dumps(document, indent=1))
    show(document)
    return 1 if document["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
