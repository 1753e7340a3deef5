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
            f"{_FUSED}_..._quant",
            f"w must be [{columns}], got {list(weight.shape)}",
            "",
        )
    return packed_inp


def matrix(inp: Any) -> Any:
    """``inp``, of which MXFP4 is made.

    Raises:
        ArgumentError: it is none of torch's, or no matrix of whole groups of 32 columns.
    """
    asked = f"{_FUSED}_mxfp4_quant"
    if isinstance(inp, tuple):
        raise ArgumentKindError(asked, "inp must be a torch tensor, as the results are", "")
    if len(inp.shape) != 2 or inp.shape[-1] % 32:
        raise ArgumentShapeError(asked, f"inp must be [M, 32 * groups], got {list(inp.shape)}", "")
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
        raise ArgumentShapeError(_FUSED, "inp must have at least 1 dim, got []", "")
    said = number(given.columns)
    if not isinstance(said, int):
        raise ArgumentKindError(
            _FUSED, f"out_hidden_dim must be an int, got {said!r}", "Pass 0 for the columns of out"
        )
    if given.out is None:
        return said or int(inp.shape[-1])
    tensor_of(_FUSED, "out", given.out)
    found = given.out.shape[-1] if len(given.out.shape) else 0
    if said not in (0, found):
        raise ArgumentShapeError(
            _FUSED,
            f"out_hidden_dim must be 0 or the columns of out, {found}, got {said}",
            "",
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
                    function,
                    f"{other.name} and {each.name} share memory, and one of them is written",
                    f"Pass another tensor as {each.name if each.written else other.name}",
                )
    if not isinstance(epsilon, Real):
        raise ArgumentKindError(function, f"epsilon must be a float, got {epsilon!r}", "")


def tensor_of(function: str, name: str, value: Any) -> tuple[Any, Any, Any]:
    """(shape, dtype, device) of what has them.

    Raises:
        ArgumentKindError: it is no tensor.
    """
    try:
        return value.shape, value.dtype, value.device
    except AttributeError:
        raise ArgumentKindError(
            function,
            f"{name} must be a tensor on this rank's device, got an object of type {type(value).__name__}",
            "",
        ) from None


def _one(function: str, each: Expected, first: Expected) -> None:
    tensor_of(function, each.name, each.tensor)
    kind, shape = kind_of(each.tensor), tuple(each.tensor.shape)
    fits = kind in each.kinds and shape == each.shape and _contiguous(each.tensor)
    if fits and each.tensor.device == first.tensor.device:
        return  # at once: this stands before a launch
    if kind not in each.kinds:
        raise ArgumentDTypeError(
            function, f"{each.name} must be {' or '.join(each.kinds)}, got {kind or each.tensor.dtype}", ""
        )
    if shape != each.shape:
        raise ArgumentShapeError(function, f"{each.name} must be {list(each.shape)}, got {list(shape)}", "")
    if not _contiguous(each.tensor):
        raise ArgumentStrideError(function, f"{each.name} must be contiguous", "Call contiguous() on it")
    if each.tensor.device != first.tensor.device:
        raise ArgumentDeviceError(
            function,
            f"{each.name} must be on {first.tensor.device}, as {first.name} is; got {each.tensor.device}",
            "Move it there",
        )


def _contiguous(tensor: Any) -> bool:
    return dense(tensor) if isinstance(tensor, tuple) else bool(tensor.is_contiguous())


def _bytes(tensor: Any) -> tuple[int, int]:
    """Return the first and the end address of a contiguous tensor."""
    begin: int = tensor[0] if isinstance(tensor, tuple) else tensor.data_ptr()
    return begin, begin + prod(tensor.shape) * BY_NAME[kind_of(tensor)].itemsize
