"""What the functions of Python make of a call: defaults, new tensors, and which argument becomes which of the native operator.

No kernel runs: a stand-in takes what would go to the native operator.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt import signatures
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.errors import ArgumentKindError, UnsupportedError
from aiter_prebuilt.execute.record import instead
from aiter_prebuilt.ops import _group_codes
from aiter_prebuilt.ops._caches import keys_of, values_of

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
Handed = tuple[str, list[Any], list[Any]]


def handed(call: Callable[[], Any], *functions: str) -> tuple[Any, Handed]:
    """What ``call`` returns, and the operator, tensors and attributes that go to the native side."""
    seen: list[Handed] = []
    with ExitStack() as stack:
        for name in functions:
            keep = lambda operator, tensors, attributes: seen.append((operator.name, tensors, attributes))  # noqa: E731
            stack.enter_context(instead(getattr(aiter_prebuilt, name), keep))
        result = call()
    (only,) = seen
    return result, only


def zeros(*shape: int, dtype: Any = BF16) -> Any:
    return torch.zeros(*shape, dtype=dtype)


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


@pytest.mark.parametrize(("asked", "found"), [(None, BF16), (BF16, BF16), (F16, F16)])
def test_a_quantised_gemm_gives_bf16_unless_told(asked: Any, found: Any) -> None:
    a, w = zeros(5, 64, dtype=torch.float8_e4m3fn), zeros(16, 64, dtype=torch.float8_e4m3fn)
    x_scale, w_scale = zeros(5, 1, dtype=F32), zeros(16, 1, dtype=F32)
    call = lambda: aiter_prebuilt.gemm_a8w8_bpreshuffle(a, w, x_scale, w_scale, dtype=asked)  # noqa: E731
    out, (_, tensors, _) = handed(call, "gemm_a8w8_bpreshuffle")
    assert (out.shape, out.dtype) == ((5, 16), found)
    assert all(one is other for one, other in zip(tensors, (a, w, x_scale, w_scale, out), strict=True))


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_a_gemm_gives_the_type_of_what_it_multiplies(dtype: Any) -> None:
    a, b = zeros(2, 5, 64, dtype=dtype), zeros(16, 64, dtype=dtype)
    out, (_, tensors, _) = handed(lambda: aiter_prebuilt.gemm_a16w16(a, b), "gemm_a16w16")
    assert (out.shape, out.dtype) == ((2, 5, 16), dtype)
    assert all(one is other for one, other in zip(tensors, (a, b, None, out), strict=True))


@pytest.mark.parametrize("option", ["otype", "dtype"])
@pytest.mark.parametrize("kind", [BF16, F16])
def test_a_gemm_gives_fp32_where_either_form_of_aiter_asks_for_it(option: str, kind: Any) -> None:
    a, b, bias = zeros(2, 5, 64, dtype=kind), zeros(16, 64, dtype=kind), zeros(16, dtype=kind)
    function: Any = aiter_prebuilt.gemm_a16w16
    out, (name, tensors, _) = handed(lambda: function(a, b, bias, **{option: F32}), "gemm_a16w16_fp32")
    assert (name, out.shape, out.dtype) == ("gemm_a16w16_fp32", (2, 5, 16), F32)
    assert all(one is other for one, other in zip(tensors, (a, b, bias, out), strict=True))
    y = zeros(2, 5, 16, dtype=F32)
    for options in ({option: F32, "y": y}, {"y": y}):  # memory of fp32 says it, too
        out, (_, tensors, _) = handed(partial(function, a, b, **options), "gemm_a16w16_fp32")
        assert out is y is tensors[3]


@pytest.mark.parametrize("option", [{"scale_a": 1}, {"activation": "gelu"}, {"skip_reduce": True}])
def test_a_gemm_of_fp32_refuses_what_it_has_not(option: dict[str, Any]) -> None:
    function: Any = aiter_prebuilt.gemm_a16w16
    for asked in ({"otype": F32}, {"dtype": F32}, {"y": zeros(5, 16, dtype=F32)}):
        with pytest.raises(UnsupportedError, match=next(iter(option))):
            function(zeros(5, 64), zeros(16, 64), **asked, **option)


@pytest.mark.parametrize("wrong", [F16, torch.float64, torch.int8])
def test_a_gemm_refuses_other_types_of_its_result_by_name(wrong: Any) -> None:
    for option in ("otype", "dtype"):
        function: Any = aiter_prebuilt.gemm_a16w16
        with pytest.raises(UnsupportedError, match=rf"{option}=.*use {option}=None or A.dtype or fp32"):
            function(zeros(5, 64), zeros(16, 64), **{option: wrong})


@pytest.mark.parametrize("kind", [BF16, F16])
@pytest.mark.parametrize("name", ["gemm_a8w8", "gemm_a8w8_blockscale", "gemm_a8w8_blockscale_bpreshuffle"])
def test_a_quantised_gemm_writes_the_memory_that_it_is_given(name: str, kind: Any) -> None:
    fp8 = torch.float8_e4m3fn
    given = (
        *(zeros(rows, 128, dtype=fp8) for rows in (5, 16)),
        zeros(5, 1, dtype=F32),
        zeros(1, 1, dtype=F32),
    )
    function, out = getattr(aiter_prebuilt, name), zeros(5, 16, dtype=kind)
    held = {"out": out} if name.endswith("bpreshuffle") else {"y": out, "config": {"BLOCK_SIZE_M": 64}}
    back, (_, tensors, attributes) = handed(lambda: function(*given, dtype=BF16, **held), name)
    assert back is out is tensors[-1] and attributes == []
    made, (_, tensors, _) = handed(lambda: function(*given), name)
    assert made is tensors[-1] and (made.shape, made.dtype) == ((5, 16), BF16)


@pytest.mark.parametrize(("asked", "found"), [(None, 0), (1, 1), (7, 7)])
def test_an_assembly_gemm_gives_back_what_it_wrote(asked: int | None, found: int) -> None:
    a, b, out = zeros(5, 64), zeros(64, 64), zeros(5, 64, dtype=F32)
    back, (_, tensors, attributes) = handed(
        lambda: aiter_prebuilt.gemm_a16w16_asm(a, b, out, splitK=asked), "gemm_a16w16_asm"
    )
    assert back is out and attributes == [found, None]
    assert all(one is other for one, other in zip(tensors, (a, b, out), strict=True))


def test_a_product_of_many_pairs_gives_back_what_it_wrote() -> None:
    a, b, out = zeros(2, 5, 256, dtype=BF16), zeros(2, 8, 256, dtype=BF16), zeros(2, 5, 8, dtype=BF16)
    back, (_, tensors, attributes) = handed(
        lambda: aiter_prebuilt.batched_gemm_bf16(a, b, out, splitK=3), "batched_gemm_bf16"
    )
    assert back is out and attributes == []
    assert all(one is other for one, other in zip(tensors, (a, b, out), strict=True))


BF16 = torch.bfloat16
FP4, E8M0 = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
BYTES = torch.uint8


@pytest.mark.parametrize(("pairs", "scales"), [(FP4, E8M0), (BYTES, BYTES), (FP4, BYTES)])
@pytest.mark.parametrize(("asked", "found"), [(None, -1), (0, 0), (4, 4)])
def test_a_gemm_of_fp4_hands_on_bytes_and_gives_back_what_it_wrote(
    pairs: Any, scales: Any, asked: int | None, found: int
) -> None:
    a, b = torch.empty(5, 128, dtype=pairs), torch.empty(64, 128, dtype=pairs)
    a_scale, b_scale = torch.empty(32, 8, dtype=scales), torch.empty(64, 8, dtype=scales)
    given, out = (a, b, a_scale, b_scale), zeros(5, 64)
    call = lambda: aiter_prebuilt.gemm_a4w4_asm(*given, out, "", log2_k_split=asked)  # noqa: E731
    back, (_, tensors, attributes) = handed(call, "gemm_a4w4_asm")
    assert back is out is tensors[4] and tensors[5] is None and attributes == [found, "", True, 0.0]
    for one, other in zip(tensors, given, strict=False):
        assert (one.dtype, one.shape, one.data_ptr()) == (BYTES, other.shape, other.data_ptr())
    back, (_, tensors, attributes) = handed(lambda: aiter_prebuilt.gemm_a4w4(*given, dtype=BF16), "gemm_a4w4")
    assert back is tensors[5] and tensors[4] is None and attributes == [True, 0.0]
    assert back.shape == (5, 64) and back.dtype == BF16
    assert made_of_fp4(given, torch.float16).dtype == torch.float16


def made_of_fp4(given: tuple[Any, ...], dtype: Any) -> Any:
    """What ``gemm_a4w4`` makes of a type."""
    function: Any = aiter_prebuilt.gemm_a4w4
    return handed(lambda: function(*given, dtype=dtype), "gemm_a4w4")[0]


@pytest.mark.parametrize(("beta", "factor"), [(None, 0.0), (0, 0.0), (0.5, 0.5), (2, 2.0)])
@pytest.mark.parametrize(("asked", "found"), [(None, True), (True, True), (False, False)])
def test_a_bias_of_fp4_is_handed_on_where_it_counts(
    beta: float | None, factor: float, asked: bool | None, found: bool
) -> None:
    given = tuple(zeros(*shape, dtype=BYTES) for shape in ((5, 128), (64, 128), (32, 8), (64, 8)))
    assembly: Any = aiter_prebuilt.gemm_a4w4_asm
    measured: Any = aiter_prebuilt.gemm_a4w4
    bias, out = zeros(1, 64, dtype=F32), zeros(5, 64)
    options: Any = {"bias": bias, "beta": beta, "bpreshuffle": asked}
    _, (_, tensors, attributes) = handed(lambda: assembly(*given, out, "", **options), "gemm_a4w4_asm")
    assert tensors[5] is (bias if factor else None) and attributes == [-1, "", found, factor]
    _, (_, tensors, attributes) = handed(lambda: measured(*given, **options), "gemm_a4w4")
    assert tensors[4] is (bias if factor else None) and attributes == [found, factor]
    with pytest.raises(UnsupportedError, match=r"gemm_a4w4\(alpha=2\.0.*use alpha=1\.0"):
        measured(*given, alpha=2.0)


@pytest.mark.parametrize(("pairs", "scales"), [(FP4, E8M0), (BYTES, BYTES)])
def test_a_gated_activation_to_pairs_of_fp4_hands_on_bytes(pairs: Any, scales: Any) -> None:
    out, scale, x = torch.empty(5, 64, dtype=pairs), torch.empty(5, 4, dtype=scales), zeros(5, 256)
    call = lambda: aiter_prebuilt.silu_and_mul_quant(out, x, scale, 32, 1.5, True)  # noqa: E731
    _, (_, tensors, attributes) = handed(call, "silu_and_mul_quant_fp4")
    assert [each.dtype for each in tensors] == [BYTES, BF16, BYTES] and attributes == [32, 1.5, True]
    assert [each.data_ptr() for each in tensors] == [each.data_ptr() for each in (out, x, scale)]
    codes = torch.empty(5, 128, dtype=torch.float8_e4m3fn)
    call = lambda: aiter_prebuilt.silu_and_mul_quant(codes, x, zeros(5, 4, dtype=F32), 32)  # noqa: E731
    assert handed(call, "silu_and_mul_quant")[1][1][0] is codes


@pytest.mark.parametrize(
    ("name", "shape"), [("downcast_to_static_fp8", (5, 64)), ("downcast_to_static_fp8_3d", (2, 5, 64))]
)
def test_a_scale_that_is_given_makes_codes_of_rows(name: str, shape: tuple[int, ...]) -> None:
    """What is handed on is contiguous, the codes are new and of the device's fp8; another number of dims is refused."""
    x, scale, function = zeros(*shape[:-1], 96)[..., :64], zeros(1, dtype=F32), getattr(aiter_prebuilt, name)
    codes, (_, tensors, attributes) = handed(lambda: function(x, scale), "static_per_tensor_quant")
    assert tensors[0] is codes and tensors[2] is scale and attributes == []
    assert (codes.shape, codes.dtype) == (shape, torch.float8_e4m3fn)
    assert tensors[1].is_contiguous() and tensors[1].shape == shape
    with pytest.raises(ArgumentKindError, match=f"{name}: .*4 dims instead of {len(shape)}"):
        function(zeros(1, 1, 4, 64), scale)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [({}, (33, 3)), ({"shuffle": True}, (256, 8)), ({"scale_shuffle_padding": True}, (256, 8))],
)
def test_scales_behind_a_gated_activation_have_room_for_shuffling(
    options: dict[str, bool], sizes: tuple[int, int]
) -> None:
    x, function = zeros(33, 144), getattr(aiter_prebuilt, "act_mul_and_mxfp4_quant")  # noqa: B009
    found, (_, tensors, attributes) = handed(
        lambda: function(x, "gelu", **options), "act_mul_and_mxfp4_quant"
    )
    assert [(each.shape, each.dtype) for each in found] == [((33, 36), BYTES), (sizes, BYTES)]
    assert all(one is other for one, other in zip(tensors, (*found, x), strict=True))
    assert attributes == ["gelu", "shuffle" in options]
    with pytest.raises(UnsupportedError, match=r"scaling_mode='odd'.*use scaling_mode=\"even\""):
        function(x, "gelu", "odd")


