"""Collectives of several ranks, of which one is executed: the others' blocks hold what they would have written.

What a rank leaves in its block and in the others' is part of the contract, since the next launch reads it: its part of the input
(or the sums that others fetch), the steps that it told, and its count of calls.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Packs of 16 bytes for each of the 512 lanes of a workgroup, before another workgroup takes part.
_LANES = 512
#: Bytes from which an all-reduce exchanges twice; two ranks never do.
_TWICE = {4: 163840, 6: 81920, 8: 81920}
_ITEM = {"bf16": 2, "f16": 2, "f32": 4, "i32": 4}
#: Adding up to nine numbers in fp32, relative to the sum of their magnitudes.
_ADDED = 2.0**-21


def _up(value: int, by: int) -> int:
    return -(-value // by)


class _Block:
    """All ranks' blocks; rank ``rank`` is the one that is executed."""

    def __init__(
        self, data: tuple[Values | None, ...], signals: tuple[Values | None, ...], rank: int
    ) -> None:
        self.data = [np.array(x) for x in data if x is not None]
        self.signals = [np.array(x) for x in signals if x is not None]
        self.rank = rank

    @property
    def world(self) -> int:
        return len(self.data)

    def region(self, group: int, rank: int) -> Values:
        calls = int(self.signals[self.rank][self.world, group])
        found: Values = self.data[rank][calls % 2, group]
        return found

    def told(self, group: int, exchanges: int) -> None:
        calls = int(self.signals[self.rank][self.world, group])
        for r in range(self.world):
            if r != self.rank:
                self.signals[r][self.rank, group] = 2 * calls + exchanges
        self.signals[self.rank][self.world, group] = calls + 1

    def results(self) -> tuple[Near | None, ...]:
        """The blocks in the order of the arguments; None for those that were not given."""
        data, steps = [near(x) for x in self.data], [near(x) for x in self.signals]
        rest = [None] * (8 - self.world)
        return (*data[:2], *steps[:2], *data[2:], *rest, *steps[2:], *rest)


def _in_parts(packs: int, groups: int, least: int = 1, read: int = 1) -> int:
    """Packs of a workgroup's part, a multiple of ``least``, of each of which ``read`` are offered."""
    used = max(1, min(groups, _up(packs * read, _LANES)))
    return max(1, _up(_up(packs, used), least)) * least


