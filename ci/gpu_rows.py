"""Measure matrix products and row-wise operators on this GPU.

Rows of ``gpu_bench.py ops``.

Products are compared with torch's (cuBLAS): layers of Llama 3, DeepSeek V3, gpt-oss and Qwen3, whole or a part of eight. Row-wise
operators are compared with a copy that moves as many bytes as they read and write. Mixtures of experts: ``gpu_experts.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from gpu_clock import Clock, TimedRow, random, row

import aiter_prebuilt

#: Columns of the result, and of the input.
LAYERS: Final = {
    "Llama 3 8B": ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)),
    "Llama 3 70B / 8": ((1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584)),
    "DeepSeek V3": ((2112, 7168), (24576, 1536), (7168, 2048), (18432, 7168)),
    "gpt-oss 120B": ((5120, 2880), (2880, 4096)),
}
FEW: Final = (1, 16, 64)
MANY: Final = (1024, 4096, 16384)
#: Name, call, what it must give, bytes that it moves.
_Made = tuple[str, Callable[[], Any], tuple[Any, ...], int]
#: Rows and columns of row-wise operators; two of models, one of long rows.
SIZES: Final = ((16384, 4096), (16384, 7168), (4096, 16384))


def products(clock: Clock, group: str, tokens: tuple[int, ...]) -> Iterator[TimedRow]:
    """Rows of each layer of each model."""
    for model, layers in LAYERS.items():
        for columns, inner in layers:
            weight = random(columns, inner)
            for m in tokens:
                x = random(m, inner)

                def ours(x: Any = x, weight: Any = weight) -> Any:
                    return (aiter_prebuilt.gemm_a16w16(x, weight),)

                def theirs(x: Any = x, weight: Any = weight) -> Any:
                    return torch.nn.functional.linear(x, weight)

                yield row(
                    group, f"{model}: {m} x {columns} x {inner}", clock, ours, {"cuBLAS": theirs}, (theirs(),)
                )


def fp8(clock: Clock) -> Iterator[TimedRow]:
    """Measure products in fp8 with a scale for each row.

    Beside ``torch._scaled_mm`` with sums in fp32 as ours are.
    """
    for model, layers in LAYERS.items():
        for columns, inner in layers:
            weight, weight_scale = random(columns, inner).to(torch.float8_e4m3fn), _scales(columns)
            for m in (*FEW[1:], *MANY):
                x, scale = random(m, inner).to(torch.float8_e4m3fn), _scales(m)

                def ours(x: Any = x, scale: Any = scale, w: Any = weight, w_scale: Any = weight_scale) -> Any:
                    return (aiter_prebuilt.gemm_a8w8(x, w, scale, w_scale, dtype=torch.bfloat16),)

                def theirs(
                    x: Any = x, scale: Any = scale, w: Any = weight, w_scale: Any = weight_scale
                ) -> Any:
                    return torch._scaled_mm(x, w.t(), scale, w_scale.t(), out_dtype=torch.bfloat16)  # noqa: SLF001  # it has no public name

                what = f"{model}: {m} x {columns} x {inner}"
                yield row("fp8", what, clock, ours, {"_scaled_mm": theirs}, (theirs(),))


def _scales(rows: int) -> torch.Tensor:
    return torch.rand(rows, 1, device="cuda") + 0.5


def rows(clock: Clock) -> Iterator[TimedRow]:
    """Rows of each operator and size."""
    for tokens, columns in SIZES:
        for name, call, right, moved in (*_row_wise(tokens, columns), *_activated(tokens, columns)):
            source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
            target = torch.empty_like(source)
            others = {"copy": lambda target=target, source=source: target.copy_(source)}
            yield row("rows", f"{name}: {tokens} x {columns}", clock, call, others, right)


def _row_wise(tokens: int, columns: int) -> Iterator[_Made]:
    """Norms, and codes of int8."""
    x, residual, weight, bias = (
        random(tokens, columns),
        random(tokens, columns),
        random(columns),
        random(columns),
    )
    size = x.numel() * 2
    normed = torch.nn.functional.rms_norm
    yield (
        "rms_norm",
        lambda: (aiter_prebuilt.rms_norm(x, weight, 1e-6),),
        (normed(x, (columns,), weight, 1e-6),),
        2 * size,
    )
    out, total = torch.empty_like(x), torch.empty_like(x)

    def added() -> Any:
        aiter_prebuilt.rmsnorm2d_fwd_with_add(out, x, residual, total, weight, 1e-6)
        return out, total

    whole = x + residual
    yield "rmsnorm2d_fwd_with_add", added, (normed(whole, (columns,), weight, 1e-6), whole), 4 * size
    right = torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5)
    yield (
        "layernorm2d_fwd",
        lambda: (aiter_prebuilt.layernorm2d_fwd(x, weight, bias, 1e-5),),
        (right,),
        2 * size,
    )
    factors = random(columns).float().abs() + 0.5
    codes = torch.empty(tokens, columns, dtype=torch.int8, device="cuda")
    scales = torch.empty(tokens, 1, device="cuda")

    def quantised() -> Any:
        aiter_prebuilt.smoothquant_fwd(codes, x, factors, scales)
        return codes, scales

    smooth = x.float() * factors
    scale = smooth.abs().amax(-1, keepdim=True) / 127
    yield "smoothquant_fwd", quantised, ((smooth / scale).round().to(torch.int8), scale), size * 3 // 2


def _activated(tokens: int, columns: int) -> Iterator[_Made]:
    """Activations, and codes with a scale for each row, or for each group of 128 columns."""
    x = random(tokens, 2 * columns)
    gate, up = x.float().chunk(2, -1)
    product = torch.nn.functional.silu(gate) * up
    out = torch.empty(tokens, columns, dtype=torch.bfloat16, device="cuda")

    def multiplied() -> Any:
        aiter_prebuilt.silu_and_mul(out, x)
        return (out,)

    yield "silu_and_mul", multiplied, (product,), 6 * out.numel()
    codes = torch.empty(tokens, columns, dtype=torch.float8_e4m3fn, device="cuda")
    scales = torch.empty(tokens, columns // 128, device="cuda")

    def grouped() -> Any:
        aiter_prebuilt.silu_and_mul_quant(codes, x, scales, 128)
        return codes, scales

    yield "silu_and_mul_quant", grouped, _coded(product, 128), 5 * out.numel()
    y, row_scales = random(tokens, columns), torch.empty(tokens, 1, device="cuda")

    def quantised() -> Any:
        aiter_prebuilt.dynamic_per_token_scaled_quant(codes, y, row_scales)
        return codes, row_scales

    yield "dynamic_per_token_scaled_quant", quantised, _coded(y.float(), columns), 3 * out.numel()


def _coded(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """fp8 codes of ``x`` and the scale of each group of columns."""
    groups = x.view(x.shape[0], -1, group)
    scales = groups.abs().amax(-1, keepdim=True) / 448
    return (groups / scales).view_as(x).to(torch.float8_e4m3fn), scales[..., 0]


GROUPS: Final[dict[str, Callable[[Clock], Iterator[TimedRow]]]] = {
    "few": lambda clock: products(clock, "few", FEW),
    "products": lambda clock: products(clock, "products", MANY),
    "fp8": fp8,
    "rows": rows,
}
