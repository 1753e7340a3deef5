"""What the functions of attention make of a call: defaults, new tensors, views of caches, and what goes to the native operator.

No kernel runs: a stand-in takes what would go to the native operator.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support.handed import BF16, F16, F32, handed, zeros

import aiter_prebuilt
from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.execute.record import instead
from aiter_prebuilt.ops import _group_codes
from aiter_prebuilt.ops._caches import keys_of, values_of

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")


def nothing_drawn(mask: Any, state: Any) -> bool:
    """Tell whether they are what AITER's C++ returns without dropout: no byte, and a state that nobody writes."""
    return (tuple(mask.shape), tuple(state.shape), state.dtype) == ((0,), (2,), torch.int64)


@pytest.mark.parametrize(("depth", "scale"), [(64, 0.125), (128, 128**-0.5), (256, 0.0625)])
@pytest.mark.parametrize("given", [None, 0.3])
def test_attention_scales_by_the_root_of_the_depth_unless_told(
    depth: int, scale: float, given: float | None
) -> None:
    q, k = zeros(2, 5, 8, depth), zeros(2, 7, 4, depth)
    out, (name, tensors, attributes) = handed(
        lambda: aiter_prebuilt.flash_attn_func(q, k, k, softmax_scale=given), "flash_attn_func"
    )
    assert name == "flash_attn_func" and attributes == [scale if given is None else given, -1, -1, 0, True, 1]
    assert tensors[0] is q and tensors[4] is out and tensors[5] is None
    assert (out.shape, out.dtype, out.is_contiguous()) == (q.shape, BF16, True)


def test_attention_returns_a_logarithm_for_each_head_and_query() -> None:
    q, k = zeros(2, 5, 8, 64, dtype=F16), zeros(2, 7, 4, 64, dtype=F16)
    call = lambda: aiter_prebuilt.flash_attn_func(q, k, k, causal=True, return_lse=True)  # noqa: E731
    (out, lse), (_, tensors, attributes) = handed(call, "flash_attn_func")
    assert (lse.shape, lse.dtype, lse.is_contiguous()) == ((2, 8, 5), F32, True)
    assert tensors[4] is out and tensors[5] is lse and attributes == [0.125, -1, 0, 0, True, 1]


@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan")])
def test_assembly_attention_wants_a_scale_above_zero(scale: float) -> None:
    q = zeros(1, 3, 2, 128)
    with pytest.raises(UnsupportedError, match=r"softmax_scale=.*Use softmax_scale=a number above 0"):
        aiter_prebuilt.fmha_v3_fwd(q, q, q, 0.0, scale, True, -1, -1, False, False, 1)


@pytest.mark.parametrize("given", [False, True])
def test_assembly_attention_writes_what_it_is_given(given: bool) -> None:
    q, k = zeros(2, 5, 4, 128), zeros(2, 7, 2, 128)
    mine = zeros(2, 5, 4, 128) if given else None
    call = lambda: aiter_prebuilt.fmha_v3_fwd(q, k, k, 0.0, 0.5, True, -1, -1, given, False, 2, mine)  # noqa: E731
    (out, lse, mask, state), (_, tensors, attributes) = handed(call, "fmha_v3_fwd")
    assert (
        (out is mine if given else out.shape == q.shape)
        and tensors[3] is out
        and tensors[4] is (lse if given else None)
    )
    assert (lse.shape, lse.dtype) == ((2, 4, 5) if given else (0,), F32)
    assert nothing_drawn(mask, state) and attributes == [0.5, True, 2]


