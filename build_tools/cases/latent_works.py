"""How attention over a latent cache is shared out: the works of each compute unit, and the tiles that are made of parts.

A unit has a budget of blocks of keys; every work costs its blocks and a fixed number more. Contexts go to the units one behind
the other, and what a unit cannot finish is the next one's. It is AITER's rule of ``get_mla_metadata_v1`` (fast mode), but where
its works are none for the assembly: a work without keys ends a unit's list there, and a query without keys in a part has a wrong
logarithm. So contexts without keys or queries have no work, and what would leave the last part fewer keys than queries is not
cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Blocks of keys that a work costs beside its own.
OVERHEAD = 16
#: Rows of queries, heads included, that a work has at most.
ROWS = 128


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be shared out: queries [first, end) and keys [first, end) of each context, in order."""

    queries: list[tuple[int, int]]
    keys: list[tuple[int, int]]
    heads: int
    block: int
    units: int
    parts: int


@dataclass(slots=True)
class Works:
    """``works``: rows of 8; ``units``: where those of each unit begin; ``sums``: where the ``sources`` of each tile begin."""

    works: list[tuple[int, ...]] = field(default_factory=list)
    units: list[int] = field(default_factory=lambda: [0])
    sums: list[int] = field(default_factory=lambda: [0])
    targets: list[tuple[int, int] | None] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)


def contexts(
    queries: list[int], keys: list[int], fold: int = 1, uniform: int = 0, topk: int = -1
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Queries and keys of each context. ``fold``: heads are so many contexts of 16; ``uniform``: queries of each batch, 0 where
    ``queries`` says it; ``topk``: each query has a context of its own, of so many keys at most, one list behind the other. A
    context without queries has no keys.
    """
    rows: list[tuple[int, int]] = []
    spans: list[tuple[int, int]] = []
    own = uniform if topk >= 0 else 1
    for context in range((len(keys) - 1) * fold * own):
        batch = context // own // fold
        length = keys[batch + 1] - keys[batch]
        start = keys[batch]
        if topk >= 0:
            length, start = min(length, topk), context // fold * topk
        each = 1 if topk >= 0 else uniform
        rows.append((context * each, (context + 1) * each) if each else (queries[batch], queries[batch + 1]))
        spans.append((start, start + length if rows[-1][0] < rows[-1][1] else start))
    return rows, spans


def tiles_of(first: int, end: int, heads: int) -> list[tuple[int, int]]:
    """The queries of each tile: as many for each, ``ROWS`` rows at most."""
    count = max(1, -(-(end - first) * heads // ROWS))
    step = -(-(end - first) // count)
    return [(first + tile * step, min(first + (tile + 1) * step, end)) for tile in range(count)]


def shared_out(asked: Asked) -> Works:
    """The works of every unit."""
    made = Works()
    blocks = [-(-(end - first) // asked.block) for first, end in asked.keys]
    budget = -(-(sum(blocks) + len(blocks) * OVERHEAD) // asked.parts) + OVERHEAD
    batch, done, row = 0, 0, 0
    parts: list[int] = []
    for _ in range(asked.units):
        left = budget
        while batch < len(blocks):
            first, end = asked.queries[batch]
            tiles = tiles_of(first, end, asked.heads)
            step = tiles[0][1] - tiles[0][0]
            start, stop = asked.keys[batch]
            rest, here = blocks[batch] - done, start + done * asked.block
            cut = here + (left - OVERHEAD) * asked.block
            whole = left >= rest + OVERHEAD or (left > OVERHEAD and stop - cut < end - first)
            if not whole and left <= OVERHEAD:
                break
            split = bool(parts) or not whole
            for place, (own, last) in enumerate(tiles):
                close = min(stop if whole else cut, stop - (end - last))
                if last > own and close > here:
                    place_of = row + place * step if split else -1
                    made.works.append((batch, place_of, own, last, here, close, stop - close, 0))
            if split:
                parts.append(row)
                row += len(tiles) * step
            if not whole:
                done += left - OVERHEAD
                break
            for place, tile in enumerate(tiles):
                made.sources += [part + place * step for part in parts]
                made.sums.append(len(made.sources))
                made.targets.append(tile if parts else None)
            left -= rest + OVERHEAD
            batch, done, parts = batch + 1, 0, []
        made.units.append(len(made.works))
    return made
