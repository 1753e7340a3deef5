"""Split attention over a latent cache by AITER's rules.

It prepares the native call without reading a tensor's values.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple, cast

from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import ArgumentStrideError
from aiter_prebuilt.ops._common import refuse

#: AITER's rule tries so many parts, and counts a part as so many keys more.
_MOST: Final = 16
#: More would be more memory than keys.
MOST_PARTS: Final = 4096
_OVERHEAD: Final = 84.1
#: Keys that a part of an fp8 context has at least, by rows of queries; 32 for all others.
_LEAST: Final = {16: 128, 32: 128, 48: 64, 64: 64}


def parts(wanted: Any, batches: int, keys: int, rows: int, fp8: bool, units: int) -> int:
    """Parts of each context: the number that fills the compute units best, ``wanted`` where there is one.

    Raises:
        UnsupportedError: less than one part.
    """
    if wanted is not None and not (isinstance(wanted, int) and 1 <= wanted <= MOST_PARTS):
        raise refuse("mla_decode_fwd", "num_kv_splits", wanted, f"None or 1 to {MOST_PARTS}")
    batches = max(batches, 1)
    if wanted is None:
        mean = keys / batches
        best = 0.0
        wanted = 1
        for count in range(1, _MOST + 1):
            works = batches * count
            used = works / ((works + units - 1) // units * units) * mean / (mean + _OVERHEAD * count)
            if used > best:
                best, wanted = used, count
    least = _LEAST.get(rows, 32)
    return max(1, min(wanted, int(keys / batches + least - 1) // least)) if fp8 else cast(int, wanted)


def writes_result(count: int, heads: int, queries: int, fp8: bool) -> bool:
    """Is the only part the result? 16 heads with one query each in bf16 have a part and a logarithm always."""
    return count == 1 and (fp8 or heads != 16 or queries > 1)


def folds(heads: int) -> bool:
    """Are heads batches of 16 where each has one query, and pages one key? AITER's assembly takes them so."""
    return heads % 16 == 0 and heads not in (16, 128) and heads <= 512


