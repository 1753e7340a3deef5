"""Attention over a latent cache, shared out: every query sees each of its keys in one work, no unit has more than its share."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from support import repository

import aiter_prebuilt
from aiter_prebuilt.errors import DriverError
from build_tools.cases import make
from build_tools.cases.latent_works import OVERHEAD, Workload, Works, contexts, folds, shared_out, tiles_of

#: (heads, queries of a batch at least and at most, keys of a page)
KINDS = [
    (16, 1, 1, 1), (16, 1, 4, 1), (128, 1, 1, 1), (128, 1, 7, 1), (16, 0, 3, 1), (48, 1, 1, 1), (80, 0, 5, 1), (300, 1, 2, 1),
    (16, 1, 1, 64), (128, 1, 4, 16), (24, 0, 9, 3),
]  # fmt: skip


def drawn(seed: int, heads: int, least: int, most: int, size: int) -> Workload:
    """A random batch; some contexts have no key, none has fewer keys than queries."""
    draw = random.Random(seed)
    batches, units = draw.choice([1, 2, 3, 9, 70]), draw.choice([1, 2, 5, 17, 64, 304])
    counts = [draw.randint(least, most) for _ in range(batches)]
    longest = draw.choice([40, 400, 6000])
    lengths = [draw.choice([0, count]) + draw.randint(0, longest) for count in counts]
    lengths = [length if length >= count else 0 for length, count in zip(lengths, counts, strict=True)]
    fold = heads // 16 if folds(heads, size) and least == most == 1 else 1
    pages, lasts = [-(-length // size) for length in lengths], [(length - 1) % size + 1 for length in lengths]
    borders = [[sum(each[:place]) for place in range(batches + 1)] for each in (counts, pages)]
    spans = contexts(borders[0], borders[1], lasts, size, fold, 1 if fold > 1 else 0)
    block, parts = draw.choice([1, 16, 64]), draw.choice([units, max(1, units // 2)])
    return Workload(*spans, heads, size, block, units, parts)


def seen(asked: Workload, work: tuple[int, ...]) -> dict[int, range]:
    """The keys of a context that each query of a work sees: the last query of the context sees all of them."""
    context, _, first, end, start, stop, behind, _ = work
    begin = (start - asked.pages[context][0]) * asked.size
    close = begin + asked.keys_from(context, start) - asked.keys_from(context, stop)
    assert behind == asked.keys_from(context, stop)
    hidden = asked.queries[context][1] - 1
    return {query: range(begin, min(close, close + behind - (hidden - query))) for query in range(first, end)}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_every_key_is_seen_once(seed: int, kind: tuple[int, int, int, int]) -> None:
    asked = drawn(seed, *kind)
    made = shared_out(asked)
    found: dict[int, list[range]] = {}
    for work in made.works:
        own = seen(asked, work)
        for query, keys in own.items():
            assert len(keys) > 0, work
            found.setdefault(query, []).append(keys)
        if asked.size == 1 and kind[0] in (
            16,
            48,
            128,
        ):  # the assembly counts what is hidden from the end of the work
            _, _, _, end, start, stop, behind, _ = work
            lengths = {query: min(stop, stop + behind - (end - 1 - query)) - start for query in own}
            assert lengths == {query: len(keys) for query, keys in own.items()}
    for context, (first, end) in enumerate(asked.queries):
        length = asked.keys_from(context, asked.pages[context][0])
        for query in range(first, end) if length else ():
            parts = sorted(found.pop(query), key=lambda keys: keys.start)
            assert parts[0].start == 0 and parts[-1].stop == length - (end - 1 - query)
            assert all(one.stop == two.start for one, two in pairwise(parts)), parts
            assert all(keys.start % (asked.block * asked.size) == 0 for keys in parts)
    assert not found


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_lists_have_room(seed: int, kind: tuple[int, int, int, int]) -> None:
    """A unit that stops in the middle of a context has done its share: there are fewer cuts than units that the budget counts."""
    asked = drawn(seed, *kind)
    made = shared_out(asked)
    tiles = max(len(tiles_of(*span, asked.heads)) for span in asked.queries)
    most = len(asked.pages) + asked.parts - 1
    assert len(made.works) <= most * tiles
    assert len(made.sources) <= min(most, 2 * (asked.parts - 1)) * tiles


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_no_unit_has_more_than_its_share(seed: int, kind: tuple[int, int, int, int]) -> None:
    asked = drawn(seed, *kind)
    made = shared_out(asked)
    overhead = max(1, -(-OVERHEAD // asked.size))
    blocks = [-(-(stop - start) // asked.block) for start, stop in asked.pages]
    budget = -(-(sum(blocks) + overhead * len(blocks)) // asked.parts) + overhead
    longest = max((end - first for first, end in asked.queries), default=1)
    assert len(made.units) == asked.units + 1 and made.units[-1] == len(made.works)
    for first, end in pairwise(made.units):
        own: dict[int, list[tuple[int, ...]]] = {}
        for work in made.works[first:end]:
            own.setdefault(work[0], []).append(work)
        cost = 0
        for place, (context, works) in enumerate(own.items()):
            last, start = max(work[5] for work in works), works[0][4]
            whole = last == asked.pages[context][1]
            cost += overhead + -(-(last - start) // asked.block)
            assert whole or place == len(own) - 1
        assert cost <= budget + -(-longest // asked.block), (cost, budget)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_tiles_name_the_rows_of_their_parts(seed: int, kind: tuple[int, int, int, int]) -> None:
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


@pytest.mark.parametrize("operator", ["mla_decode_fwd", "mla_decode_stage1_asm_fwd"])
def test_works_of_cases_count_the_keys_behind_them_as_aiter_does(operator: str) -> None:
    """AITER's `kv_offset` counts all keys of the context behind a work, those too that its queries do not see.

    Its object for 128 heads does not read it; the kernel that serves caches of 2 GiB and more does.
    """
    cases, counted = repository.cases()[operator], 0
    for bound in make.bounds(cases, "gfx950", repository.manifest().targets["gfx950"]):
        if bound.tensors.get("work_info_set") is None:
            continue
        inputs = make.question_of(cases, bound, 1).inputs
        works, units, starts = (inputs[name] for name in ("work_info_set", "work_indptr", "kv_indptr"))
        assert works is not None and units is not None and starts is not None
        size, heads = bound.sizes.get("PS", 1), bound.sizes["H"]
        own = folds(heads, size) and bound.sizes["T"] == bound.sizes["B"]
        for context, _, _, _, _, stop, behind, _ in works[: int(units[-1])].astype(int).tolist():
            end = int(starts[context // (heads // 16 if own else 1) + 1])
            assert behind == (end - stop) * size, (bound.label, context, stop, end)
            counted += 1
    assert counted > 100


def test_each_query_alone_has_its_best_keys() -> None:
    made: Works = shared_out(
        Workload(*contexts([0, 2, 4], [0, 5, 900], [1, 1], 1, 1, 2, 64), 16, 1, 16, 4, 4)
    )
    assert [work[2:7] for work in made.works] == [
        (0, 1, 0, 5, 0),
        (1, 2, 64, 69, 0),
        (2, 3, 128, 192, 0),
        (3, 4, 192, 256, 0),
    ]


def test_a_part_is_not_cut_shorter_than_its_queries() -> None:
    """AITER's rule would leave two keys to the last part, of which the first of three queries sees none."""
    for last, parts in ((2, [(0, 274)]), (3, [(0, 272), (272, 275)])):
        made = shared_out(Workload([(0, 3)], [(0, 16 * 17 + last)], [1], 16, 1, 16, 2, 2))
        assert [work[4:6] for work in made.works] == parts
    for last in range(1, 4):
        for blocks in range(1, 90):
            works = shared_out(Workload([(0, 3)], [(0, 16 * blocks + last)], [1], 16, 1, 16, 4, 4)).works
            assert all(work[5] + work[6] - work[4] >= 3 for work in works)


@pytest.mark.parametrize("what", ["get_mla_metadata_info_v1", "get_ps_metadata_info_v1"])
def test_shapes_of_lists_need_a_gpu_and_say_so(what: str) -> None:
    words = (2, 1, 16, None, None, 0) if what == "get_mla_metadata_info_v1" else (2, 1, 16)
    with pytest.raises(DriverError, match="get torch's current GPU"):
        getattr(aiter_prebuilt, what)(*words)
