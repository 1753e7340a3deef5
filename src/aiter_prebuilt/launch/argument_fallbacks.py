"""Calls that no kernel takes as they are, said with other tensors of the same meaning, when the native side refused them.

Torch's tensors alone: it makes the copies, on its current stream. What is refused stays refused where nothing can be said for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Any, Final

#: Places in a cache, which AITER reads in either width: kernels that read one get a copy.
_SLOTS = "slot_mapping"

#: Operators that write a row's scale where the row lies in the memory of its codes: -> (codes, scales).
_SCALES_BY_MEMORY = {"smooth_per_token_scaled_quant": ("out", "scales")}

#: Caches of values in tiles, which may have the shape that they would have without: operator -> (values, keys).
_TILES = {"pa_fwd_asm": ("V", "K")}

_LARGEST_INT: Final = 2**31 - 1

#: Arguments to call with instead, and what to call after that.
Restated = tuple[tuple[Any, ...], Callable[[], None] | None]


def restated(name: str, *arguments: Any) -> Restated | None:
    """Return the call of operator ``name`` with tensors that its kernels walk.

    None if there is no other way to say it.

    Tensors that require a gradient are detached where AITER reads them so. Rows whose leading dims cannot be taken as one, or
    that lie 2**31 elements apart, are copied, and what was written is copied back. So are tensors of products that are not
    dense. A scale a row may lack its last dim. Results of routing may have more rows. Slots of 32 bits are widened. Values in
    tiles may have the shape of rows.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    from aiter_prebuilt.tracing.signatures import load

    signature = load().get(name)
    if signature is None or len(arguments) < len(signature.tensors):
        return None
    given, specs = list(arguments), signature.tensors
    if signature.detached:
        for place, each in enumerate(given[: len(specs)]):
            if isinstance(each, torch.Tensor) and each.requires_grad:
                given[place] = each.detach()
    _slots(torch, signature, given)
    _first_rows(torch, signature.first_rows, specs, given)
    _columns(torch, specs, given)
    names = [spec.name for spec in specs]
    _scales_by_memory(torch, [names.index(each) for each in _SCALES_BY_MEMORY.get(name, ())], given)
    _tiles(torch, [names.index(each) for each in _TILES.get(name, ())], given)
    back = _copies(torch, signature.dense, specs, given)
    if back is None or all(one is other for one, other in zip(given, arguments, strict=True)):
        return None
    return tuple(given), (lambda: _copy_back(torch, back)) if back else None


def _slots(torch: Any, signature: Any, given: list[Any]) -> None:
    """Widen slots of 32 bits where the kernels read 64."""
    for place, spec in enumerate(signature.tensors):
        each = given[place]
        if spec.name == _SLOTS and signature.allowed(spec) == ("i64",) and isinstance(each, torch.Tensor):
            given[place] = each.long() if each.dtype == torch.int32 else each


def _first_rows(torch: Any, first_rows: Mapping[str, str], specs: Sequence[Any], given: list[Any]) -> None:
    """Narrow results of more rows than a call has to the rows that it writes: AITER's buffers are of the largest batch."""
    places = {spec.name: place for place, spec in enumerate(specs)}
    for each, counted in first_rows.items():
        place, whole = places[each], given[places[counted]]
        buffer = given[place]
        if not (isinstance(buffer, torch.Tensor) and isinstance(whole, torch.Tensor)):
            continue
        if buffer.dim() == whole.dim() == 2 and buffer.shape[0] > whole.shape[0]:
            given[place] = buffer[: whole.shape[0]]


def _columns(torch: Any, specs: Sequence[Any], given: list[Any]) -> None:
    """See one number a row with the last dim of one that the signature has. Leading dims may be one: AITER counts rows."""
    shapes = [
        tuple(each.shape[:-1])
        for spec, each in zip(specs, given, strict=False)
        if spec.star and spec.dims[1:] != ("1",) and isinstance(each, torch.Tensor)
    ]
    for place, spec in enumerate(specs):
        each = given[place]
        if (
            spec.star
            and spec.dims[1:] == ("1",)
            and isinstance(each, torch.Tensor)
            and tuple(each.shape) in [*shapes, *((prod(shape),) for shape in shapes)]
        ):
            given[place] = each.unsqueeze(-1)