@pytest.mark.parametrize("given", [False, True])
def test_assembly_attention_of_sequences_writes_what_it_is_given(given: bool) -> None:
    q, k, starts = zeros(5, 4, 192), zeros(7, 2, 192), zeros(3, dtype=torch.int32)
    v, mine = zeros(7, 2, 128), zeros(5, 4, 128) if given else None
    words = (9, 9, 1, 0.0, 0.5, 0.0, False, True, -1, -1, given, False, 2)
    call = lambda: aiter_prebuilt.fmha_v3_varlen_fwd(q, k, v, starts, starts, *words, mine)  # noqa: E731
    (out, lse, mask, state), (_, tensors, attributes) = handed(call, "fmha_v3_varlen_fwd")
    assert (
        (out is mine if given else out.shape == (5, 4, 128))
        and tensors[5] is out
        and tensors[6] is (lse if given else None)
    )
    assert (lse.shape, lse.dtype) == ((4, 5) if given else (0,), F32)
    assert nothing_drawn(mask, state) and attributes == [0.5, True, 2]


@pytest.mark.parametrize(
    ("dtype", "width", "window", "cap", "skip"),
    [(BF16, 128, (-1, 7), 0.0, 3), (BF16, 64, (-1, -1, 0), 0.0, 3), (BF16, 128, [-1, -1], 0.0, 0), (BF16, 128, (-1, -1), 2.0, 3)],
)  # fmt: skip
def test_ragged_attention_skips_what_aiter_would(
    dtype: Any, width: int, window: Any, cap: float, skip: int
) -> None:
    q, k, starts = (
        zeros(5, 4, width, dtype=dtype),
        zeros(7, 2, width, dtype=dtype),
        zeros(3, dtype=torch.int32),
    )
    call = lambda: aiter_prebuilt.flash_attn_varlen_func(  # noqa: E731
        q, k, k, starts, starts, 4, 9, 3, logits_soft_cap=cap, window_size=window, return_lse=True
    )
    (out, lse), (_, tensors, attributes) = handed(call, "flash_attn_varlen_func")
    assert out.shape == (5, 4, width) and (lse.shape, lse.dtype) == ((4, 5), F32)
    assert [x.shape for x in tensors[1:3]] == [(1, 7, 2, width)] * 2 and tensors[5] is None
    assert tensors[6] is out and tensors[7] is None and tensors[8] is lse
    assert attributes == [4, width**-0.5, cap, window[0], window[1], sum(window[2:]), skip, cap <= 0, 1]


def test_ragged_attention_over_a_table_takes_pages_as_they_are() -> None:
    q, k, starts, table = (
        zeros(5, 4, 64),
        zeros(7, 3, 2, 64),
        zeros(3, dtype=torch.int32),
        zeros(2, 3, dtype=torch.int32),
    )
    call = lambda: aiter_prebuilt.flash_attn_varlen_func(q, k, k, starts, starts, 4, 9, block_table=table)  # noqa: E731
    out, (_, tensors, _) = handed(call, "flash_attn_varlen_func")
    assert tensors[1] is k and tensors[5] is table and out.shape == (5, 4, 64)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_paged_decoding_reads_each_layout(layout: str) -> None:
    out, q = zeros(3, 4, 64), zeros(3, 4, 64)
    cache = zeros(7, 5, 2, 64) if layout == "NHD" else zeros(7, 2, 5, 64)
    table, counts, scale = zeros(3, 2, dtype=torch.int32), zeros(3, dtype=torch.int32), zeros(1)
    common = (None, "auto", layout, 0.0, scale, scale, None, 256, 1)
    one = lambda: aiter_prebuilt.paged_attention_v1(  # noqa: E731
        out, None, q, cache, cache, 0.5, table, None, counts, 99, *common, 9
    )
    other = lambda: aiter_prebuilt.paged_attention_ragged(  # noqa: E731
        out, None, q, cache, cache, 0.5, counts, counts, counts, 5, 3, *common
    )
    for call, name, said in (
        (one, "paged_attention_v1", [0.5, 99, "auto", layout, 0.0, 8]),
        (other, "paged_attention_ragged", [0.5, 768, "auto", layout, 0.0]),
    ):
        result, (_, tensors, attributes) = handed(call, name)
        assert result is out and [x.shape for x in tensors[1:3]] == [(7, 5, 2, 64)] * 2 and attributes == said


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_starts_without_an_end_mean_one_query_each(layout: str) -> None:
    """vLLM 0.33 passes query_start_loc[:num_decodes]."""
    q, out = zeros(3, 4, 64), zeros(3, 4, 64)
    cache = zeros(7, 5, 2, 64) if layout == "NHD" else zeros(7, 2, 5, 64)
    table, counts, scale = zeros(3, 2, dtype=torch.int32), zeros(3, dtype=torch.int32), torch.tensor(1.0)
    for rows, kept in ((3, False), (4, True)):
        starts = zeros(rows, dtype=torch.int32)
        call = lambda starts=starts: aiter_prebuilt.paged_attention_v1(  # noqa: E731
            out,
            None,
            q,
            cache,
            cache,
            0.5,
            table,
            starts,
            counts,
            99,
            None,
            "auto",
            layout,
            0.0,
            scale,
            scale,
        )
        _, (_, tensors, _) = handed(call, "paged_attention_v1")
        assert tensors[5] is (starts if kept else None) and tensors[6] is counts


