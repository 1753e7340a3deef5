"""``fused_moe`` of 8-bit weights and ``moe_sorting``, traced by torch.compile, with the references as kernels."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support import torch_kernels  # noqa: E402

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import UnsupportedError  # noqa: E402
from aiter_prebuilt.ops import _fused_moe_8bit  # noqa: E402
from aiter_prebuilt.ops._fused_moe import MoeCall  # noqa: E402

BF16, FP8, INT8 = torch.bfloat16, torch_kernels.FP8, torch.int8
TOKENS, EXPERTS, TOPK, WIDTH, COLUMNS = 5, 4, 2, 128, 128


def _weight(rows: int, columns: int, kind: Any, quant_type: int) -> tuple[Any, Any, Any]:
    """(Codes, scales, what both mean)."""
    codes = (torch.randn(EXPERTS, rows, columns) * 30).clamp(-120, 120).to(kind)
    if quant_type in (4, 5):
        scale = torch.rand(EXPERTS, rows // 128, columns // 128) * 0.002 + 0.001
        wide = scale.repeat_interleave(128, 1).repeat_interleave(128, 2)
        return codes, scale, codes.float() * wide
    scale = torch.rand((EXPERTS, rows, 1) if quant_type == 2 else (EXPERTS, 1, 1)) * 0.002 + 0.001
    return codes, scale if quant_type == 2 else scale.reshape(EXPERTS), codes.float() * scale


def _call(kind: Any, quant_type: int, tokens: int = TOKENS, width: int = WIDTH) -> tuple[dict[str, Any], Any]:
    """(Arguments, the exact result of each choice before its weight as a function of the tokens)."""
    w1, w1_scale, first = _weight(2 * COLUMNS, width, kind, quant_type)
    w2, w2_scale, second = _weight(width, COLUMNS, kind, quant_type)
    ids = torch.rand(tokens, EXPERTS).argsort(1)[:, :TOPK].int()
    arguments = {
        "hidden_states": torch.randn(tokens, width).to(BF16), "w1": w1, "w2": w2,
        "topk_weight": torch.rand(tokens, TOPK) + 0.2, "topk_ids": ids, "quant_type": ap.QuantType(quant_type),
        "w1_scale": w1_scale, "w2_scale": w2_scale,
    }  # fmt: skip

    def exact(x: Any, early: bool = False) -> Any:
        weights = arguments["topk_weight"][..., None]
        sums = torch.einsum("th,tcnh->tcn", x.float(), first[ids.long()]) * (weights if early else 1)
        gate, up = sums.chunk(2, -1)
        parts = torch.einsum("tcn,tchn->tch", torch.nn.functional.silu(gate) * up, second[ids.long()])
        return (parts * (1 if early else weights)).sum(1)

    return arguments, exact


def _near(found: Any, wanted: Any, most: float = 0.07) -> None:
    assert found.shape == wanted.shape
    assert (found.float() - wanted).norm() <= most * wanted.norm()


@pytest.mark.parametrize(("kind", "quant_type"), [(FP8, 1), (FP8, 2), (INT8, 2), (FP8, 4), (FP8, 5)])
def test_every_kind_of_scales(compiled: Any, kind: Any, quant_type: int) -> None:
    arguments, exact = _call(kind, quant_type)
    found = compiled(lambda given: ap.fused_moe(**given))(arguments)
    assert found.dtype == BF16
    _near(found, exact(arguments["hidden_states"]))


def _in_codes(values: Any, rows: bool = False) -> Any:
    """Values as fp8 codes times a scale for all, or for each row, in float64."""
    scale = values.float().abs().amax(-1, keepdim=True) if rows else values.float().abs().max()
    scale = scale / 448
    return (values.float() / scale).to(FP8).double() * scale.double()


def _logits_diff(found: Any, wanted: Any) -> float:
    """As AITER's tests have it: they allow 1e-3."""
    x, y = found.double(), wanted.double()
    return float(1 - 2 * (x * y).sum() / (x * x + y * y).sum())