def test_a_gemm_of_fp4_leaves_other_types_to_the_native_call() -> None:
    given = (zeros(5, 128), zeros(64, 128), zeros(32, 8), zeros(64, 8))
    _, (_, tensors, _) = handed(lambda: aiter_prebuilt.gemm_a4w4(*given), "gemm_a4w4")
    assert all(one is other for one, other in zip(tensors[:4], given, strict=True))


@pytest.mark.parametrize("asked", [-1, 5])
def test_parts_of_k_are_a_power_of_two_up_to_16(asked: int) -> None:
    given, out = (zeros(5, 128), zeros(64, 128), zeros(32, 8), zeros(64, 8)), zeros(5, 64)
    with pytest.raises(
        UnsupportedError, match=r"gemm_a4w4_asm\(log2_k_split=.*use log2_k_split=None or 0 to 4"
    ):
        aiter_prebuilt.gemm_a4w4_asm(*given, out, "", log2_k_split=asked)


class Quantised(enum.Enum):
    """As AITER's."""

    per_1x128 = 4


def _first_stage(input: Any, out: Any, **options: Any) -> Any:
    """A call of moe_stage1_g1u1."""
    words: dict[str, Any] = {"a1_scale": zeros(4), "w1_scale": zeros(4), **options}
    ids = zeros(8)
    return aiter_prebuilt.moe_stage1_g1u1(input, input, input, ids, ids, ids, out, 128, "", 32, **words)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e4m3fnuz])