def peer_all_reduce(
    input: Values,
    data0: Values,
    data1: Values,
    signals0: Values,
    signals1: Values,
    rank: int,
    data2: Values | None,
    data3: Values | None,
    data4: Values | None,
    data5: Values | None,
    data6: Values | None,
    data7: Values | None,
    signals2: Values | None,
    signals3: Values | None,
    signals4: Values | None,
    signals5: Values | None,
    signals6: Values | None,
    signals7: Values | None,
    kinds: Mapping[str, str],
) -> tuple[Near | None, ...]:
    """The sum of all ranks' inputs, in one exchange or in two."""
    all_, size = (
        _Block(
            (data0, data1, data2, data3, data4, data5, data6, data7),
            (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7),
            rank,
        ),
        _ITEM[kinds["input"]],
    )
    pack, mine = 16 // size, input.reshape(-1)
    twice = all_.world in _TWICE and mine.size * size >= _TWICE[all_.world]
    share = _in_parts(mine.size // pack, data0.shape[1], all_.world) * pack
    out, magnitude = np.zeros(mine.size), np.zeros(mine.size)
    for group, first in enumerate(range(0, mine.size, share)):
        here = slice(first, min(first + share, mine.size))
        count = here.stop - first
        regions = [all_.region(group, r)[:count] for r in range(all_.world)]
        regions[rank][:] = mine[here]
        total, magnitude[here] = np.sum(regions, axis=0), np.sum(np.abs(regions), axis=0)
        out[here] = total
        if twice:
            each = share // all_.world
            for r in range(all_.world):
                part = slice(r * each, min((r + 1) * each, count))
                if r == rank:
                    regions[r][part] = total[part]
                else:
                    out[here][part], magnitude[here][part] = regions[r][part], 0
        all_.told(group, 2 if twice else 1)
    slack = _ADDED * max(1.0, float(np.max(magnitude, initial=0.0)))
    result = near(out.reshape(input.shape), absolute=(_ADDED * magnitude).reshape(input.shape))
    blocks = all_.results()
    return result, *(_with_slack(blocks, rank, slack) if twice else blocks)


def _with_slack(results: tuple[Near | None, ...], rank: int, absolute: float) -> tuple[Near | None, ...]:
    """Sums that lie in this rank's own data may be off like those in the result."""
    place = rank if rank < 2 else rank + 2
    return tuple(
        near(x.values, absolute=absolute) if i == place and x is not None else x
        for i, x in enumerate(results)
    )


def peer_all_reduce_rmsnorm(
    input: Values,
    residual_in: Values,
    weight: Values,
    epsilon: float,
    data0: Values,
    data1: Values,
    signals0: Values,
    signals1: Values,
    rank: int,
    data2: Values | None,
    data3: Values | None,
    data4: Values | None,
    data5: Values | None,
    data6: Values | None,
    data7: Values | None,
    signals2: Values | None,
    signals3: Values | None,
    signals4: Values | None,
    signals5: Values | None,
    signals6: Values | None,
    signals7: Values | None,
    gemma_norm: bool,
) -> tuple[Near | None, ...]:
    """The sum of all ranks' inputs and a residual, and its RMS norm."""
    all_ = _Block(
        (data0, data1, data2, data3, data4, data5, data6, data7),
        (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7),
        rank,
    )
    rows = input.size // max(1, input.shape[-1])
    width = input.shape[-1]
    mine, residual = input.reshape(rows, width), residual_in.reshape(rows, width)
    share = max(1, _up(rows, max(1, min(data0.shape[1], rows))))
    total = residual + 0.0
    for group, first in enumerate(range(0, rows, share)):
        here = slice(first, min(first + share, rows))
        count = (here.stop - first) * width
        regions = [all_.region(group, r)[:count] for r in range(all_.world)]
        regions[rank][:] = mine[here].reshape(-1)
        total[here] += np.sum(regions, axis=0).reshape(-1, width)
        all_.told(group, 1)
    scale = 1 / np.sqrt((total * total).mean(axis=-1, keepdims=True) + epsilon)
    normed = total * scale * (weight + 1 if gemma_norm else weight)
    out = near(normed.reshape(input.shape), relative=2.0**-18, absolute=2.0**-125)
    return out, near(total.reshape(input.shape)), *all_.results()


def peer_all_gather(
    input: Values,
    data0: Values,
    data1: Values,
    signals0: Values,
    signals1: Values,
    rank: int,
    data2: Values | None,
    data3: Values | None,
    data4: Values | None,
    data5: Values | None,
    data6: Values | None,
    data7: Values | None,
    signals2: Values | None,
    signals3: Values | None,
    signals4: Values | None,
    signals5: Values | None,
    signals6: Values | None,
    signals7: Values | None,
) -> tuple[Near | None, ...]:
    """All ranks' inputs, row by row."""
    all_ = _Block(
        (data0, data1, data2, data3, data4, data5, data6, data7),
        (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7),
        rank,
    )
    mine, size = input.reshape(-1), input.size
    share = _in_parts(size // 4, data0.shape[1]) * 4
    out = np.zeros((all_.world, size), np.int64)
    for group, first in enumerate(range(0, size, share)):
        here = slice(first, min(first + share, size))
        for r in range(all_.world):
            region = all_.region(group, r)[: here.stop - first]
            if r == rank:
                region[:] = mine[here]
            out[r, here] = region
        all_.told(group, 1)
    return near(out.reshape(all_.world, *input.shape).swapaxes(0, 1)), *all_.results()


def peer_reduce_scatter(
    input: Values,
    data0: Values,
    data1: Values,
    signals0: Values,
    signals1: Values,
    rank: int,
    data2: Values | None,
    data3: Values | None,
    data4: Values | None,
    data5: Values | None,
    data6: Values | None,
    data7: Values | None,
    signals2: Values | None,
    signals3: Values | None,
    signals4: Values | None,
    signals5: Values | None,
    signals6: Values | None,
    signals7: Values | None,
    kinds: Mapping[str, str],
) -> tuple[Near | None, ...]:
    """This rank's part of the sum of all inputs."""
    all_ = _Block(
        (data0, data1, data2, data3, data4, data5, data6, data7),
        (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7),
        rank,
    )
    pack, count = 16 // _ITEM[kinds["input"]], input.shape[0] * input.shape[2]
    share = _in_parts(count // pack, data0.shape[1], read=all_.world) * pack
    parts = input.swapaxes(0, 1).reshape(all_.world, -1)
    out, magnitude = np.zeros(count), np.zeros(count)
    for group, first in enumerate(range(0, count, share)):
        here = slice(first, min(first + share, count))
        length = here.stop - first
        for r in range(all_.world):
            all_.region(group, rank)[r * share : r * share + length] = parts[r, here]
        for r in range(all_.world):
            seen = all_.region(group, r)[rank * share : rank * share + length]
            out[here] += seen
            magnitude[here] += np.abs(seen)
        all_.told(group, 1)
    shape = (input.shape[0], input.shape[2])
    return near(out.reshape(shape), absolute=(_ADDED * magnitude).reshape(shape)), *all_.results()


def draw_steps(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], calls: float = 0
) -> Values:
    """Signals of a rank whose workgroups were in ``calls`` calls, or one or two more; the others are ahead of it."""
    del sizes
    counts = int(calls) + np.arange(shape[1]) % 3
    steps = 2 * counts + 2 + rng.integers(1, 9, shape)
    steps[-1] = counts
    return steps
