"""Run the operators of the installed wheels on the GPU that is here and compare them with references in higher precision.

    python ci/gpu_check.py [--json FILE]
    python ci/gpu_check.py --opcheck          what torch promises of them: ci/gpu_torch.py

Needs an installed ``aiter-prebuilt`` with the bundle of the device's target, and torch with the same GPU. Inputs are random
and fresh on every run (the seed is printed), outputs are poisoned before the call, sizes are odd on purpose, and at the end
no Triton compiler may be in the process. Exit status: 0 all right, 1 something differs, 2 no GPU with a bundle (nothing
executed).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import aiter_prebuilt
from aiter_prebuilt import device, locate
from aiter_prebuilt.errors import AiterPrebuiltError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from reference import attention, gemm, norm, quant

Case = tuple[str, str, Callable[[], "tuple[float, float]"]]
#: One unit in the last place, relative to the smallest value of its binade: what two right
#: roundings of nearly equal sums differ by.
ULP = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}


def _random(*shape: int, dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(shape, device="cuda") * scale).to(dtype)


def _poisoned(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    if dtype.itemsize == 1:
        return torch.full(shape, 0x7F, dtype=torch.uint8, device="cuda").view(dtype)
    return torch.full(shape, float("nan"), dtype=dtype, device="cuda")


def _worst(
    actual: torch.Tensor, wanted: torch.Tensor, absolute: float, relative: float
) -> tuple[float, float]:
    """(largest error in units of its bound, largest absolute error); NaN or inf where none is wanted counts as infinite."""
    found, right = actual.double(), wanted.double()
    if found.shape != right.shape or not torch.equal(torch.isfinite(found), torch.isfinite(right)):
        return float("inf"), float("inf")
    finite = torch.isfinite(right)
    error = (found[finite] - right[finite]).abs()
    bound = absolute + relative * right[finite].abs()
    return float((error / bound).max()), float(error.max())


def norm_cases() -> Iterator[Case]:
    """RMS norms: model sizes, odd sizes, sizes past every block, strided rows."""
    for dtype in (torch.bfloat16, torch.float16):
        for rows, columns in (
            (1, 4096),
            (7, 2880),
            (33, 128),
            (5, 1),
            (3, 4099),
            (64, 8192),
            (2, 16384),
            (3, 40001),
            (513, 512),
        ):
            yield "rms_norm", f"{rows}x{columns} {dtype}", lambda d=dtype, m=rows, n=columns: _rms(d, m, n, 0)
            yield (
                "rmsnorm2d_fwd_with_add",
                f"{rows}x{columns} {dtype}",
                lambda d=dtype, m=rows, n=columns: _rms_add(d, m, n, 0),
            )
        yield "rms_norm", f"strided 9x1000 {dtype}", lambda d=dtype: _rms(d, 9, 1000, 24)
        yield "rmsnorm2d_fwd_with_add", f"strided 9x1003 {dtype}", lambda d=dtype: _rms_add(d, 9, 1003, 5)


def _rms(dtype: torch.dtype, rows: int, columns: int, pad: int) -> tuple[float, float]:
    x = _random(rows, columns + pad, dtype=dtype)[:, :columns]
    weight = _random(columns, dtype=dtype)
    wanted = norm.rms_norm(x, weight, 1e-6)
    pairs = [aiter_prebuilt.rms_norm(x, weight, 1e-6), aiter_prebuilt.rmsnorm2d_fwd(x, weight, 1e-6)]
    return max(_worst(out, wanted, 1e-6, ULP[dtype]) for out in pairs)


def _rms_add(dtype: torch.dtype, rows: int, columns: int, pad: int) -> tuple[float, float]:
    x, residual = (_random(rows, columns + pad, dtype=dtype)[:, :columns] for _ in range(2))
    out, residual_out = (_poisoned(rows, columns + pad, dtype=dtype)[:, :columns] for _ in range(2))
    weight = _random(columns, dtype=dtype)
    gemma = bool(columns % 2)
    wanted, wanted_residual = norm.rmsnorm2d_fwd_with_add(x, residual, weight, 1e-5, gemma)
    aiter_prebuilt.rmsnorm2d_fwd_with_add(out, x, residual, residual_out, weight, 1e-5, gemma)
    exact = _worst(residual_out, wanted_residual, 1e-30, 0.0)
    return max(_worst(out, wanted, 1e-6, ULP[dtype]), exact)


def gemm_cases() -> Iterator[Case]:
    """GEMM: decode and prefill sizes of models, split-K, odd sizes, bias."""
    shapes = (
        (1, 4096, 4096),
        (17, 4096, 4096),
        (16, 768, 4096),
        (64, 512, 16384),
        (300, 5120, 2880),
        (1000, 1003, 777),
        (5, 3, 1),
        (2048, 4096, 4096),
    )
    for dtype in (torch.bfloat16, torch.float16):
        for m, n, k in shapes:
            for bias in (False, True):
                yield (
                    "gemm_a16w16",
                    f"{m}x{n}x{k} bias={bias} {dtype}",
                    lambda d=dtype, s=(m, n, k), b=bias: _gemm(d, s, b),
                )


def _gemm(dtype: torch.dtype, shape: tuple[int, int, int], with_bias: bool) -> tuple[float, float]:
    m, n, k = shape
    a, b = _random(m, k, dtype=dtype), _random(n, k, dtype=dtype)
    bias = _random(n, dtype=dtype) if with_bias else None
    wanted = gemm.gemm_a16w16(a, b, bias)
    # fp32 accumulation in any order: the error of a sum of k products of unit variance grows with sqrt(k) * 2^-24 * sqrt(k)
    return _worst(aiter_prebuilt.gemm_a16w16(a, b, bias), wanted, k * 2.0**-22 + 1e-6, ULP[dtype])


def quant_cases() -> Iterator[Case]:
    """SmoothQuant to int8 and fp8."""
    for dtype in (torch.bfloat16, torch.float16):
        for quantised in (torch.int8, torch.float8_e4m3fn):
            for rows, columns in ((1, 4096), (33, 2880), (7, 1003), (4, 20000), (3, 16)):
                yield (
                    "smoothquant_fwd",
                    f"{rows}x{columns} {dtype} {quantised}",
                    lambda d=dtype, q=quantised, s=(rows, columns): _smooth(d, q, s),
                )


def _smooth(dtype: torch.dtype, quantised: torch.dtype, shape: tuple[int, int]) -> tuple[float, float]:
    x = _random(*shape, dtype=dtype)
    if shape[0] > 2:
        x[1] = 0
    x_scale = torch.rand(shape[1], device="cuda") + 0.5
    out, y_scale = _poisoned(*shape, dtype=quantised), _poisoned(shape[0], 1, dtype=torch.float32)
    aiter_prebuilt.smoothquant_fwd(out, x, x_scale, y_scale)
    wanted, wanted_scale = quant.smoothquant_fwd(x, x_scale, out_dtype=quantised)
    scale = _worst(y_scale, wanted_scale, 0.0 + 1e-30, 1e-6)
    # one step of the quantised grid where the exact quotient lies on a rounding boundary
    values = _worst(
        out.float(),
        wanted.float(),
        1.0 if quantised is torch.int8 else 2.0**-9,
        0.0 if quantised is torch.int8 else 2.0**-3,
    )
    share = float((out.float() != wanted.float()).double().mean())
    return max(values[0], scale[0], share / 0.002), values[1]


def attention_cases() -> Iterator[Case]:
    """Attention: causal bottom-right, grouped queries, tails, log-sum-exp."""
    shapes = (
        (1, 128, 128, 8, 8),
        (2, 333, 333, 8, 2),
        (1, 1, 1025, 32, 8),
        (2, 65, 130, 6, 1),
        (1, 130, 65, 4, 4),
        (1, 2048, 2048, 16, 2),
    )
    for dtype in (torch.bfloat16, torch.float16):
        for head in (64, 128):
            for shape in shapes:
                for causal in (False, True):
                    yield (
                        "flash_attn_func",
                        f"b,sq,sk,hq,hk={shape} d={head} causal={causal} {dtype}",
                        (lambda d=dtype, h=head, s=shape, c=causal: _attention(d, h, s, c)),
                    )


def _attention(dtype: torch.dtype, head: int, shape: tuple[int, ...], causal: bool) -> tuple[float, float]:
    batch, sq, sk, hq, hk = shape
    q = _random(batch, sq, hq, head, dtype=dtype)
    k, v = (_random(batch, sk, hk, head, dtype=dtype) for _ in range(2))
    out, lse = aiter_prebuilt.flash_attn_func(q, k, v, causal=causal, return_lse=True)
    wanted, wanted_lse = attention.flash_attn_func(q, k, v, causal=causal)
    same = _worst(aiter_prebuilt.flash_attn_func(q, k, v, causal=causal), out, 1e-30, 0.0)
    # the probabilities are rounded to 16 bits before the second product, as every flash attention does
    return max(_worst(out, wanted, ULP[dtype], ULP[dtype]), _worst(lse, wanted_lse, 1e-4, 1e-5), same)


def run(cases: list[Case]) -> list[dict[str, object]]:
    """Run every case; one row each."""
    rows = []
    for operator, name, case in cases:
        try:
            ratio, error = case()
            row = {
                "operator": operator,
                "case": name,
                "ok": ratio <= 1.0,
                "error_over_bound": ratio,
                "max_error": error,
            }
        except AiterPrebuiltError as problem:
            row = {
                "operator": operator,
                "case": name,
                "ok": False,
                "problem": f"{type(problem).__name__}: {problem}",
            }
        rows.append(row)
        if not row["ok"]:
            print("differs:", row)
    return rows


def main() -> int:
    """Check everything that the device's bundle has."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--opcheck", action="store_true", help="opcheck, torch.compile and torch.cuda.graph instead"
    )
    options = parser.parse_args()
    if options.opcheck:
        import gpu_torch  # beside this file

        return gpu_torch.main(["--json", str(options.json)] if options.json else [])
    targets = {bundle.target for bundle in locate.installed()}
    devices = [
        facts
        for vendor in device.VENDORS
        for facts in device.probe(vendor).devices
        if facts.target in targets
    ]
    if not devices or not torch.cuda.is_available():
        print("no GPU with an installed bundle here: nothing was executed")
        return 2
    seed = options.seed if options.seed is not None else int(torch.seed() % 2**31)
    torch.manual_seed(seed)
    print(
        f"{devices[0]}, driver {devices[0].driver_version}, torch {torch.__version__}, "
        f"aiter-prebuilt {aiter_prebuilt.__version__}, seed {seed}"
    )
    rows = run([*norm_cases(), *gemm_cases(), *quant_cases(), *attention_cases()])
    for operator in dict.fromkeys(str(row["operator"]) for row in rows):
        mine = [row for row in rows if row["operator"] == operator]
        worst = max(float(str(row.get("error_over_bound", "inf"))) for row in mine)
        print(
            f"{operator}: {sum(bool(row['ok']) for row in mine)} of {len(mine)} cases right, worst error {worst:.3f} of its bound"
        )
    compilers = sorted(name for name in sys.modules if name.split(".")[0] == "triton")
    print(f"Triton modules in the process: {len(compilers)}")
    if options.json:
        options.json.write_text(json.dumps({"version": 1, "seed": seed, "rows": rows}, indent=1, default=str))
    failed = sum(not row["ok"] for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or compilers else 0


if __name__ == "__main__":
    sys.exit(main())
