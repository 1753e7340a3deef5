"""Share out attention of prompts.

It lists the work items of each workgroup, and the tiles of queries that are made of parts.

AITER's rule of ``get_ps_metadata_v1``, but that the last workgroup of a cluster takes the tiles that see no key, too, which
there have no work where they stand behind all others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Workload:
    """The attention that is shared out.

    ``queries``, ``pages``: where those of each batch begin; ``lengths``: keys of each batch; ``heads``: of keys; ``each``: heads
    of queries that share one; ``step``: queries of a tile; ``unit``: keys that are not taken apart; ``block``: keys of a page;
    ``groups``: workgroups.
    """

    queries: list[int]
    pages: list[int]
    lengths: list[int]
    heads: int
    each: int
    step: int
    unit: int
    block: int
    causal: bool
    groups: int


@dataclass(slots=True)
class Works:
    """``works``: rows of 8; ``borders``: where those of each workgroup begin; ``tiles``: first query, end, rows of its parts."""

    works: list[tuple[int, ...]] = field(default_factory=list)
    borders: list[int] = field(default_factory=lambda: [0])
    tiles: list[tuple[int, int, list[int]]] = field(default_factory=list)


def shared_out(asked: Workload) -> Works:
    """Clusters of workgroups have as many heads each, and go through all tiles for each of them."""
    clusters = math.gcd(asked.heads, asked.groups)
    groups, heads = asked.groups // clusters, asked.heads // clusters
    tiles = _tiles(asked)
    total = sum(blocks for *_, blocks in tiles) * asked.block // asked.unit
    made = Works()
    parts: dict[tuple[int, int], list[int]] = {}
    for cluster in range(clusters):
        tile = done = row = 0
        for group in range(groups):
            share = total // groups + (group < total % groups)
            found, tile, done, row = _fill(
                asked, tiles, (tile, done, row), share * asked.unit // asked.block, group == groups - 1
            )
            for head in range(cluster * heads, (cluster + 1) * heads):
                packed = head * asked.each | (head + 1) * asked.each << 16
                made.works += [(*work, packed) for work in found]
            made.borders.append(len(made.works))
            for _, part, first, end, *_ in found if cluster == 0 else ():
                if part >= 0:
                    parts.setdefault((first, end), []).append(part)
    made.tiles = [(*place, rows) for place, rows in sorted(parts.items())]
    return made


def _tiles(asked: Workload) -> list[tuple[int, int, int, int, int]]:
    """Batch, first query, end, keys that its last query sees, blocks of each tile: from both ends of a batch in turn."""
    made = []
    for batch, keys in enumerate(asked.lengths):
        start, length = asked.queries[batch], asked.queries[batch + 1] - asked.queries[batch]
        count = -(-length // asked.step)
        for number in range(count):
            place = number // 2 if number % 2 == 0 else count - 1 - number // 2
            end = min((place + 1) * asked.step, length)
            seen = min(keys - length + end, keys) if asked.causal else keys
            blocks = -(-max(seen, 0) // asked.unit) * asked.unit // asked.block
            made.append((batch, start + place * asked.step, start + end, seen, blocks))
    return made


def _fill(
    asked: Workload,
    tiles: list[tuple[int, int, int, int, int]],
    at: tuple[int, int, int],
    left: int,
    last: bool,
) -> tuple[list[tuple[int, ...]], int, int, int]:
    """List one workgroup's work items for one head.

    It has room for ``left`` blocks; the result also says where it leaves off.
    """
    tile, done, row = at
    works: list[tuple[int, ...]] = []
    while tile < len(tiles) and (left > 0 or last):
        batch, first, end, seen, blocks = tiles[tile]
        begin, close = asked.pages[batch], asked.pages[batch + 1]
        whole = last or seen - done * asked.block <= left * asked.block
        used = blocks - done if whole else left
        stop = min(begin + done + used, close)
        behind = 0 if whole else asked.lengths[batch] - (stop - begin) * asked.block
        part = -1 if whole and done == 0 else row
        row += 0 if part < 0 else asked.step
        works.append((batch, part, first, end, begin + done, stop, behind))
        tile, done = (tile + 1, 0) if whole else (tile, done + used)
        left -= used
    return works, tile, done, row
