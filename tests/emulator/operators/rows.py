"""Cases of the operators that work row by row: norms, softmax, gated activations, quantisation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from emulator.operators.tensors import (
    BF16,
    F16,
    F32,
    NAMES,
    ULP,
    Call,
    Case,
    Maker,
    Row,
    Verdict,
    compare,
    typed,
)
from reference import activation, norm, quant, quant_hip, softmax

BOTH = ("ck-free", "ck-full")

NORMS: list[Row] = [
    (BF16, 5, 128), (F16, 17, 112), (BF16, 6, 512, 16), (F16, 3, 2048), (BF16, 2, 4096), (BF16, 3, 2880),
    (F16, 1, 8192), (BF16, 1, 16384), (BF16, 3, 1), (F16, 4, 1003), (BF16, 2, 4099, 5), (BF16, 2, 512, 0, 3),
    (BF16, 1, 16400), (BF16, 6, 80, 16), (BF16, 4, 520, 8), (BF16, 1, 20480), (BF16, 0, 64), (BF16, 2, 4096, 0, 1),
]  # fmt: skip

NORMS_ADD: list[Row] = [
    (BF16, 5, 128), (F16, 6, 512, (16, 32, 48, 64), True), (BF16, 3, 2880, (0, 0, 0, 0), True), (F16, 2, 4096),
    (BF16, 1, 8192), (BF16, 1, 16384), (BF16, 4, 1003, (1, 2, 3, 4), True), (F16, 3, 1), (BF16, 2, 4099),
    (BF16, 2, 256, (0, 0, 0, 0), False, 5), (F16, 1, 20000), (BF16, 2, 1040), (BF16, 1, 20480), (BF16, 0, 64),
]  # fmt: skip

SOFTMAXES: list[Row] = [
    (BF16, 3, 1024), (F16, 4, 1000, 8), (F32, 3, 512), (BF16, 5, 127), (F32, 3, 1003, 1), (F16, 2, 1),
    (BF16, 2, 8192), (BF16, 2, 8189), (F32, 1, 20001), (BF16, 1, 140000), (F16, 1, 70001), (BF16, 4, 64, 0, 3),
    (F32, 4, 100, 0, 0, True), (BF16, 4, 333, 0, 0, True), (BF16, 1, 40000), (BF16, 0, 64), (BF16, 3, 0),
]  # fmt: skip

ACTIVATIONS: list[Row] = [
    (BF16, 3, 512), (F16, 5, 1000, (8, 16)), (BF16, 2, 333), (F16, 4, 1), (BF16, 1, 2056), (BF16, 3, 64, (0, 0), 1),
    (F16, 3, 4097, (1, 3)), (BF16, 0, 64),
]  # fmt: skip

SMOOTHQUANTS: list[Row] = [
    (BF16, False, 5, 512), (F16, True, 6, 496, (16, 32)), (BF16, True, 3, 2048), (F16, False, 2, 8192),
    (BF16, False, 1, 16384), (BF16, True, 4, 1003, (1, 3)), (F16, False, 3, 1), (BF16, False, 2, 256, (0, 0), 3),
    (BF16, True, 1, 20000), (F16, True, 3, 2888), (BF16, False, 0, 64), (F16, True, 2, 16384), (BF16, False, 2, 1040),
    (BF16, False, 2, 20480),
]  # fmt: skip

DYNAMICS: list[Row] = [
    (BF16, False, 4, 512), (F16, True, 5, 1000, (8, 16)), (BF16, True, 3, 2048), (F16, False, 2, 4096),
    (BF16, False, 2, 8192), (BF16, True, 1, 16384), (BF16, False, 1, 32760), (BF16, True, 3, 1003, (1, 3)),
    (F16, False, 3, 1), (BF16, False, 2, 256, (0, 0), 3), (BF16, True, 1, 40000), (F16, True, 1, 33333),
    (BF16, True, 4, 512, (0, 0), 0, 1.5), (BF16, False, 6, 256, (0, 0), 0, None, (2, 2)), (F16, False, 2, 8001),
    (BF16, True, 2, 32001), (BF16, False, 2, 4001), (BF16, True, 0, 64), (BF16, False, 2, 0),
    (F16, True, 3, 1500, (1, 1)),
]  # fmt: skip


def _norm(operator: str, dtype: torch.dtype, rows: int, columns: int, pad: int = 0, offset: int = 0,
          lead: tuple[int, ...] = ()) -> Case:  # fmt: skip
    def build(make: Maker) -> Call:
        shape = (*(lead or (rows,)), columns)
        x, w = make.random(*shape, dtype=dtype, pad=pad, offset=offset), make.random(columns, dtype=dtype)
        out = make.output(shape, dtype)
        wanted = norm.rms_norm(x.host, w.host, 1e-6)
        return Call([x, w, out], [1e-6], [out], lambda: {"out": compare(out.now(), wanted, 1e-6, ULP[dtype])})

    label = f"{lead or rows}x{columns}-{NAMES[dtype]}-pad{pad}-offset{offset}"
    return Case(operator, label, build, profiles=BOTH if operator == "rmsnorm2d_fwd" else BOTH[:1])


def _norm_add(dtype: torch.dtype, rows: int, columns: int, pads: tuple[int, ...] = (0, 0, 0, 0), gemma: bool = False,
              offset: int = 0) -> Case:  # fmt: skip
    def build(make: Maker) -> Call:
        x = make.random(rows, columns, dtype=dtype, pad=pads[0], offset=offset)
        residual, w = make.random(rows, columns, dtype=dtype, pad=pads[1]), make.random(columns, dtype=dtype)
        out, total = (make.output((rows, columns), dtype, pad=pad) for pad in pads[2:])
        wanted, added = norm.rmsnorm2d_fwd_with_add(x.host, residual.host, w.host, 1e-5, gemma)

        def check() -> dict[str, Verdict]:
            return {
                "out": compare(out.now(), wanted, 1e-6, ULP[dtype]),
                "residual_out": compare(total.now(), added, 1e-30, 0.0),
            }

        return Call([out, x, residual, total, w], [1e-5, gemma], [out, total], check)

    return Case(
        "rmsnorm2d_fwd_with_add",
        f"{rows}x{columns}-{NAMES[dtype]}-pads{pads}-gemma{gemma:d}-offset{offset}",
        build,
    )


def _softmax(
    dtype: torch.dtype, rows: int, columns: int, pad: int = 0, offset: int = 0, special: bool = False
) -> Case:
    def build(make: Maker) -> Call:
        values = (torch.randn(rows, columns) * 3).to(dtype)
        if special:
            values[0], values[1, 0], values[2, 1:] = -math.inf, math.nan, -math.inf
        x, out = make.put(values, pad=pad, offset=offset), make.output((rows, columns), dtype)
        wanted = softmax.softmax(x.host)
        return Call(
            [x, out],
            [],
            [out],
            lambda: {"out": compare(out.now(), wanted, 1e-12 if dtype is F32 else 1e-7, ULP[dtype])},
        )

    return Case(
        "softmax", f"{rows}x{columns}-{NAMES[dtype]}-pad{pad}-offset{offset}-special{special:d}", build
    )


def _activation(name: str, dtype: torch.dtype, rows: int, half: int, pads: tuple[int, int] = (0, 0), offset: int = 0,
                limit: float | None = None, cus: int = 0) -> Case:  # fmt: skip
    def build(make: Maker) -> Call:
        x = make.random(rows, 2 * half, dtype=dtype, scale=4.0, pad=pads[0], offset=offset)
        out = make.output((rows, half), dtype, pad=pads[1])
        extra: list[Any] = [] if limit is None else [limit]
        wanted = getattr(activation, name)(x.host, *extra)
        product = x.host[:, :half].double() * x.host[:, half:].double()
        absolute = 2.0**-22 * float(product.abs().max() if product.numel() else 1) + (
            2.0**-24 if dtype is F16 else 0
        )
        return Call([out, x], extra, [out], lambda: {"out": compare(out.now(), wanted, absolute, ULP[dtype])})

    return Case(
        name, f"{rows}x{half}-{NAMES[dtype]}-pads{pads}-offset{offset}-limit{limit}-cus{cus}", build, cus
    )


def _smoothquant(
    dtype: torch.dtype, fp8: bool, rows: int, columns: int, pads: tuple[int, int] = (0, 0), offset: int = 0
) -> Case:
    def build(make: Maker) -> Call:
        kind = make.fp8 if fp8 else torch.int8
        values = torch.randn(rows, columns).to(dtype)
        if rows > 2:
            values[1] = 0
        x, scale = make.put(values, pad=pads[0], offset=offset), make.put(torch.rand(columns) + 0.5)
        out, per_row = make.output((rows, columns), kind, pad=pads[1]), make.output((rows, 1), F32)
        codes, scales = quant.smoothquant_fwd(x.host, scale.host, out_dtype=kind)

        def check() -> dict[str, Verdict]:
            found, right = out.now().float(), codes.float()
            share = float((found != right).double().mean()) if rows else 0.0
            step = (2.0**-9, 2.0**-3) if fp8 else (1.0, 0.0)
            # Two right orders of multiplication round differently at ties of the code: rarely, and by one step.
            return {
                "scale": compare(per_row.now(), scales, 1e-30, 1e-6),
                "codes": compare(found, right, *step),
                "share": (share / 0.004, ""),
            }

        return Call([out, x, scale, per_row], [], [out, per_row], check)

    label = f"{rows}x{columns}-{NAMES[dtype]}-{'fp8' if fp8 else 'i8'}-pads{pads}-offset{offset}"
    return Case("smoothquant_fwd", label, build, profiles=BOTH)


def _dynamic(dtype: torch.dtype, fp8: bool, rows: int, columns: int, pads: tuple[int, int] = (0, 0), offset: int = 0,
             cap: float | None = None, live: tuple[int, int] | None = None) -> Case:  # fmt: skip
    def build(make: Maker) -> Call:
        kind = make.fp8 if fp8 else torch.int8
        values = torch.randn(rows, columns).to(dtype)
        if rows > 2:
            values[1] = 0
        x = make.put(values, pad=pads[0], offset=offset)
        out, per_row = make.output((rows, columns), kind, pad=pads[1]), make.output((rows, 1), F32)
        bound = make.put(torch.tensor([cap])) if cap else None
        count, factor = live or (rows, 1)
        number = make.put(torch.tensor([count], dtype=torch.int32)) if live else None
        used = min(rows, count * factor)
        codes, scales = quant_hip.dynamic_per_token_scaled_quant(
            x.host[:used], bound.host if bound else None, out_dtype=kind
        )

        def check() -> dict[str, Verdict]:
            found, scale = out.now(), per_row.now()
            left = bool((found[used:].view(torch.uint8) == 0x7F).all()) and bool(
                torch.isnan(scale[used:]).all()
            )
            return {
                "scale": compare(scale[:used], scales, 0.0, 0.0),
                "codes": compare(found[:used].float(), codes.float(), 0.0, 0.0),
                "rows past num_rows": (0.0, "") if left else (math.inf, "written"),
            }

        return Call([out, x, per_row, bound, number], [False, factor], [out, per_row], check)

    label = f"{rows}x{columns}-{NAMES[dtype]}-{'fp8' if fp8 else 'i8'}-pads{pads}-offset{offset}-cap{cap}-live{live}"
    return Case("dynamic_per_token_scaled_quant", label, build)


def cases(swap: bool) -> Iterator[Case]:
    """Model sizes, odd sizes, one element, nothing, sizes past every block, strided rows, misaligned addresses."""
    first, second = (F16, BF16) if swap else (BF16, F16)
    for name in ("rms_norm", "rmsnorm2d_fwd"):
        for row in typed(NORMS, swap):
            yield _norm(name, *row)
        yield _norm(name, first, 6, 256, lead=(2, 3))
    for row in typed(NORMS_ADD, swap):
        yield _norm_add(*row)
    for row in typed(SOFTMAXES, swap):
        yield _softmax(*row)
        if swap:
            yield _softmax(F32, *row[1:])
    for name in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul", "swiglu_and_mul"):
        for row in typed(ACTIVATIONS, swap):
            yield _activation(name, *row)
        yield _activation(name, first, 3, 2056, cus=1)
        yield _activation(name, first, 3, 333, cus=1)
    yield _activation("silu_and_mul", first, 3, 256, limit=3.0)
    yield _activation("silu_and_mul", second, 3, 99, limit=1.7)
    for row in typed(SMOOTHQUANTS, swap):
        yield _smoothquant(*row)
        yield _smoothquant(row[0], not row[1], *row[2:])
    for row in typed(DYNAMICS, swap):
        yield _dynamic(*row)
        yield _dynamic(row[0], not row[1], *row[2:])
