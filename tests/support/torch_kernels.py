"""The operators' kernels for CPU tensors, from tests/reference, and calls of each: what opcheck runs where there is no GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from reference import (
    activation,
    attention,
    gemm,
    gemm_flydsl,
    kv_cache,
    norm,
    quant,
    quant_hip,
    softmax,
    topk,
)

import aiter_prebuilt

ROOT = Path(__file__).resolve().parents[2]
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
FP8 = torch.float8_e4m3fn


def _activation(name: str) -> Callable[..., None]:
    def run(out: torch.Tensor, input: torch.Tensor, *limit: float) -> None:
        out.copy_(getattr(activation, name)(input, *limit))

    return run


def _flash(q: Any, k: Any, v: Any, out: Any, lse: Any, scale: float, causal: bool = False) -> None:
    values, log = attention.flash_attn_func(q, k, v, scale, causal)
    out.copy_(values)
    if lse is not None:
        lse.copy_(log)


def _norm_add(
    out: Any, x: Any, res: Any, res_out: Any, weight: Any, eps: float, gemma: bool = False, *_: int
) -> None:
    values, added = norm.rmsnorm2d_fwd_with_add(x, res, weight, eps, gemma)
    out.copy_(values)
    res_out.copy_(added)


def _token_quant(out: Any, x: Any, scales: Any, bound: Any = None, *_: Any) -> None:
    codes, scale = quant_hip.dynamic_per_token_scaled_quant(x, bound, out_dtype=out.dtype)
    out.copy_(codes)
    scales.copy_(scale)


def _smooth(out: Any, x: Any, x_scale: Any, y_scale: Any) -> None:
    codes, scale = quant.smoothquant_fwd(x, x_scale, out_dtype=out.dtype)
    out.copy_(codes)
    y_scale.copy_(scale)


def _cache(
    key: Any,
    value: Any,
    k_cache: Any,
    v_cache: Any,
    slots: Any,
    k_scale: Any,
    v_scale: Any,
    kind: str,
    asm: bool = False,
) -> None:
    keys, values = kv_cache.reshape_and_cache(
        key, value, k_cache, v_cache, slots, k_scale, v_scale, kind, asm
    )
    k_cache.copy_(keys)
    v_cache.copy_(values)


def _topk(weights: Any, indices: Any, order: Any, gating: Any, renorm: bool, *_: int) -> None:
    found = topk.topk_softmax(gating, weights.shape[1], renorm)
    for to, values in zip((weights, indices, order), found, strict=True):
        to.copy_(values)


KERNELS: dict[str, Callable[..., Any]] = {
    **{
        name: _activation(name)
        for name in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul", "swiglu_and_mul")
    },
    "flash_attn_func": _flash,
    "gemm_a16w16": gemm.gemm_a16w16,
    "gemm_a8w8_bpreshuffle": lambda *args: gemm_flydsl.gemm_a8w8_bpreshuffle(
        *args[:4], *(args[4:] or [BF16])
    ),
    "reshape_and_cache": _cache,
    "rms_norm": lambda x, weight, eps, *_: norm.rms_norm(x, weight, eps),
    "rmsnorm2d_fwd": lambda x, weight, eps, *_: norm.rms_norm(x, weight, eps),
    "rmsnorm2d_fwd_with_add": _norm_add,
    "dynamic_per_token_scaled_quant": _token_quant,
    "smoothquant_fwd": _smooth,
    "softmax": softmax.softmax,
    "topk_softmax": _topk,
}

#: The public functions that have an operator.
FUNCTIONS = sorted(set(aiter_prebuilt.__all__) - {"__version__", "preload", "shuffle_weight"})


def registered() -> Iterator[Any]:
    """``aiter_prebuilt.torch_library`` with these kernels for CPU tensors, until the generator goes on."""
    from aiter_prebuilt import torch_library

    kernels = torch.library.Library("aiter_prebuilt", "IMPL")
    for name, kernel in KERNELS.items():
        kernels.impl(name, kernel, "CPU")
    yield torch_library
    kernels._destroy()


def python(code: str) -> str:
    """What a fresh interpreter with the package, and no home, prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


#: opcheck compares by allclose, which torch has not for these; :func:`check_written` does for them what ``test_schema`` does.
_UNCOMPARABLE = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)


def checks(args: tuple[Any, ...]) -> tuple[str, ...]:
    """The parts of opcheck that run with such arguments."""
    rest = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    plain = all(getattr(each, "dtype", None) not in _UNCOMPARABLE for each in args)
    return ("test_schema", *rest) if plain else rest[:2]


def check_written(operator: Any, args: tuple[Any, ...]) -> None:
    """Run it on copies: no byte of an argument changes that the schema does not mark, and no result is an argument's memory."""
    copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in args]
    result = operator(*copies)
    for spec, before, after in zip(operator._schema.arguments, args, copies, strict=False):
        if isinstance(before, torch.Tensor) and not (spec.alias_info and spec.alias_info.is_write):
            assert torch.equal(before.contiguous().view(torch.uint8), after.contiguous().view(torch.uint8)), (
                f"{spec.name} is written and not marked"
            )
            assert result is None or result.data_ptr() != after.data_ptr() or not result.numel()