def _scales_by_memory(torch: Any, places: Sequence[int], given: list[Any]) -> None:
    """See scales in the order in which the rows of transposed codes [m, k, N] lie in memory, which is [k, m, N]."""
    if not places:
        return
    codes, scales = (given[place] for place in places)
    if not (isinstance(codes, torch.Tensor) and isinstance(scales, torch.Tensor)) or codes.dim() != 3:
        return
    rows, choices = codes.shape[:2]
    transposed = min(rows, choices) > 1 and codes.transpose(0, 1).is_contiguous()
    if transposed and scales.is_contiguous() and scales.numel() == rows * choices:
        given[places[1]] = scales.view(choices, rows, 1).transpose(0, 1)


def _tiles(torch: Any, places: Sequence[int], given: list[Any]) -> None:
    """See values [blocks, heads, D, page] as the tiles [blocks, heads, page / x, D, x] that their memory is, as AITER does."""
    if not places:
        return
    values, keys = (given[place] for place in places)
    if not (isinstance(values, torch.Tensor) and isinstance(keys, torch.Tensor)):
        return
    if values.dim() == 4 and keys.dim() == 5 and values.is_contiguous() and keys.is_contiguous():
        blocks, heads, size, page = values.shape
        width = keys.shape[-1]
        if page == keys.shape[3] and page % max(width, 1) == 0:
            given[places[0]] = values.view(blocks, heads, page // width, size, width)


def _copies(
    torch: Any, dense: Collection[str], specs: Sequence[Any], given: list[Any]
) -> list[tuple[Any, Any]] | None:
    """Copy tensors that kernels do not walk.

    Returns:
        (what was given, its copy) of each tensor that the call writes. None: one of these may not be written.
    """
    back = []
    whole = given[: len(specs)]
    for place, spec in enumerate(specs):
        each = given[place]
        if not isinstance(each, torch.Tensor) or each.is_contiguous():
            continue
        if not (spec.name in dense or _has_split_rows(each, spec) or _has_far_rows(each, spec)):
            continue
        written = spec.role != "in"
        others = [(other, specs[at].role != "in") for at, other in enumerate(whole) if at != place]
        if written and not _alone(torch, each, others):
            return None
        given[place] = each.detach().clone(memory_format=torch.contiguous_format)
        if written:
            back.append((each, given[place]))
    return back


def _has_split_rows(tensor: Any, spec: Any) -> bool:
    """Tell whether the leading dims of a tensor of rows cannot be taken as one."""
    leading = tensor.dim() - len(spec.dims) + 1
    return bool(spec.star) and leading > 1 and not _as_one(tensor.shape[:leading], tensor.stride()[:leading])


def _has_far_rows(tensor: Any, spec: Any) -> bool:
    """Tell whether rows lie so far apart that kernels, which count elements with 32 bits, cannot name the distance.

    A card's memory has room for a few such rows alone, so that a copy of them is small. Caches have more dims, and large rows.
    """
    rows = spec.star or len(spec.dims) == 2
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return bool(rows) and any(size > 1 and abs(stride) > _LARGEST_INT for size, stride in pairs)


def _as_one(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Can these dims be taken as one? As ``csrc/runtime/tensors/shape.cpp`` has it."""
    expected = None
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size == 1:
            continue
        if expected is not None and stride != expected:
            return False
        expected = stride * size
    return True


def _span(tensor: Any) -> tuple[int, int]:
    """Return the first byte's address, and the end's."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    first = tensor.data_ptr()
    return first, first + (last + 1) * tensor.element_size()


def _alone(torch: Any, tensor: Any, others: Sequence[tuple[Any, bool]]) -> bool:
    """May it be written: are its elements its own, or those of one that is only read, and the very same? Of the others: are they
    written?
    """
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return False
            reach += (size - 1) * stride
    first, end = _span(tensor)
    for other, also_written in others:
        if not isinstance(other, torch.Tensor) or not other.numel():
            continue
        theirs = _span(other)
        same = first == theirs[0] and tensor.shape == other.shape and tensor.stride() == other.stride()
        if (also_written or not same) and theirs[0] < end and first < theirs[1]:
            return False
    return True


def _copy_back(torch: Any, pairs: Sequence[tuple[Any, Any]]) -> None:
    with torch.no_grad():
        for given, copy in pairs:
            given.copy_(copy)
