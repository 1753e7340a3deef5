"""The public functions around operators, traced by torch.compile, with the references as kernels; and those in torch alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support import torch_kernels  # noqa: E402

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import ArgumentError, ArgumentShapeError, UnsupportedError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402

BF16, FP8, INT8 = torch.bfloat16, torch_kernels.FP8, torch.int8


def _values(rows: int, columns: int) -> Any:
    x = torch.randn(rows, columns) * torch.logspace(-3, 2, rows)[:, None]
    x[0] = 0
    return x.to(BF16)


def _alike(found: Any, wanted: Any) -> None:
    """The same scales to a rounding, and codes of which few are a neighbour."""
    torch.testing.assert_close(found[1].float(), wanted[1].float(), rtol=1e-6, atol=0)
    assert found[0].dtype == wanted[0].dtype and found[0].shape == wanted[0].shape
    torch.testing.assert_close(found[0].float(), wanted[0].float(), rtol=0.13, atol=1.01 / 8)


@pytest.mark.parametrize("kind", [FP8, INT8])
@pytest.mark.parametrize("quantisation", ["per_Token", "per_1x128", "per_Tensor"])
def test_hip_quant_is_torch_quant(compiled: Any, quantisation: str, kind: Any) -> None:
    x = _values(7, 384)
    function = ap.get_hip_quant(ap.QuantType[quantisation])
    found = compiled(lambda x: function(x, quant_dtype=kind))(x)
    wanted = ap.get_torch_quant(int(ap.QuantType[quantisation]))(x, quant_dtype=kind)
    if quantisation == "per_1x128" and kind is FP8:
        wanted[1][0] = (
            1e-10 / 448
        )  # groups of zeros: AITER's kernel takes a smallest size instead of the scale 1
    _alike(found, wanted)


def test_the_default_type_is_int8(compiled: Any) -> None:
    assert compiled(ap.per_token_quant_hip)(_values(3, 64))[0].dtype == INT8
    assert ap.pertoken_quant(_values(3, 64))[0].dtype == INT8


@pytest.mark.parametrize("kind", [FP8, INT8])
@pytest.mark.parametrize("shape", [(7, 5, 64), (64, 16), (1, 300), (3, 2, 5, 32)])
def test_large_tensors_are_quantised_in_parts(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], kind: Any
) -> None:
    """The same codes and scales, of strided tensors too, without a float32 copy of the whole."""
    x = torch.randn(*shape[:-1], shape[-1] * 2, dtype=torch.bfloat16)[..., ::2]
    x[0] = 0
    whole = ap.pertoken_quant(x, quant_dtype=kind)
    monkeypatch.setattr("aiter_prebuilt.ops.quant_torch._AT_ONCE", 100)
    largest: list[int] = []
    converted = torch.Tensor.to

    def to(self: Any, *how: Any) -> Any:
        largest.append(self.numel())
        return converted(self, *how)

    monkeypatch.setattr(torch.Tensor, "to", to)
    codes, scales = ap.pertoken_quant(x, quant_dtype=kind)
    assert torch.equal(codes.float(), whole[0].float()) and torch.equal(scales, whole[1])
    assert max(largest) <= max(100, x.numel() // x.shape[0])


def test_transposed_scales_are_the_same_memory_the_other_way_round(compiled: Any) -> None:
    x = _values(5, 256)
    _, plain = compiled(lambda x: ap.per_group_quant_hip(x, quant_dtype=FP8))(x)
    _, turned = compiled(lambda x: ap.per_group_quant_hip(x, quant_dtype=FP8, transpose_scale=True))(x)
    assert turned.shape == plain.shape == (5, 2)
    assert torch.equal(turned.reshape(2, 5).T, plain)


def test_a_scale_that_is_given_is_used(compiled: Any) -> None:
    x, scale = _values(5, 64), torch.tensor([0.25])
    codes, same = compiled(lambda x, scale: ap.per_tensor_quant_hip(x, scale, FP8))(x, scale)
    assert torch.equal(same, scale)
    assert torch.equal(codes.float(), ap.per_tensor_quant(x, scale, quant_dtype=FP8)[0].float())


@pytest.mark.parametrize("mode", [1, 5])
@pytest.mark.parametrize("shuffle", [False, True])
def test_mxfp4_is_that_of_torch(compiled: Any, shuffle: bool, mode: int) -> None:
    """But for groups of zeros: there 1e-10 is the largest size of the operator's, and 0 of torch's, as in AITER."""
    x = _values(40, 512)
    x[1, :32] = torch.tensor([6.0, *[0.5] * 31])  # where the two ways part
    codes, scales = compiled(lambda x: ap.per_1x32_f4_quant_hip(x, shuffle=shuffle, round_mode=mode))(x)
    wanted_codes, wanted_scales = ap.per_1x32_f4_quant(x, shuffle=shuffle, round_mode=mode)
    assert codes.dtype == torch.float4_e2m1fn_x2 and scales.dtype == torch.float8_e8m0fnu
    assert torch.equal(codes.view(torch.uint8), wanted_codes.view(torch.uint8))
    assert scales.shape == wanted_scales.shape == ((256, 16) if shuffle else (40, 16))
    of_rows = ap.e8m0_shuffle(torch.ones(40, 16, dtype=torch.uint8)) == 1 if shuffle else slice(None)
    found, wanted = scales.view(torch.uint8)[of_rows], wanted_scales.view(torch.uint8)[of_rows]
    assert torch.equal(torch.where(wanted == 0, 92, wanted), found) and (wanted == 0).any()
    if not shuffle:
        assert found[1, 0] == {1: 127, 5: 128}[mode]


@pytest.mark.parametrize("shuffle", [False, True])
def test_mxfp8_has_the_smallest_power_without_a_cut(compiled: Any, shuffle: bool) -> None:
    x = _values(40, 512)
    options = {"quant_dtype": FP8, "scale_type": torch.float8_e8m0fnu, "shuffle": shuffle}
    codes, scales = compiled(lambda x: ap.per_1x32_mx_quant_hip(x, **options))(x)
    assert codes.dtype == FP8 and scales.dtype == torch.float8_e8m0fnu
    groups = x.double().unflatten(-1, (-1, 32))
    amax = groups.abs().amax(-1).clamp_min(1e-10)
    power = torch.ceil(torch.log2(amax / torch.finfo(FP8).max)).to(torch.int32)
    made = (power + 127).to(torch.uint8)
    laid = ap.e8m0_shuffle(made) if shuffle else made
    of_rows = ap.e8m0_shuffle(torch.ones(40, 16, dtype=torch.uint8)) == 1 if shuffle else slice(None)
    assert laid is not None and torch.equal(scales.view(torch.uint8)[of_rows], laid[of_rows])
    wanted = (groups / torch.exp2(power.double()).unsqueeze(-1)).flatten(-2).float().to(FP8)
    assert torch.equal(codes.float(), wanted.float())


def test_triton_s_scales_of_a_kind_are_its_own(compiled: Any) -> None:
    x = _values(40, 512)
    codes, scales = compiled(ap.get_triton_quant(ap.QuantType.per_1x32))(x)
    assert codes.dtype == torch.float4_e2m1fn_x2 and scales.dtype == torch.float8_e8m0fnu
    for found, wanted in zip((codes, scales), compiled(ap.dynamic_mxfp4_quant)(x), strict=True):
        assert torch.equal(found.view(torch.uint8), wanted)


@pytest.mark.parametrize("getter", ["get_hip_quant", "get_torch_quant"])
def test_a_kind_may_be_of_the_older_way(compiled: Any, getter: str) -> None:
    x = torch.tensor([[6.0, *[0.5] * 31]], dtype=torch.bfloat16)
    modes: tuple[dict[str, int], ...] = ({}, {"round_mode": 1}, {"round_mode": 5})
    functions = [getattr(ap, getter)(ap.QuantType.per_1x32, **mode) for mode in modes]
    scales = [int(compiled(function)(x)[1].view(torch.uint8)[0, 0]) for function in functions]
    assert scales == [127, 127, 128]
    with pytest.raises(UnsupportedError, match="round_mode"):
        getattr(ap, getter)(ap.QuantType.per_1x32, round_mode=2)


@pytest.mark.parametrize(("mode", "scale"), [(0, 127), (1, 128), (2, 127), (3, 128), (5, 128)])
def test_each_way_to_a_scale_in_torch(mode: int, scale: int) -> None:
    x = torch.tensor([[6.5, *[0.5] * 31]])
    codes, scales = ap.per_1x32_f4_quant(x, round_mode=mode)
    assert scales.view(torch.uint8).tolist() == [[scale]] and codes.view(torch.uint8)[0, 0] & 15 == (
        7 if scale == 127 else 5
    )
    turned = ap.per_1x32_f4_quant(x.T.contiguous(), pack_dim=0, round_mode=mode)
    for one, other in zip(turned, (codes, scales), strict=True):
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8).T)


@pytest.mark.parametrize("shape", [(64,), (3, 64), (2, 3, 64), (8, 64, 128), (2, 3, 5, 96)])
def test_mxfp4_scales_have_two_dims_whatever_the_input_has(shape: tuple[int, ...]) -> None:
    """As AITER's: codes keep the leading dims, scales are rows by groups, and what sorts them next asks for two dims."""
    x = _values(math.prod(shape[:-1]), shape[-1]).reshape(shape)
    rows, groups = math.prod(shape[:-1]), shape[-1] // 32
    flat = ap.per_1x32_f4_quant(x.reshape(rows, -1))
    for quantise in (ap.per_1x32_f4_quant, ap.get_torch_quant(ap.QuantType.per_1x32)):
        codes, scales = quantise(x)
        assert codes.shape == (*shape[:-1], shape[-1] // 2) and scales.shape == (rows, groups)
        assert torch.equal(codes.view(torch.uint8).reshape(rows, -1), flat[0].view(torch.uint8))
        assert torch.equal(scales.view(torch.uint8), flat[1].view(torch.uint8))
        _, laid = quantise(x, shuffle=True)
        assert torch.equal(laid.view(torch.uint8), ap.e8m0_shuffle(flat[1].view(torch.uint8)))


#: Of an input [2, 3, N]: what AITER's functions in torch give, shape by shape.
@pytest.mark.parametrize(
    ("kind", "scales"),
    [("per_Tensor", (1,)), ("per_Token", (2, 3, 1)), ("per_1x32", (6, 8)), ("per_1x128", (2, 3, 2))],
)
def test_shapes_of_scales_for_three_dims(kind: str, scales: tuple[int, ...]) -> None:
    x = _values(6, 256).reshape(2, 3, 256)
    codes, made = ap.get_torch_quant(getattr(ap.QuantType, kind))(x)
    assert codes.shape == ((2, 3, 128) if kind == "per_1x32" else (2, 3, 256)) and made.shape == scales


@pytest.mark.parametrize("options", [{"pack_dim": 1}, {"round_mode": 4}])
def test_other_ways_in_torch_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=next(iter(options))):
        ap.per_1x32_f4_quant(torch.ones(2, 32), **options)


