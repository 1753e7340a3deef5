"""What the functions of latent attention and of its lists of works make of a call.

No kernel runs: a stand-in takes what would go to the native operator.
"""

from __future__ import annotations

import enum
from typing import Any

import pytest
from support.handed import BF16, F32, handed, zeros

import aiter_prebuilt
from aiter_prebuilt.errors import UnsupportedError

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")


#: Its arguments come in one piece here, which mypy cannot count.
decode: Any = aiter_prebuilt.mla_decode_fwd


def latent(tokens: int, heads: int, *, fp8: bool = False) -> Any:
    """Queries, keys, a result, and the lists of a batch of 200 keys for each token."""
    kind = torch.float8_e4m3fn if fp8 else BF16
    q, kv = zeros(tokens, heads, 576, dtype=kind), zeros(9, 1, 1, 576, dtype=kind)
    borders = zeros(tokens + 1, dtype=torch.int32)
    keys, last = zeros(200 * tokens, dtype=torch.int32), zeros(tokens, dtype=torch.int32)
    return q, kv, zeros(tokens, heads, 512), borders, borders, keys, last


@pytest.mark.parametrize(
    ("heads", "queries", "fp8", "wanted", "found", "whole"),
    [
        (16, 1, False, 3, 3, False), (16, 1, False, 1, 1, False), (16, 4, False, 1, 1, True), (128, 1, False, 2, 2, False),
        (128, 1, False, 1, 1, True), (16, 1, True, 5, 2, False), (16, 1, True, 1, 1, True), (128, 1, True, 9, 7, False),
    ],
)  # fmt: skip
def test_latent_attention_makes_its_parts(
    heads: int, queries: int, fp8: bool, wanted: int, found: int, whole: bool
) -> None:
    given = latent(2, heads, fp8=fp8)
    call = lambda: decode(*given, queries, num_kv_splits=wanted)  # noqa: E731
    (parts, lse), (_, tensors, attributes) = handed(call, "mla_decode_fwd")
    assert attributes == [queries, 576**-0.5, found, 1, 0.0, False, False, 1, 0, True] and (
        lse.shape,
        lse.dtype,
    ) == (
        (2, heads),
        F32,
    )
    assert tensors[16] is lse and tensors[2] is given[2]
    if whole:
        assert parts is given[2] and tensors[15] is None
    else:
        assert parts is tensors[15] and (parts.shape, parts.dtype) == ((2, found, heads, 512), F32)