#: One call: the operator, a label, its arguments in the order of the schema.
Sample = tuple[str, str, tuple[Any, ...]]


def samples(device: str = "cpu", fp8: torch.dtype = FP8) -> Iterator[Sample]:
    """Calls of every operator: dense and strided, several leading dims, optional arguments given and left out, no rows."""

    def random(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        return torch.randn(*shape, device=device).to(dtype)

    def empty(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        return torch.zeros(*shape, device=device, dtype=dtype)

    yield from _rows(random, empty)
    yield from _quantising(random, empty, fp8)
    for dtype in (BF16, F16):
        a, b = random(2, 3, 32, dtype=dtype), random(48, 40, dtype=dtype)[:, :32]
        yield "gemm_a16w16", f"{dtype}", (a, b)
        yield "gemm_a16w16", f"bias {dtype}", (a[0], b, random(48, dtype=dtype))
    yield "gemm_a16w16", "no rows", (random(0, 32), random(48, 32))
    xq, wq = random(5, 64, dtype=fp8), random(32, 64, dtype=fp8)
    scales = random(5, 1, dtype=F32).abs(), random(32, 1, dtype=F32).abs()
    yield "gemm_a8w8_bpreshuffle", "usual type", (xq, wq, *scales)
    yield "gemm_a8w8_bpreshuffle", "f16", (xq, wq, *scales, F16)
    q, k, v = random(2, 5, 4, 64), random(2, 7, 2, 64), random(2, 7, 2, 64)
    yield "flash_attn_func", "no lse", (q, k, v, empty(2, 5, 4, 64), None, 0.125)
    yield (
        "flash_attn_func",
        "lse, causal",
        (q, k, v, empty(2, 5, 4, 64), empty(2, 4, 5, dtype=F32), 0.125, True),
    )
    caches = empty(6, 2, 8, 16, 8), empty(6, 2, 64, 16)
    slots = torch.tensor([3, 90, -1], device=device)
    yield (
        "reshape_and_cache",
        "auto",
        (random(3, 2, 64), random(3, 2, 64), *caches, slots, None, None, "auto"),
    )
    one = torch.ones(1, device=device)
    small = empty(6, 2, 4, 16, 16, dtype=fp8), empty(6, 2, 1, 64, 16, dtype=fp8)
    yield (
        "reshape_and_cache",
        "fp8",
        (random(3, 2, 64), random(3, 2, 64), *small, slots, one, one, "fp8", True),
    )
    for renorm in (True, False):
        outputs = empty(5, 2, dtype=F32), empty(5, 2, dtype=torch.int32), empty(5, 2, dtype=torch.int32)
        yield "topk_softmax", f"renorm={renorm}", (*outputs, random(5, 8, dtype=F32), renorm)


def _rows(random: Callable[..., torch.Tensor], empty: Callable[..., torch.Tensor]) -> Iterator[Sample]:
    for label, x in (
        ("f16", random(3, 64, dtype=F16)),
        ("strided", random(3, 80)[:, :64]),
        ("leading dims", random(2, 3, 64)),
        ("one row", random(64)),
    ):
        weight = random(64, dtype=x.dtype)
        yield "rms_norm", label, (x, weight, 1e-6)
        out, added = torch.zeros_like(x), torch.zeros_like(x)
        yield "rmsnorm2d_fwd_with_add", label, (out, x, x.clone(), added, weight, 1e-6)
        yield "silu_and_mul", label, (x.new_zeros((*x.shape[:-1], 32)), x)
    yield "rmsnorm2d_fwd", "dense", (random(3, 64), random(64), 1e-6)
    for name in ("gelu_and_mul", "gelu_tanh_and_mul", "swiglu_and_mul"):
        yield name, "dense", (empty(3, 32), random(3, 64))
    yield "silu_and_mul", "limit", (empty(3, 32), random(3, 64), 1.5)
    yield (
        "rmsnorm2d_fwd_with_add",
        "gemma",
        (empty(2, 8), random(2, 8), random(2, 8), empty(2, 8), random(8), 1e-6, True),
    )
    for dtype in (BF16, F16, F32):
        yield "softmax", f"{dtype}", (random(4, 33, dtype=dtype),)


def _quantising(
    random: Callable[..., torch.Tensor], empty: Callable[..., torch.Tensor], fp8: torch.dtype
) -> Iterator[Sample]:
    for dtype in (torch.int8, fp8):
        out, scales, x = empty(3, 64, dtype=dtype), empty(3, 1, dtype=F32), random(3, 64)
        yield "smoothquant_fwd", f"{dtype}", (out, x, random(64, dtype=F32).abs(), scales)
        yield "dynamic_per_token_scaled_quant", f"{dtype}", (out, x, scales)
        bound = random(1, dtype=F32).abs()
        yield "dynamic_per_token_scaled_quant", f"bound {dtype}", (out, x, scales, bound, None, 1)