@pytest.mark.parametrize("early", [False, True])
def test_per_tensor_quantises_twice_with_one_scale(compiled: Any, early: bool) -> None:
    """As AITER's ``fused_moe``: one scale for all tokens, and one for what the activation gives, as bf16, of all choices."""
    torch.manual_seed(35)
    arguments, _ = _call(FP8, 1, 16, 256)
    x, ids, weights = (arguments[name] for name in ("hidden_states", "topk_ids", "topk_weight"))
    first, second = (
        arguments[name].double() * arguments[f"{name}_scale"].double()[:, None, None] for name in ("w1", "w2")
    )
    choices = weights[..., None].double()
    sums = torch.einsum("th,tcnh->tcn", _in_codes(x), first[ids.long()]) * (choices if early else 1)
    gate, up = sums.chunk(2, -1)
    hidden = _in_codes((torch.nn.functional.silu(gate) * up).to(BF16))
    parts = torch.einsum("tcn,tchn->tch", hidden, second[ids.long()])
    wanted = (parts * (1 if early else choices)).sum(1)
    found = compiled(lambda given: ap.fused_moe(**given, doweight_stage1=early))(arguments)
    assert _logits_diff(found, wanted) < 2e-5
    # With scales of rows, as it was, the same call is 1e-3 and more away.
    rows = arguments | {
        "quant_type": 2,
        **{
            f"{name}_scale": arguments[f"{name}_scale"][:, None]
            .expand(-1, arguments[name].shape[1])
            .contiguous()
            for name in ("w1", "w2")
        },
    }
    found = compiled(lambda given: ap.fused_moe(**given, doweight_stage1=early))(rows)
    assert _logits_diff(found, wanted) > 1e-3


def test_per_tensor_keeps_tokens_that_are_not_there_out_of_scales(compiled: Any) -> None:
    arguments, exact = _call(FP8, 1)
    arguments["hidden_states"][-1] = 1e30
    arguments["num_local_tokens"] = torch.tensor([TOKENS - 1], dtype=torch.int32)
    found = compiled(lambda given: ap.fused_moe(**given))(arguments)
    _near(found[:-1], exact(arguments["hidden_states"])[:-1])
    assert not found[-1].any()


