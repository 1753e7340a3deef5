"""A child of ``test_restated.py``: calls whose tensors no kernel walks as they are, beside the same ones of dense tensors.

Prints what is wrong, line by line.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import aiter_prebuilt as ap
from aiter_prebuilt.errors import (
    ArgumentDTypeError,
    ArgumentShapeError,
    ArgumentStrideError,
    UnsupportedError,
)

LEFT, RIGHT = random.randint(3, 6), random.randint(2, 5)
COLUMNS = 128
#: Elements between two rows that no 32-bit stride holds; the device's memory is sparse.
FAR = 1 << 31
PROBLEMS: list[str] = []


def view(kind: torch.dtype = torch.bfloat16, poison: float | None = None) -> torch.Tensor:
    """[LEFT, RIGHT, COLUMNS] whose leading dims are not one: the heads in a row of a wider product."""
    wide = torch.randn(LEFT, (RIGHT + 3) * COLUMNS)
    if poison is not None:
        wide.fill_(poison)
    heads: torch.Tensor = (
        wide.to(kind).cuda()[:, COLUMNS : (RIGHT + 1) * COLUMNS].unflatten(-1, (RIGHT, COLUMNS))
    )
    return heads


def outside(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of the row around a view that it has not."""
    rows = tensor.as_strided((LEFT, tensor.stride(0)), (tensor.stride(0), 1), 0).cpu().float()
    return torch.cat([rows[:, :COLUMNS], rows[:, (RIGHT + 1) * COLUMNS :]], 1)


