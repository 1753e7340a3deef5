"""Shapes, dtypes and strides of the tensors that AITER's functions return, as its Python of both trees allocates them.

Each :class:`Form` is a call, and what AITER's function of the pin or of August 2026 returns for it; ``source`` says where that
stands. ``result_shapes_program.py`` makes the calls, ``test_result_shapes.py`` asks for all functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple

import torch
from emulator.composed_calls.place import Place

import aiter_prebuilt as ap
from aiter_prebuilt import QuantType

F32, U8, I32 = torch.float32, torch.uint8, torch.int32
BF16, F16 = torch.bfloat16, torch.float16
FP4, E8M0 = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
#: Shapes of one to four dims whose rows have 256 elements.
SHAPES: Final = ((256,), (5, 256), (3, 2, 256), (2, 3, 2, 256))


class Result(NamedTuple):
    """A tensor that AITER returns; no strides: contiguous."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...] | None = None


class Form(NamedTuple):
    """A call of a public function, what it returns, and where AITER's allocation stands."""

    name: str
    call: Any  # of no argument; as a Callable, mypy would not take a lambda with defaults
    results: tuple[Result | None, ...]
    source: str


def like(x: torch.Tensor, dtype: torch.dtype | None = None) -> Result:
    """The result of ``torch.empty_like``."""
    made = torch.empty_like(x.to("meta"), dtype=dtype)
    return Result(tuple(made.shape), made.dtype, made.stride())