def contexts_of(heads: int, page_size: int, queries: int, uniform: int, topk: int) -> tuple[int, int]:
    """Contexts that the heads of a batch are in lists of works, and tiles that its queries are: of 128 rows with all heads.

    ``queries``: of a batch, at most, what is below 1 unknown; ``uniform``: of each batch, if it is above 0; ``topk``: each query
    has keys of its own, if it is at least 0.

    Raises:
        UnsupportedError: ``mla_decode_fwd`` would take the heads as contexts, and their queries may be several.
    """
    most = uniform if uniform > 0 else max(1, queries)
    if page_size == 1 and folds(heads):
        if uniform == 1:
            return heads // 16, 1
        if topk >= 0 or most == 1:
            wanted = f"1, or with {heads} heads a max_seqlen_qo above 1"
            raise refuse("get_mla_metadata_v1", "uni_seqlen_qo", uniform, wanted)
    return 1, 1 if topk >= 0 else min(most, -(-most * heads // 128))


def own_heads(heads: int, queries: int, page_size: int) -> int:
    """Heads of a work, as ``get_mla_metadata_v1`` has them."""
    return 16 if folds(heads) and queries == 1 and page_size == 1 else heads


def rows_of_part(heads: int, queries: int) -> int:
    """Rows that each part of lists of works has at most, in tokens of ``heads``: a tile has 128 with all heads, or one query."""
    return max(1, min(queries, -(-128 // heads)))


def compute_units(tensor: Any) -> int:
    """Count the compute units of the device that holds ``tensor``."""
    place = tensor.device
    vendor, ordinal = place if isinstance(place, tuple) else ("amd", place.index or 0)
    return device.facts(vendor, ordinal).compute_units


def shaped(tensor: Any, shape: tuple[int, ...]) -> Any:
    """View a contiguous tensor in another shape.

    Raises:
        ArgumentStrideError: it is not contiguous.
    """
    if tuple(tensor[2] if isinstance(tensor, tuple) else tensor.shape) == tuple(shape):
        return tensor
    if isinstance(tensor, tuple):  # it has no framework
        steps = zip(tensor[2], tensor[3], _dense(tensor[2]), strict=True)
        if 0 not in tensor[2] and any(size > 1 and step != dense for size, step, dense in steps):
            raise _not_contiguous(tensor[2], tensor[3], shape)
        return (tensor[0], tensor[1], tuple(shape), _dense(shape), tensor[4])
    try:
        return tensor.view(shape)
    except RuntimeError:  # what torch says names no function of ours
        raise _not_contiguous(tensor.shape, tensor.stride(), shape) from None


def _not_contiguous(shape: Any, strides: Any, wanted: tuple[int, ...]) -> ArgumentStrideError:
    return ArgumentStrideError(
        f"take a tensor of {list(shape)} as one of {list(wanted)}, the same memory",
        f"its strides are {list(strides)}",
        "pass a contiguous tensor",
    )


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in shape[:0:-1]:
        strides.insert(0, strides[0] * size)
    return tuple(strides)


class Made(NamedTuple):
    """Arguments of a decode that the function makes itself.

    ``splits`` parts of a context; ``fold`` tokens that one of the caller's is; ``logits`` None where the only part is the result;
    ``parts``: the value that the function returns for them.
    """

    q: Any
    o: Any
    logits: Any
    parts: Any
    lse: Any
    splits: int
    fold: int


def of_parts(
    q: Any, o: Any, qo_indptr: Any, keys: int, queries: int, wanted: int | None, units: int, f32: Any
) -> Made:
    """Every context in as many parts; all of them have ``keys`` keys.

    Raises:
        UnsupportedError: less than one part.
    """
    (tokens, heads), fp8 = o.shape[:2], q.dtype != o.dtype
    count = parts(wanted, qo_indptr.shape[0] - 1, keys, heads * queries, fp8, units)
    lse = o.new_empty((tokens, heads), dtype=f32)
    if writes_result(count, heads, queries, fp8):
        return Made(q, o, None, o, lse, count, 1)
    logits = o.new_empty((tokens, count, heads, o.shape[2]), dtype=f32)
    return Made(q, o, logits, logits, lse, count, 1)


def of_works(q: Any, o: Any, page_size: int, reduce_partial_map: Any, queries: int, f32: Any) -> Made:
    """Works are listed; each part has room for the tokens of a tile."""
    tokens, heads, depth = o.shape
    own = own_heads(heads, queries, page_size)
    count, rows = tokens * heads // own, reduce_partial_map.shape[0] * rows_of_part(own, queries)
    # Rows of 16 heads in tokens of all heads: a list may end inside one.
    logits = o.new_empty(((rows * own + heads - 1) // heads, 1, heads, depth), dtype=f32)
    lse = o.new_empty((count, own), dtype=f32)
    native = shaped(q, (count, own, q.shape[2])), shaped(o, (count, own, depth))
    parts = shaped(logits, (logits.shape[0] * heads // own, 1, own, depth))
    return Made(*native, parts, logits, lse, 1, heads // own)


def rows_of(partial_lse: Any, partial_output: Any) -> Any:
    """Logarithms without the last dim of one that they may have."""
    shape = tuple(getattr(partial_lse, "shape", ()))
    same = len(shape) == len(getattr(partial_output, "shape", ()))
    return shaped(partial_lse, shape[:-1]) if same and shape[-1:] == (1,) else partial_lse


def reduced_to(most: Any, splits: Any, out: Any, lse: Any) -> tuple[Any, Any, Any, Any]:
    """Sort the last arguments of ``mla_reduce_v1``.

    The result has result, logarithms, tokens of a tile and parts of one. Older trees of AITER have no number of parts, those
    before them no tokens of a tile either.
    """
    if _is_tensor(most):
        return most, splits if _is_tensor(splits) else lse, 1, 0
    if _is_tensor(splits):
        return splits, out if lse is None else lse, most, 0
    return out, lse, most, 0 if splits is None else splits


def _is_tensor(value: Any) -> bool:
    return isinstance(value, tuple) or hasattr(value, "shape")


def address(tensor: Any) -> Any:
    """Return the address of a tensor's first element.

    None for a value that is no tensor: the native call refuses it.
    """
    if isinstance(tensor, tuple):
        return tensor[0] if tensor else None
    found = getattr(tensor, "data_ptr", None)
    return None if found is None else found()


def addresses(tensor: Any) -> Any:
    """View torch's unsigned 64-bit integers as signed ones.

    The same memory; anything else stays.
    """
    torch: Any = sys.modules.get("torch")
    found, unsigned = getattr(tensor, "dtype", None), getattr(torch, "uint64", None)
    return tensor.view(torch.int64) if found is not None and found is unsigned else tensor


def in_order(units: Any, works: Any) -> tuple[Any, Any]:
    """Return the list of one dim, then that of two."""
    swapped = len(getattr(units, "shape", ())) == 2 and len(getattr(works, "shape", ())) == 1
    return (works, units) if swapped else (units, works)