def test_mxfp4_of_torch_rounds_to_even() -> None:
    values = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 5.5, -0.25, -0.76, 0.2501, 0.7499, 5.01, 1.0, 2.0, 3.0]
    codes, scales = ap.per_1x32_f4_quant(torch.tensor([[*values, *([0.0] * 16)]]))
    packed = codes.view(torch.uint8)[0, :8]
    found = torch.stack([packed & 15, packed >> 4], 1).flatten().tolist()
    assert found == [0, 2, 2, 4, 4, 6, 6, 7, 8, 10, 1, 1, 7, 2, 4, 5]
    assert scales.view(torch.uint8)[0, 0] == 127  # 1: the largest size, 5.5, is nearest to 2 ** 2


def test_dynamic_mxfp4_quant_gives_bytes(compiled: Any) -> None:
    codes, scales = compiled(ap.dynamic_mxfp4_quant)(_values(4, 64))
    assert codes.dtype == scales.dtype == torch.uint8 and codes.shape == (4, 32) and scales.shape == (4, 2)


def test_dynamic_mxfp4_quant_goes_the_way_of_triton(compiled: Any) -> None:
    """Halfway to the larger code, and the next scale from 1.75 of a power on: of 3.328 it is a half, of 3.5 one."""
    halfway = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.25, -1.25, -5.0, 6.0]
    x = torch.zeros(1, 96, dtype=torch.bfloat16)
    x[0, : len(halfway)], x[0, 32], x[0, 64] = torch.tensor(halfway), 3.328125, 3.5
    codes, scales = compiled(ap.dynamic_mxfp4_quant)(x)
    found = torch.stack([codes & 15, codes >> 4], 2).flatten().tolist()
    assert found[: len(halfway)] == [1, 2, 3, 4, 5, 6, 7, 9, 11, 15, 7] and (found[32], found[64]) == (7, 6)
    assert scales.tolist() == [[127, 126, 127]]


