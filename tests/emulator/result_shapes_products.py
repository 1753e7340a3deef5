"""Results of products and rotary embeddings, as AITER's Python of both trees allocates them (``result_shapes.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from emulator.composed_calls.attention import starts
from emulator.composed_calls.place import Place
from emulator.result_shapes import BF16, F16, F32, U8, Form, Result, like

import aiter_prebuilt as ap


def products(place: Place) -> Iterator[Form]:
    """Rows behind one to four dims where AITER takes them, else matrices."""
    weight, bias = place.normal(48, 256) / 16, place.normal(48)
    for lead in ((5,), (3, 2), (2, 3, 2)):
        x = place.normal(*lead, 256)
        out = Result((*lead, 48), BF16)
        yield Form("tgemm", lambda x=x: ap.tgemm.mm(x, weight), (out,), "tuned_gemm.py")
        yield Form(
            "tgemm", lambda x=x: ap.tgemm.mm(x, weight, bias, F32), (Result(out.shape, F32),), "tuned_gemm.py"
        )
        for otype in (None, F16, F32):
            yield Form(
                "gemm_a16w16", lambda x=x, o=otype: ap.gemm_a16w16(x, weight, bias, o),
                (Result(out.shape, otype or BF16),), "tuned_gemm.py",
            )  # fmt: skip
    x = place.normal(5, 256)
    for otype in (None, F16, F32):
        yield Form(
            "hipb_mm",
            lambda o=otype: ap.hipb_mm(x, weight.T, 0, out_dtype=o),
            (Result((5, 48), otype or BF16),),
            "ops/gradlib.py",
        )
    codes, coded = (place.normal(rows, 256).to(place.fp8) for rows in (32, 128))
    one, two = (torch.ones(rows, 1, device=place.device) for rows in (32, 128))
    blocks = torch.ones(32, 2, device=place.device), torch.ones(1, 2, device=place.device)
    source = "ops/gemm_op_a8w8.py"
    for kind in (BF16, F16):
        out = Result((32, 128), kind)
        for name in ("gemm_a8w8", "gemm_a8w8_CK", "gemm_a8w8_bpreshuffle"):
            yield Form(
                name, lambda n=name, k=kind: getattr(ap, n)(codes, coded, one, two, None, k), (out,), source
            )
        for name in ("gemm_a8w8_blockscale", "gemm_a8w8_blockscale_bpreshuffle"):
            yield Form(name, lambda n=name, k=kind: getattr(ap, n)(codes, coded, *blocks, k), (out,), source)
        yield Form(
            "gemm_a16w8_blockscale", lambda k=kind: ap.gemm_a16w8_blockscale(place.normal(32, 256).to(k), coded, blocks[1], k),
            (out,), "ops/triton/gemm/basic/gemm_a16w8_blockscale.py",
        )  # fmt: skip
    a, b = place.normal(2, 32, 256), place.normal(2, 128, 256)
    yield Form(
        "batched_gemm_bf16_CK",
        lambda: ap.batched_gemm_bf16_CK(a, b),
        (Result((2, 32, 128), BF16),),
        "ops/batched_gemm_op_bf16.py",
    )
    whole = (place.whole(9, *each.shape, kind=torch.int8) for each in (a, b))
    xq, wq = whole
    rows, columns = torch.ones(2, 32, 1, device=place.device), torch.ones(2, 1, 128, device=place.device)
    for kind in (BF16, F16):
        yield Form(
            "batched_gemm_a8w8_CK", lambda k=kind: ap.batched_gemm_a8w8_CK(xq, wq, rows, columns, None, k),
            (Result((2, 32, 128), kind),), "ops/batched_gemm_op_a8w8.py",
        )  # fmt: skip
    pairs, paired = place.whole(256, 32, 128, kind=U8), place.whole(256, 128, 128, kind=U8)
    powers, powered = (torch.full((n, 8), 127, dtype=U8, device=place.device) for n in (32, 128))
    for kind in (BF16, F16):
        yield Form(
            "gemm_afp4wfp4", lambda k=kind: ap.gemm_afp4wfp4(pairs, paired, powers, powered, k),
            (Result((32, 128), kind),), "ops/triton/gemm/basic/gemm_afp4wfp4.py",
        )  # fmt: skip
    yield from fp4_products(place)
    yield from quantising_products(place)


def quantising_products(place: Place) -> Iterator[Form]:
    """Products that quantise their rows, and one whose first two dims are exchanged on the way in or out."""
    x, weight = place.normal(32, 256), place.whole(256, 128, 128, kind=U8)
    powers = torch.full((128, 8), 127, dtype=U8, device=place.device)
    for name, kind in product(("gemm_a16wfp4", "gemm_afp4wfp4_pre_quant"), (BF16, F16)):
        yield Form(
            name, lambda n=name, k=kind: getattr(ap, n)(x, weight, powers, dtype=k), (Result((32, 128), kind),),
            "ops/triton/gemm/basic/gemm_a16wfp4.py",
        )  # fmt: skip
    name = "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant"
    coded, scale = place.normal(3, 128, 256).to(place.fp8), torch.ones(1, device=place.device)
    for first, last in product((False, True), repeat=2):
        rows = place.normal(*((5, 3) if first else (3, 5)), 256)
        yield Form(
            name,
            lambda r=rows, i=first, o=last: getattr(ap, name)(r, coded, scale, transpose_bm_in=i, transpose_bm=o),
            (Result((5, 3, 128) if last else (3, 5, 128), BF16),), f"ops/triton/gemm/batched/{name}.py",
        )  # fmt: skip


def fp4_products(place: Place) -> Iterator[Form]:
    """Pairs of fp4 behind one to three dims, as August 2026 takes them."""
    weight = place.whole(256, 128, 128, kind=U8)
    scale_b = torch.full((256, 8), 127, dtype=U8, device=place.device)
    for lead in ((5,), (3, 2), (2, 3, 2)):
        x = place.whole(256, *lead, 128, kind=U8)
        yield Form(
            "gemm_a4w4", lambda x=x: ap.gemm_a4w4(x, weight, scale_b, scale_b),
            (Result((*lead, 128), BF16),), "ops/gemm_op_a4w4.py",
        )  # fmt: skip


def rotated(place: Place) -> Iterator[Form]:
    """A rotary embedding keeps its input's memory, or lies with batches first."""
    source = "ops/rope.py"
    dense, wide = place.normal(6, 2, 3, 16), place.normal(6, 2, 3, 32)[..., :16]
    moved = place.normal(2, 6, 3, 16).transpose(0, 1)
    angles = place.normal(6, 1, 1, 8, kind=F32)
    tables = angles.cos(), angles.sin()
    places, more = (place.whole(3, 6, 2, kind=torch.int64) for _ in range(2))
    names: dict[str, tuple[Any, ...]] = {
        "rope": (angles,), "rope_cached": tables, "rope_cached_positions": (*tables, places),
        "rope_cached_positions_offsets": (*tables, places, more),
    }  # fmt: skip
    end = (0, True, False)
    for x in (dense, wide, moved):
        for turned in (False, True):
            made = torch.empty(2, 6, 3, 16, device="meta").transpose(0, 1)
            result = Result((6, 2, 3, 16), BF16, made.stride()) if turned else like(x)
            for name, given in names.items():
                ways = ("fwd", "bwd") if "positions" not in name else ("fwd",)
                for way in ways:
                    one, two = f"{name}_{way}", f"{name}_2c_{way}"
                    if hasattr(ap, one):
                        yield Form(
                            one,
                            lambda n=one, x=x, g=given, t=turned: getattr(ap, n)(x, *g, *end, t),
                            (result,),
                            source,
                        )
                    if hasattr(ap, two):
                        yield Form(
                            two,
                            lambda n=two, x=x, g=given, t=turned: getattr(ap, n)(x, x.clone(), *g, *end, t),
                            (result, result),
                            source,
                        )
    flat = place.normal(6, 3, 16)
    for name in ("rope_thd_fwd", "rope_thd_bwd"):
        yield Form(
            name,
            lambda n=name: getattr(ap, n)(flat, starts(place, [2, 4]), angles, *end),
            (like(flat),),
            source,
        )
    image = place.normal(2, 6, 3, 16)
    sizes = [place.normal(1, count, 1, 4, kind=F32) for count in (2, 3)]
    axes = [turn(size) for size in sizes for turn in (torch.cos, torch.sin)]
    for name in ("rope_2d_fwd", "rope_2d_bwd"):
        yield Form(name, lambda n=name: getattr(ap, n)(image, *axes, 2, 3, *end), (like(image),), source)