def test_codes_and_their_scales_are_written_as_bytes(kind: Any) -> None:
    """What fused_moe makes for a stage with per_1x128: fp8 of some more rows."""
    input, out = torch.empty(40, 512, dtype=kind), torch.empty(42, 2, 128, dtype=kind)
    call = lambda: _first_stage(input, out, quant_type=Quantised.per_1x128, activation=1)  # noqa: E731
    back, (_, tensors, attributes) = handed(call, "moe_stage1_g1u1")
    assert back is None and attributes == [128, 32, 1, 4, ""] and tensors[0] is input
    assert (tensors[6].dtype, tensors[6].shape, tensors[6].data_ptr()) == (BYTES, out.shape, out.data_ptr())


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.uint8, torch.float8_e5m2])
def test_any_other_result_of_a_first_stage_is_left_to_the_native_call(kind: Any) -> None:
    out = torch.empty(40, 2, 128, dtype=kind)
    input = torch.empty(40, 512, dtype=torch.float8_e4m3fn)
    _, (_, tensors, _) = handed(lambda: _first_stage(input, out, quant_type=2), "moe_stage1_g1u1")
    assert tensors[6] is out


@pytest.mark.parametrize("options", [{}, {"quant_type": 5}, {"quant_type": "4"}, {"quant_type": None}])
def test_a_first_stage_names_the_kinds_that_it_takes(options: dict[str, Any]) -> None:
    """AITER's default is none of them."""
    with pytest.raises(
        UnsupportedError, match=r"\(quant_type=.*use quant_type=2 \(QuantType.per_Token\) or 4 \(per_1x128\)"
    ):
        _first_stage(zeros(40, 512), zeros(40, 2, 128), **options)