def test_groups_of_32_in_fp8_have_fp32_scales(compiled: Any) -> None:
    x = _values(6, 96)
    codes, scales = compiled(lambda x: ap.get_hip_quant(3)(x, quant_dtype=FP8))(x)
    back = codes.float() * scales.repeat_interleave(32, 1)
    torch.testing.assert_close(back, x.float(), rtol=0.07, atol=1e-3)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("per_token_quant_hip", {"scale": torch.ones(1)}),
        ("per_group_quant_hip", {"group_size": 48}),
        ("per_group_quant_hip", {"scale_type": torch.float8_e8m0fnu}),
        ("per_tensor_quant_hip", {"num_rows": torch.ones(1, dtype=torch.int32)}),
        ("per_1x32_mx_quant_hip", {"quant_dtype": FP8, "shuffle": True}),
        ("per_1x32_mx_quant_hip", {"quant_dtype": INT8}),
        ("per_1x32_f4_quant_hip", {"quant_dtype": FP8}),
        ("per_1x32_f4_quant", {"scale": torch.ones(1)}),
        ("dynamic_mxfp4_quant", {"scaling_mode": "up"}),
    ],
)
def test_what_is_not_covered_is_refused_by_name(function: str, options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=next(reversed(options))):
        getattr(ap, function)(_values(2, 256), **options)


