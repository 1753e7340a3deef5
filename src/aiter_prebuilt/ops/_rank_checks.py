"""Check a collective's arguments before any rank waits.

A call that fails later leaves ranks that disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from numbers import Real
from typing import Any, Final, NamedTuple

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.errors import (
    ArgumentDeviceError,
    ArgumentDTypeError,
    ArgumentKindError,
    ArgumentShapeError,
    ArgumentStrideError,
)
from aiter_prebuilt.ops._common import number
from aiter_prebuilt.ops._current import fp8_of
from aiter_prebuilt.ops._rank_blocks import kind_named, kind_of
from aiter_prebuilt.ops._rank_views import dense, packed

_NORMED: Final = ("bf16", "f16")
_FUSED: Final = "CustomAllreduce.fused_ar_rms"


class Expected(NamedTuple):
    """A tensor, and the shape and the element types that it may have."""

    name: str
    tensor: Any
    shape: tuple[int, ...]
    kinds: tuple[str, ...]
    written: bool = False


class Given(NamedTuple):
    """Optional arguments of ``fused_ar_rms``.

    ``columns`` of ``out`` are 0 where the caller does not say them.
    """

    out: Any = None
    res_out: Any = None
    scale_out: Any = None
    columns: int = 0


def fused(
    inp: Any, res_inp: Any, weight: Any, epsilon: Any, given: Given, codes: bool
) -> tuple[Any, int, int]:
    """``inp`` packed, columns of ``out``, and columns that are normed.

    Raises:
        ArgumentError: see :func:`check`; or ``given.columns`` are not those of the ``out`` that is given.
    """
    for name, value in (("inp", inp), ("w", weight), ("res_inp", res_inp)):
        tensor_of(_FUSED, name, value)
    inp, width = packed(inp), prod(weight.shape)
    rows, kinds = tuple(inp.shape[:-1]), (kind_of(inp),)
    columns = _columns(inp, given)
    known = [
        Expected("inp", inp, tuple(inp.shape), _NORMED),
        Expected("res_inp", packed(res_inp), (*rows, width), kinds),
        Expected("w", weight, (width,), kinds),
    ]
    if given.out is not None:
        written = (kind_named(fp8_of(inp)), "i8") if codes else kinds
        known.append(Expected("out", given.out, (*rows, columns), written, written=True))
    if given.res_out is not None:
        known.append(Expected("res_out", given.res_out, (*rows, width), kinds, written=True))
    if given.scale_out is not None:
        known.append(Expected("scale_out", given.scale_out, (*rows, 1), ("f32",), written=True))
    check(_FUSED, known, epsilon)
    return inp, columns, width


def plain(inp: Any, res_inp: Any, weight: Any, epsilon: Any) -> Any:
    """``inp`` packed; ``weight`` has as many columns.

    Raises:
        ArgumentError: see :func:`check`; or rows are wider than ``weight``.
    """
    packed_inp, columns, width = fused(inp, res_inp, weight, epsilon, Given(), codes=False)
    if columns != width:
        raise ArgumentShapeError(
            f"{_FUSED}_..._quant(w {list(weight.shape)})",
            f"inp has {columns} columns",
            f"pass w of [{columns}]",
        )
    return packed_inp


def matrix(inp: Any) -> Any:
    """``inp``, of which MXFP4 is made.

    Raises:
        ArgumentError: it is none of torch's, or no matrix of whole groups of 32 columns.
    """
    asked = f"{_FUSED}_mxfp4_quant(inp {list(inp.shape)})"
    if isinstance(inp, tuple):
        raise ArgumentKindError(
            asked, "its results are torch's, and inp is none of torch's", "pass torch tensors"
        )
    if len(inp.shape) != 2 or inp.shape[-1] % 32:
        raise ArgumentShapeError(
            asked, "it is no matrix of whole groups of 32 columns", "pass [M, 32 * groups]"
        )
    return inp


def rows(function: str, tensors: tuple[Any, ...], weight: Any, columns: int, epsilon: Any) -> None:
    """Check the rows of a normalised all-reduce.

    ``tensors``: inp, residual_inp, residual_out, out, which have as many elements, in rows of ``columns``.

    Raises:
        ArgumentError: see :func:`check`.
    """
    kinds = (kind_of(tensors[0]),)
    inp, residual, *written = (tuple(each.shape) for each in tensors)
    known = [
        Expected("inp", tensors[0], inp, _NORMED),
        Expected("residual_inp", tensors[1], residual, kinds),
        Expected("weight", weight, (columns,), kinds),
        Expected("residual_out", tensors[2], written[0], kinds, written=True),
        Expected("out", tensors[3], written[1], kinds, written=True),
    ]
    check(function, known, epsilon)


def _columns(inp: Any, given: Given) -> int:
    """Columns of ``out``, as it has them or as the caller says."""
    if len(inp.shape) == 0:
        raise ArgumentShapeError(f"{_FUSED}(inp [])", "it has no columns", "pass [..., N]")
    said = number(given.columns)
    if not isinstance(said, int):
        raise ArgumentKindError(f"{_FUSED}(out_hidden_dim={said!r})", "it is no number of columns", "pass 0")
    if given.out is None:
        return said or int(inp.shape[-1])
    tensor_of(_FUSED, "out", given.out)
    found = given.out.shape[-1] if len(given.out.shape) else 0
    if said not in (0, found):
        raise ArgumentShapeError(
            f"{_FUSED}(out_hidden_dim={said})",
            f"out is {list(given.out.shape)}",
            f"pass 0, or out of {said} columns",
        )
    return int(found)


def check(function: str, tensors: Sequence[Expected], epsilon: Any) -> None:
    """Contiguous tensors on the first one's device; what is written shares memory with nothing but the first one, which is summed
    into memory of its own.

    Raises:
        ArgumentError: one is none of these, or ``epsilon`` is no number.
    """
    for each in tensors:
        _one(function, each, tensors[0])
    # Nothing is written where the function makes its results: then there are no addresses to compare.
    rest = tensors[1:] if any(each.written for each in tensors) else ()
    spans = [_bytes(each.tensor) for each in rest]
    for at, (each, (begin, end)) in enumerate(zip(rest, spans, strict=True)):
        for other, (start, stop) in zip(rest[:at], spans[:at], strict=True):
            if (each.written or other.written) and max(begin, start) < min(end, stop):
                raise ArgumentStrideError(
                    f"{function}({other.name} and {each.name})",
                    "they share memory, and one of them is written",
                    f"pass another tensor as {each.name if each.written else other.name}",
                )
    if not isinstance(epsilon, Real):
        raise ArgumentKindError(f"{function}(epsilon={epsilon!r})", "it is no number", "pass 1e-6, or alike")


def tensor_of(function: str, name: str, value: Any) -> tuple[Any, Any, Any]:
    """(shape, dtype, device) of what has them.

    Raises:
        ArgumentKindError: it is no tensor.
    """
    try:
        return value.shape, value.dtype, value.device
    except AttributeError:
        raise ArgumentKindError(
            f"{function}({name} of {type(value).__name__})",
            "it is no tensor",
            "pass one on this rank's device",
        ) from None


def _one(function: str, each: Expected, first: Expected) -> None:
    tensor_of(function, each.name, each.tensor)
    kind, shape = kind_of(each.tensor), tuple(each.tensor.shape)
    fits = kind in each.kinds and shape == each.shape and _contiguous(each.tensor)
    if fits and each.tensor.device == first.tensor.device:
        return  # at once: this stands before a launch
    asked = f"{function}({each.name} {kind or each.tensor.dtype}{list(shape)})"
    if kind not in each.kinds:
        raise ArgumentDTypeError(asked, "it is of another type", f"pass {' or '.join(each.kinds)}")
    if shape != each.shape:
        raise ArgumentShapeError(
            asked, f"{first.name} is {list(first.tensor.shape)}", f"pass {each.name} of {list(each.shape)}"
        )
    if not _contiguous(each.tensor):
        raise ArgumentStrideError(asked, "it is not contiguous", "pass a contiguous one")
    if each.tensor.device != first.tensor.device:
        raise ArgumentDeviceError(
            asked,
            f"it is on {each.tensor.device}, {first.name} on {first.tensor.device}",
            f"move it to {first.tensor.device}",
        )


def _contiguous(tensor: Any) -> bool:
    return dense(tensor) if isinstance(tensor, tuple) else bool(tensor.is_contiguous())


def _bytes(tensor: Any) -> tuple[int, int]:
    """Return the first and the end address of a contiguous tensor."""
    begin: int = tensor[0] if isinstance(tensor, tuple) else tensor.data_ptr()
    return begin, begin + prod(tensor.shape) * BY_NAME[kind_of(tensor)].itemsize
