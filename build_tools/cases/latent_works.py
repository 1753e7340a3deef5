"""Share out attention over a latent cache.

It lists the work items of each compute unit, and the tiles that are made of parts.

A unit has a budget of blocks of pages; every work costs its blocks and a fixed number more. Contexts go to the units one behind
the other, and what a unit cannot finish is the next one's. It is AITER's rule of ``get_mla_metadata_v1`` (fast mode), but where
its works are none for the assembly: a work without keys ends a unit's list there, and a query without keys in a part has a wrong
logarithm. So contexts without keys or queries have no work, and what would leave the last part fewer keys than queries is not
cut. The budget counts no more units than the lists have room for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Keys that a work costs beside its own, at least a page.
OVERHEAD = 16
#: Rows of queries, heads included, that a work has at most, unless one query has more.
ROWS = 128


@dataclass(frozen=True, slots=True)
class Workload:
    """The attention that is shared out.

    Queries [first, end) and pages [first, end) of each context, in order; ``lasts``: the keys of its last page; ``block``: pages
    that are not taken apart; ``parts``: units that the budget counts.
    """

    queries: list[tuple[int, int]]
    pages: list[tuple[int, int]]
    lasts: list[int]
    heads: int
    size: int
    block: int
    units: int
    parts: int
    causal: bool = True

    def keys_from(self, context: int, page: int) -> int:
        """Count the keys of ``context`` on ``page`` and behind it."""
        stop = self.pages[context][1]
        return (stop - page - 1) * self.size + self.lasts[context] if page < stop else 0


@dataclass(slots=True)
class Works:
    """``works``: rows of 8; ``units``: where those of each unit begin; ``sums``: where the ``sources`` of each tile begin."""

    works: list[tuple[int, ...]] = field(default_factory=list)
    units: list[int] = field(default_factory=lambda: [0])
    sums: list[int] = field(default_factory=lambda: [0])
    targets: list[tuple[int, int] | None] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)


def folds(heads: int, size: int) -> bool:
    """Are heads contexts of 16 where each has one query? AITER's assembly takes them so, pages of one key alone."""
    return size == 1 and heads % 16 == 0 and heads not in (16, 128) and heads <= 512


def contexts(
    queries: list[int],
    pages: list[int],
    lasts: list[int],
    size: int = 1,
    fold: int = 1,
    uniform: int = 0,
    topk: int = -1,
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[int]]:
    """List queries, pages and last-page keys of each context.

    ``fold``: heads are so many contexts of 16; ``uniform``: queries of each batch, 0 where ``queries`` says it; ``topk``: each
    query has a context of its own, of so many pages at most, one list behind the other. A context without queries has no pages.
    """
    rows: list[tuple[int, int]] = []
    spans: list[tuple[int, int]] = []
    own_lasts: list[int] = []
    own = uniform if topk >= 0 else 1
    for context in range((len(pages) - 1) * fold * own):
        batch = context // own // fold
        length = pages[batch + 1] - pages[batch]
        start = pages[batch]
        last = min(max(lasts[batch], 1), size) if size > 1 else 1
        if topk >= 0:
            last = size if length > topk else last
            length, start = min(length, topk), context // fold * topk
        each = 1 if topk >= 0 else uniform
        rows.append((context * each, (context + 1) * each) if each else (queries[batch], queries[batch + 1]))
        spans.append((start, start + length if rows[-1][0] < rows[-1][1] else start))
        own_lasts.append(last)
    return rows, spans, own_lasts


def tiles_of(first: int, end: int, heads: int) -> list[tuple[int, int]]:
    """Split queries into equal tiles of at most ``ROWS`` rows."""
    count = max(1, min(-(-(end - first) * heads // ROWS), end - first))
    step = max(1, -(-(end - first) // count))
    return [(own, min(own + step, end)) for own in range(first, end, step)] or [(first, end)]


def shared_out(asked: Workload) -> Works:
    """Compute the work items of every unit."""
    made = Works()
    overhead = max(1, -(-OVERHEAD // asked.size))
    blocks = [-(-(end - first) // asked.block) for first, end in asked.pages]
    budget = -(-(sum(blocks) + len(blocks) * overhead) // asked.parts) + overhead
    batch, done, row = 0, 0, 0
    parts: list[int] = []
    for _ in range(asked.units):
        left = budget
        while batch < len(blocks):
            first, end = asked.queries[batch]
            tiles = tiles_of(first, end, asked.heads)
            step = tiles[0][1] - tiles[0][0]
            start, stop = asked.pages[batch]
            rest, here = blocks[batch] - done, start + done * asked.block
            cut = here + (left - overhead) * asked.block
            whole = left >= rest + overhead or (left > overhead and asked.keys_from(batch, cut) < end - first)
            if not whole and left <= overhead:
                break
            split = bool(parts) or not whole
            for place, (own, last) in enumerate(tiles):
                if asked.causal and asked.keys_from(batch, start) <= end - last:
                    continue  # none of its queries sees a key
                hidden = end - last if asked.causal and asked.size == 1 else 0
                close = min(stop if whole else cut, stop - hidden)
                if last > own and close > here:
                    place_of = row + place * step if split else -1
                    behind = asked.keys_from(batch, close)
                    made.works.append((batch, place_of, own, last, here, close, behind, 0))
            if split:
                parts.append(row)
                row += len(tiles) * step
            if not whole:
                done += left - overhead
                break
            for place, tile in enumerate(tiles):
                made.sources += [part + place * step for part in parts]
                made.sums.append(len(made.sources))
                made.targets.append(tile if parts else None)
            left -= rest + overhead
            batch, done, parts = batch + 1, 0, []
        made.units.append(len(made.works))
    return made