@pytest.mark.parametrize("rows", [True, False])
def test_a_cache_of_rows_and_one_of_tiles_have_one_view(rows: bool) -> None:
    q, k, slots, table = zeros(3, 4, 64), zeros(3, 2, 64), zeros(3, dtype=torch.int64), zeros(9, 32)
    keys = zeros(7, 16, 2, 64) if rows else zeros(7, 2, 8, 16, 8)
    values = zeros(7, 16, 2, 64) if rows else zeros(7, 2, 64, 16)
    given = (q, k, k, keys, values, slots, slots, table, table, None, None, True, rows)
    seen: list[Any] = []
    public = aiter_prebuilt.fused_qk_rope_reshape_and_cache
    with instead(public, lambda operator, *more: seen.append((operator.views, *more))):
        back = public(*given, q_out=q)
    ((views, tensors, attributes),) = seen
    assert tensors[3] is keys and tensors[4] is values and all(kind == "order" for kind, *_ in views)
    orders = {place: order for _, place, rank, order in views if tensors[place].ndim == rank}
    wanted = {3: keys_of(keys, rows), 4: values_of(values, rows)}
    assert [x.shape for x in wanted.values()] == (
        [(7, 2, 1, 16, 64), (7, 2, 16, 64, 1)] if rows else [(7, 2, 8, 16, 8), (7, 2, 1, 64, 16)]
    )
    assert set(orders) == ({3, 4} if rows else {4})
    for (
        place,
        order,
    ) in orders.items():  # what the native call sees is what torch makes of it for torch.compile
        own = tensors[place]
        assert wanted[place].shape == tuple(1 if dim < 0 else own.shape[dim] for dim in order)
        found = [own.stride(dim) for dim in order if dim >= 0]
        assert found == [wanted[place].stride(at) for at, dim in enumerate(order) if dim >= 0]
    assert back[0] is q and back[2] is keys and back[3] is values and back[4].shape == q.shape
    assert tensors[9:11] == [None, None] and attributes == [True]