@pytest.mark.parametrize(("heads", "own"), [(16, 16), (48, 16), (128, 128)])
def test_works_take_other_heads_as_tokens_of_16(heads: int, own: int) -> None:
    q, kv, o, borders, _, keys, last = latent(2, heads, fp8=heads == 128)
    lists = dict.fromkeys(("work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map"), borders)
    lists["reduce_partial_map"] = zeros(12, dtype=torch.int32)
    call = lambda: aiter_prebuilt.mla_decode_fwd(q, kv, o, borders, borders, keys, last, 1, **lists)  # noqa: E731
    (parts, lse), (_, tensors, attributes) = handed(call, "mla_decode_fwd")
    rows = 2 * heads // own
    assert (tensors[0].shape, tensors[2].shape, tensors[15].shape) == (
        (rows, own, 576),
        (rows, own, 512),
        (12, 1, own, 512),
    )
    assert tensors[2].data_ptr() == o.data_ptr() and tensors[15].data_ptr() == parts.data_ptr()
    assert (
        parts.shape == (12 * own // heads, 1, heads, 512)
        and (lse.shape, lse.data_ptr()) == ((2, heads), tensors[16].data_ptr())
        and tensors[16].shape == (rows, own)
        and attributes[2:4] == [1, heads // own]
    )


@pytest.mark.parametrize(
    ("heads", "queries", "page_size", "fold"),
    [
        (24, 1, 1, 1),
        (528, 1, 1, 1),
        (48, 2, 1, 1),
        (128, 1, 1, 1),
        (48, 1, 4, 1),
        (48, 1, 1, 3),
        (16, 5, 1, 1),
    ],
)
def test_all_lists_of_works_are_taken(heads: int, queries: int, page_size: int, fold: int) -> None:
    """Also those that no assembly takes: heads are contexts as ``get_mla_metadata_v1`` has them."""
    q, _, o, borders, _, keys, last = latent(2, heads)
    kv = zeros(9, page_size, 1, 576)
    lists = dict.fromkeys(("work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map"), borders)
    given = (q, kv, o, borders, borders, keys, last, queries, page_size)
    call = lambda: decode(*given, reduce_partial_map=keys, **lists)  # noqa: E731
    (parts, _), (_, tensors, attributes) = handed(call, "mla_decode_fwd")
    assert tensors[7:12] == [*lists.values(), keys] and tensors[0].shape == (2 * fold, heads // fold, 576)
    # A tile of 128 heads has one query, however many there are.
    rows = -(-400 * min(queries, -(-128 // heads)) // fold)
    assert parts.shape == (rows, 1, heads, 512) and attributes[2:4] == [1, fold]


def test_contexts_are_split_without_one_of_the_lists() -> None:
    q, kv, o, borders, _, keys, last = latent(2, 16)
    lists = dict.fromkeys(("work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map"), borders)
    call = lambda: decode(q, kv, o, borders, borders, keys, last, 1, num_kv_splits=2, **lists)  # noqa: E731
    (parts, _), (_, tensors, attributes) = handed(call, "mla_decode_fwd")
    assert tensors[7:12] == [None] * 5 and tensors[0] is q and tensors[2] is o
    assert parts.shape == (2, 2, 16, 512) and attributes[2:4] == [2, 1]


def test_a_size_of_pages_is_that_of_the_cache() -> None:
    q, _, o, borders, _, keys, last = latent(2, 16)
    kv = zeros(9, 4, 1, 576, dtype=BF16)
    given, words = (q, kv, o, borders, borders, keys, last, 1, 4), {"return_lse": True, "logit_cap": -1.0}
    call = lambda: decode(*given, num_kv_splits=3, **words)  # noqa: E731
    _, (_, tensors, attributes) = handed(call, "mla_decode_fwd")
    assert tensors[1] is kv and attributes == [1, 576**-0.5, 3, 1, 0.0, False, True, 1, 0, True]
    for size in ({}, {"page_size": 8}):
        with pytest.raises(UnsupportedError, match=r"mla_decode_fwd\(page_size=\d\).*page_size=4"):
            decode(q, kv, o, borders, borders, keys, last, 1, num_kv_splits=3, **size)


@pytest.mark.parametrize("size", [0, -1])
def test_a_page_has_a_key(size: int) -> None:
    """A cache with pages of no key is refused by its page size, not by a kernel's condition."""
    q, _, o, borders, _, keys, last = latent(2, 16)
    kv = zeros(9, max(size, 0), 1, 576, dtype=BF16)
    with pytest.raises(UnsupportedError, match=rf"mla_decode_fwd\(page_size={size}\).*page_size=1 and more"):
        decode(q, kv, o, borders, borders, keys, last, 1, size, num_kv_splits=3)


def test_no_part_of_a_context_is_no_number_of_parts() -> None:
    with pytest.raises(
        UnsupportedError, match=r"mla_decode_fwd\(num_kv_splits=0\).*Use num_kv_splits=None or 1 to 4096"
    ):
        decode(*latent(2, 16), 1, num_kv_splits=0)
    with pytest.raises(UnsupportedError, match=r"mla_decode_fwd\(sm_scale=0.0\).*a number above 0"):
        decode(*latent(2, 16), 1, sm_scale=0.0, num_kv_splits=1)


@pytest.mark.parametrize(
    ("batches", "keys", "units", "found"),
    [
        (1, 8192, 304, 16), (64, 64 * 1200, 304, 4), (256, 256 * 21, 304, 1), (3, 3 * 3200, 256, 16),
        (128, 128 * 8192, 256, 2), (5, 0, 80, 1),
    ],
)  # fmt: skip
def test_parts_fill_the_compute_units_as_aiters_rule_has_it(
    batches: int, keys: int, units: int, found: int
) -> None:
    from aiter_prebuilt.ops._mla import parts

    assert parts(None, batches, keys, 16, False, units) == found


def test_one_part_that_is_the_result_is_handed_on_once() -> None:
    q, kv, o, borders, _, keys, last = latent(2, 128)
    lse = zeros(2, 1, 128, 1, dtype=F32)
    lists, results = (
        (borders, borders, keys, last, borders, None, None, None),
        (o.view(2, 1, 128, 512), lse, o),
    )
    call = lambda: aiter_prebuilt.mla_decode_stage1_asm_fwd(q, kv, *lists, 1, 1, 1, 0.5, *results)  # noqa: E731
    _, (_, tensors, attributes) = handed(call, "mla_decode_stage1_asm_fwd")
    assert tensors[9].data_ptr() == o.data_ptr() != tensors[11].data_ptr() and attributes == [1, 0.5]


@pytest.mark.parametrize("shape", [(6, 16), (6, 1, 16, 1)])
def test_partial_logarithms_have_a_dim_more_or_not(shape: tuple[int, ...]) -> None:
    rows, lists, out = zeros(6, 1, 16, 512, dtype=F32), zeros(3, dtype=torch.int32), zeros(2, 16, 512)
    sums = zeros(*shape, dtype=F32)
    call = lambda: aiter_prebuilt.mla_reduce_v1(rows, sums, lists, None, lists, 1, 0, out)  # noqa: E731
    _, (_, tensors, _) = handed(call, "mla_reduce_v1")
    assert tensors[1].data_ptr() == sums.data_ptr() and tensors[1].shape == shape[:3]


def test_parts_are_made_one_as_each_tree_of_aiter_asks_for_it() -> None:
    """Older ones have the result where the number of parts stands, or the tokens of a tile."""
    rows, sums, lists = zeros(6, 16, 128, dtype=F32), zeros(6, 16, dtype=F32), zeros(3, dtype=torch.int32)
    out, lse = zeros(2, 16, 128), zeros(2, 16, dtype=F32)
    reduce: Any = aiter_prebuilt.mla_reduce_v1
    forms: list[tuple[tuple[Any, ...], dict[str, Any], list[int], Any]] = [
        ((256, 304, out, lse), {}, [256, 304], lse), ((256, 0, out), {}, [256, 0], None),
        ((), {"max_seqlen_q": 4, "num_kv_splits": 3, "final_output": out, "final_lse": lse}, [4, 3], lse),
        ((256, None, out, lse), {}, [256, 0], lse),
        ((256, out, lse), {}, [256, 0], lse), ((256, out), {"final_lse": lse}, [256, 0], lse), ((256, out), {}, [256, 0], None),
        ((out, lse), {}, [1, 0], lse), ((out,), {"final_lse": lse}, [1, 0], lse), ((out, None), {}, [1, 0], None),
    ]  # fmt: skip
    for given, words, numbers, logs in forms:
        call = lambda given=given, words=words: reduce(rows, sums, lists, None, lists, *given, **words)  # noqa: E731
        _, (_, tensors, attributes) = handed(call, "mla_reduce_v1")
        assert tensors[5] is out and tensors[6] is logs and attributes == numbers, (given, words)


@pytest.mark.parametrize("swapped", [False, True])
def test_lists_of_works_come_in_either_order(swapped: bool) -> None:
    """AITER's older trees take the units before the works."""
    i32 = torch.int32
    starts, lasts, units, works = (
        zeros(4, dtype=i32),
        zeros(3, dtype=i32),
        zeros(9, dtype=i32),
        zeros(12, 8, dtype=i32),
    )
    pair = (units, works) if swapped else (works, units)
    pointers = zeros(2, dtype=torch.uint64)
    rest = (zeros(5, dtype=i32), zeros(4, 2, dtype=i32), zeros(12, dtype=i32))
    lists: Any = aiter_prebuilt.get_mla_metadata_v1
    MlaVersion = enum.Enum("MlaVersion", {"V32": 0, "V40": 1})
    words = {"mla_version": MlaVersion(0)} if swapped else {}
    call = lambda: lists(starts, starts, lasts, 16, 1, False, pointers, *pair, *rest, **words)  # noqa: E731
    _, (_, tensors, attributes) = handed(call, "get_mla_metadata_v1")
    assert tensors[2] is lasts and tensors[4] is works and tensors[5] is units
    assert attributes == [16, False, 1, 16, -1, -1, -1, 1, 1]
    assert tensors[3].dtype is torch.int64 and tensors[3].data_ptr() == pointers.data_ptr()


@pytest.mark.parametrize("option", [{"num_heads_k": 2}, {"mla_version": 1}])
def test_lists_of_works_refuse_what_is_not_here(option: dict[str, Any]) -> None:
    function: Any = aiter_prebuilt.get_mla_metadata_v1
    tensors = [zeros(4, dtype=torch.int32) for _ in range(9)]
    words = {"num_heads_k": 1, **option}
    ((name, asked),) = option.items()
    with pytest.raises(UnsupportedError, match=rf"get_mla_metadata_v1\({name}={asked}\)"):
        function(*tensors[:3], 16, words.pop("num_heads_k"), True, *tensors[3:], **words)


@pytest.mark.parametrize("causal", [False, True])
def test_lists_of_one_rank_of_several_have_no_mask(causal: bool) -> None:
    """Where the keys of a rank lie in the whole sequence is known to ``mla_decode_fwd`` alone."""
    function: Any = aiter_prebuilt.get_mla_metadata_v1
    tensors = [zeros(4, dtype=torch.int32) for _ in range(9)]
    call = lambda: function(*tensors[:3], 16, 1, causal, *tensors[3:], is_cp_round_robin=True)  # noqa: E731
    _, (_, _, attributes) = handed(call, "get_mla_metadata_v1")
    assert attributes[:2] == [16, False]


@pytest.mark.parametrize(
    ("heads", "page_size", "words", "found"),
    [
        (16, 1, {}, (1, 1)), (128, 1, {"max_seqlen_qo": 3}, (1, 3)), (128, 1, {"uni_seqlen_qo": 1, "max_seqlen_qo": 3}, (1, 1)),
        (48, 1, {"uni_seqlen_qo": 1}, (3, 1)), (48, 64, {"uni_seqlen_qo": 1}, (1, 1)), (48, 1, {"max_seqlen_qo": 2}, (1, 1)),
        (300, 1, {"uni_seqlen_qo": 2}, (1, 2)), (32, 1, {"uni_seqlen_qo": 1, "topk": 9}, (2, 1)), (48, 1, {}, None),
        (48, 1, {"max_seqlen_qo": 1}, None), (48, 1, {"uni_seqlen_qo": 2, "topk": 9}, None),
    ],
)  # fmt: skip
def test_heads_are_contexts_as_attention_takes_them(
    heads: int, page_size: int, words: dict[str, int], found: tuple[int, int] | None
) -> None:
    """Where ``mla_decode_fwd`` would read lists of 16 heads each, there are no others."""
    function: Any = aiter_prebuilt.get_mla_metadata_v1
    tensors = [zeros(4, dtype=torch.int32) for _ in range(9)]

    def call() -> None:
        function(*tensors[:3], heads, 1, True, *tensors[3:], page_size=page_size, **words)

    if found is None:
        with pytest.raises(UnsupportedError, match=r"get_mla_metadata_v1\(uni_seqlen_qo=.*with 48 heads"):
            call()
    else:
        _, (_, _, attributes) = handed(call, "get_mla_metadata_v1")
        assert tuple(attributes[-2:]) == found


@pytest.mark.parametrize(
    "option", [{"page_size": 64}, {"nhead_kv": 2}, {"lse": zeros(4)}, {"cp_world_size": 2}, {"causal": False}]
)
def test_a_part_of_attention_refuses_what_is_not_here(option: dict[str, Any]) -> None:
    function: Any = aiter_prebuilt.mla_decode_stage1_asm_fwd
    words = {"page_size": 1, "nhead_kv": 1, "softmax_scale": 0.5, **option}
    given = [zeros(4) for _ in range(10)]
    results = dict.fromkeys(("splitData", "splitLse", "output"), zeros(4))
    with pytest.raises(UnsupportedError, match=rf"mla_decode_stage1_asm_fwd\({next(iter(option))}="):
        function(*given, 1, **words, **results)


@pytest.mark.parametrize(
    ("given", "shapes"),
    [
        ((5, 1, 16, BF16, BF16, False), (2, 305, (308, 8), 6, (5, 2), 308)),
        ((700, 4, 16, BF16, BF16, False), (2, 305, (1003, 8), 701, (700, 2), 606)),
        ((5, 3, 128, torch.float8_e4m3fnuz, torch.float8_e4m3fnuz, False), (2, 305, (924, 8), 16, (15, 2), 924)),
        ((5, 1, 48, BF16, BF16, False), (2, 305, (318, 8), 16, (15, 2), 318)),
        ((5, 2, 24, BF16, BF16, False), (2, 305, (308, 8), 6, (5, 2), 308)),
        ((5, 3, 16, BF16, BF16, True), (2, 305, (318, 8), 16, (15, 2), 318)),
        ((5, 1, 16, BF16, BF16, False, False), (2, 305, (308, 8), 6, (5, 2), 308)),
        ((5, 1, 16, BF16, BF16, False, False, 32, True), (2, 305, (160, 8), 6, (5, 2), 160)),
        ((5, 1, 16, BF16, BF16, False, True, 32, False, 2), (2, 305, (14, 8), 6, (5, 2), 14)),
    ],
)  # fmt: skip
def test_shapes_of_the_lists_of_works(
    given: Any, shapes: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AITER's, but where the queries of a batch are several works, each of which a cut makes two."""
    from types import SimpleNamespace

    from aiter_prebuilt.devices import device

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(device, "facts", lambda vendor, ordinal: SimpleNamespace(compute_units=304))
    found = aiter_prebuilt.get_mla_metadata_info_v1(*given)
    assert tuple(shape for shape, _ in found) == shapes
    assert [kind for _, kind in found] == [torch.uint64, *[torch.int32] * 5]
    assert all(torch.empty(shape, dtype=kind).dtype is kind for shape, kind in found)


@pytest.mark.parametrize("option", ["num_head_qo", "num_kv_splits", "max_split_per_batch"])
def test_lists_of_nothing_have_no_shape(option: str) -> None:
    words: Any = {"num_head_qo": 16, "num_kv_splits": 32, "max_split_per_batch": -1, option: 0}
    with pytest.raises(UnsupportedError, match=rf"get_mla_metadata_info_v1\({option}=0\)"):
        aiter_prebuilt.get_mla_metadata_info_v1(1, 1, q_dtype=BF16, kv_dtype=BF16, is_sparse=0, **words)