@pytest.mark.parametrize("getter", ["get_hip_quant", "get_torch_quant", "get_triton_quant"])
def test_kinds_of_quantisation(getter: str) -> None:
    x = _values(2, 128)
    assert getattr(ap, getter)(ap.QuantType.No)(x) == (x, None)
    for kind in (99, "per_Token"):
        with pytest.raises(UnsupportedError, match="qType"):
            getattr(ap, getter)(kind)
    for kind in (
        ap.QuantType.per_128x128,
        ap.QuantType.per_256x128,
    ):  # asked for, and refused when it is called, as in AITER
        function = getattr(ap, getter)(kind)
        with pytest.raises(UnsupportedError, match="qType"):
            function(x, quant_dtype=FP8)


@pytest.mark.parametrize("function", ["per_group_quant_hip", "per_1x32_mx_quant_hip", "per_1x32_f4_quant"])
def test_columns_are_whole_groups(function: str) -> None:
    with pytest.raises(ValueError, match="must be a multiple of"):
        getattr(ap, function)(_values(2, 72))


@pytest.mark.parametrize("renormalize", [False, True])
def test_fused_topk_is_the_largest_of_the_softmax(compiled: Any, renormalize: bool) -> None:
    logits = torch.randn(9, 16)
    hidden = torch.zeros(9, 4, dtype=BF16)
    weights, ids = compiled(lambda h, g: ap.fused_topk(h, g, 3, renormalize))(hidden, logits)
    wanted, best = torch.softmax(logits, -1).topk(3)
    wanted = wanted / wanted.sum(-1, keepdim=True) if renormalize else wanted
    assert torch.equal(ids.long(), best)
    torch.testing.assert_close(weights, wanted, rtol=1e-5, atol=1e-6)
    given = torch.empty(9, 3), torch.empty(9, 3, dtype=torch.int32)
    found = compiled(lambda h, g, w, i: ap.fused_topk(h, g, 3, renormalize, i, w))(hidden, logits, *given)
    assert torch.equal(given[1].long(), best) and torch.equal(found[0], weights)
    with pytest.raises(ValueError, match="8 rows"):
        ap.fused_topk(hidden, logits[:8], 3, renormalize)


def test_topk_is_torchs(compiled: Any) -> None:
    x = torch.randn(5, 300)
    values, ids = compiled(lambda x: ap.topk(x, 7))(x)
    wanted, best = x.topk(7)
    assert torch.equal(values, wanted) and torch.equal(ids, best)
    least, places = torch.empty(5, 3), torch.empty(5, 3, dtype=torch.int32)
    compiled(lambda x, ids, out: ap.topk_plain(x, ids, out, 3, False))(x, places, least)
    wanted, best = x.topk(3, largest=False)
    assert torch.equal(least, wanted) and torch.equal(places.long(), best)