def up(value: int, multiple: int) -> int:
    """Round up."""
    return -(-value // multiple) * multiple


def row_quantisations(place: Place) -> Iterator[Form]:
    """Codes and scales of rows, groups and tensors, for rows behind one to four dims."""
    source = "ops/quant.py"
    for shape in SHAPES:
        x, lead, rows = place.normal(*shape), shape[:-1], int(torch.tensor((*shape[:-1], 1)).prod())
        for kind in (place.fp8, torch.int8):
            codes, one = Result(shape, kind), Result((1,), F32)
            row, groups = Result((*lead, 1), F32), Result((*lead, 2), F32)
            for module, each in (
                ("torch", ap.get_torch_quant),
                ("hip", ap.get_hip_quant),
                ("triton", ap.get_triton_quant),
            ):
                yield Form(
                    f"get_{module}_quant",
                    lambda f=each, x=x, k=kind: f(QuantType.per_Token)(x, quant_dtype=k),
                    (codes, row),
                    source,
                )
                yield Form(
                    f"get_{module}_quant",
                    lambda f=each, x=x, k=kind: f(QuantType.per_Tensor)(x, quant_dtype=k),
                    (codes, one),
                    source,
                )
                if module == "hip" or len(shape) == 2:  # AITER's wrapper of the others takes a matrix
                    yield Form(
                        f"get_{module}_quant",
                        lambda f=each, x=x, k=kind: f(QuantType.per_1x128)(x, quant_dtype=k),
                        (codes, groups),
                        source,
                    )
            yield Form(
                "pertoken_quant",
                lambda x=x, k=kind: ap.pertoken_quant(x, quant_dtype=k),
                (codes, row),
                source,
            )
            yield Form(
                "per_tensor_quant",
                lambda x=x, k=kind: ap.per_tensor_quant(x, quant_dtype=k),
                (codes, one),
                source,
            )
            yield Form(
                "per_token_quant_hip",
                lambda x=x, k=kind: ap.per_token_quant_hip(x, quant_dtype=k),
                (codes, row),
                source,
            )
            yield Form(
                "per_tensor_quant_hip",
                lambda x=x, k=kind: ap.per_tensor_quant_hip(x, quant_dtype=k),
                (codes, one),
                source,
            )
            for size, turned in product((32, 64, 128), (False, True)):
                yield Form(
                    "per_group_quant_hip",
                    lambda x=x, k=kind, s=size, t=turned: ap.per_group_quant_hip(x, None, k, s, t),
                    (codes, Result((*lead, 256 // size), F32)), source,
                )  # fmt: skip
        given = torch.tensor([0.5], device=place.device)
        yield Form(
            "per_tensor_quant_hip",
            lambda x=x, s=given: ap.per_tensor_quant_hip(x, s, place.fp8),
            (Result(shape, place.fp8), Result((1,), F32)),
            source,
        )
        pairs = Result((*lead, 128), FP4)
        for shuffle in (False, True):
            scales = Result((up(rows, 256) if shuffle else rows, 8), E8M0)
            yield Form(
                "per_1x32_f4_quant",
                lambda x=x, s=shuffle: ap.per_1x32_f4_quant(x, shuffle=s),
                (pairs, scales),
                source,
            )
            yield Form(
                "get_torch_quant",
                lambda x=x, s=shuffle: ap.get_torch_quant(QuantType.per_1x32)(x, shuffle=s),
                (pairs, scales),
                source,
            )
    x = place.normal(64, 96)
    for shuffle in (False, True):
        laid = Result((up(64, 256), 8) if shuffle else (64, 3), E8M0)
        pairs = Result((64, 48), FP4)
        for name in ("per_1x32_f4_quant_hip", "per_1x32_mx_quant_hip"):
            yield Form(name, lambda n=name, s=shuffle: getattr(ap, n)(x, shuffle=s), (pairs, laid), source)
        yield Form(
            "get_hip_quant",
            lambda s=shuffle: ap.get_hip_quant(QuantType.per_1x32)(x, shuffle=s),
            (pairs, laid),
            source,
        )
        yield Form(
            "get_triton_quant",
            lambda s=shuffle: ap.get_triton_quant(QuantType.per_1x32)(x, shuffle=s),
            (pairs, laid),
            source,
        )
        yield Form(
            "per_1x32_mx_quant_hip",
            lambda s=shuffle: ap.per_1x32_mx_quant_hip(x, quant_dtype=place.fp8, shuffle=s, scale_type=E8M0),
            (Result((64, 96), place.fp8), laid), source,
        )  # fmt: skip
    yield Form(
        "per_1x32_mx_quant_hip",
        lambda: ap.per_1x32_mx_quant_hip(x, quant_dtype=place.fp8),
        (Result((64, 96), place.fp8), Result((64, 3), F32)),
        source,
    )
    yield Form(
        "per_1x32_f4_quant",
        lambda: ap.per_1x32_f4_quant(x, pack_dim=0),
        (Result((32, 96), FP4), Result((2, 96), E8M0)),
        source,
    )
    yield Form(
        "dynamic_mxfp4_quant",
        lambda: ap.dynamic_mxfp4_quant(x),
        (Result((64, 48), U8), Result((64, 3), U8, None)),
        "ops/triton/quant/quant.py",
    )


def mx_formats(place: Place) -> Iterator[Form]:
    """Codes along any axis, which stays in its place, and lies last in memory."""
    source = "ops/triton/moe/quant_moe.py"
    for shape in ((64,), (32, 64), (3, 32, 64), (2, 3, 32, 64)):
        x = place.normal(*shape)
        for axis in range(-1, -len(shape) - 1, -1):
            if shape[axis] < 32:
                continue
            turned = x.to("meta").transpose(axis, -1).shape
            for kind, divisor in ((U8, 2), (torch.float8_e4m3fn, 1), (torch.float8_e5m2, 1)):
                results = []
                for size, dtype in ((turned[-1] // divisor, kind), (turned[-1] // 32, U8)):
                    made = torch.empty((*turned[:-1], size), dtype=dtype, device="meta").transpose(axis, -1)
                    results.append(Result(tuple(made.shape), dtype, made.stride()))
                name = "downcast_to_mxfp" if divisor == 2 else "downcast_to_mxfp8"
                yield Form(
                    "downcast_to_mxfp",
                    lambda x=x, k=kind, a=axis: ap.downcast_to_mxfp(x, k, a),
                    tuple(results),
                    source,
                )
                yield Form(
                    name, lambda n=name, x=x, k=kind, a=axis: getattr(ap, n)(x, k, a), tuple(results), source
                )
                back = "upcast_from_mxfp" if divisor == 2 else "upcast_from_mxfp8"
                for kind_back in (BF16, F16):
                    yield Form(
                        back,
                        lambda n=back, x=x, k=kind, a=axis, o=kind_back: getattr(ap, n)(*ap.downcast_to_mxfp(x, k, a), o, a),
                        (Result(shape, kind_back),), source,
                    )  # fmt: skip
    scale = torch.tensor([0.25], device=place.device)
    yield Form(
        "downcast_to_static_fp8",
        lambda: ap.downcast_to_static_fp8(place.normal(4, 64), scale),
        (Result((4, 64), place.fp8),),
        source,
    )
    yield Form(
        "downcast_to_static_fp8_3d",
        lambda: ap.downcast_to_static_fp8_3d(place.normal(2, 4, 64), scale),
        (Result((2, 4, 64), place.fp8),),
        source,
    )