def test_groups_of_a_row_are_seen_and_strided_rows_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    assert {size: each.views for size, each in _group_codes._IN_GROUPS.items()} == {
        size: (("split", 1, size),) for size in (32, 64, 128)
    }
    monkeypatch.setattr(
        _group_codes,
        "_IN_GROUPS",
        {size: partial(lambda *given: seen.append(given), size) for size in (32, 64)},
    )
    monkeypatch.setattr(
        _group_codes, "dynamic_per_token_scaled_quant", lambda *given: seen.append(("copied", *given))
    )
    x, rows = zeros(3, 256), torch.ones(1, dtype=torch.int32)
    x.copy_(torch.arange(3 * 256).view(3, 256) % 251)
    public = aiter_prebuilt.per_group_quant_hip
    for given, size in ((x, 32), (x, 64), (x[:, 64:192], 64), (x, 32)):
        codes, scales = public(given, None, torch.int8, size, size == 64, rows, 2)
        assert codes.shape == given.shape and scales.shape == (3, given.shape[1] // size)
        if given is x:
            assert seen[-1] == (size, codes, x, scales, None, rows, size == 64, 2)
        else:
            how, _, copied, _, bound, transposed, *more = seen[-1]
            assert (how, bound, transposed, *more) == ("copied", None, True, rows, 2)
            assert torch.equal(copied, given.reshape(-1, 64))
    assert len(seen) == 4


def test_sinks_of_another_type_are_made_fp32() -> None:
    q, k, starts, sinks = zeros(5, 4, 64), zeros(7, 2, 64), zeros(3, dtype=torch.int32), zeros(4)
    call = lambda: aiter_prebuilt.flash_attn_varlen_func(q, k, k, starts, starts, 4, 9, sink_ptr=sinks)  # noqa: E731
    _, (_, tensors, _) = handed(call, "flash_attn_varlen_func")
    assert tensors[7].dtype is F32 and tensors[7].shape == (4,)


def test_pages_of_one_key_may_lack_their_dim() -> None:
    q, k, starts = zeros(5, 4, 64), zeros(7, 2, 64), zeros(3, dtype=torch.int32)
    call = lambda: aiter_prebuilt.mha_batch_prefill_func(q, k, k, starts, starts, starts, 4, 9)  # noqa: E731
    out, (_, tensors, attributes) = handed(call, "mha_batch_prefill_func")
    assert out.shape == (5, 4, 64) and [x.shape for x in tensors[1:3]] == [(7, 1, 2, 64)] * 2
    assert attributes == [4, 0.125, 0.0, -1, -1, 0]


def test_pages_of_groups_are_those_of_mha_batch_prefill() -> None:
    """Whichever function is called; of 8-bit queries out is bf16."""
    q, starts = zeros(5, 4, 64).to(torch.float8_e4m3fn), zeros(3, dtype=torch.int32)
    k, v, rows = zeros(7, 2, 4, 16, 16), zeros(7, 2, 1, 48, 16), zeros(7, 16, 2, 64)
    lists = (starts, starts, starts)
    one = lambda: aiter_prebuilt.mha_batch_prefill_func(q, k, v, *lists, 4, 9, return_lse=True)  # noqa: E731
    (out, lse), (_, tensors, attributes) = handed(one, "mha_batch_prefill")
    assert (out.shape, out.dtype, lse.shape) == ((5, 4, 48), torch.bfloat16, (4, 5)) and tensors[6] is out
    assert tensors[1] is k and tensors[2] is v and attributes == [4, 0.125, 0.0, -1, -1, 0]
    words: Any = (4, 9, 0.0, 0.5, 2.0, False, True, 20, 3, 6, True, False)
    two = lambda: aiter_prebuilt.mha_batch_prefill(q, rows, rows, *lists, *words)  # noqa: E731
    (out, lse, *none), (_, tensors, attributes) = handed(two, "mha_batch_prefill_func")
    assert out.dtype is torch.bfloat16 and tensors[1] is rows and tensors[-1] is lse and nothing_drawn(*none)
    assert attributes == [4, 0.5, 2.0, -1, 0, 6]


def test_a_mask_of_bool_is_read_as_bytes_and_lists_are_made_int32() -> None:
    q, k, starts = zeros(5, 4, 64), zeros(5, 2, 64), zeros(3, dtype=torch.int32)
    mask, begins = zeros(99, dtype=torch.bool), zeros(3, dtype=torch.int64)
    call = lambda: aiter_prebuilt.extend_attention_fwd(  # noqa: E731
        q, k, k, q, k, k, starts, starts, begins, mask, True, begins, 4, 0.0
    )
    _, (_, tensors, attributes) = handed(call, "extend_attention_fwd")
    assert [x.dtype for x in tensors[8:]] == [torch.int32, torch.uint8, torch.int32]
    assert tensors[9].data_ptr() == mask.data_ptr() and attributes == [True, 4, 0.125, 0.0, True]


WINDOWS = [
    ((-1, -1, False), [-1, -1]), ((-1, -1, True), [-1, 0]), ((3, 9, True), [3, 0]), ((7, 6, False), [-1, 6]),
    ((2, 7, False), [2, -1]),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "found"), WINDOWS)
