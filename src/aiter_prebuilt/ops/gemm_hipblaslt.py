"""AITER's wrappers of hipBLASLt, which our own products serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.errors import ArgumentDTypeError, ArgumentShapeError
from aiter_prebuilt.ops._common import is_type, refuse
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.gemm_asm import gemm_a16w16_asm
from aiter_prebuilt.ops.generated.gemm import gemm_a8w8_bpreshuffle, gemm_a16w16
from aiter_prebuilt.ops.generated.gemm_ck import gemm_a8w8

if TYPE_CHECKING:
    import torch

NAME: Final = "hipb_mm"
_FP8: Final = tuple(name for name in BY_NAME if name.startswith("e4m3"))


@traced
def hipb_create_extension() -> None:
    """Do nothing, where AITER opens hipBLASLt.

    ``hipb_mm`` needs no handle.

    Returns:
        None.

    Source: AITER ``hipb_create_extension``.
    """


@traced
def hipb_destroy_extension() -> None:
    """Do nothing, where AITER closes hipBLASLt.

    Returns:
        None.

    Source: AITER ``hipb_destroy_extension``.
    """


@traced
def hipb_mm(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    solution_index: int,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    scaleA: torch.Tensor | None = None,
    scaleB: torch.Tensor | None = None,
    scaleOut: torch.Tensor | None = None,
    bpreshuffle: bool | None = None,
    use_gelu: bool | None = None,
) -> torch.Tensor:
    """Multiply matrices as AITER's wrapper of hipBLASLt does.

    ``mat1 @ mat2 * scaleA * scaleB + bias``, accumulated in fp32 and rounded once. Tensors are torch's.

    Args:
        mat1: [M, K] bf16, fp16 or the target's own e4m3. One whose rows are not contiguous is copied.
        mat2: [K, N] of the same type, the transposed view of a weight [N, K]. Another one is copied.
        solution_index: a solution of hipBLASLt; accepted and ignored.
        bias: [N] of the type of the result, or None.
        out_dtype: type of the result: that of ``mat1`` (None), bf16, fp16, or fp32 of 16-bit matrices.
        scaleA: fp32, one value or [M, 1]; of e4m3 alone, 1 when None.
        scaleB: fp32, one value or [1, N]; of e4m3 alone, 1 when None.
        scaleOut: only None is supported.
        bpreshuffle: whether the weight lies as ``shuffle_weight`` (16, 16) has it; of e4m3 without a bias, or of bf16.
        use_gelu: apply GELU (tanh) to the sum with ``bias``, which it needs; of 16-bit matrices, unshuffled, alone.

    Returns:
        [M, N], new and contiguous.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError: types, shapes or device do not fit.
        NoKernelError: no kernel takes the call.

    Source: AITER ``hipb_mm``.
    """
    del solution_index
    if scaleOut is not None:
        raise refuse(NAME, "scaleOut", scaleOut, "None")
    if use_gelu and bias is None:
        raise refuse(NAME, "use_gelu", use_gelu, "False, or give a bias")
    if mat1.dim() != 2 or mat2.dim() != 2 or mat1.shape[1] != mat2.shape[0]:
        found = f"mat1 {list(mat1.shape)} and mat2 {list(mat2.shape)} are no [M, K] and [K, N]"
        raise ArgumentShapeError(NAME, found, "Pass the transposed view of a weight [N, K] as mat2")
    if mat1.dtype != mat2.dtype:
        found = f"mat2 must be {mat1.dtype} as mat1, got {mat2.dtype}"
        raise ArgumentDTypeError(NAME, found, "Convert one of them")
    rows, weight = _rows(mat1), _rows(mat2.t())
    if any(is_type(mat1.dtype, name) for name in _FP8):
        if use_gelu:
            raise refuse(NAME, "use_gelu", use_gelu, "False with e4m3")
        return _scaled(rows, weight, bias, out_dtype, scaleA, scaleB, bpreshuffle)
    for option, value in (("scaleA", scaleA), ("scaleB", scaleB)):
        if value is not None:
            raise refuse(NAME, option, value, "None with 16-bit matrices")
    if bpreshuffle:
        return _shuffled(rows, weight, bias, out_dtype, use_gelu)
    return gemm_a16w16(rows, weight, bias, out_dtype, activation="gelu_tanh" if use_gelu else None)


def _rows(matrix: Any) -> Any:
    """Return the matrix with contiguous rows: itself where it has them."""
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def _shuffled(rows: Any, weight: Any, bias: Any, kind: Any, use_gelu: Any) -> torch.Tensor:
    """Multiply with a shuffled bf16 weight.

    Raises:
        UnsupportedError: matrices, or a type of the result, that no kernel covers; GELU.
    """
    if not is_type(rows.dtype, "bf16"):
        raise refuse(NAME, "bpreshuffle", True, "False with fp16 matrices")
    if use_gelu:
        raise refuse(NAME, "use_gelu", use_gelu, "False with bpreshuffle")
    kind = rows.dtype if kind is None else kind
    if not any(is_type(kind, name) for name in ("bf16", "f32")):
        raise refuse(NAME, "out_dtype", kind, "None, bf16 or fp32 with bpreshuffle")
    out = rows.new_empty((rows.shape[0], weight.shape[0]), dtype=kind)
    return gemm_a16w16_asm(rows.contiguous(), weight, out, bias, bpreshuffle=True)


def _scaled(
    rows: Any, weight: Any, bias: Any, kind: Any, scale_rows: Any, scale_columns: Any, shuffled: Any
) -> torch.Tensor:
    """Multiply fp8 matrices with their scales.

    Raises:
        UnsupportedError: a type of the result, or a bias of a shuffled weight, that no kernel covers.
        ArgumentShapeError: a scale has neither one value nor one a row or column.
    """
    if not any(is_type(kind, name) for name in ("bf16", "f16")):
        raise refuse(NAME, "out_dtype", kind, "bf16 or fp16 with e4m3")
    scales = (
        _scale("scaleA", scale_rows, rows, rows.shape[0]),
        _scale("scaleB", scale_columns, rows, weight.shape[0]),
    )
    if not shuffled:
        return gemm_a8w8(rows, weight, *scales, bias, kind)
    if bias is not None:
        raise refuse(NAME, "bias", bias, "None with bpreshuffle")
    return gemm_a8w8_bpreshuffle(rows, weight, *scales, None, kind)


def _scale(option: str, scale: Any, rows: Any, count: int) -> Any:
    """Return one scale for each of ``count`` rows or columns.

    Raises:
        ArgumentShapeError: there are neither one nor ``count``.
    """
    if scale is None:
        import torch

        return torch.ones(count, dtype=torch.float32, device=rows.device)
    if scale.numel() not in (1, count):
        found = f"{option} must have 1 or {count} values, got {scale.numel()}"
        raise ArgumentShapeError(NAME, found, f"For shapes, see help(aiter_prebuilt.{NAME})")
    return scale.reshape(-1).expand(count).contiguous()
