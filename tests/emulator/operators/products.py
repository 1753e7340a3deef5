"""Cases of matrix products and attention."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from emulator.operators.tensors import (
    BF16,
    F16,
    F32,
    NAMES,
    ULP,
    Call,
    Case,
    DeviceTensor,
    Maker,
    Row,
    Verdict,
    compare,
    typed,
)
from reference import attention, gemm, gemm_flydsl

from aiter_prebuilt.ops.shuffle import shuffle_weight

GEMMS: list[Row] = [
    (BF16, 16, 64, 128), (F16, 5, 48, 272, True, (16, 32)), (BF16, 33, 80, 144, True), (BF16, 5, 3, 1, True),
    (F16, 19, 67, 77), (BF16, 70, 65, 33, True, (3, 5)), (BF16, 7, 64, 256, False, (0, 0), 0, 1),
    (BF16, 16, 64, 2304, True), (F16, 7, 80, 2320), (BF16, 16, 64, 4112, True), (BF16, 33, 64, 4096, True),
    (F16, 20, 64, 3088, True), (BF16, 6, 64, 256, True, (0, 0), 0, 0, (2, 3)), (BF16, 64, 128, 96, True, (0, 0), 1),
    (BF16, 128, 128, 80, True, (0, 0), 1), (F16, 250, 128, 144, True, (16, 0), 1),
    (BF16, 250, 240, 144, True, (0, 0), 1), (BF16, 64, 64, 208, False, (0, 0), 1),
    (BF16, 30, 64, 208, False, (0, 0), 1), (BF16, 60, 61, 45, True, (0, 0), 1), (BF16, 3, 16, 0, True),
    (F16, 3, 5, 0), (BF16, 0, 16, 32),
]  # fmt: skip

GEMMS_FP8: list[Row] = [
    (BF16, 16, 16, 1024, 1024), (F16, 5, 48, 272, 288, 16), (BF16, 1, 64, 512, 512), (BF16, 33, 80, 144, 160),
    (BF16, 17, 144, 2064, 2080), (BF16, 16, 64, 256, 256, 0, 1), (F16, 60, 112, 144, 160, 0, 1),
    (BF16, 125, 128, 272, 288, 16, 1), (BF16, 3, 16, 16, 32), (F16, 128, 128, 272, 288, 16, 1),
    (BF16, 1, 16, 2048, 2048), (F16, 17, 32, 48, 64),
]  # fmt: skip

ATTENTIONS: list[Row] = [
    (BF16, 1, 16, 64, 2, 1, 64, False), (F16, 1, 5, 131, 4, 2, 64, True), (BF16, 1, 1, 200, 8, 1, 128, False, False),
    (BF16, 2, 33, 33, 2, 1, 128, True), (BF16, 1, 20, 9, 1, 1, 64, True),
    (BF16, 1, 10, 40, 6, 2, 128, True, True, 0, 1), (F16, 1, 17, 70, 2, 2, 128, False, True, 0, 0, 3),
    (BF16, 1, 9, 65, 2, 1, 64, True, True, 0, 0, 0, 0.3, True), (BF16, 1, 3, 50, 2, 2, 64, True, True, 0, 1),
    (BF16, 1, 64, 65, 1, 1, 64, True, True, 1), (BF16, 1, 128, 97, 1, 1, 128, False, True, 1),
    (F16, 1, 120, 130, 1, 1, 64, True, True, 1), (BF16, 1, 130, 70, 1, 1, 128, True, True, 1),
    (BF16, 1, 60, 70, 1, 1, 128, False, True, 1), (BF16, 1, 128, 45, 1, 1, 64, False, True, 1),
    (F16, 1, 64, 65, 1, 1, 64, False, True, 1), (BF16, 1, 40, 33, 2, 1, 64, False, True, 0, 1),
    (BF16, 1, 5, 0, 1, 1, 64, False), (F16, 2, 128, 128, 2, 2, 64, True, True, 1),
    (BF16, 1, 256, 256, 1, 1, 128, True, True, 1),
]  # fmt: skip


def _gemm(dtype: torch.dtype, m: int, n: int, k: int, bias: bool = False, pads: tuple[int, int] = (0, 0), cus: int = 0,
          offset: int = 0, lead: tuple[int, ...] = ()) -> Case:  # fmt: skip
    def build(make: Maker) -> Call:
        rows = lead or (m,)
        a = make.random(*rows, k, dtype=dtype, pad=pads[0], offset=offset)
        b, added = make.random(n, k, dtype=dtype, pad=pads[1]), make.random(n, dtype=dtype) if bias else None
        out = make.output((*rows, n), dtype)
        wanted = gemm.gemm_a16w16(a.host, b.host, added.host if added else None)
        absolute = k * 2.0**-22 + 1e-6
        return Call(
            [a, b, added, out], [], [out], lambda: {"out": compare(out.now(), wanted, absolute, ULP[dtype])}
        )

    return Case(
        "gemm_a16w16",
        f"{lead or m}x{n}x{k}-{NAMES[dtype]}-bias{bias:d}-pads{pads}-offset{offset}-cus{cus}",
        build,
        cus,
    )


def _gemm_fp8(dtype: torch.dtype, m: int, n: int, k: int, stored_k: int, pad: int = 0, cus: int = 0) -> Case:
    def build(make: Maker) -> Call:
        x, plain = make.put(torch.randn(m, k).to(make.fp8), pad=pad), torch.randn(n, stored_k).to(make.fp8)
        w = make.put(shuffle_weight(plain))
        x_scale, w_scale = make.put(torch.rand(m, 1) + 0.1), make.put(torch.rand(n, 1) + 0.1)
        out = make.output((m, n), dtype)
        wanted = gemm_flydsl.gemm_a8w8_bpreshuffle(x.host, w.host, x_scale.host, w_scale.host, dtype)
        # The same product from the plain weight: does not depend on how a layout is undone.
        again = (x.host.double() @ plain[:, :k].double().T) * x_scale.host.double() * w_scale.host.double().T
        assert torch.equal(wanted, again.to(dtype))
        absolute = k * 2.0**-22 + 1e-6
        return Call(
            [x, w, x_scale, w_scale, out],
            [],
            [out],
            lambda: {"out": compare(out.now(), wanted, absolute, ULP[dtype])},
        )

    return Case(
        "gemm_a8w8_bpreshuffle", f"{m}x{n}x{k}({stored_k})-{NAMES[dtype]}-pad{pad}-cus{cus}", build, cus
    )


def _attention(dtype: torch.dtype, batch: int, sq: int, sk: int, hq: int, hk: int, d: int, causal: bool,
               lse: bool = True, cus: int = 0, offset: int = 0, pad: int = 0, scale: float | None = None,
               heads_first: bool = False) -> Case:  # fmt: skip
    def build(make: Maker) -> Call:
        def tensor(length: int, heads: int, offset: int = 0) -> DeviceTensor:
            strides = None
            if heads_first:
                strides = (heads * length * d, d, length * d, 1)
            elif pad:
                strides = (length * (heads * d + pad), heads * d + pad, d, 1)
            return make.random(batch, length, heads, d, dtype=dtype, strides=strides, offset=offset)

        q, k, v = tensor(sq, hq, offset), tensor(sk, hk), tensor(sk, hk)
        out, log = make.output((batch, sq, hq, d), dtype), make.output((batch, hq, sq), F32) if lse else None
        factor = scale or d**-0.5
        wanted, logarithm = attention.flash_attn_func(q.host, k.host, v.host, factor, causal)

        def check() -> dict[str, Verdict]:
            verdicts = {"out": compare(out.now(), wanted, ULP[dtype], ULP[dtype])}
            if log:
                verdicts["lse"] = compare(log.now(), logarithm, 1e-4, 1e-5)
            return verdicts

        return Call([q, k, v, out, log], [factor, causal], [out, log], check)

    label = f"b{batch}-sq{sq}-sk{sk}-hq{hq}-hk{hk}-d{d}-causal{causal:d}-lse{lse:d}-{NAMES[dtype]}"
    return Case(
        "flash_attn_func", f"{label}-offset{offset}-pad{pad}-first{heads_first:d}-cus{cus}", build, cus
    )


def cases(swap: bool) -> Iterator[Case]:
    """Tails in every dimension, every split of K, few and many compute units, strided and misaligned operands."""
    for row in typed(GEMMS, swap):
        yield _gemm(*row)
    for m in (15, 31, 61):
        for split in (2, 4, 8, 16):
            k = {16: 4112, 8: 2064}.get(split, 2080)
            yield _gemm(
                F16 if (split in (2, 8)) == swap else BF16,
                m,
                64,
                k,
                split != 4,
                (16 if split == 2 else 0, 0),
                split,
            )
    for row in typed(GEMMS_FP8, swap):
        yield _gemm_fp8(*row)
    for row in typed(ATTENTIONS, swap):
        yield _attention(*row)