@pytest.mark.parametrize(
    ("shape", "options"), [((4,), {}), ((2, 4), {"dim": 0}), ((2, 4), {"largest": False}), ((2, 4), {"sorted": False})]
)  # fmt: skip
def test_topk_refuses_what_aiters_does(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"topk: .* pass"):
        ap.topk(torch.zeros(shape), 2, **options)


def test_ranges_of_topk_plain_are_refused() -> None:
    places = torch.zeros(2, dtype=torch.int32)
    seen: list[Any] = []
    with instead(ap.topk_plain, lambda _, tensors, attributes: seen.append((tensors, attributes))):
        ap.topk_plain(
            places, places, places, 3, True, places[:0], places[:0]
        )  # as AITER's callers leave them out
    assert seen == [([places] * 3, [3, True, -1, 1])]
    for ranges in ({"rowStarts": places}, {"rowEnds": places}):
        with pytest.raises(UnsupportedError, match=r"rowStarts|rowEnds"):
            ap.topk_plain(
                torch.zeros(2, 8), torch.zeros(2, 3, dtype=torch.int32), torch.zeros(2, 3), 3, **ranges
            )


def test_biased_grouped_topk_is_the_operator(compiled: Any) -> None:
    logits, bias = torch.randn(5, 32), torch.randn(32)
    weights, ids = torch.empty(5, 4), torch.empty(5, 4, dtype=torch.int32)
    compiled(ap.biased_grouped_topk)(logits, bias, weights, ids, 4, 2, True, 2.5)
    score = torch.sigmoid(logits)
    choice = (score + bias).view(5, 4, 8)
    groups = choice.topk(2).values.sum(-1).topk(2).indices
    kept = torch.zeros(5, 4, dtype=torch.bool).scatter_(1, groups, True)
    best = choice.masked_fill(~kept[..., None], float("-inf")).flatten(1).topk(4).indices
    assert torch.equal(ids.long().sort().values, best.sort().values)
    wanted = score.gather(1, ids.long())
    torch.testing.assert_close(weights, 2.5 * wanted / wanted.sum(-1, keepdim=True), rtol=1e-4, atol=1e-6)


def test_tgemm_is_a_linear_layer(compiled: Any) -> None:
    x, weight, bias = torch.randn(5, 64).to(BF16), torch.randn(24, 64).to(BF16), torch.randn(24).to(BF16)
    found = compiled(lambda x, w, b: ap.tgemm.mm(x, w, b, otype=BF16))(x, weight, bias)
    torch.testing.assert_close(
        found.float(), x.float() @ weight.float().T + bias.float(), rtol=1e-2, atol=1e-2
    )
    with pytest.raises(UnsupportedError, match="scale_a"):
        ap.tgemm.mm(x, weight, scale_a=torch.ones(1))
    with pytest.raises(UnsupportedError, match="scale_b"):
        ap.tgemm.mm(x, weight, otype=torch.float32, scale_b=torch.ones(1))
    with pytest.raises(UnsupportedError, match="otype"):
        ap.tgemm.mm(x, weight, otype=torch.int32)
    wide = compiled(lambda x, w, b: ap.tgemm.mm(x, w, b, otype=torch.float32))(x, weight, bias)
    assert wide.dtype == torch.float32
    torch.testing.assert_close(wide, x.float() @ weight.float().T + bias.float(), rtol=1e-5, atol=1e-4)


