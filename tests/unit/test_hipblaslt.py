"""What ``hipb_mm`` refuses, each under its own name and before any kernel."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import ArgumentDTypeError, ArgumentShapeError, UnsupportedError  # noqa: E402

BF16, F16, FP8 = torch.bfloat16, torch.float16, torch.float8_e4m3fn


def given(kind: Any = BF16, **options: Any) -> dict[str, Any]:
    mat1, mat2 = torch.zeros(4, 64, dtype=kind), torch.zeros(48, 64, dtype=kind).t()
    return {"mat1": mat1, "mat2": mat2, "solution_index": 0, **options}


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        (BF16, {"scaleOut": torch.ones(1)}, "scaleOut=...): no prebuilt kernel covers it. Use scaleOut=None"),
        (BF16, {"use_gelu": True}, "use_gelu=False, or give a bias"),
        (BF16, {"scaleA": torch.ones(1)}, "scaleA=None with 16-bit matrices"),
        (BF16, {"scaleB": torch.ones(1)}, "scaleB=None with 16-bit matrices"),
        (F16, {"bpreshuffle": True}, "bpreshuffle=False with fp16 matrices"),
        (BF16, {"bpreshuffle": True, "use_gelu": True, "bias": torch.zeros(48)}, "use_gelu=False with bpreshuffle"),
        (BF16, {"bpreshuffle": True, "out_dtype": F16}, "out_dtype=None, bf16 or fp32 with bpreshuffle"),
        (FP8, {}, "out_dtype=bf16 or fp16 with e4m3"),
        (FP8, {"out_dtype": torch.float32}, "out_dtype=bf16 or fp16 with e4m3"),
        (FP8, {"out_dtype": BF16, "use_gelu": True, "bias": torch.zeros(48)}, "use_gelu=False with e4m3"),
        (FP8, {"out_dtype": BF16, "bpreshuffle": True, "bias": torch.zeros(48)}, "bias=None with bpreshuffle"),
    ],
)  # fmt: skip
def test_refuses_what_no_kernel_has(kind: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        ap.hipb_mm(**given(kind, **options))
    assert "hipb_mm(" in str(caught.value) and says in str(caught.value)


def test_refuses_matrices_that_have_no_product() -> None:
    with pytest.raises(
        ArgumentShapeError, match=r"mat1 \[4, 64\] and mat2 \[48, 64\] are no \[M, K\] and \[K, N\]"
    ):
        ap.hipb_mm(**given() | {"mat2": torch.zeros(48, 64, dtype=BF16)})
    with pytest.raises(ArgumentDTypeError, match=r"mat2 must be torch\.bfloat16 as mat1, got torch\.float16"):
        ap.hipb_mm(**given() | {"mat2": torch.zeros(64, 48, dtype=F16)})


@pytest.mark.parametrize(("option", "count"), [("scaleA", 4), ("scaleB", 48)])
def test_refuses_scales_of_another_number(option: str, count: int) -> None:
    with pytest.raises(ArgumentShapeError, match=f"{option} must have 1 or {count} values, got 3"):
        ap.hipb_mm(**given(FP8, out_dtype=BF16, **{option: torch.ones(3)}))