def equal(what: str, found: Any, wanted: Any) -> None:
    """Compare bytes."""
    for one, other in zip(found, wanted, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            PROBLEMS.append(f"{what}: {one.dtype} {tuple(one.shape)}, not {other.dtype} {tuple(other.shape)}")
        elif not torch.equal(*(each.cpu().contiguous().view(torch.uint8) for each in (one, other))):
            PROBLEMS.append(f"{what}: other elements")


def refused(what: str, error: type[Exception], call: Callable[[], Any]) -> None:
    """It must not run."""
    try:
        call()
    except error:
        return
    PROBLEMS.append(f"{what}: it ran")


def returning(what: str, function: Callable[..., Any], *rest: Any) -> None:
    """A function of one input that returns its results."""
    x = view()
    found, wanted = function(x, *rest), function(x.contiguous(), *rest)
    equal(what, *((each if isinstance(each, tuple) else (each,)) for each in (found, wanted)))


def writing(what: str, function: Callable[..., Any], inputs: int, outputs: int, *rest: Any) -> None:
    """A function of the tensors (first output, inputs, other outputs), all of them views."""
    given, made = [view() for _ in range(inputs)], [view(poison=7) for _ in range(outputs)]
    dense = [each.contiguous() for each in made]
    function(dense[0], *(each.contiguous() for each in given), *dense[1:], *rest)
    function(made[0], *given, *made[1:], *rest)
    equal(what, made, dense)
    if any((outside(each) != 7).any() for each in made):
        PROBLEMS.append(f"{what}: written outside")


def rows(fp8: torch.dtype) -> None:
    """Norms, additions and quantisation of rows."""
    weight, bias = torch.randn(COLUMNS).bfloat16().cuda(), torch.randn(COLUMNS).bfloat16().cuda()
    returning("rms_norm", ap.rms_norm, weight, 1e-6)
    returning("rmsnorm2d_fwd", ap.rmsnorm2d_fwd, weight, 1e-6)
    returning("layernorm2d_fwd", ap.layernorm2d_fwd, weight, bias, 1e-6)
    returning("per_token_quant_hip", ap.per_token_quant_hip, None, fp8)
    returning("per_tensor_quant_hip", ap.per_tensor_quant_hip, torch.tensor([0.5]).cuda(), fp8)
    returning("per_group_quant_hip", lambda x: ap.per_group_quant_hip(x, quant_dtype=fp8, group_size=64))
    writing("rmsnorm2d_fwd_with_add", ap.rmsnorm2d_fwd_with_add, 2, 2, weight, 1e-6)
    writing("layernorm2d_fwd_with_add", ap.layernorm2d_fwd_with_add, 2, 2, weight, bias, 1e-6)
    writing("add_rmsnorm", ap.add_rmsnorm, 2, 2, weight, 1e-6)
    x = view()
    truth = x.cpu().double()
    truth = truth / (truth.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.cpu().double()
    if (ap.rms_norm(x, weight, 1e-6).cpu().double() - truth).abs().max() > 2**-8 * truth.abs().max():
        PROBLEMS.append("rms_norm: away from float64")
    codes, scales = torch.empty(x.shape, dtype=fp8).cuda(), torch.empty(LEFT, RIGHT, 1).cuda()
    ap.dynamic_per_token_scaled_quant(codes, x, scales)
    equal(
        "dynamic_per_token_scaled_quant", (codes, scales), ap.per_token_quant_hip(x.contiguous(), None, fp8)
    )
    smooth = torch.rand(COLUMNS).cuda() + 0.5
    flat = x.contiguous()[:, 0]
    made = [torch.empty(flat.shape, dtype=fp8).cuda() for _ in range(2)]
    column, row = torch.empty(LEFT, 1).cuda(), torch.empty(LEFT).cuda()
    ap.smoothquant_fwd(made[0], flat, smooth, column)
    ap.smoothquant_fwd(made[1], flat, smooth, row)
    equal("smoothquant_fwd with a scale of one dim", (made[1], row), (made[0], column[:, 0]))
    deep, code, every = (
        x.contiguous(),
        torch.empty(x.shape, dtype=fp8).cuda(),
        torch.empty(LEFT * RIGHT).cuda(),
    )
    ap.smoothquant_fwd(code, deep, smooth, every)
    made[0], column = torch.empty(x.shape, dtype=fp8).cuda(), torch.empty(LEFT, RIGHT, 1).cuda()
    ap.smoothquant_fwd(made[0], deep, smooth, column)
    equal("smoothquant_fwd of 3 dims with a scale of one", (code, every), (made[0], column.reshape(-1)))
    twice = torch.zeros(LEFT * COLUMNS * 2).bfloat16().cuda()
    over = twice.as_strided((LEFT, RIGHT, COLUMNS), (COLUMNS, 16, 1))
    add = ap.rmsnorm2d_fwd_with_add
    refused(
        "rows over each other", ArgumentStrideError,
        lambda: add(over, x, x.contiguous(), torch.empty_like(codes, dtype=x.dtype), weight, 1e-6),
    )  # fmt: skip
    refused(
        "two results in one memory", ArgumentStrideError,
        lambda: add(x, x.contiguous(), x.contiguous(), x[:, :], weight, 1e-6),
    )  # fmt: skip


def routing() -> None:
    """Buffers of the largest batch: the first rows are written."""
    for experts, k in ((16, 2), (60, 4)):
        logits = torch.randn(RIGHT, experts).cuda()
        kinds = (torch.float32, torch.int32, torch.int32)
        exact = [torch.empty(RIGHT, k, dtype=kind).cuda() for kind in kinds]
        ap.topk_softmax(exact[0], exact[1], exact[2], logits, True)
        whole = [torch.full((RIGHT + LEFT, k + 3), 7, dtype=kind).cuda() for kind in kinds]
        weights, ids, order = (each[:, :k] for each in whole)
        ap.topk_softmax(weights, ids, order, logits, True)
        equal("topk_softmax into more rows", [each[:RIGHT, :k] for each in whole], exact)
        if any((each[RIGHT:] != 7).any() or (each[:, k:] != 7).any() for each in whole):
            PROBLEMS.append("topk_softmax: written outside")
        truth, places = logits.cpu().double().softmax(-1).topk(k)
        truth = truth / truth.sum(-1, keepdim=True)
        if (whole[0][:RIGHT, :k].cpu().double() - truth).abs().max() > 1e-5 or not torch.equal(
            whole[1][:RIGHT, :k].cpu().long(), places
        ):
            PROBLEMS.append("topk_softmax into more rows: away from float64")
        wide = [torch.full((RIGHT + LEFT, k), 7, dtype=kind).cuda() for kind in kinds[:2]]
        ap.topk_sigmoid(wide[0], wide[1], logits)
        dense = [torch.empty(RIGHT, k, dtype=kind).cuda() for kind in kinds[:2]]
        ap.topk_sigmoid(dense[0], dense[1], logits)
        equal("topk_sigmoid into more rows", [each[:RIGHT] for each in wide], dense)
        few = [torch.empty(RIGHT - 1, k, dtype=kind).cuda() for kind in kinds]
        refused(
            "fewer rows", ArgumentShapeError, partial(ap.topk_softmax, few[0], few[1], few[2], logits, True)
        )


def activations() -> None:
    """Rows of fp32 into fp32 and 16 bits."""
    gates: dict[str, tuple[Callable[..., None], Callable[[torch.Tensor], torch.Tensor]]] = {
        "silu_and_mul": (ap.silu_and_mul, torch.nn.functional.silu),
        "gelu_and_mul": (ap.gelu_and_mul, torch.nn.functional.gelu),
        "gelu_tanh_and_mul": (
            ap.gelu_tanh_and_mul, lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        ),
    }  # fmt: skip
    for name, (function, gate) in gates.items():
        for columns in (64, 37):
            x = torch.randn(LEFT, 2 * columns).cuda()
            left, right = x.cpu().double().chunk(2, -1)
            truth = gate(left) * right
            for kind, unit in ((torch.bfloat16, 2**-8), (torch.float16, 2**-11), (torch.float32, 2**-20)):
                out = torch.full((LEFT, columns), 7.0).to(kind).cuda()
                function(out, x)
                if ((out.cpu().double() - truth).abs() > unit * truth.abs() + 2**-18).any():
                    PROBLEMS.append(f"{name} of fp32 to {kind}: away from float64")


def sensitive() -> None:
    """Norms that round before the weight multiplies."""
    x = torch.randn(LEFT, COLUMNS).bfloat16().cuda()
    weight = (torch.rand(COLUMNS) + 1).bfloat16().cuda()
    h = x.cpu().double()
    n = h / (h.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    truth = (n.bfloat16().double() * weight.cpu().double()).bfloat16()
    found = ap.rms_norm(x, weight, 1e-6, 1).cpu()
    equal(
        "rmsnorm2d_fwd(use_model_sensitive_rmsnorm=1)",
        (ap.rmsnorm2d_fwd(x, weight, 1e-6, 1).cpu(),),
        (found,),
    )
    # A kernel's error may cross a tie of the first rounding, in few elements.
    if (found != truth).float().mean() > 0.02 or torch.equal(found, ap.rms_norm(x, weight, 1e-6).cpu()):
        PROBLEMS.append("rms_norm(use_model_sensitive_rmsnorm=1): away from float64")


def slots(fp8: torch.dtype) -> None:
    """Slots of 32 bits, of every function that writes them into a cache."""
    tokens, blocks, size = 5, 3, 16
    places = torch.randperm(blocks * size)[:tokens]
    places[1] = -1
    made = []
    for kind in (torch.int64, torch.int32):
        torch.manual_seed(5)
        k = torch.randn(tokens, 128).bfloat16().cuda()
        cache = torch.zeros(blocks, size, 132, dtype=torch.uint8).cuda()
        ap.indexer_k_quant_and_cache(k, cache.view(fp8), places.to(kind).cuda(), 128, "ue8m0")
        q, pe = (torch.randn(tokens, 2, n).bfloat16().cuda() for n in (512, 64))
        latent, key = torch.randn(tokens, 512).bfloat16().cuda(), torch.randn(tokens, 64).bfloat16().cuda()
        pages, turned = (torch.zeros(*dims, 576).bfloat16().cuda() for dims in ((blocks, size), (tokens, 2)))
        one = torch.ones(1).cuda()
        cos, sin = (torch.rand(40, 32).bfloat16().cuda() for _ in range(2))
        positions = torch.arange(tokens).cuda()
        ap.fused_qk_rope_concat_and_cache_mla(
            q,
            pe,
            latent,
            key,
            pages,
            turned,
            places.to(kind).cuda(),
            one,
            one,
            positions,
            cos,
            sin,
            True,
            False,
        )
        keys, values = torch.zeros(blocks, 2, 8, size, 8), torch.zeros(blocks, 2, 64, size)
        paged = keys.bfloat16().cuda(), values.bfloat16().cuda()
        heads = k.view(tokens, 2, 64)
        ap.reshape_and_cache(heads, heads, *paged, places.to(kind).cuda(), "auto")
        made.append((cache, pages, turned, *paged))
    equal("slots of 32 bits", made[1], made[0])
    if not made[1][3].any():
        PROBLEMS.append("reshape_and_cache with slots of 32 bits writes nothing")
    rows = made[1][0].cpu().view(-1, size * 132)
    at = int(places[0])
    row = rows[at // size]
    codes = row[at % size * 128 :][:128].view(fp8).double()
    scale = row[size * 128 + at % size * 4 :][:4].clone().view(torch.float32).double()
    torch.manual_seed(5)
    wanted = torch.randn(tokens, 128).bfloat16()[0].double()
    if ((codes * scale - wanted).abs() > 2**-4 * wanted.abs() + scale).any():
        PROBLEMS.append("indexer_k_quant_and_cache with slots of 32 bits: away from float64")
    refused(
        "slots of 16 bits", ArgumentDTypeError,
        partial(
            ap.indexer_k_quant_and_cache, torch.zeros(tokens, 128).bfloat16().cuda(), made[0][0].view(fp8),
            places.to(torch.int16).cuda(), 128, "",
        ),
    )  # fmt: skip


def padded(dense: torch.Tensor) -> torch.Tensor:
    """The same rows, further apart than they are long."""
    wide = torch.zeros(*dense.shape[:-1], dense.shape[-1] + 16 * RIGHT).to(dense.dtype)
    wide[..., : dense.shape[-1]] = dense.cpu()
    return wide.cuda()[..., : dense.shape[-1]]


def far(dense: torch.Tensor) -> torch.Tensor:
    """The same rows, further apart than a stride of 32 bits says."""
    made = torch.empty_strided(
        dense.shape, (FAR, *dense.stride()[1:]), dtype=dense.dtype, device=dense.device
    )
    made.copy_(dense)
    return made


def near(what: str, found: torch.Tensor, truth: torch.Tensor, unit: float) -> None:
    """Compare with float64."""
    if (found.cpu().double() - truth).abs().max() > unit * truth.abs().max():
        PROBLEMS.append(f"{what}: away from float64")


def products(fp8: torch.dtype) -> None:
    """Padded rows, one scale for all of them, results in wider rows, batches behind rows."""
    m, n, k = LEFT + 2, 16 * RIGHT, 256
    for kind in (torch.int8, fp8):
        x, w = (torch.randint(-20, 21, (rows, k)).float().to(kind).cuda() for rows in (m, n))
        one, other = torch.rand(1, 1).cuda() + 0.5, torch.rand(1, 1).cuda() + 0.5
        x_scale, w_scale = one.expand(m, 1), other.expand(n, 1)
        bias = torch.randn(1).bfloat16().cuda().expand(n)
        truth = x.cpu().double() @ w.cpu().double().T * one.item() * other.item() + bias.cpu().double()
        wide = torch.full((m, 2 * n), 7.0).bfloat16().cuda()
        near(f"gemm_a8w8_CK {kind}", ap.gemm_a8w8_CK(padded(x), w, x_scale, w_scale, bias), truth, 2**-8)
        near(f"gemm_a8w8 {kind}", ap.gemm_a8w8(x, padded(w), x_scale, w_scale, bias), truth, 2**-8)
        ap.gemm_a8w8(padded(x), padded(w), x_scale, w_scale, bias, y=wide[:, :n])
        near(f"gemm_a8w8 into wider rows {kind}", wide[:, :n], truth, 2**-8)
        if (wide[:, n:] != 7).any():
            PROBLEMS.append("gemm_a8w8: written outside")
        each = torch.rand(m, 1).cuda() + 0.5
        found = ap.gemm_a8w8(x, w, padded(each), w_scale)
        equal(
            f"gemm_a8w8 of padded scales {kind}", (found,), (ap.gemm_a8w8(x, w, each, w_scale.contiguous()),)
        )
        over = torch.zeros(1, n).bfloat16().cuda().expand(m, n)
        refused(
            "a result over itself", ArgumentStrideError, partial(ap.gemm_a8w8, x, w, each, w_scale, y=over)
        )
    x, w = (torch.randn(rows, 3, k).bfloat16().cuda().transpose(0, 1) for rows in (m, n))
    truth = x.cpu().double() @ w.cpu().double().mT
    out = torch.full((m, 3, n), 7.0).bfloat16().cuda().transpose(0, 1)
    ap.batched_gemm_bf16(x, w, out)
    near("batched_gemm_bf16", out, truth, 2**-8)
    near("batched_gemm_bf16_CK", ap.batched_gemm_bf16_CK(x, w), truth, 2**-8)
    x, w = ((each.float() * 8).clamp(-100, 100).to(torch.int8) for each in (x, w))
    x_scale, w_scale = torch.rand(3, m, 1).cuda(), torch.rand(1, 1, n).cuda().expand(3, 1, n)
    truth = (x.cpu().double() @ w.cpu().double().mT) * x_scale.cpu().double() * w_scale.cpu().double()
    near("batched_gemm_a8w8_CK", ap.batched_gemm_a8w8_CK(x, w, x_scale, w_scale), truth, 2**-8)
    ap.batched_gemm_a8w8(x, w, x_scale, w_scale, out)
    near("batched_gemm_a8w8", out, truth, 2**-8)
    for kind in (torch.float16, torch.bfloat16):
        x, w = torch.randn(3, m, k).to(kind).cuda(), torch.randn(3, n, k).to(kind).cuda()
        out = torch.full((3, m, n), 7.0).to(kind).cuda()
        rows = torch.tensor([m, 1, 0], dtype=torch.int32).cuda()
        ap.deepgemm(padded(x), ap.shuffle_weight(w), out, rows)
        truth = x.cpu().double() @ w.cpu().double().mT
        truth[1, 1:], truth[2] = 7, 7
        near(f"deepgemm of {kind}", out, truth, 2**-8)


def scaled_products(fp8: torch.dtype) -> None:
    """Scales that are padded, expanded or transposed, for products that walk strided rows themselves."""
    m, n, k = LEFT + 2, 256, 256
    x, w = (torch.randint(-7, 8, (rows, k)).float() for rows in (m, n))
    rows, columns = torch.rand(m, 1) + 0.5, torch.rand(1, 1).expand(n, 1) + 0.5
    truth = (x.double() @ w.double().T) * rows.double() * columns.double().T
    one = columns[:1].cuda().expand(n, 1)
    codes, weights = x.to(fp8).cuda(), w.to(fp8).cuda()
    found = ap.gemm_a8w8_bpreshuffle(padded(codes), ap.shuffle_weight(weights), padded(rows), one)
    near("gemm_a8w8_bpreshuffle of padded scales", found, truth, 2**-8)
    parts, blocks = torch.rand(k // 128, m) + 0.5, torch.rand(1, 1).expand(n // 128, k // 128) + 0.5
    sums = [x[:, at : at + 128].double() @ w[:, at : at + 128].double().T for at in range(0, k, 128)]
    truth = (
        sum(each * part.double()[:, None] for each, part in zip(sums, parts, strict=True))
        * blocks[0, 0].double()
    )
    wide = torch.full((m, 2 * n), 7.0).bfloat16().cuda()
    across = blocks[:1, :1].cuda().expand(n // 128, k // 128)
    ap.gemm_a8w8_blockscale(codes, weights, parts.cuda().T, across, y=wide[:, :n])
    near("gemm_a8w8_blockscale of transposed scales", wide[:, :n], truth, 2**-8)
    if (wide[:, n:] != 7).any():
        PROBLEMS.append("gemm_a8w8_blockscale: written outside")
    if fp8 != torch.float8_e4m3fnuz:
        return  # AITER has no object of gemm_a8w8_ASM for gfx950
    bias = torch.randn(1).expand(n)
    truth = (x.double() @ w.double().T) * rows.double() * columns.double().T + bias.double()
    shuffled = ap.shuffle_weight(w.to(torch.int8).cuda(), layout=(32, 16))
    found = ap.gemm_a8w8_ASM(x.to(torch.int8).cuda(), shuffled, padded(rows), one, bias[:1].cuda().expand(n))
    near("gemm_a8w8_ASM of padded scales", found, truth, 2**-8)


def block_products(fp8: torch.dtype) -> None:
    """Products with a scale for each row and 128 columns, and for each block of 128 x 128 of the weight."""
    m, n, k = LEFT + 2, 128 + 8 * RIGHT, 384
    rows, blocks = torch.rand(m, k // 128) + 0.5, torch.rand(2, k // 128) + 0.5
    for kind in (torch.int8, fp8):
        x, w = (torch.randint(-100, 101, (each, k)).float().to(kind) for each in (m, n))
        truth = torch.zeros(m, n, dtype=torch.float64)
        for at in range(k // 128):
            part = slice(128 * at, 128 * at + 128)
            scale = rows[:, at, None].double() * blocks[:, at].double().repeat_interleave(128)[:n]
            truth += (x[:, part].double() @ w[:, part].double().T) * scale
        for out in (torch.bfloat16, torch.float16):
            call = partial(ap.gemm_a8w8_blockscale, w_scale=blocks.cuda(), x_scale=rows.cuda(), dtype=out)
            if out == torch.bfloat16:
                near(f"gemm_a8w8_blockscale {kind}", call(x.cuda(), w.cuda()), truth, 2**-8)
            else:
                call = partial(call, x_scale=rows.cuda() / 512)
                near(f"gemm_a8w8_blockscale {kind}", call(x.cuda(), w.cuda()), truth / 512, 2**-10)
        refused(
            "gemm_a8w8_blockscale of two types", ArgumentDTypeError,
            partial(ap.gemm_a8w8_blockscale, x.cuda(), torch.zeros(n, k).byte().cuda(), rows.cuda(), blocks.cuda()),
        )  # fmt: skip


def epilogues() -> None:
    """Products whose bias is of another type than the operands, and those with an activation."""
    m, n, k = LEFT + 2, 16 * RIGHT + 3, 72
    gates: dict[str | None, Callable[[torch.Tensor], torch.Tensor]] = {
        None: lambda x: x,
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        "silu": torch.nn.functional.silu,
        "silu_exp2": torch.nn.functional.silu,
        "relu": torch.nn.functional.relu,
        "relu6": torch.nn.functional.relu6,
    }
    units = {torch.bfloat16: 2**-8, torch.float16: 2**-10, torch.float32: 2**-18}
    for kind, other in ((torch.bfloat16, torch.float16), (torch.float16, torch.bfloat16)):
        a, b = torch.randn(m, k).to(kind).cuda(), torch.randn(n, k).to(kind).cuda()
        plain = a.cpu().double() @ b.cpu().double().T
        for at, (name, gate) in enumerate(gates.items()):
            for of in (None, kind, other, torch.float32)[at % 2 :: 2] if name else (other, torch.float32):
                bias = (torch.randn(n) * 3).to(of or kind).cuda()
                truth = gate(plain if of is None else plain + bias.cpu().double())
                what = f"gemm_a16w16 {kind}, bias {of}, {name}"
                found = ap.gemm_a16w16(a, b, None if of is None else bias, activation=name)
                near(what, found, truth, units[kind])
                if found.dtype != kind:
                    PROBLEMS.append(f"{what}: a result of {found.dtype}")
            for out in random.sample([*units], 1) if name else units:
                near(
                    f"gemm_a16w16 to {out}, {name}",
                    ap.gemm_a16w16(a, b, bias, out, activation=name),
                    truth,
                    units[out],
                )
                memory = torch.full((m, n), 7.0).to(out).cuda()
                if ap.gemm_a16w16(a, b, bias, y=memory, activation=name) is not memory:
                    PROBLEMS.append("gemm_a16w16: it did not return y")
                near(f"gemm_a16w16 into {out}, {name}", memory, truth, units[out])
        near("tgemm.mm", ap.tgemm.mm(a, b, bias), plain + bias.cpu().double(), units[kind])
        call = partial(ap.gemm_a16w16, a, b)
        refused("an unknown activation", UnsupportedError, partial(call, activation="tanh"))
        refused("a bias of integers", ArgumentDTypeError, partial(call, bias.int()))
        refused("a short bias", ArgumentShapeError, partial(call, bias[1:]))
        refused(
            "a bias that asks for a gradient", UnsupportedError, partial(call, bias.clone().requires_grad_())
        )
        with torch.no_grad():
            equal("a bias without its gradient", (call(bias.clone().requires_grad_()),), (call(bias),))
        refused("two results", UnsupportedError, partial(call, bias, torch.float32, dtype=kind))


def far_rows(fp8: torch.dtype) -> None:
    """Rows whose distance no kernel's 32-bit stride holds."""
    m, n, k = 2, 256, 256
    x, w = (torch.randint(-7, 8, (rows, k)).float().to(fp8).cuda() for rows in (m, n))
    rows, columns = torch.rand(m, 1).cuda() + 0.5, torch.rand(n, 1).cuda() + 0.5
    shuffled = ap.shuffle_weight(w)
    product = partial(ap.gemm_a8w8_bpreshuffle, WQ=shuffled, x_scale=rows, w_scale=columns)
    equal("gemm_a8w8_bpreshuffle of far rows", (product(far(x)),), (product(x),))
    scales, blocks = torch.rand(m, k // 128).cuda(), torch.rand(n // 128, k // 128).cuda()
    product = partial(ap.gemm_a8w8_blockscale, x_scale=scales, w_scale=blocks)
    equal("gemm_a8w8_blockscale of far rows", (product(far(x), w),), (product(x, w),))
    one = w[:2].contiguous()
    product = partial(ap.gemm_a8w8_blockscale, x, x_scale=scales, w_scale=blocks[:1])
    equal("gemm_a8w8_blockscale of a far weight", (product(far(one)),), (product(one),))
    product = partial(ap.gemm_a8w8_blockscale_bpreshuffle, WQ=shuffled, x_scale=scales, w_scale=blocks)
    equal("gemm_a8w8_blockscale_bpreshuffle of far rows", (product(far(x)),), (product(x),))
    if fp8 == torch.float8_e4m3fnuz:  # AITER has no object of gemm_a8w8_ASM for gfx950
        codes, weight = (each.float().to(torch.int8) for each in (x, w))
        weight = ap.shuffle_weight(weight, layout=(32, 16))
        bias = torch.randn(n).cuda()
        product = partial(ap.gemm_a8w8_ASM, WQ=weight, x_scale=rows, w_scale=columns, bias=bias)
        equal("gemm_a8w8_ASM of far rows", (product(far(codes)),), (product(codes),))


def far_keys(fp8: torch.dtype) -> None:
    """Keys and values that are far apart, or views of heads within wider rows, on their way into caches."""
    tokens, heads, d, blocks, size = 2, 2, 64, 3, 16
    places = torch.tensor([37, 5]).cuda()
    one = torch.ones(1).cuda()
    key, value = (torch.randn(tokens, heads, d).bfloat16().cuda() for _ in range(2))
    within = torch.zeros(tokens, heads, d + 16).bfloat16().cuda()[..., :d].copy_(key)

    def paged(k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        caches = torch.zeros(blocks, heads, d // 8, size, 8), torch.zeros(blocks, heads, d, size)
        made = [each.bfloat16().cuda() for each in caches]
        ap.reshape_and_cache(k, v, made[0], made[1], places, "auto")
        return tuple(made)

    def flash(k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = [torch.zeros(blocks, size, heads, d).to(fp8).cuda() for _ in range(2)]
        ap.reshape_and_cache_flash(k, v, made[0], made[1], places, "fp8", one, one)
        return tuple(made)

    def quantised(k: torch.Tensor, v: torch.Tensor, clamp: bool) -> tuple[torch.Tensor, ...]:
        shapes = (blocks, heads, d // 16, size, 16), (blocks, heads, d, size)
        made = [torch.zeros(shape).to(fp8).cuda() for shape in shapes]
        scales = [torch.zeros(heads, blocks * size).cuda() for _ in range(2)]
        ap.reshape_and_cache_with_pertoken_quant(
            k, v, made[0], made[1], scales[0], scales[1], places, False, clamp
        )
        return (*made, *scales)

    for write in (paged, flash, partial(quantised, clamp=False), partial(quantised, clamp=True)):
        name = getattr(write, "__name__", "quantised")
        wanted = write(key, value)
        if not all(each.float().any() for each in wanted):
            PROBLEMS.append(f"{name}: nothing was written")
        equal(f"{name}, far keys", write(far(key), value), wanted)
        equal(f"{name}, far values", write(key, far(value)), wanted)
        equal(f"{name}, heads within rows", write(within, value), wanted)

    def latent(c: torch.Tensor, pe: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = torch.zeros(blocks, size, 576).bfloat16().cuda()
        ap.concat_and_cache_mla(c, pe, made, places, "auto", one)
        return (made,)

    c, pe = torch.randn(tokens, 512).bfloat16().cuda(), torch.randn(tokens, 64).bfloat16().cuda()
    equal("concat_and_cache_mla, far rows", latent(far(c), pe), latent(c, pe))
    equal("concat_and_cache_mla, far positions", latent(c, far(pe)), latent(c, pe))


def gate() -> None:
    """A router whose tensors lie in wider ones, each with its own stride."""
    m, experts, k = LEFT, 256, 8
    logits, bias = torch.randn(m, experts).cuda(), torch.randn(experts).cuda()
    kinds = (torch.float32, torch.int32)
    exact = [torch.empty(m, k, dtype=kind).cuda() for kind in kinds]
    ap.moe_fused_gate(logits, bias, exact[0], exact[1], 8, 4, k, 0)
    whole = [torch.full((m, k + 3 + at), 7, dtype=kind).cuda() for at, kind in enumerate(kinds)]
    ap.moe_fused_gate(padded(logits), bias, whole[0][:, :k], whole[1][:, :k], 8, 4, k, 0)
    equal("moe_fused_gate into wider rows", [each[:, :k] for each in whole], exact)
    if any((each[:, k:] != 7).any() for each in whole):
        PROBLEMS.append("moe_fused_gate: written outside")


def smooth(fp8: torch.dtype) -> None:
    """Rows with the smooth scales of their experts, in both kinds of codes; a row of no expert stays."""
    x, scales = torch.randn(LEFT, COLUMNS).bfloat16().cuda(), torch.rand(RIGHT, COLUMNS).cuda() + 0.5
    experts = torch.randint(0, RIGHT, (LEFT,)).int()
    experts[1] = -1
    v = x.cpu().double() * scales.cpu().double()[experts.long()]
    for kind, most in ((torch.int8, 127), (fp8, torch.finfo(fp8).max)):
        codes, made = torch.full((LEFT, COLUMNS), 7.0).to(kind).cuda(), torch.full((LEFT, 1), 7.0).cuda()
        ap.smooth_per_token_scaled_quant(codes, x, made, scales, experts.cuda())
        truth = v.abs().amax(-1, keepdim=True) / most
        kept = experts >= 0
        found = codes.cpu().double() * made.cpu().double()
        step = truth * 0.5001 if kind == torch.int8 else v.abs() * 2**-4 + truth * 2**-7
        if ((found - v).abs() > step)[kept].any() or ((made.cpu() - truth).abs() > 1e-6 * truth)[kept].any():
            PROBLEMS.append(f"smooth_per_token_scaled_quant to {kind}: away from float64")
        if (codes[1].float() != 7).any() or made[1] != 7:
            PROBLEMS.append(f"smooth_per_token_scaled_quant to {kind}: a row of no expert was written")


def smooth_transposed() -> None:
    """Codes that lie in memory by choice first: AITER writes the scale of a row to the place that the row has there."""
    m, k, n = 5, 3, COLUMNS
    x, scales = torch.randn(m, k, n).bfloat16().cuda(), torch.rand(RIGHT, n).cuda() + 0.5
    experts = torch.randint(0, RIGHT, (m, k)).int()
    experts[1, 2] = -1
    v = x.cpu().double() * scales.cpu().double()[experts.long()]
    truth = (v.abs().amax(-1) / 127).T
    kept = (experts >= 0).T
    for shape in ((m, k, 1), (m, k)):
        codes, made = torch.full((k, m, n), 7).char().cuda(), torch.full(shape, 7.0).cuda()
        ap.smooth_per_token_scaled_quant(codes.transpose(0, 1), x, made, scales, experts.cuda())
        found = made.cpu().double().view(k, m)
        if ((found - truth).abs() > 1e-6 * truth)[kept].any() or (found[~kept] != 7).any():
            PROBLEMS.append(
                f"smooth_per_token_scaled_quant: scales {shape} of transposed codes lie elsewhere"
            )
        back = codes.cpu().double() * found[..., None]
        if ((back - v.transpose(0, 1)).abs() > truth[..., None] * 0.5001)[kept].any():
            PROBLEMS.append("smooth_per_token_scaled_quant: transposed codes are away from float64")


def values_in_tiles() -> None:
    """A cache of values whose tiles have the shape of rows: AITER reads the same memory."""
    sequences, heads, blocks = 2, 2, 5
    q = torch.randn(sequences, 8 * heads, 128).bfloat16().cuda()
    keys = torch.randn(blocks, heads, 16, 16, 8).bfloat16().cuda()
    values = torch.randn(blocks, heads, 2, 128, 8).bfloat16().cuda()
    pages = torch.tensor([[3, 1], [0, 4]]).int().cuda()
    lengths = torch.tensor([21, 9]).int().cuda()
    rest = (pages, lengths, pages.stride(0))
    wanted = ap.pa_fwd_asm(q, keys, values, *rest)
    equal("pa_fwd_asm", (ap.pa_fwd_asm(q, keys, values.view(blocks, heads, 128, 16), *rest),), (wanted,))
    for other in (
        values.view(blocks, heads, 64, 32),
        values[:, :, :1].contiguous().view(blocks, heads, 128, 8),
    ):
        refused(
            f"pa_fwd_asm, V {tuple(other.shape)}",
            ArgumentShapeError,
            partial(ap.pa_fwd_asm, q, keys, other, *rest),
        )


def rope() -> None:
    """Tensors that ask for a gradient."""
    s, b, h, d = 3, 2, 2, 32
    x, y = torch.randn(s, b, h, d).bfloat16().cuda(), torch.randn(s, b, h + 1, d).bfloat16().cuda()
    freqs = torch.randn(s, 1, 1, d // 2).cuda()
    for asks in (x, freqs):
        wanted = ap.rope_fwd(x, freqs, 0, True, False)
        asks.requires_grad_()
        found = ap.rope_fwd(x, freqs, 0, True, False)
        equal("rope_fwd that asks for a gradient", (found,), (wanted,))
        if found.requires_grad:
            PROBLEMS.append("rope_fwd: its result asks for a gradient")
        asks.requires_grad_(False)
    pair = (x.clone().requires_grad_(), y.clone().requires_grad_())
    equal(
        "rope_2c_fwd",
        ap.rope_2c_fwd(*pair, freqs, 1, True, False),
        ap.rope_2c_fwd(x, y, freqs, 1, True, False),
    )
    grads = x.clone().requires_grad_()
    equal("rope_bwd", (ap.rope_bwd(grads, freqs, 0, True, False),), (ap.rope_bwd(x, freqs, 0, True, False),))
    asking = torch.randn(4, 64).bfloat16().cuda().requires_grad_()
    refused("rms_norm with a gradient", UnsupportedError, lambda: ap.rms_norm(asking, asking[0], 1e-6))


def main() -> int:
    """Ask everything."""
    gfx942 = "gfx942" in torch.cuda.get_device_properties(0).gcnArchName
    fp8 = torch.float8_e4m3fnuz if gfx942 else torch.float8_e4m3fn
    rows(fp8)
    slots(fp8)
    products(fp8)
    scaled_products(fp8)
    block_products(fp8)
    epilogues()
    far_rows(fp8)
    far_keys(fp8)
    gate()
    smooth(fp8)
    smooth_transposed()
    values_in_tiles()
    routing()
    activations()
    sensitive()
    rope()
    print("\n".join(PROBLEMS))
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
