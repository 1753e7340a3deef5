"""``routing`` and its products, traced by torch.compile, with the references as kernels; layers as vLLM writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")


import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import UnsupportedError  # noqa: E402

_FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@pytest.fixture
def compiled(library: Any) -> Iterator[Any]:
    """torch.compile with nothing left over from another test; a graph break is an error."""
    torch._dynamo.reset()
    yield lambda function: torch.compile(function, fullgraph=True, backend="eager", dynamic=False)
    torch._dynamo.reset()


@pytest.mark.parametrize("sm_first", [False, True])
@pytest.mark.parametrize(
    ("tokens", "experts", "topk", "block_m"), [(7, 32, 4, 16), (200, 8, 2, 64), (90, 4, 1, 32)]
)
def test_places_are_choices_in_the_order_of_experts(
    compiled: Any, tokens: int, experts: int, topk: int, block_m: int, sm_first: bool
) -> None:
    draw = torch.Generator().manual_seed(tokens)
    logits = torch.stack([torch.randperm(experts, generator=draw) for _ in range(tokens)]).float() / 4
    data, gather, scatter = compiled(ap.routing)(logits.to(torch.bfloat16), topk, sm_first=sm_first)
    scores = logits.softmax(-1) if sm_first else logits
    found, chosen = scores.topk(topk)
    chosen, order = chosen.sort(-1)
    found = found.gather(-1, order)
    if not sm_first:
        found = found.softmax(-1)
    flat = chosen.flatten()
    wanted = torch.argsort(flat, stable=True)
    assert (data.block_m, data.n_expts_tot, data.n_expts_act) == (block_m, experts, topk)
    assert torch.equal(gather, wanted.int())
    assert torch.equal(gather[scatter], torch.arange(tokens * topk, dtype=torch.int32))
    torch.testing.assert_close(data.gate_scal.float(), found.flatten()[wanted], rtol=2**-8, atol=1e-6)
    hist = torch.bincount(flat, minlength=experts)
    assert torch.equal(data.expt_hist, hist.int()) and data.expt_data.hist is data.expt_hist
    assert torch.equal(data.expt_data.token_offs_raw[1:], hist.cumsum(0).int())
    blocks = -(-hist // block_m)
    assert torch.equal(data.expt_data.token_offs_pad[1:], blocks.cumsum(0).int())
    listed = [number << 16 | expert for expert in range(experts) for number in range(int(blocks[expert]))]
    assert len(data.expt_data.block_pid_map) == data.n_blocks(tokens * topk, block_m)
    assert data.expt_data.block_pid_map.tolist() == listed + [-1] * (
        data.n_blocks(tokens * topk, block_m) - len(listed)
    )


@pytest.mark.parametrize("renorm", [False, True])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_a_table_says_the_experts_of_each_token(compiled: Any, renorm: bool, kind: Any) -> None:
    draw = torch.Generator().manual_seed(3)
    tokens, experts, topk, words = 40, 16, 3, 9
    logits = torch.randn(tokens, experts, generator=draw)
    table = torch.stack([torch.randperm(experts, generator=draw)[:topk] for _ in range(words)]).int()
    words_of = torch.randint(0, words, (tokens,), generator=draw).to(kind)
    call = compiled(ap.routing_from_hash)
    data, gather, scatter = call(logits, table, words_of, topk, 16, renorm=renorm, routed_scaling_factor=2.5)
    chosen = table[words_of.long()].long()
    scores = torch.nn.functional.softplus(logits).sqrt().gather(1, chosen)
    if renorm:
        scores = scores / scores.sum(1, keepdim=True)
    flat = chosen.flatten()
    wanted = torch.argsort(flat, stable=True)
    assert (data.block_m, data.n_expts_tot, data.n_expts_act) == (16, experts, topk)
    assert torch.equal(gather, wanted.int())
    assert torch.equal(gather[scatter], torch.arange(tokens * topk, dtype=torch.int32))
    torch.testing.assert_close(data.gate_scal, 2.5 * scores.flatten()[wanted])
    hist = torch.bincount(flat, minlength=experts)
    assert torch.equal(data.expt_hist, hist.int()) and data.expt_data.hist is data.expt_hist
    assert torch.equal(data.expt_data.token_offs_raw[1:], hist.cumsum(0).int())
    assert torch.equal(data.expt_data.token_offs_pad[1:], (-(-hist // 16)).cumsum(0).int())
    assert len(data.expt_data.block_pid_map) == data.n_blocks(tokens * topk, 16)


def test_an_expert_that_stands_twice_has_two_places(compiled: Any) -> None:
    table = torch.tensor([[1, 1], [0, 7]], dtype=torch.int32)
    words = torch.tensor([0, 1, 5], dtype=torch.int32)
    data, gather, _ = compiled(ap.routing_from_hash)(torch.zeros(3, 4), table, words, 2, 16)
    assert data.expt_hist.tolist() == [1, 2, 0, 0]
    assert gather[:3].tolist() == [2, 0, 1]
    torch.testing.assert_close(data.gate_scal[:3], torch.tensor([1.0, 0.5, 0.5]))


def _weight(experts: int, rows: int, columns: int, draw: Any) -> tuple[Any, Any, Any]:
    """Pairs of codes and scales, rows as they lie, and what they mean."""
    pairs = torch.randint(0, 256, (experts, rows, columns // 2), generator=draw, dtype=torch.uint8)
    scales = torch.randint(119, 122, (experts, rows, columns // 32), generator=draw, dtype=torch.uint8)
    codes = torch.stack([pairs & 15, pairs >> 4], -1).reshape(experts, rows, columns).long()
    values = _FP4[codes & 7] * torch.where(codes & 8 > 0, -1.0, 1.0)
    return pairs, scales, values * torch.exp2(scales.float() - 127).repeat_interleave(32, -1)


def _laid(scales: Any, swizzled: bool) -> Any:
    """As the backend has them: turned around, or each expert's swizzled first."""
    if swizzled:
        package: Any = ap
        rows, columns = scales.shape[1:]
        scales = torch.stack([package.e8m0_shuffle(each)[:rows] for each in scales])
        scales = scales.reshape(len(scales), rows // 32, columns * 32)
    return scales.transpose(1, 2)


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_a_layer_as_vllm_writes_it(compiled: Any, swizzled: bool, residual: bool) -> None:
    tokens, experts, topk, wide, inner = 9, 4, 2, 256, 256
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(tokens, wide, generator=draw).to(torch.bfloat16)
    logits = torch.randn(tokens, experts, generator=draw).to(torch.bfloat16)
    w1, s1, first = _weight(experts, 2 * inner, wide, draw)
    w2, s2, down = _weight(experts, wide, inner, draw)
    bias1, bias2 = (torch.randn(experts, width, generator=draw) for width in (2 * inner, wide))
    layout = "CDNA4_SCALE" if swizzled else None
    limit = 1.5 if residual else None

    def layer(x: Any, logits: Any, s1: Any, s2: Any) -> Any:
        data, gather, scatter = ap.routing(logits, topk, sm_first=False)
        between = ap.moe_gemm_a16w4(
            x, w1.transpose(1, 2), None, s1, None, None, bias1, data, gather_indx=gather, gammas=None,
            swizzle_mx_scale=layout, apply_swiglu=True, alpha=1.702, limit=limit, swiglu_add_residual=residual,
            unpadded_N=None, unpadded_K=None,
        )  # fmt: skip
        return ap.moe_gemm_a16w4(
            between, w2.transpose(1, 2), None, s2, None, None, bias2, data, scatter_indx=scatter, gammas=data.gate_scal,
            swizzle_mx_scale=layout,
        )  # fmt: skip

    found = compiled(layer)(x, logits, _laid(s1, swizzled), _laid(s2, swizzled))
    values, chosen = logits.float().topk(topk)
    wanted = torch.zeros(tokens, wide)
    for token, choice in torch.cartesian_prod(torch.arange(tokens), torch.arange(topk)).tolist():
        own = int(chosen[token, choice])
        sums = first[own] @ x[token].float() + bias1[own]
        gate, up = sums[::2], sums[1::2]
        if limit is not None:
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        hidden = (gate * torch.sigmoid(1.702 * gate) * (up + residual)).to(torch.bfloat16).float()
        share = values[token].softmax(-1)[choice].to(torch.bfloat16).float()
        wanted[token] += share * (down[own] @ hidden + bias2[own])
    assert found.dtype == torch.bfloat16
    assert (found.float() - wanted).norm() < 0.006 * wanted.norm()


@pytest.mark.parametrize("kind", [torch.bool, torch.int32])
@pytest.mark.parametrize("function", ["moe_gemm_a16w4", "moe_gemm_a8w4", "moe_gemm_a4w4"])
def test_choices_of_another_device_add_nothing(compiled: Any, function: str, kind: Any) -> None:
    """Lists of the experts that are here, as a dispatcher makes them: other choices have no place."""
    tokens, experts, topk, wide, inner, here = 9, 6, 2, 64, 128, 4
    draw = torch.Generator().manual_seed(5)
    logits = torch.randn(tokens, experts, generator=draw).to(torch.bfloat16)
    pairs, scales, values = _weight(here, wide, inner, draw)
    rows = torch.randn(tokens * topk, inner, generator=draw).to(torch.bfloat16)
    arguments: tuple[Any, ...] = (rows, pairs.transpose(1, 2), None, scales.transpose(1, 2))
    if function == "moe_gemm_a8w4":
        arguments = (rows.to(torch.float8_e4m3fn), *arguments[1:])
        rows = arguments[0]
    if function == "moe_gemm_a4w4":
        codes, own, means = _weight(1, tokens * topk, inner, draw)
        arguments, rows = (codes[0], pairs.transpose(1, 2), own[0], scales.transpose(1, 2)), means[0]
    data, _, scatter = compiled(ap.routing)(logits, topk)
    live = (data.expt_data.token_offs_raw[here] > scatter).to(kind)
    assert 0 < live.sum() < len(live)
    data.expt_data.hist = data.expt_data.hist[:here].contiguous()
    blocks = data.expt_data.block_pid_map
    data.expt_data.block_pid_map = torch.where(blocks & 0xFFFF < here, blocks, -1)
    away = torch.where(live != 0, scatter, 2**30)
    found = compiled(getattr(ap, function))(
        *arguments, routing_data=data, scatter_indx=away, gate_valid=live.reshape(tokens, topk)
    )
    starts = data.expt_data.token_offs_raw
    wanted = torch.zeros(tokens, wide)
    for choice in torch.nonzero(live).flatten().tolist():
        place = int(scatter[choice])
        own = int((starts[: here + 1] <= place).sum()) - 1
        wanted[choice // topk] += (values[own] @ rows[place].float()).to(torch.bfloat16).float()
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), wanted, rtol=2**-7, atol=2**-9)


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("bytes_alone", [False, True])
def test_a_layer_in_fp4(compiled: Any, swizzled: bool, bytes_alone: bool) -> None:
    tokens, experts, topk, wide, inner = 9, 4, 2, 256, 256
    draw = torch.Generator().manual_seed(7)
    codes, own, means = (each[0] for each in _weight(1, tokens, wide, draw))
    logits = torch.randn(tokens, experts, generator=draw).to(torch.bfloat16)
    w1, s1, first = _weight(experts, 2 * inner, wide, draw)
    bias = torch.randn(experts, 2 * inner, generator=draw)
    layout = "CDNA4_SCALE" if swizzled else None

    def layer(x: Any, own: Any, logits: Any, s1: Any) -> Any:
        data, gather, scatter = ap.routing(logits, topk, sm_first=False)
        gated = ap.moe_gemm_a4w4(
            x, w1.transpose(1, 2), own, s1, bias, data, gather_indx=gather, gammas=data.gate_scal,
            swizzle_mx_scale=layout, apply_swiglu=True, alpha=1.702, limit=1.5, swiglu_add_residual=True,
        )  # fmt: skip
        summed = ap.moe_gemm_a4w4(
            x, w1.transpose(1, 2), own, s1, bias, data, gather_indx=gather, scatter_indx=scatter, swizzle_mx_scale=layout,
            out_dtype=torch.bfloat16,
        )  # fmt: skip
        return gated, summed, scatter, data.gate_scal

    x = codes if bytes_alone else codes.view(torch.float4_e2m1fn_x2)
    gated, summed, scatter, gates = compiled(layer)(x, own, logits, _laid(s1, swizzled))
    _, chosen = logits.float().topk(topk)
    chosen = chosen.sort(-1).values
    wanted, total = torch.zeros(tokens * topk, inner), torch.zeros(tokens, 2 * inner)
    for token, choice in torch.cartesian_prod(torch.arange(tokens), torch.arange(topk)).tolist():
        expert, place = int(chosen[token, choice]), int(scatter[token * topk + choice])
        sums = first[expert] @ means[token] + bias[expert]
        gate, up = sums[::2].clamp(max=1.5), sums[1::2].clamp(-1.5, 1.5)
        wanted[place] = gate * torch.sigmoid(1.702 * gate) * (up + 1) * gates[place].float()
        total[token] += sums
    assert gated.dtype == summed.dtype == torch.bfloat16
    assert (gated.float() - wanted).norm() < 0.004 * wanted.norm()
    assert (summed.float() - total).norm() < 0.004 * total.norm()