@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan")])
def test_assembly_attention_wants_a_scale_above_zero(scale: float) -> None:
    q = zeros(1, 3, 2, 128)
    with pytest.raises(UnsupportedError, match=r"softmax_scale=.*use softmax_scale=a number above 0"):
        aiter_prebuilt.fmha_v3_fwd(q, q, q, 0.0, scale, True, -1, -1, False, False, 1)


@pytest.mark.parametrize("given", [False, True])
def test_assembly_attention_writes_what_it_is_given(given: bool) -> None:
    q, k = zeros(2, 5, 4, 128), zeros(2, 7, 2, 128)
    mine = zeros(2, 5, 4, 128) if given else None
    call = lambda: aiter_prebuilt.fmha_v3_fwd(q, k, k, 0.0, 0.5, True, -1, -1, given, False, 2, mine)  # noqa: E731
    (out, lse, mask, state), (_, tensors, attributes) = handed(call, "fmha_v3_fwd")
    assert (out is mine if given else out.shape == q.shape) and tensors[3] is out and tensors[4] is lse
    assert ((lse.shape, lse.dtype) == ((2, 4, 5), F32)) if given else lse is None
    assert (mask, state, attributes) == (None, None, [0.5, True, 2])


@pytest.mark.parametrize("given", [False, True])
def test_assembly_attention_of_sequences_writes_what_it_is_given(given: bool) -> None:
    q, k, starts = zeros(5, 4, 192), zeros(7, 2, 192), zeros(3, dtype=torch.int32)
    v, mine = zeros(7, 2, 128), zeros(5, 4, 128) if given else None
    words = (9, 9, 1, 0.0, 0.5, 0.0, False, True, -1, -1, given, False, 2)
    call = lambda: aiter_prebuilt.fmha_v3_varlen_fwd(q, k, v, starts, starts, *words, mine)  # noqa: E731
    (out, lse, mask, state), (_, tensors, attributes) = handed(call, "fmha_v3_varlen_fwd")
    assert (out is mine if given else out.shape == (5, 4, 128)) and tensors[5] is out and tensors[6] is lse
    assert ((lse.shape, lse.dtype) == ((4, 5), F32)) if given else lse is None
    assert (mask, state, attributes) == (None, None, [0.5, True, 2])


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
    assert out.dtype is torch.bfloat16 and tensors[1] is rows and tensors[-1] is lse and none == [None, None]
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
    assert (tensors[6].shape, tensors[6].dtype) == ((2, 4, 5), F32) and lse is (tensors[6] if given else None)
    assert (mask, state, attributes) == (None, None, [0.5, *found])
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
    assert (tensors[8].shape, tensors[8].dtype) == ((4, 9), F32) and lse is (tensors[8] if given else None)
    assert (mask, state, attributes) == (None, None, [5, 7, 2, 0.5, *found])
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


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("max_qlen", 0),
        ("max_qlen", 5),
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


