"""Calls of the public functions that have no golden call: those that choose, prepare or compose (``functions_program.py``).

Each entry of :data:`CALLS` makes a call with torch's tensors of a device and compares it with a few lines of torch in fp64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

import aiter_prebuilt as ap

PACKAGE: Final[Any] = ap
#: Functions that no single process with one device can call, and the test that does.
ELSEWHERE: Final = dict.fromkeys(
    (
        "init_custom_qr",
        "qr_all_reduce",
        "qr_all_reduce_rmsnorm",
        "qr_destroy",
        "qr_get_handle",
        "qr_open_handles",
    ),
    "tests/emulator/quick_ranks_program.py",
)
#: Functions of one target alone, whose refusal on the other is the call there.
ONLY: Final = {"moe_gemm_a8w4": "gfx950"}
_FP4: Final = torch.tensor(
    [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64
)


class Place:
    """Where a call is made: its device, its target, and its draws."""

    def __init__(self, device: str, target: str, seed: int) -> None:
        self.device, self.target = device, target
        self.draw = torch.Generator().manual_seed(seed)
        self.fp8 = torch.float8_e4m3fn if target == "gfx950" else torch.float8_e4m3fnuz
        self.largest = torch.finfo(self.fp8).max

    def normal(self, *shape: int, kind: torch.dtype = torch.bfloat16) -> torch.Tensor:
        """Numbers on the device."""
        return torch.randn(*shape, generator=self.draw).to(kind).to(self.device)

    def whole(self, high: int, *shape: int, kind: torch.dtype = torch.int32) -> torch.Tensor:
        """Whole numbers on the device."""
        return torch.randint(0, high, shape, generator=self.draw).to(kind).to(self.device)


def near(
    found: torch.Tensor, right: torch.Tensor, tolerance: float, like: torch.Tensor | None = None
) -> None:
    """Assert that a device's tensor is near to fp64 numbers of the processor's."""
    assert found.is_cuda and tuple(found.shape) == tuple(right.shape), (
        found.device,
        found.shape,
        right.shape,
    )
    if like is not None:
        assert found.dtype == like.dtype
    torch.testing.assert_close(found.cpu().double(), right.double(), rtol=tolerance, atol=tolerance)


def host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's numbers in fp64 on the processor."""
    return tensor.detach().cpu().double()


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, sign: int = 1) -> torch.Tensor:
    """Halves of each head turned by angles."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - sign * second * sin, second * cos + sign * first * sin], -1)


def rope(name: str, place: Place) -> None:
    """Any of the rotary embeddings, named by its parts."""
    two, back, inplace = "_2c" in name, "_bwd" in name, name.endswith("_inplace")
    sign = -1 if back else 1
    flat, image = "thd" in name, "2d" in name
    shape = (6, 3, 16) if flat else (2, 6, 3, 16) if image else (3, 2, 3, 16)
    inputs = [place.normal(*shape) for _ in range(2 if two else 1)]
    before = [host(each) for each in inputs]
    end: tuple[Any, ...] = (0, True, False)
    if image:
        angles = [torch.randn(1, count, 1, 4, generator=place.draw) for count in (2, 3)]
        tables = [each(angle).to(place.device) for angle in angles for each in (torch.cos, torch.sin)]
        cos = [torch.cos(each.double()) for each in angles]
        sin = [torch.sin(each.double()) for each in angles]

        def right_of(x: torch.Tensor) -> torch.Tensor:
            image_of = x.reshape(2, 2, 3, 3, 16)
            rows = turned(
                image_of[..., :8], cos[0].reshape(1, 2, 1, 1, 4), sin[0].reshape(1, 2, 1, 1, 4), sign
            )
            columns = turned(
                image_of[..., 8:], cos[1].reshape(1, 1, 3, 1, 4), sin[1].reshape(1, 1, 3, 1, 4), sign
            )
            return torch.cat([rows, columns], -1).reshape(x.shape)

        arguments: tuple[Any, ...] = (*inputs, *tables, 2, 3, *end)
    else:
        angle = torch.randn(6 if "positions" in name else shape[0], 1, 1, 8, generator=place.draw)
        cached = "cached" in name
        tables = (
            [angle.cos().to(place.device), angle.sin().to(place.device)]
            if cached
            else [angle.to(place.device)]
        )
        places = torch.arange(shape[0])[:, None].expand(shape[0], shape[1])
        lists = []
        if "positions" in name:
            lists.append(place.whole(3, 3, 2, kind=torch.int64))
            places = lists[0].cpu()
        if "offsets" in name:
            lists.append(place.whole(3, 3, 2, kind=torch.int64))
            places = places + lists[1].cpu()
        if flat:
            lists = [torch.tensor([0, 2, 5], dtype=torch.int32, device=place.device)]
            rows = angle.double().reshape(-1, 8)[torch.tensor([0, 1, 0, 1, 2])][:, None]
        else:
            rows = angle.double().reshape(-1, 8)[places][:, :, None]

        def right_of(x: torch.Tensor) -> torch.Tensor:
            if not flat:
                return turned(x, rows.cos(), rows.sin(), sign)
            return torch.cat([turned(x[:5], rows.cos(), rows.sin(), sign), x[5:]])

        arguments = (*inputs, *lists, *tables, *end) if flat else (*inputs, *tables, *lists, *end)
    found = getattr(PACKAGE, name)(*arguments)
    outs = inputs if inplace else found if two else [found]
    rows_of = 5 if flat else None  # tokens behind the last sequence belong to none
    for out, given in zip(outs, before, strict=True):
        near(out[:rows_of], right_of(given)[:rows_of], 2**-7)


def dequantised(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Numbers of pairs of FP4 codes with a scale for 32."""
    pairs = codes.view(torch.uint8).cpu().long()
    values = torch.stack([_FP4[pairs & 15], _FP4[pairs >> 4]], -1).flatten(-2)
    exponents = scales.view(torch.uint8).cpu().double()[..., : values.shape[-1] // 32] - 127
    return values * torch.exp2(exponents).repeat_interleave(32, -1)


def row_quant(
    call: Callable[..., Any], place: Place, group: int = 0, kind: torch.dtype | None = None
) -> None:
    """A quantisation of rows, of groups of a row (``group``), or of a tensor (-1): codes times scales are the numbers."""
    x = place.normal(5, 256)
    codes, scales = call(x)
    kind = place.fp8 if kind is None else kind
    assert codes.dtype == kind and codes.is_cuda and scales.is_cuda, (codes.dtype, scales.dtype)
    grouped = host(x).reshape(5, -1, group) if group > 0 else host(x).reshape(5, 1, 256)
    largest = grouped.abs().amax(-1, keepdim=True)
    if group < 0:
        largest = largest.amax()
    found = host(codes).reshape(grouped.shape) * (
        host(scales) if group < 0 else host(scales).reshape(5, -1, 1)
    )
    step = 2.0**-4 * grouped.abs() + largest * (2**-7 if kind.is_floating_point else 2**-6)
    assert ((found - grouped).abs() <= step).all()


def fp4_quant(call: Callable[..., Any], place: Place) -> None:
    """Pairs of FP4 codes and scales of 32."""
    x = place.normal(5, 256)
    codes, scales = call(x)
    largest = host(x).reshape(5, 8, 32).abs().amax(-1, keepdim=True)
    off = (dequantised(codes, scales)[:5] - host(x)).reshape(5, 8, 32).abs()
    assert (off <= largest / 3 + 1e-6).all(), off.max()


def chosen(place: Place) -> tuple[torch.Tensor, torch.Tensor]:
    """Of 9 tokens two of 4 experts each, and their shares."""
    ids = torch.stack([torch.randperm(4, generator=place.draw)[:2] for _ in range(9)]).int()
    return ids.to(place.device), torch.rand(9, 2, generator=place.draw).to(place.device)


def mixed(
    x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, shares: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """A mixture of experts in fp64."""
    right = torch.zeros(x.shape, dtype=torch.float64)
    for token, choices_of in enumerate(ids.tolist()):
        for choice, expert in enumerate(choices_of):
            gate, up = (w1[expert] @ host(x[token])).chunk(2)
            share = float(shares[token, choice])
            right[token] += share * (w2[expert] @ (torch.nn.functional.silu(gate) * up))
    return right


def fused_moe(call: Callable[..., Any], place: Place) -> None:
    """Experts in bf16 and in 8 bits against torch's products; 1408 columns of DeepSeek-V2-Lite over 8 and 16 GPUs, too."""
    for inner in (128, 176, 88):
        x = place.normal(9, 256)
        w1, w2 = place.normal(4, 2 * inner, 256) / 16, place.normal(4, 256, inner) / 16
        ids, shares = chosen(place)
        near(call(x, w1, w2, shares, ids), mixed(x, host(w1), host(w2), shares, ids), 0.03)
    for kind, inner in ((place.fp8, 176), (torch.int8, 176), (torch.int8, 48)):
        x = place.normal(9, 256)
        w1, w2 = ((place.normal(4, *shape) * 16).to(kind) for shape in ((2 * inner, 256), (256, inner)))
        s1, s2 = (torch.full((4, rows, 1), 1 / 256, device=place.device) for rows in (2 * inner, 256))
        ids, shares = chosen(place)
        found = call(x, w1, w2, shares, ids, quant_type=2, w1_scale=s1, w2_scale=s2)
        right = mixed(x, host(w1) / 256, host(w2) / 256, shares, ids)
        assert (host(found) - right).norm() / right.norm() < 0.06, (kind, inner)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention of one sequence in fp64; heads of keys are repeated."""
    keys, values = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = torch.einsum("nhd,mhd->hnm", q, keys) * q.shape[2] ** -0.5
    if causal:
        ahead = torch.arange(len(k))[None] > torch.arange(len(q))[:, None] + len(k) - len(q)
        scores = scores.masked_fill(ahead, -torch.inf)
    return torch.einsum("hnm,mhd->nhd", scores.softmax(-1), values)


def starts(place: Place, lengths: list[int]) -> torch.Tensor:
    """Where sequences of such lengths begin, and where the last ends."""
    return torch.tensor([0, *lengths]).cumsum(0).int().to(place.device)


def padded_sequences(place: Place) -> None:
    """``flash_attn_varlen_func`` of sequences with padding behind them, of queries, of keys, and of both."""
    own, keys, heads, width = [5, 1, 9], [12, 7, 9], 4, 64
    for wide_q, wide_k in (([8, 1, 12], [12, 10, 16]), ([6, 4, 9], None), (None, [13, 7, 20])):
        q = place.normal(sum(wide_q or own), heads, width)
        k, v = (place.normal(sum(wide_k or keys), 2, width) for _ in range(2))
        out, lse, probabilities = ap.flash_attn_varlen_func(
            q, k, v, starts(place, own), starts(place, keys), 9, 12, causal=True, return_lse=True, return_attn_probs=True,
            cu_seqlens_q_padded=None if wide_q is None else starts(place, wide_q),
            cu_seqlens_k_padded=None if wide_k is None else starts(place, wide_k),
        )  # fmt: skip
        assert (tuple(lse.shape), tuple(probabilities.shape)) == ((heads, len(q)), (0,))
        at, to = (starts(place, each).tolist() for each in (wide_q or own, wide_k or keys))
        for number, (n, m) in enumerate(zip(own, keys, strict=True)):
            rows, first, last = slice(at[number], at[number] + n), to[number], to[number] + m
            right = attended(host(q[rows]), host(k[first:last]), host(v[first:last]), True)
            near(out[rows], right, 0.02)


def tables_of_pages(place: Place) -> None:
    """``mha_batch_prefill_func`` of a table of pages, a part of a wider one, and how many keys each sequence has."""
    own, keys, page = [5, 1, 9, 2], [33, 16, 9, 0], 16
    q, k = place.normal(sum(own), 4, 64), place.normal(11, page, 2, 64)
    v = place.normal(11, page, 2, 64)
    table = torch.stack([torch.randperm(11, generator=place.draw)[:5] for _ in own]).int()
    nothing = torch.zeros(5, dtype=torch.int32, device=place.device)
    out, lse = ap.mha_batch_prefill_func(
        q, k, v, starts(place, own), nothing, nothing, 9, 33, causal=True, return_lse=True,
        block_table=table.to(place.device)[:, :3], seqlen_k=torch.tensor(keys, dtype=torch.int32, device=place.device),
    )  # fmt: skip
    at = starts(place, own).tolist()
    for number, (n, m) in enumerate(zip(own, keys, strict=True)):
        rows, pages = slice(at[number], at[number] + n), table[number, :3].long()
        if m == 0:
            assert (host(out[rows]) == 0).all() and (host(lse[:, rows]) == -torch.inf).all()
            continue
        seen, held = (host(each)[pages].flatten(0, 1)[:m] for each in (k, v))
        right = attended(host(q[rows]), seen, held, True)
        near(out[rows], right, 0.02)


def linear_biases(place: Place) -> None:
    """``paged_attention_v1`` with a slope for each head."""
    counts, page, heads = [70, 1, 33], 16, 6
    q, k, v = place.normal(3, heads, 64), place.normal(9, page, 2, 64), place.normal(9, page, 2, 64)
    slopes = place.normal(heads, kind=torch.float32)
    table = torch.stack([torch.randperm(9, generator=place.draw)[:5] for _ in counts]).int()
    one = torch.ones(1, device=place.device)
    out = torch.full_like(q, torch.nan)
    ap.paged_attention_v1(
        out, None, q, k, v, 0.125, table.to(place.device), None, torch.tensor(counts, dtype=torch.int32, device=place.device),
        70, slopes, "auto", "NHD", 0.0, one, one,
    )  # fmt: skip
    for number, count in enumerate(counts):
        pages = table[number].long()
        keys, values = (host(each)[pages].flatten(0, 1)[:count].repeat_interleave(3, 1) for each in (k, v))
        scores = torch.einsum("hd,mhd->hm", host(q[number]), keys) * 0.125
        scores += host(slopes)[:, None] * (torch.arange(count) - count + 1)
        near(out[number], torch.einsum("hm,mhd->hd", scores.softmax(-1), values), 0.02)


def probabilities(place: Place) -> None:
    """``flash_attn_func`` with the empty tensor that AITER returns without dropout."""
    q, k, v = (place.normal(2, 5, 4, 64) for _ in range(3))
    out, lse, made = ap.flash_attn_func(q, k, v, causal=True, return_lse=True, return_attn_probs=True)
    assert (tuple(lse.shape), tuple(made.shape), made.dtype) == ((2, 4, 5), (0,), q.dtype)
    for found, *given in zip(out, q, k, v, strict=True):
        near(found, attended(host(given[0]), host(given[1]), host(given[2]), True), 0.02)


def sorting(place: Place) -> None:
    """Each token's choices stand in a block of their expert."""
    ids = torch.stack([torch.randperm(8, generator=place.draw)[:2] for _ in range(20)]).int().to(place.device)
    shares = torch.rand(20, 2, generator=place.draw).to(place.device)
    listed, weights, experts, count, out = ap.moe_sorting(ids, shares, 8, 64, torch.bfloat16, 32)
    assert out.shape == (20, 64) and out.is_cuda and (host(out) == 0).all()
    total = int(count[0])
    seen = set()
    for at, word in enumerate(listed[:total].tolist()):
        token, choice = word & 0xFFFFFF, word >> 24
        if token < 20:
            assert int(ids[token, choice]) == int(experts[at // 32]) and weights[at] == shares[token, choice]
            seen.add((token, choice))
    assert len(seen) == 40


def choices(place: Place) -> None:
    """``fused_topk`` chooses by a softmax."""
    gates = place.normal(7, 32, kind=torch.float32)
    weights, ids = ap.fused_topk(place.normal(7, 64), gates, 4, True)
    right, chosen = host(gates).softmax(-1).topk(4)
    assert torch.equal(ids.cpu().long(), chosen)
    near(weights, right / right.sum(-1, keepdim=True), 1e-5)


def grouped(place: Place) -> None:
    """``biased_grouped_topk`` with one group."""
    gates, bias = place.normal(7, 32, kind=torch.float32), place.normal(32, kind=torch.float32)
    weights = torch.empty(7, 4, device=place.device)
    ids = torch.empty(7, 4, dtype=torch.int32, device=place.device)
    ap.biased_grouped_topk(gates, bias, weights, ids, 1, 1, True, 2.0)
    scores = host(gates).sigmoid()
    chosen = (scores + host(bias)).topk(4).indices
    assert torch.equal(ids.cpu().long().sort(-1).values, chosen.sort(-1).values)
    right = scores.gather(1, ids.cpu().long())
    near(weights, 2 * right / right.sum(-1, keepdim=True), 1e-4)


def plain_topk(place: Place) -> None:
    """``topk`` of rows."""
    x = place.normal(5, 700, kind=torch.float32)
    values, places = ap.topk(x, 16)
    right, chosen = host(x).topk(16)
    near(values, right, 0)
    assert torch.equal(places.cpu().long(), chosen)


def placed_tokens(place: Place, by_table: bool) -> None:
    """``routing`` and ``routing_from_hash``: places in the order of experts."""
    logits = place.normal(21, 16)
    if by_table:
        table = (
            torch.stack([torch.randperm(16, generator=place.draw)[:3] for _ in range(9)])
            .int()
            .to(place.device)
        )
        words = place.whole(9, 21)
        data, gather, scatter = ap.routing_from_hash(logits.float(), table, words, 3, 16)
        chosen = table.cpu().long()[words.cpu().long()]
    else:
        logits = torch.stack([torch.randperm(16, generator=place.draw) for _ in range(21)]).to(torch.bfloat16)
        data, gather, scatter = ap.routing(logits.to(place.device), 3)
        chosen = logits.topk(3).indices.sort(-1).values
    wanted = torch.argsort(chosen.flatten(), stable=True)
    assert torch.equal(gather.cpu(), wanted.int())
    assert torch.equal(gather.cpu()[scatter.cpu().long()], torch.arange(63, dtype=torch.int32))
    assert torch.equal(data.expt_hist.cpu(), torch.bincount(chosen.flatten(), minlength=16).int())


def moved_back(place: Place, name: str) -> None:
    """The layouts of weights and scales: what the processor makes of the same bytes, and no byte is lost."""
    shuffle = getattr(PACKAGE, name)
    rest: tuple[Any, ...]
    if name == "e8m0_shuffle":
        x, rest = place.whole(256, 256, 8, kind=torch.uint8), ()
    elif "scale" in name:
        x = place.whole(256, 2 * 256, 8, kind=torch.uint8)
        rest = (2, True) if name == "shuffle_scale_a16w4" else (2,)
    elif name == "shuffle_weight_a16w4":
        x, rest = place.whole(256, 2, 64, 128, kind=torch.uint8), (16, True)
    elif name == "moe_shuffle_weight":
        x, rest = place.whole(256, 2, 64, 128, kind=torch.uint8), (2,)
    else:
        x, rest = place.normal(2, 64, 128), ()
    found, right = shuffle(x, *rest), shuffle(x.cpu(), *rest)
    assert (
        found.is_cuda
        and found.dtype == right.dtype
        and torch.equal(found.cpu().view(torch.uint8), right.view(torch.uint8))
    )
    assert torch.equal(
        found.cpu().view(torch.uint8).flatten().sort().values,
        x.cpu().view(torch.uint8).flatten().sort().values,
    )


def static_fp8(place: Place, dims: int) -> None:
    """One scale that is given."""
    shape = (4, 64) if dims == 2 else (2, 4, 64)
    x, scale = place.normal(*shape), torch.tensor([0.25], device=place.device)
    found = getattr(PACKAGE, "downcast_to_static_fp8" + ("_3d" if dims == 3 else ""))(x, scale)
    assert found.is_cuda and found.dtype.itemsize == 1 and found.dtype.is_floating_point
    near(found, (host(x) / 0.25), 0.07)


def head_norms(place: Place, form: str) -> None:
    """Both norms of latent attention's two inputs."""
    q, k = place.normal(5, 256), place.normal(5, 128)
    a, b = place.normal(256), place.normal(128)
    if form == "_fused_qk_rmsnorm":
        found = PACKAGE._fused_qk_rmsnorm(None, q, a, 1e-6, None, k, b, 1e-6)
    else:
        found = ap.fused_qk_rmsnorm(q=q, q_weight=a, q_epsilon=1e-6, k=k, k_weight=b, k_epsilon=1e-6)
        assert found is not None
    for out, x, w in zip(found, (q, k), (a, b), strict=True):
        near(out, host(x) * (host(x).square().mean(-1, keepdim=True) + 1e-6).rsqrt() * host(w), 2**-6)


def blocks(place: Place) -> None:
    """``swap_blocks`` copies whole blocks."""
    source, target = place.normal(6, 4, 8), place.normal(6, 4, 8)
    before = target.cpu()
    ap.swap_blocks(source, target, torch.tensor([[0, 3], [5, 1]]))
    torch.cuda.synchronize()
    before[3], before[1] = source[0].cpu(), source[5].cpu()
    assert torch.equal(target.cpu(), before)


def silu(place: Place) -> None:
    """``fused_silu_mul``."""
    x = place.normal(5, 128)
    gate, up = host(x).chunk(2, -1)
    near(ap.fused_silu_mul(x), torch.nn.functional.silu(gate) * up, 2**-6)


def sizes(place: Place, name: str) -> None:
    """Sizes of metadata, with which tensors of the device can be made."""
    fp8 = place.fp8
    found = (
        ap.get_mla_metadata_info_v1(4, 1, 16, fp8, fp8, 0)
        if name == "get_mla_metadata_info_v1"
        else ap.get_ps_metadata_info_v1(4, 1, 64)
    )
    made = [torch.empty(shape, dtype=kind, device=place.device) for shape, kind in found]
    assert len(made) == 6 or len(made) == 5, len(made)
    assert all(each.is_cuda and each.numel() for each in made)


def fp4_products(place: Place, name: str) -> None:
    """A grouped product of MXFP4 weights after ``routing``, its tokens in 16 or 8 bits or FP4."""
    experts, width, columns, topk = 4, 256, 128, 2
    logits = torch.stack([torch.randperm(experts, generator=place.draw) for _ in range(13)]).to(
        torch.bfloat16
    )
    data, gather, _ = ap.routing(logits.to(place.device), topk)
    pairs = place.whole(256, experts, columns, width // 2, kind=torch.uint8)
    scales = (place.whole(3, experts, columns, width // 32) + 119).to(torch.uint8)
    weight = dequantised(pairs, scales)
    x = place.normal(13, width)
    keywords: dict[str, Any] = {"routing_data": data, "gather_indx": gather}
    if name == "moe_gemm_a4w4":
        codes, x_scales = ap.dynamic_mxfp4_quant(x)
        rows = dequantised(codes, x_scales)[:13]
        given: tuple[Any, ...] = (codes, pairs.transpose(1, 2), x_scales)
    elif name == "moe_gemm_a8w4":
        one = torch.tensor([1.0], device=place.device)
        codes = x.to(place.fp8)
        rows, given = host(codes), (codes, pairs.transpose(1, 2), None)
        keywords["x_static_scale"] = one
    else:
        rows, given = host(x), (x, pairs.transpose(1, 2), None)
    found = getattr(PACKAGE, name)(*given, scales.transpose(1, 2), **keywords)
    chosen = logits.topk(topk).indices.sort(-1).values.flatten()
    order = gather.cpu().long()
    right = torch.stack([weight[int(chosen[at])] @ rows[int(at) // topk] for at in order])
    off = (host(found) - right).norm() / right.norm()
    assert found.is_cuda and tuple(found.shape) == tuple(right.shape) and off < 0.02, (off, found.shape)


def preloaded(place: Place) -> None:
    """``preload`` loads kernels."""
    del place
    assert ap.preload("rms_norm") > 0


def experts_of_one_scale(place: Place) -> None:
    """``fused_experts_a8w8_tensor``, by ``fused_moe`` with a scale for each tensor."""
    kind, width, inner = place.fp8, 256, 128
    x = place.normal(9, width)
    w1, w2 = place.normal(4, 2 * inner, width).to(kind), place.normal(4, width, inner).to(kind)
    ones = [torch.full((4,), 1 / 16, device=place.device) for _ in range(2)]
    ids = torch.stack([torch.randperm(4, generator=place.draw)[:2] for _ in range(9)]).int().to(place.device)
    shares = torch.rand(9, 2, generator=place.draw).to(place.device)
    right = torch.zeros(9, width, dtype=torch.float64)
    for token in range(9):
        for choice in range(2):
            expert = int(ids[token, choice])
            gate, up = (host(w1[expert]) / 16 @ host(x[token])).chunk(2)
            right[token] += float(shares[token, choice]) * (
                host(w2[expert]) / 16 @ (torch.nn.functional.silu(gate) * up)
            )
    found = ap.fused_moe(x, w1, w2, shares, ids, quant_type=1, w1_scale=ones[0], w2_scale=ones[1])
    off = (host(found) - right).norm() / right.norm()
    assert off < 0.06, off


def library_products(place: Place) -> None:
    """``hipb_mm``: 16-bit and fp8 matrices, a bias, GELU, scales of one value and of a row, a shuffled weight."""
    x, weight, bias = place.normal(5, 64), place.normal(48, 64), place.normal(48)
    plain = host(x) @ host(weight).T
    near(ap.hipb_mm(x, weight.t(), 7), plain, 0.02, like=x)
    near(ap.hipb_mm(x, weight.t().contiguous(), -1, None, torch.float32), plain, 1e-4)
    near(ap.hipb_mm(x.t().contiguous().t(), weight.t(), 0, bias), plain + host(bias), 0.02, like=x)
    gelu = torch.nn.functional.gelu(plain + host(bias), approximate="tanh")
    near(ap.hipb_mm(x, weight.t(), 0, bias, use_gelu=True), gelu, 0.02, like=x)
    blocks_of_16 = ap.shuffle_weight(weight, (16, 16)).t()
    near(ap.hipb_mm(x, blocks_of_16, -1, bias, bpreshuffle=True), plain + host(bias), 0.02, like=x)
    near(ap.hipb_mm(x, blocks_of_16, -1, out_dtype=torch.float32, bpreshuffle=True), plain, 1e-4)
    x8, weight8 = x.to(place.fp8), weight.to(place.fp8)
    rows = torch.rand(5, 1, generator=place.draw).to(place.device)
    columns = torch.rand(1, 48, generator=place.draw).to(place.device)
    codes = host(x8) @ host(weight8).T
    scaled = codes * host(rows) * host(columns)
    kind, given = torch.bfloat16, {"scaleA": rows, "scaleB": columns}
    near(ap.hipb_mm(x8, weight8.t(), 0, bias, kind, **given), scaled + host(bias), 0.02, like=x)
    one = rows[:1]
    near(ap.hipb_mm(x8, weight8.t(), 0, None, torch.float16, one), codes * float(one), 0.02)
    near(ap.hipb_mm(x8, weight8.t(), 0, out_dtype=kind, scaleB=one), codes * float(one), 0.02, like=x)
    turned_weight = ap.shuffle_weight(weight8, (16, 16)).t()
    near(ap.hipb_mm(x8, turned_weight, 0, None, kind, **given, bpreshuffle=True), scaled, 0.02, like=x)


def without_a_handle(call: Callable[[], None]) -> None:
    """``hipb_create_extension`` and its kin open no library: a product needs no call of them."""
    assert call() is None  # type: ignore[func-returns-value]


def _calls() -> dict[str, Callable[[Place], None]]:
    named = [
        f"{base}{two}_{way}"
        for base in (
            "rope",
            "rope_cached",
            "rope_cached_positions",
            "rope_cached_positions_offsets",
            "rope_thd",
            "rope_2d",
        )
        for two in ("", "_2c")
        for way in ("fwd", "fwd_inplace", "bwd")
        if hasattr(PACKAGE, f"{base}{two}_{way}")
    ]
    made: dict[str, Callable[[Place], None]] = {name: partial(rope, name) for name in named}
    kinds = ap.QuantType
    made |= {
        "per_token_quant_hip": lambda place: row_quant(
            partial(ap.per_token_quant_hip, quant_dtype=place.fp8), place
        ),
        "pertoken_quant": lambda place: row_quant(partial(ap.pertoken_quant, quant_dtype=place.fp8), place),
        "per_tensor_quant": lambda place: row_quant(
            partial(ap.per_tensor_quant, quant_dtype=place.fp8), place, -1
        ),
        "per_tensor_quant_hip": lambda place: row_quant(
            partial(ap.per_tensor_quant_hip, quant_dtype=place.fp8), place, -1
        ),
        "per_group_quant_hip": lambda place: row_quant(
            partial(ap.per_group_quant_hip, quant_dtype=place.fp8), place, 128
        ),
        "get_hip_quant": lambda place: row_quant(
            partial(ap.get_hip_quant(kinds.per_Token), quant_dtype=place.fp8), place
        ),
        "get_torch_quant": lambda place: row_quant(
            partial(ap.get_torch_quant(kinds.per_Token), quant_dtype=place.fp8), place
        ),
        "get_triton_quant": lambda place: row_quant(
            partial(ap.get_triton_quant(kinds.per_Token), quant_dtype=place.fp8), place
        ),
        "per_1x32_f4_quant": partial(fp4_quant, ap.per_1x32_f4_quant),
        "per_1x32_f4_quant_hip": partial(fp4_quant, ap.per_1x32_f4_quant_hip),
        "per_1x32_mx_quant_hip": partial(fp4_quant, ap.per_1x32_mx_quant_hip),
        "dynamic_mxfp4_quant": partial(fp4_quant, ap.dynamic_mxfp4_quant),
        "fused_moe": partial(fused_moe, ap.fused_moe),
        "flash_attn_func": probabilities,
        "flash_attn_varlen_func": padded_sequences,
        "mha_batch_prefill_func": tables_of_pages,
        "paged_attention_v1": linear_biases,
        "fused_experts_a8w8_tensor": experts_of_one_scale,
        "asm_moe_tkw1": weighted_first,
        "moe_sorting": sorting,
        "fused_topk": choices,
        "biased_grouped_topk": grouped,
        "topk": plain_topk,
        "routing": partial(placed_tokens, by_table=False),
        "routing_from_hash": partial(placed_tokens, by_table=True),
        "downcast_to_static_fp8": partial(static_fp8, dims=2),
        "downcast_to_static_fp8_3d": partial(static_fp8, dims=3),
        "swap_blocks": blocks,
        "fused_silu_mul": silu,
        "hipb_mm": library_products,
        "hipb_create_extension": lambda _: without_a_handle(ap.hipb_create_extension),
        "hipb_destroy_extension": lambda _: without_a_handle(ap.hipb_destroy_extension),
        "preload": preloaded,
        "qr_max_size": lambda place: check(ap.qr_max_size() > 0),
    }
    made |= {
        name: partial(moved_back, name=name)
        for name in (
            "e8m0_shuffle", "shuffle_scale", "moe_shuffle_scale", "shuffle_scale_a16w4", "shuffle_weight", "moe_shuffle_weight",
            "shuffle_weight_a16w4",
        )
    }  # fmt: skip
    made |= {name: partial(head_norms, form=name) for name in ("_fused_qk_rmsnorm", "fused_qk_rmsnorm")}
    made |= {
        name: partial(sizes, name=name) for name in ("get_mla_metadata_info_v1", "get_ps_metadata_info_v1")
    }
    made |= {
        name: partial(fp4_products, name=name)
        for name in ("moe_gemm_a4w4", "moe_gemm_a8w4", "moe_gemm_a16w4")
    }
    return made


def check(holds: bool) -> None:
    """Assert."""
    assert holds


def weighted_first(place: Place) -> None:
    """``asm_moe_tkw1``: each token's share stands in front of the first product."""
    kind, width, inner = place.fp8, 512, 256
    x = place.normal(9, width)
    w1, w2 = place.normal(4, 2 * inner, width).to(kind), place.normal(4, width, inner).to(kind)
    s1, s2 = (torch.full((4, rows, 1), 1 / 16, device=place.device) for rows in (2 * inner, width))
    ids = place.whole(4, 9, 1)
    shares = torch.rand(9, 1, generator=place.draw).to(place.device)
    right = torch.zeros(9, width, dtype=torch.float64)
    for token in range(9):
        expert = int(ids[token, 0])
        gate, up = (host(w1[expert]) / 16 @ host(x[token]) * float(shares[token, 0])).chunk(2)
        right[token] = host(w2[expert]) / 16 @ (torch.nn.functional.silu(gate) * up)
    found = ap.asm_moe_tkw1(
        x, ap.shuffle_weight(w1), ap.shuffle_weight(w2), shares, ids, s1, s2, activation=0
    )
    off = (host(found) - right).norm() / right.norm()
    assert found.is_cuda and off < 0.06, off


CALLS: Final = _calls()
