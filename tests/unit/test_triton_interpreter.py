"""The Triton kernels under Triton's CPU interpreter, against the torch references.

Triton decides at import whether it interprets, and a process that interprets cannot compile: so this file runs itself in a
child with TRITON_INTERPRET=1. Every output lies in a larger poisoned buffer with odd strides, and what surrounds it must
still be the poison afterwards.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch")
import torch
from support.references import misses

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs triton, which is not installed", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
CHILD = os.environ.get("TRITON_INTERPRET") == "1"
#: What is in no tensor's rows. Not a number times a masked 0 is still none, where a number would be gone.
POISON = float("nan")
#: The same for types that have none.
POISON_OF_INTEGERS = 77
#: Inputs of this size, and an epsilon that is nothing beside their squares, as large as they are, or all that counts.
EPSILON = pytest.mark.parametrize(("epsilon", "size"), [(1e-6, 1.0), (0.25, 1.0), (1e-5, 0.001)])
BOTH = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])


def child_only(test: Any) -> Any:
    """The cases exist in the child alone; here they are no tests, rather than 84 skipped ones."""
    return test if CHILD else None


def parent_only(test: Any) -> Any:
    """The child must not start a child."""
    return None if CHILD else test


@parent_only
def test_all_in_a_child() -> None:
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTEST_ADDOPTS": "", "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        str(Path(__file__).resolve()),
    ]
    done = subprocess.run(
        command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.fixture(autouse=True)
def mended_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round fp32 to bf16 and fp8 to nearest even, and multiply bf16 matrices as numbers, as the targets do.

    Triton 3.9's interpreter truncates to bf16, loses the carry out of an fp8 mantissa, and multiplies the bit patterns of
    bf16 operands as integers.
    """
    if not CHILD:
        return
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    types = {
        tl.bfloat16: torch.bfloat16,
        tl.float8e4nv: torch.float8_e4m3fn,
        tl.float8e4b8: torch.float8_e4m3fnuz,
    }
    convert, dot = interpreter._convert_float, interpreter.InterpreterBuilder.create_dot

    def round_even(data: Any, source: Any, target: Any, mode: Any) -> Any:
        if source != tl.float32 or target not in types:
            return convert(data, source, target, mode)
        rounded = torch.from_numpy(np.ascontiguousarray(data, dtype=np.float32)).to(types[target])
        return rounded.view(torch.uint16 if target == tl.bfloat16 else torch.uint8).numpy()

    def widen(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def dot_of_numbers(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return dot(self, widen(a), widen(b), *rest)

    monkeypatch.setattr(interpreter, "_convert_float", round_even)
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", dot_of_numbers)


def load(path: str) -> ModuleType:
    """A file of the repository as a module, by path: kernels are build inputs and no package."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def poison(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of nothing but poison."""
    return torch.full(shape, POISON if dtype.is_floating_point else POISON_OF_INTEGERS).to(dtype)


class Poisoned:
    """A [rows, cols] view into a poisoned buffer with `gap` spare columns and a spare row at both ends."""

    def __init__(self, rows: int, cols: int, dtype: torch.dtype, gap: int = 3) -> None:
        self.buffer = poison(rows + 2, cols + gap, dtype=dtype)
        self.view = self.buffer[1 : rows + 1, :cols]

    def check(self) -> None:
        """Everything around the view is still the poison."""
        around = torch.ones(self.buffer.shape, dtype=torch.bool)
        around[1 : 1 + self.view.shape[0], : self.view.shape[1]] = False
        found = self.buffer.float()[around]
        assert (found.isnan() if self.buffer.dtype.is_floating_point else found == POISON_OF_INTEGERS).all()


def strided(rows: int, cols: int, dtype: torch.dtype, gap: int = 5) -> torch.Tensor:
    """Random rows with `gap` spare elements between them and a spare row at both ends, all poisoned."""
    buffer = poison(rows + 2, cols + gap, dtype=dtype)
    view = buffer[1 : rows + 1, :cols]
    view.copy_(torch.randn(rows, cols))
    return view


def alone(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The same vectors between poisoned elements."""
    views = []
    for value in values:
        buffer = poison(value.numel() + 32, dtype=value.dtype)
        buffer[16:-16] = value
        views.append(buffer[16:-16])
    return tuple(views)


@child_only
@BOTH
@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize(
    ("m", "n", "rows", "block"), [(1, 1, 1, 16), (5, 33, 4, 64), (3, 130, 1, 256), (4, 515, 0, 128)]
)
@EPSILON
def test_rms_norm(
    dtype: torch.dtype, sensitive: int, m: int, n: int, rows: int, block: int, epsilon: float, size: float
) -> None:
    kernels = load("csrc/kernels/triton/norm.py")
    torch.manual_seed(m + n)
    (weight,) = alone(torch.randn(n).to(dtype))
    x, out = strided(m, n, dtype).mul_(size), Poisoned(m, n, dtype)
    args = (out.view, x, weight, m, n, out.view.stride(0), x.stride(0), sensitive, epsilon)
    if rows:
        kernels.rms_norm_kernel[(-(-m // rows),)](*args, ROWS=rows, BLOCK=block, EVEN=0)
    else:
        kernels.rms_norm_loop_kernel[(m,)](*args, BLOCK=block, EVEN=0)
    given = {"input": x, "weight": weight, "epsilon": epsilon, "use_model_sensitive_rmsnorm": sensitive}
    assert not misses("rms_norm", {"out": out.view}, **given)
    out.check()


@child_only
@BOTH
@pytest.mark.parametrize(("gemma", "sensitive"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(("m", "n", "rows", "block"), [(5, 33, 4, 64), (3, 130, 1, 256), (4, 515, 0, 128)])
@EPSILON
def test_rmsnorm_add(
    dtype: torch.dtype,
    gemma: int,
    sensitive: int,
    m: int,
    n: int,
    rows: int,
    block: int,
    epsilon: float,
    size: float,
) -> None:
    kernels = load("csrc/kernels/triton/norm.py")
    torch.manual_seed(m + n)
    x, residual = strided(m, n, dtype).mul_(size), strided(m, n, dtype, 9).mul_(size)
    (weight,) = alone(torch.randn(n).to(dtype))
    out, kept = Poisoned(m, n, dtype), Poisoned(m, n, dtype, 7)
    strides = (out.view.stride(0), x.stride(0), residual.stride(0), kept.view.stride(0))
    args = (out.view, x, residual, kept.view, weight, m, n, *strides, gemma, sensitive, epsilon)
    if rows:
        kernels.rmsnorm_add_kernel[(-(-m // rows),)](*args, ROWS=rows, BLOCK=block, EVEN=0)
    else:
        kernels.rmsnorm_add_loop_kernel[(m,)](*args, BLOCK=block, EVEN=0)
    found = {"out": out.view, "residual_out": kept.view}
    given = {
        "input": x,
        "residual_in": residual,
        "weight": weight,
        "epsilon": epsilon,
        "gemma_norm": bool(gemma),
        "use_model_sensitive_rmsnorm": sensitive,
    }
    assert not misses("rmsnorm2d_fwd_with_add", found, **given)
    out.check()
    kept.check()


@child_only
@BOTH
@pytest.mark.parametrize(
    "code", [torch.int8, torch.float8_e4m3fn, torch.float8_e4m3fnuz], ids=["i8", "e4m3fn", "e4m3fnuz"]
)
@pytest.mark.parametrize(("m", "n", "rows", "block"), [(6, 33, 4, 64), (4, 130, 1, 256), (5, 515, 0, 128)])
def test_smoothquant(dtype: torch.dtype, code: torch.dtype, m: int, n: int, rows: int, block: int) -> None:
    kernels = load("csrc/kernels/triton/quant.py")
    torch.manual_seed(m + n)
    x = strided(m, n, dtype)
    (scale,) = alone(torch.rand(n) + 0.25)
    x[1] = 0.0
    if dtype is torch.bfloat16:
        x[2] = x[2].sign() * 3e-37 * (torch.rand(n) + 0.1)  # the scale would be subnormal
    out, y_scale = Poisoned(m, n, code), Poisoned(m, 1, torch.float32, 0)
    args = (out.view, x, scale, y_scale.view, m, n, out.view.stride(0), x.stride(0))
    if rows:
        kernels.smoothquant_kernel[(-(-m // rows),)](*args, ROWS=rows, BLOCK=block, EVEN=0)
    else:
        kernels.smoothquant_loop_kernel[(m,)](*args, BLOCK=block, EVEN=0)
    assert not misses("smoothquant_fwd", {"out": out.view, "y_scale": y_scale.view}, input=x, x_scale=scale)
    assert y_scale.view[1, 0] == 1.0 and not out.view[1].float().any()
    y_scale.check()


@child_only
@BOTH
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["same", "f32"])
@pytest.mark.parametrize(
    ("m", "n", "k", "even", "bias"),
    [(1, 1, 1, 0, 1), (33, 37, 45, 0, 1), (50, 70, 96, 1, 0), (17, 16, 0, 0, 1)],
)
def test_gemm(
    dtype: torch.dtype, out_dtype: torch.dtype | None, m: int, n: int, k: int, even: int, bias: int
) -> None:
    kernels = load("csrc/kernels/triton/gemm.py")
    torch.manual_seed(m + n + k)
    a, b = strided(m, k, dtype), strided(n, k, dtype)
    (extra,) = alone(torch.randn(n).to(dtype))
    out = Poisoned(m, n, out_dtype or dtype)
    constants = {"BM": 16, "BN": 32, "BK": 32, "GROUP_M": 2, "XCDS": 3, "EVEN": even}
    grid = (-(-m // 16) * -(-n // 32),)
    strides = (a.stride(0), b.stride(0), out.view.stride(0))
    kernels.gemm_a16w16_kernel[grid](out.view, a, b, extra, m, n, k, *strides, bias, **constants)
    assert not misses("gemm_a16w16", {"out": out.view}, A=a, B=b, bias=extra if bias else None)
    out.check()


@child_only
@BOTH
@pytest.mark.parametrize(("m", "n", "k", "splitk"), [(3, 37, 200, 2), (18, 40, 300, 4), (1, 5, 33, 8)])
def test_gemm_splitk(dtype: torch.dtype, m: int, n: int, k: int, splitk: int) -> None:
    kernels = load("csrc/kernels/triton/gemm.py")
    torch.manual_seed(m + n + k)
    a, b, out = strided(m, k, dtype), strided(n, k, dtype), Poisoned(m, n, dtype)
    (extra,) = alone(torch.randn(n).to(dtype))
    partial = Poisoned(splitk * m, n, torch.float32, 0)
    constants = {"BM": 16, "BN": 32, "BK": 32, "GROUP_M": 4, "XCDS": 8, "EVEN": 0}
    grid = (-(-m // 16) * -(-n // 32), splitk)
    kernels.gemm_a16w16_splitk_kernel[grid](
        partial.view, a, b, m, n, k, a.stride(0), b.stride(0), splitk, **constants
    )
    partial.check()
    sizes = (m, n, out.view.stride(0), splitk, 1)
    kernels.splitk_reduce_kernel[(m * -(-n // 16),)](out.view, partial.view, extra, *sizes, BLOCK=16, EVEN=0)
    assert not misses("gemm_a16w16", {"out": out.view}, A=a, B=b, bias=extra)
    out.check()


ATTENTION = [  # b, sq, sk, hq, hk, d, pack, causal
    (2, 37, 37, 2, 2, 64, 1, 1),
    (1, 50, 21, 4, 1, 64, 1, 1),
    (1, 5, 90, 6, 2, 64, 3, 1),
    (2, 19, 40, 2, 1, 128, 1, 0),
    (1, 1, 33, 8, 2, 64, 4, 0),
    (1, 3, 0, 2, 2, 64, 1, 0),
]


@child_only
@BOTH
@pytest.mark.parametrize("source", ["attention", "attention_hopper"])
@pytest.mark.parametrize("scale", [0.125, -0.3, 0.0])
@pytest.mark.parametrize(("b", "sq", "sk", "hq", "hk", "d", "pack", "causal"), ATTENTION)
def test_attention(
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
    source: str,
    scale: float,
    b: int,
    sq: int,
    sk: int,
    hq: int,
    hk: int,
    d: int,
    pack: int,
    causal: int,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "csrc/kernels/triton")
    kernels = load(f"csrc/kernels/triton/{source}.py")
    torch.manual_seed(sq + sk)
    heads = ((sq, hq), (sk, hk), (sk, hk))
    q, k, v = (strided(b * s * h, d, dtype, 3).unflatten(0, (b, s, h)) for s, h in heads)
    out, lse = Poisoned(b * sq * hq, d, dtype, 0), Poisoned(b * hq * sq, 1, torch.float32, 0)
    view = out.view.view(b, sq, hq, d)
    strides = [stride for tensor in (view, q, k, v) for stride in tensor.stride()[:3]]
    constants = {
        "HEAD": d,
        "BM": 16,
        "BN": 16,
        "CAUSAL": causal,
        "AWAY": int(d == 128),
        "XCDS": 8,
        "EVEN": int(sq == sk),
    }
    grid = (-(-sq * pack // 16) * (hq // pack) * b,)
    sizes = (b, hq, hk, sq, sk, pack, 1)
    kernels.flash_attn_fwd_kernel[grid](view, q, k, v, lse.view, *sizes, *strides, scale, **constants)
    found = {"out": view, "lse": lse.view.view(b, hq, sq)}
    assert not misses(
        "flash_attn_func",
        found,
        q=q,
        k=k,
        v=v,
        sink_ptr=None,
        softmax_scale=scale,
        left=-1,
        right=causal - 1,
        first=0,
    )
    out.check()
    lse.check()