@pytest.mark.parametrize("columns", [192, 96, 160])
def test_the_last_block_of_scales_may_be_a_part(compiled: Any, columns: int) -> None:
    """As vLLM has them: gate's and up's blocks begin anew."""
    groups = -(-columns // 128)
    w1 = (torch.randn(EXPERTS, 2 * columns, WIDTH) * 30).clamp(-120, 120).to(FP8)
    w2 = (torch.randn(EXPERTS, WIDTH, columns) * 30).clamp(-120, 120).to(FP8)
    scale1 = torch.rand(EXPERTS, 2 * groups, WIDTH // 128) * 0.02 + 0.001
    scale2 = torch.rand(EXPERTS, WIDTH // 128, groups) * 0.02 + 0.001
    halves = [each.repeat_interleave(128, 1)[:, :columns] for each in scale1.chunk(2, 1)]
    first = w1.float() * torch.cat(halves, 1).repeat_interleave(128, 2)
    second = w2.float() * scale2.repeat_interleave(128, 1).repeat_interleave(128, 2)[..., :columns]
    x = torch.randn(TOKENS, WIDTH).to(BF16)
    ids = torch.rand(TOKENS, EXPERTS).argsort(1)[:, :1].int()
    found = compiled(
        lambda x, ids, one: ap.fused_moe(
            x, w1, w2, one, ids, quant_type=5, w1_scale=scale1, w2_scale=scale2, dtype=BF16
        )
    )(x, ids, torch.ones(TOKENS, 1))
    gate, up = torch.einsum("th,tnh->tn", x.float(), first[ids[:, 0].long()]).chunk(2, -1)
    _near(
        found,
        torch.einsum("tn,thn->th", torch.nn.functional.silu(gate) * up, second[ids[:, 0].long()]),
    )


@pytest.mark.parametrize(
    ("kind", "quant_type", "static", "nan", "infinity"),
    [
        (FP8, 2, False, None, None), (INT8, 2, False, "0", None), (FP8, 5, False, "-block", None),
        (FP8, 2, True, "none", "most"),
    ],
)  # fmt: skip
def test_what_becomes_of_tokens_that_are_not_finite(
    compiled: Any, kind: Any, quant_type: int, static: bool, nan: str | None, infinity: str | None
) -> None:
    arguments, _ = _call(kind, quant_type, width=256)
    own = {"a1_scale": torch.tensor([2.0**-7])} if static else {}
    layer = compiled(lambda x, given: ap.fused_moe(**(given | {"hidden_states": x}), **own))
    x = arguments["hidden_states"].clone()
    x[0, 3], x[1, 140] = 0 if nan == "none" else torch.nan, torch.inf
    found = layer(x, arguments)
    alike, given = x.clone(), {"most": 448 / 128}
    given["-block"] = -float(x[0, :128].float().nan_to_num().abs().max())
    alike[0, 3], alike[1, 140] = given.get(nan or "", 0.0), given.get(infinity or "", 0.0)
    wanted = layer(alike, arguments)
    for row, means in enumerate((nan, infinity)):
        if means is None:
            assert found[row].isnan().all()
        else:
            assert torch.equal(found[row], wanted[row]) and wanted[row].isfinite().all()
    assert torch.equal(found[2:], wanted[2:]) and found[2:].isfinite().all()


def test_nan_stays_in_its_row_and_infinity_does_not_where_all_have_one_scale(compiled: Any) -> None:
    """AITER's scale of the whole tensor leaves NaN out, and is infinite where a token is."""
    arguments, exact = _call(FP8, 1)
    layer = compiled(lambda x, given: ap.fused_moe(**(given | {"hidden_states": x})))
    x = arguments["hidden_states"].clone()
    x[0, 3] = torch.nan
    found = layer(x, arguments)
    assert found[0].isnan().all()
    _near(found[1:], exact(x)[1:])
    x[1, 100] = torch.inf
    assert layer(x, arguments).isnan().all()


@pytest.mark.parametrize("quant_type", [1, 2, 5])
def test_codes_of_the_tokens_are_taken_as_they_are(compiled: Any, quant_type: int) -> None:
    arguments, exact = _call(FP8, quant_type)
    codes = (torch.randn(TOKENS, WIDTH) * 30).to(FP8)
    scale = torch.rand(1) + 0.5 if quant_type == 1 else torch.rand(TOKENS, 1) + 0.5
    arguments |= {"hidden_states": codes, "a1_scale": scale * 0.03, "dtype": torch.float16}
    found = compiled(lambda given: ap.fused_moe(**given))(arguments)
    assert found.dtype == torch.float16
    _near(found, exact(codes.float() * scale * 0.03))


@pytest.mark.parametrize(("scale", "most"), [(0.004, 1.792), (0.001, 0.448)])
def test_static_scales_are_used(compiled: Any, scale: float, most: float) -> None:
    arguments, exact = _call(FP8, 1)
    x = arguments["hidden_states"]
    wanted = exact(x.float().clamp(-most, most))  # 448 is the largest code
    found = compiled(lambda given: ap.fused_moe(**given))(arguments | {"a1_scale": torch.tensor([scale])})
    _near(found, wanted)
    assert (found.float() - exact(x)).norm() > 0.1 * exact(x).norm()
    # Of what the activation gives one that is too large leaves nothing but zeros.
    arguments |= {"a1_scale": torch.tensor([scale]), "a2_scale": torch.tensor(1e6)}
    assert not compiled(lambda given: ap.fused_moe(**given))(arguments).any()


def test_a_result_may_have_another_type(compiled: Any) -> None:
    arguments, exact = _call(FP8, 2)
    found = compiled(lambda given: ap.fused_moe(**given, dtype=torch.float16, gate_mode="interleave"))(
        arguments
    )
    assert found.dtype == torch.float16
    _near(found, exact(arguments["hidden_states"]))


@pytest.mark.parametrize(("kind", "quant_type"), [(FP8, 2), (INT8, 2), (FP8, 5)])
@pytest.mark.parametrize("coded", [False, True])
def test_choices_apart_add_up_to_what_they_are_together(
    compiled: Any, kind: Any, quant_type: int, coded: bool
) -> None:
    arguments, _ = _call(kind, quant_type)
    arguments["topk_ids"][1, 0] = -1
    arguments["num_local_tokens"] = torch.tensor([TOKENS - 1], dtype=torch.int32)
    if coded:
        codes = (torch.randn(TOKENS, WIDTH) * 30).clamp(-120, 120).to(kind)
        arguments |= {"hidden_states": codes, "a1_scale": torch.rand(TOKENS, 1) * 0.03, "dtype": BF16}
    together = compiled(lambda given: ap.fused_moe(**given))(arguments)
    output = torch.full((TOKENS, TOPK, WIDTH), float("nan"), dtype=BF16)
    found = compiled(lambda given, own: ap.fused_moe(**given, no_combine=True, output=own))(arguments, output)
    assert torch.equal(found, output) and found.data_ptr() == output.data_ptr()
    assert not found[1, 0].any() and not found[-1].any() and found[1, 1].any() and found[0, 0].any()
    _near(found.float().sum(1), together.float(), 0.004)
    assert not torch.equal(found[0, 0], found[0, 1])


def test_output_gets_the_result(compiled: Any) -> None:
    arguments, _ = _call(FP8, 2)
    output = torch.full((TOKENS, 2 * WIDTH), float("nan"), dtype=BF16)[:, WIDTH:]
    found = compiled(lambda given, own: ap.fused_moe(**given, output=own))(arguments, output)
    assert found.data_ptr() == output.data_ptr() and torch.equal(
        output, compiled(lambda given: ap.fused_moe(**given))(arguments)
    )


@pytest.mark.parametrize(("tokens", "assembled"), [(16, False), (17, True)])
def test_aiters_assembly_is_taken_where_its_rule_says_so(
    compiled: Any, tokens: int, assembled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On gfx950, whose fp8 this is: of tokens that are weighted before the first product."""
    seen: list[bool] = []
    before = torch_kernels.as_traced(_fused_moe_8bit)._assembly

    def noted(*given: Any) -> bool:
        seen.append(before(*given))
        return seen[-1]

    monkeypatch.setattr(torch_kernels.as_traced(_fused_moe_8bit), "_assembly", noted)
    arguments, exact = _call(FP8, 2, tokens, 512)
    for name in ("w1", "w2"):
        arguments[name] = ap.shuffle_weight(arguments[name])
    found = compiled(lambda given: ap.fused_moe(**given, doweight_stage1=True))(arguments)
    assert seen == [assembled]
    _near(found, exact(arguments["hidden_states"], True))


FNUZ = torch.float8_e4m3fnuz
#: A call that AITER's assembly takes on gfx942, and what of it makes ours take it.
BY_ROW = {"kind": FNUZ, "quant_type": 2, "tokens": 17, "experts": 8, "width": 512, "columns": 256}
BY_BLOCK = BY_ROW | {"quant_type": 5, "tokens": 33}
ON_GFX950 = {"kind": FP8, "quant_type": 2, "experts": 10, "width": 5120, "columns": 1536}
LARGE = {"experts": 256, "width": 7168, "columns": 2048}


@pytest.mark.parametrize(
    ("call", "assembled"),
    [
        (BY_ROW, True), (BY_ROW | {"tokens": 16}, False), (BY_ROW | {"columns": 192}, True), (BY_ROW | {"columns": 96}, False),
        (BY_ROW | {"num_local_tokens": torch.ones(1)}, True),
        (BY_ROW | {"columns": 192, "num_local_tokens": torch.ones(1)}, False),
        (BY_ROW | {"width": 640}, False), (BY_ROW | {"kind": FP8}, True), (BY_ROW | {"quant_type": 1}, False),
        # gfx950: AITER's rows of I = 1,536 name one launch for up to 32 rows an expert, those of I = 384 for any number
        (ON_GFX950 | {"tokens": 128}, True), (ON_GFX950 | {"tokens": 256}, False), (ON_GFX950 | {"tokens": 16}, False),
        (ON_GFX950 | {"tokens": 16384, "columns": 384}, True), (ON_GFX950 | {"tokens": 256, "doweight_stage1": True}, True),
        (BY_ROW | {"activation": 1}, False), (BY_ROW | {"doweight_stage1": True}, False),
        (BY_ROW | {"kind": FP8, "doweight_stage1": True}, True), (BY_ROW | {"swiglu_limit": 7.0}, False),
        (BY_ROW | {"dtype": torch.float16}, False), (BY_ROW | {"bias1": torch.zeros(1)}, False),
        (BY_ROW | {"a1_scale": torch.ones(1)}, False), (BY_ROW | {"is_shuffled": False}, False),
        (BY_BLOCK, True), (BY_BLOCK | {"quant_type": 4}, True), (BY_BLOCK | {"tokens": 32}, False),
        (BY_BLOCK | {"columns": 384}, False), (BY_BLOCK | {"width": 768}, False), (BY_BLOCK | {"kind": FP8}, True),
        (BY_BLOCK | {"kind": FP8, "tokens": 32}, False), (BY_BLOCK | {"kind": FP8, "doweight_stage1": True}, False),
        (BY_BLOCK | LARGE, False), (BY_BLOCK | LARGE | {"columns": 1024}, True),
        (BY_BLOCK | {"width": 7168, "tokens": 300_000}, False),
    ],
)  # fmt: skip
def test_which_calls_aiters_assembly_takes(call: dict[str, Any], assembled: bool) -> None:
    """fp8 says which GPU it is of: no driver is asked."""
    given = dict(call)
    experts, width, columns = (given.pop(name) for name in ("experts", "width", "columns"))
    tokens, kind, flag = given.pop("tokens"), given.pop("kind"), given.pop("is_shuffled", True)
    w1 = torch.empty(experts, 2 * columns, width, dtype=kind, device="meta")
    w2 = torch.empty(experts, width, columns, dtype=kind, device="meta")
    w1.is_shuffled = w2.is_shuffled = flag
    tensors = {
        "hidden_states": torch.empty(tokens, width, dtype=BF16, device="meta"),
        "w1": w1,
        "w2": w2,
        "topk_ids": torch.empty(tokens, TOPK, dtype=torch.int32, device="meta"),
        "w1_scale": torch.empty(experts, 2 * columns, 1, device="meta"),
    }
    options = {"activation": 0, "doweight_stage1": False, "gate_mode": "separated"}
    values: dict[str, Any] = dict.fromkeys(MoeCall._fields) | {"copies": 1} | tensors | options | given
    asked = MoeCall(**values)
    assert _fused_moe_8bit._assembly(asked, asked.activation) is assembled


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("quant_type", {"quant_type": 6}),
        ("activation", {"activation": 3}),
        ("gate_mode", {"gate_mode": ap.GateMode.GATE_ONLY}),
        ("w2_scale", {"w2_scale": None}),
        ("a1_scale", {"a1_scale": torch.ones(TOKENS, 1)}),
        ("a1_scale", {"hidden_states": torch.zeros(TOKENS, WIDTH).to(FP8)}),
        ("dtype", {"hidden_states": torch.zeros(TOKENS, WIDTH).to(FP8), "a1_scale": torch.ones(TOKENS, 1)}),
        ("quant_dtype_a", {"quant_dtype_a": INT8}),
        ("block_size_M", {"block_size_M": "32"}),
        ("block_size_M", {"block_size_M": -2}),
        ("moe_sorting_dispatch_policy", {"moe_sorting_dispatch_policy": 1.5}),
        ("splitk", {"splitk": "all"}),
        ("swiglu_limit", {"swiglu_limit": -1.0}),
        ("swiglu_limit", {"swiglu_limit": float("nan")}),
        ("swiglu_limit", {"swiglu_limit": "7"}),
        ("beta", {"beta": "1"}),
        ("linear_beta", {"linear_beta": torch.ones(1)}),
        ("hidden_pad", {"hidden_pad": -32}),
        ("hidden_pad", {"hidden_pad": WIDTH}),
        ("intermediate_pad", {"intermediate_pad": COLUMNS}),
        ("intermediate_pad", {"intermediate_pad": 0.5}),
    ],
)
def test_what_is_not_covered_is_refused_by_name(option: str, given: dict[str, Any]) -> None:
    arguments, _ = _call(FP8, 2)
    with pytest.raises(UnsupportedError, match=rf"fused_moe\({option}="):
        ap.fused_moe(**(arguments | given))


def test_how_work_is_divided_changes_nothing(compiled: Any) -> None:
    arguments, _ = _call(FP8, 2)
    wanted = compiled(lambda given: ap.fused_moe(**given))(arguments)
    more = {
        "block_size_M": -1, "moe_sorting_dispatch_policy": 2, "splitk": None, "beta": 4.0, "linear_beta": float("nan"),
        "swiglu_limit": float("inf"), "hidden_pad": WIDTH - 1, "intermediate_pad": 5,
    }  # fmt: skip
    for option, value in more.items():
        found = compiled(lambda given, own: ap.fused_moe(**given, **own))(arguments, {option: value})
        assert torch.equal(found, wanted), option


@pytest.mark.parametrize(
    ("width", "assembled", "static"), [(512, True, False), (128, False, False), (512, False, True)]
)
def test_asm_moe_tkw1_weights_tokens_first(
    compiled: Any, width: int, assembled: bool, static: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def noting(name: str) -> None:
        own = getattr(torch_kernels.as_traced(_fused_moe_8bit), name)

        def noted(*given: Any) -> Any:
            seen.append(name)
            return own(*given)

        monkeypatch.setattr(torch_kernels.as_traced(_fused_moe_8bit), name, noted)

    noting("_assembled")
    noting("_ours")
    arguments, exact = _call(FP8, 2, 3, width)
    x, scales = arguments.pop("hidden_states"), (arguments.pop("w1_scale"), arguments.pop("w2_scale"))
    del arguments["quant_type"]
    for name in ("w1", "w2"):
        # vLLM's parameters do not say that they are shuffled there.
        arguments[name] = ap.shuffle_weight(arguments[name]).view(torch.uint8).view(FP8)
    own = {"per_tensor_quant_scale": torch.tensor([0.01])} if static else {}
    found = compiled(lambda x, s, given: ap.asm_moe_tkw1(x, fc1_scale=s[0], fc2_scale=s[1], **given))(
        x, scales, arguments | own
    )
    assert seen == ["_assembled" if assembled else "_ours"]
    _near(found, exact(x, True))


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("a16", {"a16": True}), ("fc1_smooth_scale", {"fc1_smooth_scale": torch.ones(1)}), ("fc2_scale", {"fc2_scale": None}),
        ("activation", {"activation": 2}),
    ],
)  # fmt: skip
def test_what_asm_moe_tkw1_does_not_cover_is_refused_by_name(option: str, given: dict[str, Any]) -> None:
    arguments, _ = _call(FP8, 2)
    names = ("hidden_states", "w1", "w2", "topk_weight", "topk_ids")
    scales = {"fc1_scale": arguments["w1_scale"], "fc2_scale": arguments["w2_scale"]}
    with pytest.raises(UnsupportedError, match=option):
        ap.asm_moe_tkw1(*(arguments[name] for name in names), **(scales | given))


@pytest.mark.parametrize(
    "output", [torch.zeros(TOKENS, WIDTH), torch.zeros(TOKENS, TOPK, WIDTH, dtype=BF16), torch.zeros(1)]
)
def test_another_output_is_refused(library: Any, output: Any) -> None:
    arguments, _ = _call(FP8, 2)
    with pytest.raises(UnsupportedError, match=r"output=.*Use output=a tensor of shape \(5, 128\)"):
        ap.fused_moe(**arguments, output=output, quant_dtype_a=FP8)


def test_columns_are_whole_blocks() -> None:
    arguments, _ = _call(FP8, 5)
    with pytest.raises(ValueError, match="96 columns"):
        ap.fused_moe(**(arguments | {"hidden_states": torch.zeros(3, 96, dtype=BF16)}))


def test_moe_sorting_makes_what_moe_sorting_fwd_writes(compiled: Any) -> None:
    ids = torch.tensor([[0, 2], [2, 1], [2, 0]], dtype=torch.int32)
    weights = torch.rand(3, 2)
    found = compiled(lambda i, w: ap.moe_sorting(i, w, 4, 64, BF16, 4))(ids, weights)
    sorted_ids, sorted_weights, experts, valid, buffer = found
    assert valid.tolist() == [12, 3] and sorted_ids.shape == sorted_weights.shape == (3 * 2 + 4 * 4 - 2,)
    assert experts.shape == (5,) and experts[:3].tolist() == [0, 1, 2]
    none = 2 << 24 | 3
    assert sorted_ids[:12].tolist() == [
        0, 1 << 24 | 2, none, none, 1 << 24 | 1, none, none, none, 1 << 24, 1, 2, none,
    ]  # fmt: skip
    assert torch.equal(
        sorted_weights[[0, 1, 4, 8]],
        torch.stack([weights[0, 0], weights[2, 1], weights[1, 1], weights[0, 1]]),
    )
    assert buffer.shape == (3, 64) and buffer.dtype == BF16 and not buffer.any()
    # Ids padded beyond the weights: what is behind the tokens that are there is not looked at.
    padded = torch.cat([ids, torch.full((2, 2), 0x7F7F7F7F, dtype=torch.int32)])
    more = compiled(lambda i, w, n: ap.moe_sorting(i, w, 4, 64, BF16, 4, None, n))(
        padded, weights, torch.tensor([3], dtype=torch.int32)
    )
    assert more[0].shape == (5 * 2 + 4 * 4 - 2,) and more[4].shape == (5, 64) and not more[4][:3].any()
    assert all(torch.equal(more[place][:12], found[place][:12]) for place in (0, 1, 3))
    assert more[2][:3].tolist() == [0, 1, 2]
    with pytest.raises(UnsupportedError, match="flat"):
        ap.moe_sorting(ids, weights, 4, 64, BF16, flat=True)


def test_moe_sorting_gives_the_numbers_of_the_experts_here(compiled: Any) -> None:
    """Those of AITER's op_tests/test_moe_local_expert_ids.py, and ids of no expert."""
    ids = torch.tensor([[0, 1, 5], [2, 4, 3], [5, 0, 2], [-1, 6, 4]], dtype=torch.int32)
    mask = torch.tensor([0, 1, 1, 0, 1, 0], dtype=torch.int32)
    weights = torch.ones(4, 3)
    call = compiled(lambda i, w, m: ap.moe_sorting(i, w, 6, 16, BF16, 8, m, return_local_topk_ids=True))
    plain = compiled(lambda i, w, m: ap.moe_sorting(i, w, 6, 16, BF16, 8, m))(ids, weights, mask)
    *lists, local = call(ids, weights, mask)
    assert local.dtype == torch.int32
    assert local.tolist() == [[-1, 0, -1], [1, 2, -1], [-1, -1, 1], [-1, -1, 2]]
    assert [each.shape for each in lists] == [each.shape for each in plain]
    same = compiled(lambda i, w: ap.moe_sorting(i, w, 6, 16, BF16, 8, return_local_topk_ids=True))(
        ids, weights
    )[5]
    assert torch.equal(same, ids) and same.data_ptr() != ids.data_ptr()