@pytest.mark.parametrize("given", [False, True])
def test_attention_of_a_window_writes_what_it_is_given(
    given: bool, asked: tuple[int, int, bool], found: list[int]
) -> None:
    """The log-sum-exp is always made, and given back where it is asked for."""
    q, k, lengths = zeros(2, 5, 4, 192), zeros(2, 7, 2, 192), zeros(3, dtype=torch.int32) if given else None
    v, mine = zeros(2, 7, 2, 128), zeros(2, 5, 4, 128) if given else None
    left, right, causal = asked
    words = (0.0, 0.5, causal, left, right, given, False, lengths, lengths, mine)
    call = lambda: aiter_prebuilt.mha_fwd(q, k, v, *words)  # noqa: E731
    (out, lse, mask, state), (_, tensors, attributes) = handed(call, "mha_fwd")
    assert (out is mine if given else out.shape == (2, 5, 4, 128)) and tensors[5] is out
    assert (tensors[6].shape, tensors[6].dtype) == ((2, 4, 5), F32)
    assert lse is tensors[6] if given else (lse.shape, lse.dtype) == ((0,), F32)
    assert nothing_drawn(mask, state) and attributes == [0.5, *found]
    assert all(one is other for one, other in zip(tensors, (q, k, v, lengths, lengths), strict=False))


@pytest.mark.parametrize(("asked", "found"), WINDOWS)
@pytest.mark.parametrize("given", [False, True])
def test_attention_of_packed_sequences_writes_what_it_is_given(
    given: bool, asked: tuple[int, int, bool], found: list[int]
) -> None:
    q, k, starts = zeros(9, 4, 192), zeros(12, 2, 192), zeros(3, dtype=torch.int32)
    v, mine = zeros(12, 2, 128), zeros(9, 4, 128) if given else None
    padded = zeros(3, dtype=torch.int32) if given else None
    left, right, causal = asked
    words = (5, 7, 2, 0.0, 0.5, 0.0, False, causal, left, right, given, False, mine)
    call = lambda: aiter_prebuilt.mha_varlen_fwd(  # noqa: E731
        q, k, v, starts, starts, *words, cu_seqlens_q_padded=padded, cu_seqlens_k_padded=padded
    )
    (out, lse, mask, state), (_, tensors, attributes) = handed(call, "mha_varlen_fwd")
    assert (out is mine if given else out.shape == (9, 4, 128)) and tensors[5] is out
    assert (tensors[8].shape, tensors[8].dtype) == ((4, 9), F32)
    assert lse is tensors[8] if given else (lse.shape, lse.dtype) == ((0,), F32)
    assert nothing_drawn(mask, state) and attributes == [5, 7, 2, 0.5, *found]
    wanted = (q, k, v, starts, starts, out, padded, padded)
    assert all(one is other for one, other in zip(tensors, wanted, strict=False))


@pytest.mark.parametrize(("asked", "found"), WINDOWS)
@pytest.mark.parametrize("given", [False, True])
def test_gradients_of_attention_go_where_they_are_asked_for(
    given: bool, asked: tuple[int, int, bool], found: list[int]
) -> None:
    q, k, lse = zeros(2, 5, 4, 96), zeros(2, 7, 2, 96), zeros(2, 4, 5, dtype=F32)
    mine = (zeros(2, 5, 4, 96), zeros(2, 7, 2, 96), zeros(2, 7, 2, 96)) if given else (None, None, None)
    left, right, causal = asked
    words = (0.0, 0.5, causal, left, right, False, True, 2)
    call = lambda: aiter_prebuilt.fmha_v3_bwd(q, q, k, k, q, lse, *words, *mine)  # noqa: E731
    (dq, dk, dv, delta), (_, tensors, attributes) = handed(call, "fmha_v3_bwd")
    if given:
        assert all(one is other for one, other in zip((dq, dk, dv), mine, strict=True))
    assert (dq.shape, dk.shape, dv.shape) == (q.shape, k.shape, k.shape)
    assert (delta.shape, delta.dtype) == ((2, 4, 5), F32) and attributes == [0.5, *found, True, 2]
    assert all(one is other for one, other in zip(tensors[6:], (dq, dk, dv, delta), strict=True))