def test_scales_of_fp4_are_where_the_formula_says() -> None:
    scale = torch.randint(0, 250, (40, 12), dtype=torch.uint8)
    found: Any = ap.e8m0_shuffle(scale)
    assert found.shape == (256, 16)
    whole = torch.full((256, 16), 0x7F, dtype=torch.uint8)
    whole[:40, :12] = scale
    wanted = torch.empty(256 * 16, dtype=torch.uint8)
    for r in range(256):
        for c in range(16):
            block = (r // 32) * 2 + c // 8
            place = ((c % 4 * 16 + r % 16) * 2 + c % 8 // 4) * 2 + r % 32 // 16
            wanted[block * 256 + place] = whole[r, c]
    assert torch.equal(found.flatten(), wanted)
    assert ap.e8m0_shuffle(None) is None
    assert torch.equal(ap.moe_shuffle_scale(scale), found)


@pytest.mark.parametrize("gate_up", [False, True])
def test_scales_of_experts_are_where_the_formula_says(gate_up: bool) -> None:
    experts, rows, columns = 3, 64, 16
    scale = torch.randint(0, 250, (experts * rows, columns), dtype=torch.uint8)
    found: Any = ap.shuffle_scale_a16w4(scale, experts, gate_up)
    wanted = torch.empty_like(scale).flatten()
    for e in range(experts):
        for n in range(rows):
            for k in range(columns):
                half, n1, nl = (n // 32, n % 32 // 16, n % 16) if gate_up else (n // 16 % 2, n // 32, n % 16)
                k1, kp, kl = k // 8, k // 4 % 2, k % 4
                place = ((((n1 * (columns // 8) + k1) * 4 + kl) * 16 + nl) * 2 + kp) * 2 + half
                wanted[e * rows * columns + place] = scale[e * rows + n, k]
    assert torch.equal(found.flatten(), wanted)
    with pytest.raises(ValueError, match="experts"):
        ap.shuffle_scale(scale, None, True)
    with pytest.raises(ValueError, match="multiple of 32"):
        ap.shuffle_scale_a16w4(scale[:100], 2, gate_up)


def test_weights_of_experts_are_those_of_shuffle_weight() -> None:
    weight = torch.randint(0, 255, (2, 64, 128), dtype=torch.uint8)
    wanted: Any = ap.shuffle_weight(weight, (16, 16), is_guinterleave=True, gate_up=True)
    found: Any = ap.shuffle_weight_a16w4(weight, 16, True)
    assert torch.equal(found, wanted) and found.is_shuffled
    assert torch.equal(ap.moe_shuffle_weight(weight), ap.shuffle_weight(weight))


def test_enumerations_have_aiters_numbers() -> None:
    assert [each.value for each in ap.QuantType] == list(range(8))
    assert int(ap.QuantType.per_128x128) == 5
    assert [each.value for each in ap.ActivationType] == [-1, 0, 1, 2, 3]
    assert ap.GateMode("interleave") is ap.GateMode.INTERLEAVE


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("shape", [(5, 96), (2, 3, 64), (0, 32)])
def test_fused_silu_mul_returns_what_it_wrote(compiled: Any, shape: tuple[int, ...], given: bool) -> None:
    x = torch.randn(shape).to(BF16)
    half = shape[-1] // 2
    out = torch.full((*shape[:-1], half), 7, dtype=BF16) if given else None
    found = compiled(ap.fused_silu_mul)(x, out)
    wanted = torch.nn.functional.silu(x[..., :half].float()) * x[..., half:].float()
    torch.testing.assert_close(found, wanted.to(BF16), rtol=2**-8, atol=1e-6)
    assert found.dtype == BF16 and (out is None or torch.equal(out, found))


def test_fused_silu_mul_of_no_tensor_says_so() -> None:
    with pytest.raises(ArgumentError, match="fused_silu_mul"):
        ap.fused_silu_mul(3)


@pytest.mark.parametrize("getter", ["get_hip_quant", "get_triton_quant"])
@pytest.mark.parametrize("shape", [(2, 3, 64), (64,), (3, 40)])
def test_mxfp4_of_no_rows_is_refused_by_name(getter: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentShapeError, match=r"x must have 2 dims|must be a multiple of 32"):
        getattr(ap, getter)(ap.QuantType.per_1x32)(torch.ones(shape, dtype=BF16))


def test_torch_quantisations_refuse_by_name() -> None:
    x = torch.ones((0, 64), dtype=BF16)
    with pytest.raises(ArgumentShapeError, match="x must have elements to compute a scale"):
        ap.get_torch_quant(ap.QuantType.per_Tensor)(x)
    for kind in (ap.QuantType.per_Tensor, ap.QuantType.per_Token, ap.QuantType.per_1x128):
        with pytest.raises(UnsupportedError, match="quant_dtype="):
            ap.get_torch_quant(kind)(torch.ones((2, 128)), quant_dtype=torch.float4_e2m1fn_x2)
    for kind, columns in ((ap.QuantType.per_1x32, 40), (ap.QuantType.per_1x128, 64)):
        with pytest.raises(ArgumentShapeError, match=f"must be a multiple of .*, got {columns}"):
            ap.get_torch_quant(kind)(torch.ones((2, columns)))