@pytest.mark.parametrize("activation", [0, 1])
def test_a_mixture_of_experts_says_its_activation_and_refuses_others(activation: int) -> None:
    given = [zeros(4, 4) for _ in range(11)]
    function: Any = aiter_prebuilt.fmoe_g1u1

    def call(asked: int) -> None:
        function(*given[:8], 2, *given[8:], kernelName="", activation=asked)

    _, (_, tensors, attributes) = handed(lambda: call(activation), "fmoe_g1u1")
    assert attributes == [2, "", activation] and tensors[-1] is None
    with pytest.raises(UnsupportedError, match=r"fmoe_g1u1\(activation=2\)"):
        call(2)


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
    assert attributes == [queries, 576**-0.5, found, 1, 0.0, False, False, True] and (
        lse.shape,
        lse.dtype,
    ) == (
        (2, heads),
        F32,
    )
    assert tensors[15] is lse and tensors[2] is given[2]
    if whole:
        assert parts is given[2] and tensors[14] is None
    else:
        assert parts is tensors[14] and (parts.shape, parts.dtype) == ((2, found, heads, 512), F32)


@pytest.mark.parametrize(("heads", "own"), [(16, 16), (48, 16), (128, 128)])
def test_works_take_other_heads_as_tokens_of_16(heads: int, own: int) -> None:
    q, kv, o, borders, _, keys, last = latent(2, heads, fp8=heads == 128)
    lists = dict.fromkeys(("work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map"), borders)
    lists["reduce_partial_map"] = zeros(12, dtype=torch.int32)
    call = lambda: aiter_prebuilt.mla_decode_fwd(q, kv, o, borders, borders, keys, last, 1, **lists)  # noqa: E731
    (parts, lse), (_, tensors, attributes) = handed(call, "mla_decode_fwd")
    rows = 2 * heads // own
    assert (tensors[0].shape, tensors[2].shape, tensors[14].shape) == (
        (rows, own, 576),
        (rows, own, 512),
        (12, 1, own, 512),
    )
    assert tensors[2].data_ptr() == o.data_ptr() and tensors[14].data_ptr() == parts.data_ptr()
    assert (
        parts.shape == (12 * own // heads, 1, heads, 512)
        and lse.shape == (rows, own)
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
    assert tensors[1] is kv and attributes == [1, 576**-0.5, 3, 1, 0.0, False, True, True]
    for size in ({}, {"page_size": 8}):
        with pytest.raises(UnsupportedError, match=r"mla_decode_fwd\(page_size=\d\).*page_size=4"):
            decode(q, kv, o, borders, borders, keys, last, 1, num_kv_splits=3, **size)


def test_no_part_of_a_context_is_no_number_of_parts() -> None:
    with pytest.raises(
        UnsupportedError, match=r"mla_decode_fwd\(num_kv_splits=0\).*use num_kv_splits=None or 1 to 4096"
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


@pytest.mark.parametrize("option", [{"is_cp_round_robin": True}, {"num_heads_k": 2}, {"mla_version": 1}])
def test_lists_of_works_refuse_what_is_not_here(option: dict[str, Any]) -> None:
    function: Any = aiter_prebuilt.get_mla_metadata_v1
    tensors = [zeros(4, dtype=torch.int32) for _ in range(9)]
    words = {"num_heads_k": 1, **option}
    ((name, asked),) = option.items()
    with pytest.raises(UnsupportedError, match=rf"get_mla_metadata_v1\({name}={asked}\)"):
        function(*tensors[:3], 16, words.pop("num_heads_k"), True, *tensors[3:], **words)


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

    from aiter_prebuilt import device

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


def test_no_part_of_k_is_no_number_of_parts() -> None:
    a, b, out = zeros(5, 64), zeros(64, 64), zeros(5, 64, dtype=F32)
    with pytest.raises(UnsupportedError, match=r"gemm_a16w16_asm\(splitK=0\).*use splitK=None or 1 and more"):
        aiter_prebuilt.gemm_a16w16_asm(a, b, out, splitK=0)


def value(spec: signatures.Attribute, place: int) -> Any:
    """A value of an attribute that no default is."""
    if spec.kind == "enum":
        return spec.values[-1]
    return {"bool": spec.default != "true", "int": 40 + place, "float": 1.5 + place, "text": "a name"}[
        spec.kind
    ]


@pytest.mark.parametrize(("inside", "outside"), [(False, False), (False, True), (True, False), (True, True)])
def test_batches_may_be_the_second_dim_of_rows_and_of_the_result(inside: bool, outside: bool) -> None:
    name = "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant"
    x, w = zeros(5, 2, 128) if inside else zeros(2, 5, 128), zeros(2, 16, 128, dtype=torch.float8_e4m3fn)
    scale = zeros(1, dtype=F32)
    call = lambda: getattr(aiter_prebuilt, name)(x, w, scale, transpose_bm=outside, transpose_bm_in=inside)  # noqa: E731
    out, (_, tensors, _) = handed(call, name)
    assert (out.shape, out.dtype, out.is_contiguous()) == ((5, 2, 16) if outside else (2, 5, 16), BF16, True)
    rows, _, _, bias, written = tensors
    assert (
        rows.shape == (2, 5, 128) and rows.data_ptr() == x.data_ptr() and rows.stride(2) == 1 and bias is None
    )
    assert written.shape == (2, 5, 16) and written.data_ptr() == out.data_ptr()
    assert written.stride() == ((16, 32, 1) if outside else (80, 16, 1))


#: What AITER's functions turn into other arguments of the operator; the tests above, or the refusals, are about them.
TURNED = {
    "flash_attn_func": {"softmax_scale"},
    "gemm_a16w16_asm": {"splitK"},
    "gemm_a4w4_asm": {"log2_k_split", "bpreshuffle", "beta"},
    "gemm_a4w4": {"bpreshuffle", "beta"},
    "fmha_v3_fwd": {"how_v3_bf16_cvt"},
    "fmha_v3_varlen_fwd": {"how_v3_bf16_cvt"},
    "mha_fwd": {"window_size_left", "window_size_right"},
    "mha_varlen_fwd": {"window_size_left", "window_size_right"},
    "fmha_v3_bwd": {"window_size_left", "window_size_right", "how_v3_bf16_cvt"},
    "mha_bwd": {"window_size_left", "window_size_right"},
    "mha_varlen_bwd": {"window_size_left", "window_size_right"},
    "flash_attn_varlen_func": {"softmax_scale"},
    "mha_batch_prefill": {"window_size_left", "window_size_right"},
    "mha_batch_prefill_func": {"softmax_scale"},
    "extend_attention_fwd": {"sm_scale"},
    "flash_attn_fp8_pertensor_func": {"softmax_scale"},
    "flash_attn_varlen_fp8_pertensor_func": {"softmax_scale"},
    "fmha_v3_varlen_bwd": {"how_v3_bf16_cvt"},
    "fused_experts": {"activation"},
    "fused_experts_a8w8": {"activation"},
    "fused_experts_a16w4": {"activation"},
    "fused_experts_mxfp4": {"activation", "activation_bits"},
    "fmoe_g1u1": {"activation"},
    "fmoe_g1u1_tkw1": {"activation"},
    "fmoe_int8_g1u0": {"activation"},
    "fmoe_fp8_blockscale_g1u1": {"activation"},
    "fmoe_g1u1_a16": {"activation"},
    "fmoe_g1u1_mxfp4": {"activation"},
    "moe_stage1_g1u1": {"activation", "quant_type"},
    "ck_moe_stage1_fwd": {"activation", "quant_type"},
    "ck_moe_stage2_fwd": {"quant_type"},
    "mla_decode_fwd": {"sm_scale"},
    "mla_prefill_fwd": {"sm_scale"},
    "pa_fwd_asm": {"max_qlen", "high_precision"},
    "act_mul_and_fp8_group_quant": {"group_size"},
    "peer_all_reduce_codes": {"bits"},
    "silu_and_mul_quant": {"group_size"},
    "silu_and_mul_quant_fp4": {"group_size"},
    "fused_rms_fp8_group_quant": {"group_size", "inp2_epsilon"},
    "fused_rms_fp8_per_tensor_static_quant": {"inp2_epsilon"},
    "fused_qk_rmsnorm_group_quant": {"k_epsilon"},
    "fused_qk_rmsnorm_per_token_quant": {"k_epsilon"},
    "dynamic_per_group_scaled_quant_fp4": {"group_size"},
    "dynamic_per_group_scaled_quant": {"group_size"},
    "quant_mxfp4": {"round_mode"},
    **{
        name: {"DEQUANT_SCALE_ROUNDING_MODE"} for name in ("downcast_to_mxfp", "downcast_to_mxfp8")
    },  # test_mxfp_downcast.py
    "binary_mixed": {"op"},  # tests/unit/test_broadcast.py
    "moe_fused_gate": {"num_expert_group"},
    "chunk_gated_delta_rule": {"scale"},
    "fused_recurrent_gated_delta_rule": {"scale"},
    "fused_recurrent_gated_delta_rule_update": {"scale"},
    "fused_sigmoid_gating_delta_rule_update": {"scale"},
    **{name: {"rotate_style"} for name in signatures.load() if name.startswith("rope_")},
}
#: Required options of which not any value will do.
SERVED: dict[str, dict[str, Any]] = {
    "fmha_v3_fwd": {
        "dropout_p": 0.0, "window_size_left": -1, "window_size_right": -1, "return_softmax_lse": False,
        "return_dropout_randval": False, "how_v3_bf16_cvt": 1,
    },
    "fmha_v3_varlen_fwd": {
        "max_seqlen_q": 4, "max_seqlen_k": 4, "min_seqlen_q": 1, "dropout_p": 0.0, "logits_soft_cap": 0.0, "zero_tensors": False,
        "window_size_left": -1, "window_size_right": -1, "return_softmax_lse": False, "return_dropout_randval": False,
        "how_v3_bf16_cvt": 1,
    },
    "unified_attention": {"window_size": (-1, -1), "causal": True, "q_descale": None},
    "paged_attention_v1": {"kv_cache_dtype": "auto", "kv_cache_layout": "NHD", "alibi_slopes": None, "sliding_window": 0},
    "paged_attention_ragged": {
        "kv_cache_dtype": "auto", "kv_cache_layout": "NHD", "alibi_slopes": None, "max_num_partitions": 3,
    },
    "mha_fwd": {
        "dropout_p": 0.0, "is_causal": False, "window_size_left": -1, "window_size_right": -1, "return_softmax_lse": False,
        "return_dropout_randval": False,
    },
    "mha_varlen_fwd": {
        "dropout_p": 0.0, "logits_soft_cap": 0.0, "zero_tensors": False, "is_causal": False,
        "window_size_left": -1, "window_size_right": -1, "return_softmax_lse": False, "return_dropout_randval": False,
    },
    "mha_batch_prefill": {
        "dropout_p": 0.0, "zero_tensors": False, "is_causal": False, "window_size_left": -1, "window_size_right": -1,
        "return_softmax_lse": False, "return_dropout_randval": False,
    },
    "mha_bwd": {"dropout_p": 0.0, "is_causal": False, "window_size_left": -1, "window_size_right": -1, "deterministic": True},
    "mha_varlen_bwd": {
        "dropout_p": 0.0, "zero_tensors": False, "is_causal": False, "window_size_left": -1, "window_size_right": -1,
        "deterministic": True,
    },
    "fmha_v3_bwd": {
        "dropout_p": 0.0, "window_size_left": -1, "window_size_right": -1, "deterministic": False, "how_v3_bf16_cvt": 1,
    },
    "fmha_v3_varlen_bwd": {
        "dropout_p": 0.0, "zero_tensors": False, "window_size_left": -1, "window_size_right": -1, "deterministic": False,
        "how_v3_bf16_cvt": 1,
    },
    "act_mul_and_fp8_group_quant": {"group_size": 64},
    "peer_all_reduce_codes": {"bits": 4},
    "silu_and_mul_quant": {"group_size": 64},
    "silu_and_mul_quant_fp4": {"group_size": 64},
    "act_mul_and_mxfp4_quant": {"x": zeros(4, 8)},
    "fused_rms_fp8_group_quant": {"inp1": zeros(4, 4)},
    "fused_rms_fp8_per_tensor_static_quant": {"inp1": zeros(4, 4)},
    "fused_add_rmsnorm_pad": {"x": zeros(4, 4)},
    "fused_qk_rmsnorm_group_quant": {"q": zeros(4, 4), "q_weight": zeros(4)},
    "causal_conv1d_fn": {"x": zeros(4, 4), "seq_lens_cpu": (4,)},
    "causal_conv1d_update_in_place": {"x": zeros(4, 4, 4)},
    "fused_recurrent_gated_delta_rule": {"beta": zeros(4, 4, 4)},
    "fused_recurrent_gated_delta_rule_update": {"initial_state": zeros(4, 4, 4, 4), "ssm_state_indices": zeros(4, 1)},
    "moe_stage1_g1u1": {"quant_type": 2, "a1_scale": zeros(4), "w1_scale": zeros(4)},
    "mla_decode_fwd": {"num_kv_splits": 2, "page_size": 4},
    "moe_cktile2stages_gemm1": {"w_scale": zeros(4), "exp_bias": zeros(4)},
    "moe_fused_gate": {"num_expert_group": 8, "n_share_experts_fusion": 0},
    "indexer_k_quant_and_cache": {"quant_block_size": 128},
    **{name: {"rotate_style": 1} for name in signatures.load() if name.startswith("rope_")},
    **{name: {"generator": (5, 8)} for name in ("random_sample", "mixed_sample", "exponential")},
    **{f"top_{way}_sampling_from_probs": {"generator": (5, 8)} for way in ("p", "k_top_p")},
    "get_mla_metadata_v1": {"num_heads_k": 1},
    "mla_decode_stage1_asm_fwd": {"page_size": 1, "nhead_kv": 1},
    "get_ps_metadata_v1": {"work_metadata_ptrs": None},
    "mla_prefill_ps_asm_fwd": {"work_indptr": zeros(4), "work_info_set": zeros(4, 4)},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(signatures.load()))
def test_every_option_reaches_the_operator(name: str) -> None:
    """Each attribute of the operator that is a parameter of the function has the caller's value, and its default without one."""
    signature = signatures.load()[name]
    function = getattr(aiter_prebuilt, name)
    parameters = inspect.signature(function).parameters
    tensors = {
        parameter: zeros(*(4 for _ in range(4)), dtype=getattr(torch, BY_NAME["bf16"].torch))
        for parameter, facts in parameters.items()
        if facts.default is inspect.Parameter.empty and "Tensor" in str(facts.annotation)
    }
    required = {
        parameter: 0.5
        for parameter, facts in parameters.items()
        if facts.default is inspect.Parameter.empty and parameter not in tensors
    }
    specs = {spec.name: (place, spec) for place, spec in enumerate(signature.attributes)}
    for option, (place, spec) in specs.items():
        if option not in parameters or option in TURNED.get(name, ()):
            continue
        usual = {key: _usual(specs, key, value) for key, value in required.items()}
        words = {**usual, **tensors, **SERVED.get(name, {})}
        chosen = value(spec, place)
        _, (_, _, attributes) = handed(lambda words=words: function(**{**words, option: chosen}), name)  # type: ignore[misc]  # noqa: B023
        assert attributes[place] == chosen, option
        default = parameters[option].default
        if default is not inspect.Parameter.empty:
            _, (_, _, attributes) = handed(lambda words=words: function(**words), name)  # type: ignore[misc]
            assert attributes[place] == default, f"the default of {option}"


def _usual(specs: dict[str, Any], name: str, other: Any) -> Any:
    return value(specs[name][1], specs[name][0]) if name in specs else other
