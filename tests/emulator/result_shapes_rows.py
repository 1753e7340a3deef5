"""Results of norms, activations, sums and choices, as AITER's Python of both trees allocates them (``result_shapes.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from emulator.composed_calls.experts import chosen
from emulator.composed_calls.place import Place
from emulator.result_shapes import BF16, F16, F32, I32, SHAPES, U8, Form, Result, like

import aiter_prebuilt as ap


def norms(place: Place) -> Iterator[Form]:
    """Norms of rows behind one to four dims."""
    weight, bias = place.normal(256), place.normal(256)
    for shape in SHAPES:
        x = place.normal(*shape)
        for name in ("rms_norm", "rmsnorm2d_fwd"):
            yield Form(
                name, lambda n=name, x=x: getattr(ap, n)(x, weight, 1e-6), (like(x),), "ops/rmsnorm.py"
            )
        yield Form(
            "layernorm2d_fwd", lambda x=x: ap.layernorm2d_fwd(x, weight, bias), (like(x),), "ops/norm.py"
        )
        for kind in (None, F32):
            for rstd in (False, True):
                yield Form(
                    "l2norm_fwd", lambda x=x, k=kind, r=rstd: ap.l2norm_fwd(x, output_dtype=k, need_rstd=r),
                    (Result(shape, kind or BF16), Result(shape[:-1], F32) if rstd else None),
                    "ops/triton/_triton_kernels/gated_delta_rule/utils/l2norm.py",
                )  # fmt: skip
    rows = place.normal(5, 512)[:, :256]  # rows apart: a new tensor is dense
    for name in ("rms_norm", "rmsnorm2d_fwd"):
        yield Form(name, lambda n=name: getattr(ap, n)(rows, weight, 1e-6), (like(rows),), "ops/rmsnorm.py")
    yield Form(
        "layernorm2d_fwd", lambda: ap.layernorm2d_fwd(rows, weight, bias), (like(rows),), "ops/norm.py"
    )
    x, other = place.normal(5, 256), place.normal(5, 256)
    source = "ops/triton/normalization/fused_add_rmsnorm_pad.py"
    yield Form(
        "fused_add_rmsnorm_pad",
        lambda: ap.fused_add_rmsnorm_pad(x, weight, 1e-6),
        (Result((5, 256), BF16),),
        source,
    )
    yield Form(
        "fused_add_rmsnorm_pad", lambda: ap.fused_add_rmsnorm_pad(x, weight, 1e-6, other, 384),
        (Result((5, 384), BF16), Result((5, 256), BF16)), source,
    )  # fmt: skip
    source = "ops/triton/quant/fused_fp8_quant.py"
    full = Result((5, 256), BF16)
    for turned, plain in product((False, True), repeat=2):
        yield Form(
            "fused_rms_fp8_group_quant",
            lambda t=turned, p=plain: ap.fused_rms_fp8_group_quant(
                x, weight, 1e-6, other, bias, 1e-6, 128, place.fp8, other, p, t
            ),
            (Result((5, 256), place.fp8), Result((5, 2), F32), full if plain else None, full, full), source,
        )  # fmt: skip
    scale = torch.tensor([0.5], device=place.device)
    yield Form(
        "fused_rms_fp8_per_tensor_static_quant",
        lambda: ap.fused_rms_fp8_per_tensor_static_quant(x, weight, 1e-6, scale, other, bias, 1e-6, place.fp8, other, True),
        (Result((5, 256), place.fp8), full, full, full), source,
    )  # fmt: skip


def elementwise(place: Place) -> Iterator[Form]:
    """Sums broadcast and promote; activations keep what leads."""
    source = "ops/aiter_operator.py"
    pairs = (
        ((256,), (256,)),
        ((5, 256), (256,)),
        ((3, 2, 256), (2, 1)),
        ((2, 3, 2, 256), (3, 1, 1)),
        ((1, 256), (5, 1)),
    )
    for name, (one, two), kinds in product(
        ("add", "sub", "mul", "div"), pairs, ((BF16, BF16), (BF16, F32), (F16, BF16))
    ):
        a, b = place.normal(*one, kind=kinds[0]), place.normal(*two, kind=kinds[1])
        wide = Result(tuple(torch.broadcast_shapes(one, two)), torch.promote_types(*kinds))
        yield Form(name, lambda n=name, a=a, b=b: getattr(ap, n)(a, b), (wide,), source)
        if kinds[0] != kinds[1]:
            op = ("add", "sub", "mul", "div").index(name)
            yield Form("binary_mixed", lambda o=op, a=a, b=b: ap.binary_mixed(a, b, o), (wide,), source)
    for shape in SHAPES:
        x = place.normal(*shape)
        for name in ("sigmoid", "tanh"):
            yield Form(name, lambda n=name, x=x: getattr(ap, n)(x), (like(x),), source)
        half = Result((*shape[:-1], 128), BF16)
        yield Form("fused_silu_mul", lambda x=x: ap.fused_silu_mul(x), (half,), "ops/triton/activation.py")
    x = place.normal(5, 512)
    yield Form("softmax", lambda: ap.softmax(x), (like(x),), "ops/triton/softmax.py")
    source = "ops/triton/activation.py"
    yield Form(
        "act_mul_and_fp8_group_quant", lambda: ap.act_mul_and_fp8_group_quant(x, "silu", 128, place.fp8),
        (Result((5, 256), place.fp8), Result((5, 2), F32)), source,
    )  # fmt: skip
    for shuffle, padded in product((False, True), repeat=2):
        scales = Result((256, 8) if shuffle or padded else (5, 8), U8)
        yield Form(
            "act_mul_and_mxfp4_quant", lambda s=shuffle, p=padded: ap.act_mul_and_mxfp4_quant(x, "silu", "even", s, p),
            (Result((5, 128), U8), scales), source,
        )  # fmt: skip


def routes(place: Place) -> Iterator[Form]:
    """Choices of experts, their lists, and layouts of weights."""
    hidden = place.normal(7, 256)
    for experts, top in (
        (32, 4),
        (128, 8),
        (256, 8),
    ):  # the last two choose assembly, whose buffers are longer
        gates = place.normal(7, experts, kind=F32)
        yield Form(
            "fused_topk", lambda g=gates, t=top: ap.fused_topk(hidden, g, t, True),
            (Result((7, top), F32), Result((7, top), I32)), "fused_moe.py",
        )  # fmt: skip
    ids, shares = chosen(place)
    padded = ids.numel() + 4 * 32 - 2
    yield Form(
        "moe_sorting", lambda: ap.moe_sorting(ids, shares, 4, 256, BF16, 32),
        (Result((padded,), I32), Result((padded,), F32), Result(((padded + 31) // 32,), I32),
            Result((2,), I32), Result((9, 256), BF16)),
        "fused_moe.py",
    )  # fmt: skip
    w1, w2 = place.normal(4, 256, 256) / 16, place.normal(4, 256, 128) / 16
    x = place.normal(9, 256)
    yield Form(
        "fused_moe", lambda: ap.fused_moe(x, w1, w2, shares, ids), (Result((9, 256), BF16),), "fused_moe.py"
    )
    values = place.normal(5, 700, kind=F32)
    yield Form(
        "topk",
        lambda: ap.topk(values, 16),
        (Result((5, 16), F32), Result((5, 16), torch.int64)),
        "ops/triton/topk.py",
    )
    source = "ops/shuffle.py"
    for shape in ((64, 128), (2, 64, 128), (2, 3, 64, 128)):
        weight = place.normal(*shape)
        yield Form("shuffle_weight", lambda w=weight: ap.shuffle_weight(w), (Result(shape, BF16),), source)
    weight, scales = place.whole(256, 2, 64, 128, kind=U8), place.whole(256, 100, 6, kind=U8)
    yield Form(
        "shuffle_weight_a16w4",
        lambda: ap.shuffle_weight_a16w4(weight, 16, True),
        (Result((2, 64, 128), U8),),
        source,
    )
    yield Form(
        "moe_shuffle_weight", lambda: ap.moe_shuffle_weight(weight, 2), (Result((2, 64, 128), U8),), source
    )
    for name in ("e8m0_shuffle", "shuffle_scale", "moe_shuffle_scale"):
        yield Form(name, lambda n=name: getattr(ap, n)(scales), (Result((256, 8), U8),), source)
    both = place.whole(256, 128, 8, kind=U8)
    yield Form(
        "shuffle_scale_a16w4", lambda: ap.shuffle_scale_a16w4(both, 2, True), (Result((128, 8), U8),), source
    )