@pytest.mark.parametrize("given", [False, True])
def test_gradients_of_sequences_go_where_they_are_asked_for(given: bool) -> None:
    q, k, lse, starts = zeros(5, 4, 96), zeros(7, 2, 96), zeros(4, 5, dtype=F32), zeros(3, dtype=torch.int32)
    mine = (zeros(5, 4, 96), zeros(7, 2, 96), zeros(7, 2, 96)) if given else (None, None, None)
    words = (3, 4, 0.0, 0.5, False, True, -1, -1, False, False, 1)
    call = lambda: aiter_prebuilt.fmha_v3_varlen_bwd(q, q, k, k, q, lse, starts, starts, *words, *mine)  # noqa: E731
    (dq, dk, dv, delta), (_, tensors, attributes) = handed(call, "fmha_v3_varlen_bwd")
    if given:
        assert all(one is other for one, other in zip((dq, dk, dv), mine, strict=True))
    assert (dq.shape, dk.shape, dv.shape) == (q.shape, k.shape, k.shape)
    assert (delta.shape, delta.dtype) == ((4, 5), F32) and attributes == [3, 4, 0.5, True, False, 1]
    assert all(one is other for one, other in zip(tensors[8:], (dq, dk, dv, delta), strict=True))


@pytest.mark.parametrize(("asked", "found"), WINDOWS)
@pytest.mark.parametrize("given", [False, True])
def test_gradients_by_kernels_of_ours_go_where_they_are_asked_for(
    given: bool, asked: tuple[int, int, bool], found: list[int]
) -> None:
    q, k, lse = zeros(2, 5, 4, 96), zeros(2, 7, 2, 96), zeros(2, 4, 5, dtype=F32)
    left, right, causal = asked
    more: dict[str, Any] = {"sink": zeros(2, 4, dtype=F32), "d_sink": zeros(4, dtype=F32)} if given else {}
    if given:
        more |= {"dq": zeros(2, 5, 4, 96), "dk": zeros(2, 7, 2, 96), "dv": zeros(2, 7, 2, 96)}
    words = (0.0, 0.5, causal, left, right, True)
    call = lambda: aiter_prebuilt.mha_bwd(q, q, k, k, q, lse, *words, **more)  # noqa: E731
    back, (_, tensors, attributes) = handed(call, "mha_bwd")
    assert [each.shape for each in back] == [q.shape, k.shape, k.shape, (2, 4, 5)] and back[3].dtype == F32
    assert attributes == [0.5, *found]
    written = (*back[:3], more.get("sink"), more.get("d_sink"), back[3])
    assert all(one is other for one, other in zip(tensors[6:], written, strict=True))
    assert all(more.get(name, each) is each for each, name in zip(back, ("dq", "dk", "dv"), strict=False))


@pytest.mark.parametrize(("asked", "found"), WINDOWS)
@pytest.mark.parametrize("given", [False, True])
def test_gradients_of_sequences_by_kernels_of_ours_go_where_they_are_asked_for(
    given: bool, asked: tuple[int, int, bool], found: list[int]
) -> None:
    q, k, lse, starts = zeros(6, 4, 96), zeros(9, 2, 96), zeros(4, 6, dtype=F32), zeros(3, dtype=torch.int32)
    left, right, causal = asked
    more: dict[str, Any] = {"sink": zeros(2, 4, dtype=F32), "d_sink": zeros(4, dtype=F32)} if given else {}
    if given:
        more |= {"dq": zeros(6, 4, 96), "dk": zeros(9, 2, 96), "dv": zeros(9, 2, 96)}
    words = (5, 7, 0.0, 0.5, False, causal, left, right, True)
    call = lambda: aiter_prebuilt.mha_varlen_bwd(q, q, k, k, q, lse, starts, starts, *words, **more)  # noqa: E731
    back, (_, tensors, attributes) = handed(call, "mha_varlen_bwd")
    assert [each.shape for each in back] == [q.shape, k.shape, k.shape, (4, 6)] and back[3].dtype == F32
    assert attributes == [5, 7, 0.5, *found]
    written = (*back[:3], more.get("sink"), more.get("d_sink"), back[3])
    assert all(one is other for one, other in zip(tensors[8:], written, strict=True))
    assert all(more.get(name, each) is each for each, name in zip(back, ("dq", "dk", "dv"), strict=False))


