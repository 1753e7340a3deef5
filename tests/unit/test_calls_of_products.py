"""What the functions of products and experts make of a call: new tensors, and what goes to the native operator.

No kernel runs: a stand-in takes what would go to the native operator.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Any

import pytest
from support.handed import BF16, F16, F32, handed, zeros

import aiter_prebuilt
from aiter_prebuilt.errors import (
    ArgumentDTypeError,
    ArgumentKindError,
    ArgumentShapeError,
    UnsupportedError,
)
from aiter_prebuilt.execute.record import instead

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")


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


@pytest.mark.parametrize("option", [{"scale_a": 1}, {"activation": "tanh"}, {"skip_reduce": True}])
def test_a_gemm_of_fp32_refuses_what_it_has_not(option: dict[str, Any]) -> None:
    function: Any = aiter_prebuilt.gemm_a16w16
    for asked in ({"otype": F32}, {"dtype": F32}, {"y": zeros(5, 16, dtype=F32)}):
        with pytest.raises(UnsupportedError, match=next(iter(option))):
            function(zeros(5, 64), zeros(16, 64), **asked, **option)


@pytest.mark.parametrize("option", ["otype", "dtype"])
@pytest.mark.parametrize(("kind", "other"), [(BF16, F16), (F16, BF16)])
def test_a_gemm_rounds_its_fp32_result_once_to_the_other_type(option: str, kind: Any, other: Any) -> None:
    """AITER's own test asks for each pair of types; sums are what fp32 holds, not what the input's type does."""
    a, b, bias = zeros(5, 64, dtype=kind), zeros(16, 64, dtype=kind), zeros(16, dtype=kind)
    sums = torch.randn(5, 16) * 1.001
    function: Any = aiter_prebuilt.gemm_a16w16
    seen: list[Any] = []

    def deed(operator: Any, tensors: list[Any], attributes: list[Any]) -> None:
        seen.append((operator.name, tensors[:3]))
        tensors[3].copy_(sums)

    with instead(function, deed):
        out = function(a, b, bias, **{option: other})
        memory = torch.full((5, 16), float("nan"), dtype=other)
        assert function(a, b, bias, y=memory, **{option: other}) is memory
        with pytest.raises(ArgumentDTypeError, match=r"y must be .*, got "):
            function(a, b, bias, y=zeros(5, 16, dtype=kind), **{option: other})
        with pytest.raises(ArgumentShapeError, match=r"y must be \[5, 16\], got \[4, 16\]"):
            function(a, b, bias, y=zeros(4, 16, dtype=other), **{option: other})
    assert out.dtype is other and torch.equal(out, sums.to(other)) and torch.equal(memory, out)
    assert seen[0][0] == "gemm_a16w16_fp32" and all(
        one is two for one, two in zip(seen[0][1], (a, b, bias), strict=True)
    )


@pytest.mark.parametrize(
    ("kind", "bias", "is_shuffled", "served"),
    [
        (F32, False, False, "gemm_a16w16_asm"), (F32, True, False, "gemm_a16w16_fp32"), (BF16, False, False, "gemm_a16w16"),
        (BF16, True, False, "gemm_a16w16"), (F32, False, True, "gemm_a16w16_shuffled"),
        (BF16, True, True, "gemm_a16w16_shuffled"),
    ],
)  # fmt: skip
def test_calls_without_an_object_of_aiters_are_ours(
    kind: Any, bias: bool, is_shuffled: bool, served: str
) -> None:
    a, b, out = zeros(5, 64), zeros(32, 64), zeros(5, 32, dtype=kind)
    added = zeros(32) if bias else None
    function: Any = aiter_prebuilt.gemm_a16w16_asm
    call = partial(function, a, b, out, added, bpreshuffle=is_shuffled)
    made, (name, tensors, _) = handed(call, "gemm_a16w16_asm")
    assert made is out and name == served
    given = {id(each) for each in tensors if each is not None}
    assert given == {id(each) for each in (a, b, out, added) if each is not None}
    _, (named, _, scalars) = handed(partial(call, kernelName="x"), "gemm_a16w16_asm")
    assert named == ("gemm_a16w16_shuffled" if is_shuffled else "gemm_a16w16_asm") and "x" in scalars


@pytest.mark.parametrize("wrong", [torch.float64, torch.int8])
def test_a_gemm_refuses_other_types_of_its_result_by_name(wrong: Any) -> None:
    for option in ("otype", "dtype"):
        function: Any = aiter_prebuilt.gemm_a16w16
        with pytest.raises(UnsupportedError, match=rf"{option}=.*Use {option}=None or A.dtype or fp32"):
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
    assert all(one is other for one, other in zip(tensors, (a, b, out, None), strict=True))


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
    with pytest.raises(UnsupportedError, match=r"gemm_a4w4\(alpha=2\.0.*Use alpha=1\.0"):
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
    with pytest.raises(UnsupportedError, match=r"scaling_mode='odd'.*Use scaling_mode=\"even\""):
        function(x, "gelu", "odd")


def test_a_gemm_of_fp4_leaves_other_types_to_the_native_call() -> None:
    given = (zeros(5, 128), zeros(64, 128), zeros(32, 8), zeros(64, 8))
    _, (_, tensors, _) = handed(lambda: aiter_prebuilt.gemm_a4w4(*given), "gemm_a4w4")
    assert all(one is other for one, other in zip(tensors[:4], given, strict=True))


@pytest.mark.parametrize("asked", [-1, 5])
def test_parts_of_k_are_a_power_of_two_up_to_16(asked: int) -> None:
    given, out = (zeros(5, 128), zeros(64, 128), zeros(32, 8), zeros(64, 8)), zeros(5, 64)
    with pytest.raises(
        UnsupportedError, match=r"gemm_a4w4_asm\(log2_k_split=.*Use log2_k_split=None or 0 to 4"
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


@pytest.mark.parametrize("options", [{}, {"quant_type": 5}, {"quant_type": "4"}])
def test_a_first_stage_names_the_kinds_that_it_takes(options: dict[str, Any]) -> None:
    """AITER's default is none of them."""
    with pytest.raises(
        UnsupportedError, match=r"\(quant_type=.*Use quant_type=2 \(QuantType.per_Token\) or 4 \(per_1x128\)"
    ):
        _first_stage(zeros(40, 512), zeros(40, 2, 128), **options)
    with pytest.raises(
        ArgumentKindError,
        match="quant_type must be an int of 64 bits or a member of the enumeration, got None",
    ):
        _first_stage(zeros(40, 512), zeros(40, 2, 128), quant_type=None)


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


def test_no_part_of_k_is_no_number_of_parts() -> None:
    a, b, out = zeros(5, 64), zeros(64, 64), zeros(5, 64, dtype=F32)
    with pytest.raises(UnsupportedError, match=r"gemm_a16w16_asm\(splitK=0\).*Use splitK=None or 1 and more"):
        aiter_prebuilt.gemm_a16w16_asm(a, b, out, splitK=0)


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
