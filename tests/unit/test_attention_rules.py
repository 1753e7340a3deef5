"""What the hand-written functions of attention work out before the native call: windows, parts, scratch; and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.ops import _mla
from aiter_prebuilt.ops._common import scale_of, window_of
from build_tools.cases.latent_works import Workload, contexts, shared_out


def seen(queries: int, keys: int, left: int, right: int) -> set[tuple[int, int]]:
    """(query, key) pairs of a window, as the documentation says it; -1: all."""
    return {
        (i, j)
        for i in range(queries)
        for j in range(keys)
        if (left < 0 or j >= i + keys - queries - left) and (right < 0 or j <= i + keys - queries + right)
    }


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 9), (9, 3), (1, 4), (4, 1)])
def test_a_window_that_becomes_none_hides_nothing(queries: int, keys: int) -> None:
    for left in range(-1, 12):
        for right in range(-1, 12):
            found = window_of(queries, keys, False, left, right)
            assert seen(queries, keys, *found) == seen(queries, keys, left, right), (left, right, found)
            assert window_of(queries, keys, True, left, right)[1] == 0


@pytest.mark.parametrize("value", [None, "1", [1.0], 1j, 0, -1.0, float("nan"), object()])
def test_a_scale_that_is_no_number_above_0_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UnsupportedError, match="sm_scale"):
        scale_of("mla_decode_fwd", value, "sm_scale")
    for number in (1, 0.5, np.float32(0.5), np.float64(0.5)):
        scale_of("mla_decode_fwd", number, "sm_scale")


@pytest.mark.parametrize("value", [0, -1, 4097, 10**6, 2**70, 1.5, float("nan"), float("inf"), "2"])
def test_a_number_of_parts_that_is_none_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UnsupportedError, match="num_kv_splits"):
        _mla.parts(value, 1, 100, 16, False, 304)
    assert _mla.parts(4096, 1, 100, 16, False, 304) == 4096


@pytest.mark.parametrize("heads", [8, 16, 48, 64, 100, 128, 200])
@pytest.mark.parametrize("queries", [1, 2, 3, 7, 16])
def test_parts_have_room_for_each_row_that_a_list_names(heads: int, queries: int) -> None:
    """And for no more than a tile of each: 16 queries of 128 heads asked for 16 times the rows that any list has."""
    rng = np.random.default_rng(heads + queries)
    room = _mla.rows_of_part(heads, queries)
    assert room * heads < 128 + heads and room <= queries
    for _ in range(20):
        batches, units = (int(rng.integers(1, most)) for most in (6, 40))
        lengths, keys = rng.integers(1, queries + 1, batches), rng.integers(0, 900, batches)
        borders, pages = ([0, *(int(end) for end in each.cumsum())] for each in (lengths, keys))
        rows, spans, lasts = contexts(borders, pages, [1] * batches)
        made = shared_out(Workload(rows, spans, lasts, heads, 1, 16, units, units))
        ends = [part + end - first for _, part, first, end, *_ in made.works if part >= 0]
        assert max(ends, default=0) <= len(made.sources) * room, (lengths, keys, units)


@pytest.mark.parametrize(("heads", "listed"), [(32, 3), (48, 2), (48, 4), (16, 3), (64, 1)])
def test_parts_of_folded_heads_have_room_for_all_that_are_listed(heads: int, listed: int) -> None:
    torch = pytest.importorskip("torch")
    o = torch.zeros(5, heads, 512, dtype=torch.bfloat16)
    made = _mla.of_works(
        torch.zeros(5, heads, 576, dtype=torch.bfloat16), o, 1, torch.zeros(listed, dtype=torch.int32), 1,
        torch.float32,
    )  # fmt: skip
    assert made.logits.shape[0] >= listed and made.logits.shape[1:] == (1, 16, 512)
    assert made.logits.data_ptr() == made.parts.data_ptr() and made.logits.numel() == made.parts.numel()
    assert made.parts.shape[2] == heads