@pytest.mark.parametrize("given", [False, True])
def test_paged_attention_gives_back_what_it_wrote(given: bool) -> None:
    q, lengths = zeros(2, 8, 128), zeros(2, dtype=torch.int32)
    cache, tables = zeros(3, 1, 16, 16, 8), zeros(2, 4, dtype=torch.int32)
    mine = zeros(2, 8, 128) if given else None
    back, (_, tensors, attributes) = handed(
        lambda: aiter_prebuilt.pa_fwd_asm(q, cache, cache, tables, lengths, 4, out_=mine), "pa_fwd_asm"
    )
    assert back is mine if given else (back.shape, back.dtype) == (q.shape, BF16)
    assert attributes == [4, 1, 1, None]
    wanted = (q, cache, cache, tables, lengths, None, None, back, None)
    assert all(one is other for one, other in zip(tensors, wanted, strict=True))


def test_paged_attention_hands_on_scales_queries_and_a_name() -> None:
    q, lengths, starts = zeros(5, 8, 128), zeros(2, dtype=torch.int32), zeros(3, dtype=torch.int32)
    cache, tables = zeros(3, 1, 8, 16, 16, dtype=torch.int8), zeros(2, 4, dtype=torch.int32)
    scales, name = zeros(3, 1, 16, 1, dtype=F32), "_ZN5aiter41pa_bf16_pertokenInt8_gqa8_1tg_4w_mtp_msk0E"
    words: Any = (4, 3, scales, scales, None, starts, 0, name)
    call = lambda: aiter_prebuilt.pa_fwd_asm(q, cache, cache, tables, lengths, *words)  # noqa: E731
    back, (_, tensors, attributes) = handed(call, "pa_fwd_asm")
    assert back.shape == q.shape and attributes == [4, 3, 0, name]
    wanted = (q, cache, cache, tables, lengths, scales, scales, back, starts)
    assert all(one is other for one, other in zip(tensors, wanted, strict=True))


def test_paged_attention_of_one_query_each_takes_any_number_of_most_queries() -> None:
    """AITER reads it with a list of where they start alone; clients pass the longest context there."""
    q, lengths, starts = zeros(2, 8, 128), zeros(2, dtype=torch.int32), zeros(3, dtype=torch.int32)
    cache, tables = zeros(3, 1, 16, 16, 8), zeros(2, 4, dtype=torch.int32)
    call = lambda: aiter_prebuilt.pa_fwd_asm(q, cache, cache, tables, lengths, 4, 26)  # noqa: E731
    _, (_, _, attributes) = handed(call, "pa_fwd_asm")
    assert attributes == [4, 1, 1, None]
    with_starts = lambda: aiter_prebuilt.pa_fwd_asm(q, cache, cache, tables, lengths, 4, 26, qo_indptr=starts)  # noqa: E731
    _, (_, _, attributes) = handed(with_starts, "pa_fwd_asm")
    assert attributes == [4, 26, 1, None]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("max_qlen", 0),
        ("high_precision", 3),
        ("high_precision", None),
    ],
)
def test_paged_attention_refuses_by_name_what_no_object_does(word: str, value: Any) -> None:
    q, lengths = zeros(2, 8, 128), zeros(2, dtype=torch.int32)
    cache, tables = zeros(3, 1, 16, 16, 8), zeros(2, 4, dtype=torch.int32)
    words: Any = {word: value}
    with pytest.raises(UnsupportedError, match=rf"pa_fwd_asm\({word}={value!r}\)"):
        aiter_prebuilt.pa_fwd_asm(q, cache, cache, tables, lengths, 4, **words)