def test_another_type_of_the_result_of_fp4_is_refused() -> None:
    x, w = torch.empty(2, 64, dtype=torch.uint8), torch.empty(1, 32, 64, dtype=torch.uint8)
    lists: Any = type("Lists", (), {"expt_data": 1, "n_expts_act": 1, "block_m": 16})
    with pytest.raises(UnsupportedError) as found:
        ap.moe_gemm_a4w4(x, w, w, w, routing_data=lists, out_dtype=torch.float16)
    assert "out_dtype=torch.float16" in str(found.value)


@pytest.mark.parametrize("scales", ["static", "shared"])
@pytest.mark.parametrize("swizzled", [False, True])
def test_a_layer_in_fp8_as_vllm_writes_it(compiled: Any, swizzled: bool, scales: str) -> None:
    tokens, experts, topk, wide, inner = 9, 4, 2, 256, 256
    draw = torch.Generator().manual_seed(3)
    fp8 = torch.float8_e4m3fn
    one, two = torch.tensor([0.01]), torch.tensor(0.75)
    codes = (torch.randn(tokens, wide, generator=draw) / one).to(fp8)
    own = None
    means = codes.float() * one
    if scales == "shared":
        own = torch.randint(118, 123, (tokens, wide // 32), generator=draw, dtype=torch.uint8)
        means = codes.float() * torch.exp2(own.float() - 127).repeat_interleave(32, -1)
    logits = torch.randn(tokens, experts, generator=draw).to(torch.bfloat16)
    w1, s1, first = _weight(experts, 2 * inner, wide, draw)
    w2, s2, down = _weight(experts, wide, inner, draw)
    bias1, bias2 = (torch.randn(experts, width, generator=draw) for width in (2 * inner, wide))
    layout = "CDNA4_SCALE" if swizzled else None

    def layer(x: Any, logits: Any, s1: Any, s2: Any) -> Any:
        data, gather, scatter = ap.routing(logits, topk, sm_first=False)
        between = ap.moe_gemm_a8w4(
            x, w1.transpose(1, 2), own, s1, one if own is None else None, two, bias1, data, gather_indx=gather,
            gammas=None, swizzle_mx_scale=layout, out_dtype=fp8, apply_swiglu=True, alpha=1.702, limit=7.0,
            unpadded_N=500, unpadded_K=250,
        )  # fmt: skip
        return between, ap.moe_gemm_a8w4(
            between, w2.transpose(1, 2), None, s2, two, None, bias2, data, scatter_indx=scatter,
            gammas=data.gate_scal, swizzle_mx_scale=layout,
        )  # fmt: skip

    between, found = compiled(layer)(codes, logits, _laid(s1, swizzled), _laid(s2, swizzled))
    assert between.dtype == fp8 and between.shape == (tokens * topk, inner) and found.dtype == torch.bfloat16
    values, chosen = logits.float().topk(topk)
    wanted = torch.zeros(tokens, wide)
    for token, choice in torch.cartesian_prod(torch.arange(tokens), torch.arange(topk)).tolist():
        own_expert = int(chosen[token, choice])
        sums = first[own_expert] @ means[token] + bias1[own_expert]
        gate, up = sums[::2].clamp(max=7.0), sums[1::2].clamp(-7.0, 7.0)
        hidden = (gate * torch.sigmoid(1.702 * gate) * (up + 1) / two).clamp(-448, 448).to(fp8).float() * two
        share = values[token].softmax(-1)[choice].to(torch.bfloat16).float()
        wanted[token] += share * (down[own_expert] @ hidden + bias2[own_expert])
    assert (found.float() - wanted).norm() < 0.01 * wanted.norm()


def test_columns_that_pad_are_left_out_where_aiter_does(compiled: Any) -> None:
    draw = torch.Generator().manual_seed(2)
    x = torch.randn(5, 64, generator=draw).to(torch.bfloat16)
    data, gather, _ = compiled(ap.routing)(torch.randn(5, 4, generator=draw).to(torch.bfloat16), 1)
    w, scales, _ = _weight(4, 96, 64, draw)
    bias = torch.randn(4, 96, generator=draw)
    product = compiled(ap.moe_gemm_a16w4)
    arguments = (x, w.transpose(1, 2), None, scales.transpose(1, 2), None, None, bias, data, gather)
    whole, part = product(*arguments), product(*arguments, unpadded_N=70, unpadded_K=60)
    assert part.shape == (5, 70) and torch.equal(part, whole[:, :70])


@pytest.mark.parametrize(
    ("function", "changes", "said"),
    [
        ("routing", {"score_mode": "sigmoid"}, "score_mode='sigmoid'"),
        ("routing_from_hash", {"score_mode": "sigmoid"}, "score_mode='sigmoid'"),
        ("moe_gemm_a16w4", {"x_scales": 1}, "x_scales=1"),
        ("moe_gemm_a16w4", {"x_static_scale": 1}, "x_static_scale=1"),
        ("moe_gemm_a16w4", {"quant_static_scale": 1}, "quant_static_scale=1"),
        ("moe_gemm_a16w4", {"swizzle_mx_scale": "GFX1250_SCALE"}, "swizzle_mx_scale='GFX1250_SCALE'"),
        ("moe_gemm_a16w4", {"apply_swiglu": True, "scatter_indx": 1}, "apply_swiglu=True"),
        ("moe_gemm_a16w4", {"routing_data": None}, "routing_data=None"),
        ("moe_gemm_a8w4", {"preshuffled": True}, "preshuffled=True"),
        ("moe_gemm_a8w4", {"out_mx_quant": True}, "out_mx_quant=True"),
        ("moe_gemm_a8w4", {"residual": 1}, "residual=1"),
        ("moe_gemm_a8w4", {"swizzle_mx_scale": "GFX1250_SCALE"}, "swizzle_mx_scale='GFX1250_SCALE'"),
        ("moe_gemm_a8w4", {"apply_swiglu": True, "scatter_indx": 1}, "apply_swiglu=True"),
        ("moe_gemm_a8w4", {"routing_data": None}, "routing_data=None"),
        ("moe_gemm_a16w4", {"expert_map": 1}, "expert_map=1"),
        ("moe_gemm_a8w4", {"expert_map": 1}, "expert_map=1"),
        ("moe_gemm_a4w4", {"preshuffle_weights": True}, "preshuffle_weights=True"),
        ("moe_gemm_a4w4", {"swizzle_mx_scale": "GFX1250_SCALE"}, "swizzle_mx_scale='GFX1250_SCALE'"),
        ("moe_gemm_a4w4", {"apply_swiglu": True, "scatter_indx": 1}, "apply_swiglu=True"),
        ("moe_gemm_a4w4", {"routing_data": None}, "routing_data=None"),
    ],
)
def test_what_no_kernel_covers_is_refused_by_name(function: str, changes: dict[str, Any], said: str) -> None:
    names = {
        "routing": ("logits", "n_expts_act"),
        "routing_from_hash": ("router_logits", "tid2eid", "input_ids", "n_expts_act", "block_m"),
    }.get(function, ("x", "w", "x_scales", "w_scales"))
    given: dict[str, Any] = {name: 2 if name in {"n_expts_act", "block_m"} else None for name in names}
    with pytest.raises(UnsupportedError) as found:
        getattr(ap, function)(**(given | changes))
    assert said in str(found.value)


def test_another_type_of_the_result_is_refused() -> None:
    x, w = torch.empty(2, 64, dtype=torch.float16), torch.empty(1, 32, 64, dtype=torch.uint8)
    lists: Any = type("Lists", (), {"expt_data": 1, "n_expts_act": 1, "block_m": 16})
    with pytest.raises(UnsupportedError) as found:
        ap.moe_gemm_a16w4(x, w, None, w, routing_data=lists)
    assert "out_dtype=None" in str(found.value)


@pytest.mark.parametrize(
    ("out_dtype", "quantised", "scattered"),
    [
        (torch.float16, False, False),
        (torch.float8_e4m3fn, False, False),
        (torch.bfloat16, True, False),
        (torch.float8_e4m3fn, True, True),
    ],
)
def test_another_type_of_the_result_of_fp8_is_refused(
    out_dtype: Any, quantised: bool, scattered: bool
) -> None:
    x, w = torch.empty(2, 64, dtype=torch.float8_e4m3fn), torch.empty(1, 32, 64, dtype=torch.uint8)
    lists: Any = type("Lists", (), {"expt_data": 1, "n_expts_act": 1, "block_m": 16})
    scale = torch.ones(1) if quantised else None
    places = torch.zeros(2, dtype=torch.int32) if scattered else None
    with pytest.raises(UnsupportedError) as found:
        ap.moe_gemm_a8w4(
            x, w, None, w, None, scale, routing_data=lists, scatter_indx=places, out_dtype=out_dtype
        )
    assert f"out_dtype={out_dtype}" in str(found.value)
