"""Quantisation of rows, groups and tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from emulator.composed_calls.place import PACKAGE, Call, Place, dequantised, host, near

import aiter_prebuilt as ap


def row_quant(
    call: Callable[..., Any], place: Place, group: int = 0, kind: torch.dtype | None = None
) -> None:
    """A quantisation of rows, of groups of a row (``group``), or of a tensor (-1): codes times scales are the numbers."""
    x = place.normal(5, 256)
    codes, scales = call(x)
    kind = place.fp8 if kind is None else kind
    assert codes.dtype == kind and codes.is_cuda and scales.is_cuda, (codes.dtype, scales.dtype)
    grouped = host(x).reshape(5, -1, group) if group > 0 else host(x).reshape(5, 1, 256)
    largest = grouped.abs().amax(-1, keepdim=True)
    if group < 0:
        largest = largest.amax()
    found = host(codes).reshape(grouped.shape) * (
        host(scales) if group < 0 else host(scales).reshape(5, -1, 1)
    )
    step = 2.0**-4 * grouped.abs() + largest * (2**-7 if kind.is_floating_point else 2**-6)
    assert ((found - grouped).abs() <= step).all()


def fp4_quant(call: Callable[..., Any], place: Place) -> None:
    """Pairs of FP4 codes and scales of 32."""
    x = place.normal(5, 256)
    codes, scales = call(x)
    largest = host(x).reshape(5, 8, 32).abs().amax(-1, keepdim=True)
    off = (dequantised(codes, scales)[:5] - host(x)).reshape(5, 8, 32).abs()
    assert (off <= largest / 3 + 1e-6).all(), off.max()


def static_fp8(place: Place, dims: int) -> None:
    """One scale that is given."""
    shape = (4, 64) if dims == 2 else (2, 4, 64)
    x, scale = place.normal(*shape), torch.tensor([0.25], device=place.device)
    found = getattr(PACKAGE, "downcast_to_static_fp8" + ("_3d" if dims == 3 else ""))(x, scale)
    assert found.is_cuda and found.dtype.itemsize == 1 and found.dtype.is_floating_point
    near(found, (host(x) / 0.25), 0.07)


#: Function -> its call.
CALLS: Final[dict[str, Call]] = {
    "per_token_quant_hip": lambda place: row_quant(
        partial(ap.per_token_quant_hip, quant_dtype=place.fp8), place
    ),
    "pertoken_quant": lambda place: row_quant(partial(ap.pertoken_quant, quant_dtype=place.fp8), place),
    "per_tensor_quant": lambda place: row_quant(
        partial(ap.per_tensor_quant, quant_dtype=place.fp8), place, -1
    ),
    "per_tensor_quant_hip": lambda place: row_quant(
        partial(ap.per_tensor_quant_hip, quant_dtype=place.fp8), place, -1
    ),
    "per_group_quant_hip": lambda place: row_quant(
        partial(ap.per_group_quant_hip, quant_dtype=place.fp8), place, 128
    ),
    "get_hip_quant": lambda place: row_quant(
        partial(ap.get_hip_quant(ap.QuantType.per_Token), quant_dtype=place.fp8), place
    ),
    "get_torch_quant": lambda place: row_quant(
        partial(ap.get_torch_quant(ap.QuantType.per_Token), quant_dtype=place.fp8), place
    ),
    "get_triton_quant": lambda place: row_quant(
        partial(ap.get_triton_quant(ap.QuantType.per_Token), quant_dtype=place.fp8), place
    ),
    "per_1x32_f4_quant": partial(fp4_quant, ap.per_1x32_f4_quant),
    "per_1x32_f4_quant_hip": partial(fp4_quant, ap.per_1x32_f4_quant_hip),
    "per_1x32_mx_quant_hip": partial(fp4_quant, ap.per_1x32_mx_quant_hip),
    "dynamic_mxfp4_quant": partial(fp4_quant, ap.dynamic_mxfp4_quant),
    "downcast_to_static_fp8": partial(static_fp8, dims=2),
    "downcast_to_static_fp8_3d": partial(static_fp8, dims=3),
}
