"""Attention over a latent cache, shared out: every query sees each of its keys in one work, no unit has more than its share."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from build_tools.cases.latent_works import OVERHEAD, Asked, Works, contexts, shared_out, tiles_of

#: (heads, queries of a batch at least and at most)
KINDS = [(16, 1, 1), (16, 1, 4), (128, 1, 1), (128, 1, 7), (16, 0, 3), (48, 1, 1)]


def drawn(seed: int, heads: int, least: int, most: int) -> Asked:
    """A random batch; some contexts have no key, none has fewer keys than queries."""
    draw = random.Random(seed)
    batches, units = draw.choice([1, 2, 3, 9, 70]), draw.choice([1, 2, 5, 17, 64, 304])
    counts = [draw.randint(least, most) for _ in range(batches)]
    longest = draw.choice([40, 400, 6000])
    lengths = [draw.choice([0, count]) + draw.randint(0, longest) for count in counts]
    lengths = [length if length >= count else 0 for length, count in zip(lengths, counts, strict=True)]
    fold = 1 if heads in (16, 128) else heads // 16
    borders = [[sum(each[:place]) for place in range(batches + 1)] for each in (counts, lengths)]
    spans = contexts(borders[0], borders[1], fold, 1 if fold > 1 else 0)
    return Asked(*spans, heads, draw.choice([1, 16, 64]), units, draw.choice([units, max(1, units // 2)]))


def seen(work: tuple[int, ...]) -> dict[int, range]:
    """The keys that each query of a work sees, as the assembly hides them."""
    _, _, first, end, start, stop, behind, _ = work
    return {query: range(start, min(stop, stop + behind - (end - 1 - query))) for query in range(first, end)}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_every_key_is_seen_once(seed: int, kind: tuple[int, int, int]) -> None:
    asked = drawn(seed, *kind)
    made = shared_out(asked)
    found: dict[int, list[range]] = {}
    for work in made.works:
        for query, keys in seen(work).items():
            assert len(keys) > 0, work
            found.setdefault(query, []).append(keys)
    for (first, end), (start, stop) in zip(asked.queries, asked.keys, strict=True):
        for query in range(first, end) if stop > start else ():
            own = sorted(found.pop(query), key=lambda keys: keys.start)
            assert own[0].start == start and own[-1].stop == stop - (end - 1 - query)
            assert all(one.stop == two.start for one, two in pairwise(own)), own
            assert all((keys.start - start) % asked.block == 0 for keys in own)
    assert not found


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_no_unit_has_more_than_its_share(seed: int, kind: tuple[int, int, int]) -> None:
    asked = drawn(seed, *kind)
    made = shared_out(asked)
    blocks = [-(-(stop - start) // asked.block) for start, stop in asked.keys]
    budget = -(-(sum(blocks) + OVERHEAD * len(blocks)) // asked.parts) + OVERHEAD
    longest = max((end - first for first, end in asked.queries), default=1)
    assert len(made.units) == asked.units + 1 and made.units[-1] == len(made.works)
    for first, end in pairwise(made.units):
        each = {work[0]: -(-(work[5] + work[6] - work[4]) // asked.block) for work in made.works[first:end]}
        cost = 0
        for place, (batch, rest) in enumerate(each.items()):
            last = max(work[5] for work in made.works[first:end] if work[0] == batch)
            start = next(work[4] for work in made.works[first:end] if work[0] == batch)
            whole = last == asked.keys[batch][1]
            cost += OVERHEAD + (rest if whole else -(-(last - start) // asked.block))
            assert whole or place == len(each) - 1
        assert cost <= budget + -(-longest // asked.block), (cost, budget)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_tiles_name_the_rows_of_their_parts(seed: int, kind: tuple[int, int, int]) -> None:
    asked = drawn(seed, *kind)
    made = shared_out(asked)
    rows = Counter(
        work[1] + query for work in made.works if work[1] >= 0 for query in range(work[3] - work[2])
    )
    assert not rows or max(rows.values()) == 1
    by_row = {work[1]: work for work in made.works if work[1] >= 0}
    tiles = [tile for span in asked.queries for tile in tiles_of(*span, asked.heads)]
    assert len(made.sums) == len(tiles) + 1 and made.sums[-1] == len(made.sources) == len(by_row)
    for place, tile in enumerate(tiles):
        own = made.sources[made.sums[place] : made.sums[place + 1]]
        assert len(own) != 1 and made.targets[place] == (tile if own else None)
        assert [by_row[row][2:4] for row in own] == [tile] * len(own)


def test_each_query_alone_has_its_best_keys() -> None:
    made: Works = shared_out(Asked(*contexts([0, 2, 4], [0, 5, 900], 1, 2, 64), 16, 16, 4, 4))
    assert [work[2:7] for work in made.works] == [
        (0, 1, 0, 5, 0),
        (1, 2, 64, 69, 0),
        (2, 3, 128, 192, 0),
        (3, 4, 192, 256, 0),
    ]


def test_a_part_is_not_cut_shorter_than_its_queries() -> None:
    """AITER's rule would leave two keys to the last part, of which the first of three queries sees none."""
    for last, parts in ((2, [(0, 274)]), (3, [(0, 272), (272, 275)])):
        made = shared_out(Asked([(0, 3)], [(0, 16 * 17 + last)], 16, 16, 2, 2))
        assert [work[4:6] for work in made.works] == parts
    for last in range(1, 4):
        for blocks in range(1, 90):
            works = shared_out(Asked([(0, 3)], [(0, 16 * blocks + last)], 16, 16, 4, 4)).works
            assert all(work[5] + work[6] - work[4] >= 3 for work in works)
