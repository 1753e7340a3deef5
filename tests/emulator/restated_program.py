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
        ap.topk_softmax(*exact, logits, True)
        whole = [torch.full((RIGHT + LEFT, k + 3), 7, dtype=kind).cuda() for kind in kinds]
        ap.topk_softmax(*(each[:, :k] for each in whole), logits, True)
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
        ap.topk_sigmoid(*wide, logits)
        dense = [torch.empty(RIGHT, k, dtype=kind).cuda() for kind in kinds[:2]]
        ap.topk_sigmoid(*dense, logits)
        equal("topk_sigmoid into more rows", [each[:RIGHT] for each in wide], dense)
        few = [torch.empty(RIGHT - 1, k, dtype=kind).cuda() for kind in kinds]
        refused("fewer rows", ArgumentShapeError, partial(ap.topk_softmax, *few, logits, True))


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
        table = [torch.rand(40, 32).bfloat16().cuda() for _ in range(2)]
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
            *table,
            True,
            False,
        )
        made.append((cache, pages, turned))
    equal("slots of 32 bits", made[1], made[0])
    rows = made[1][0].cpu().view(-1, size * 132)
    at = places[0].item()
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
    routing()
    activations()
    sensitive()
    rope()
    print("\n".join(PROBLEMS))
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
