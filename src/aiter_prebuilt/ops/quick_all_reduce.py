"""AITER's QuickReduce: all-reduces of 2, 4 or 8 GPUs of one host whose messages are rounded to few bits on their way.

A communicator is a number, as in AITER. What a rank sends is rounded to codes, and each part of the sum again; 32 elements that
lie side by side share a scale, by which the furthest of them from zero is the end of the range. All ranks get the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.devices.shared_memory import HANDLE_BYTES
from aiter_prebuilt.errors import ArgumentKindError, ArgumentShapeError
from aiter_prebuilt.launch.graph_break import graph_break
from aiter_prebuilt.ops import _rank_checks as checks
from aiter_prebuilt.ops._common import number, refuse
from aiter_prebuilt.ops._rank_blocks import RankBlocks, kind_of, place_of
from aiter_prebuilt.ops._rank_chain import made
from aiter_prebuilt.ops._rank_views import aligned, as_rows, dense, flat, nbytes, packed, parts
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

#: AITER's levels by their numbers (FP, FP8, INT6, INT4, INT3) as bits of a code; 0: messages keep theirs.
_BITS: Final = (0, 8, 6, 4, 3)
_WORLDS: Final = (2, 4, 8)
_PACK: Final = 16
_LARGEST: Final = 1 << 31
#: Bytes that one launch takes; a longer message is several. Some more than twice as many are allocated.
_AT_ONCE: Final = 64 << 20
_NUMBERS: Final = count(1)


class _Made(NamedTuple):
    """A communicator; ``largest``: bytes of its largest message."""

    blocks: RankBlocks
    largest: int


_COMMUNICATORS: Final[dict[int, _Made]] = {}


@graph_break("it allocates memory that ranks share")
def init_custom_qr(
    rank: int,
    world_size: int,
    qr_max_size: int | None = None,
    *,
    device: int | str | tuple[str, int] | torch.device | None = None,
) -> int:
    """Make a communicator and return its number.

    All ranks make theirs, exchange handles, and open them: ``qr_get_handle``, ``qr_open_handles``.

    Args:
        rank: the number of this rank, from 0.
        world_size: the number of ranks: 2, 4 or 8.
        qr_max_size: bytes of the largest message; None or 0: ``qr_max_size()``.
        device: the GPU of this rank: torch's name, its ordinal, or ("amd", ordinal); None: torch's current one.

    Returns:
        The number that the other ``qr`` functions take.

    Raises:
        UnsupportedError: another number of ranks.
        ArgumentKindError: a rank of another world, or a bound that is no number of bytes.
        DriverError: the memory cannot be had.

    Source: AITER ``init_custom_qr``.
    """
    if world_size not in _WORLDS:
        raise refuse("init_custom_qr", "world_size", world_size, "2, 4 or 8")
    if not _whole(rank) or not 0 <= rank < world_size:
        raise ArgumentKindError(
            "init_custom_qr",
            f"rank must be 0 to {world_size - 1}, got {rank}",
            "",
        )
    largest = _most(qr_max_size)
    blocks = RankBlocks(rank, world_size, place_of(device), min(largest, _AT_ONCE))
    name = next(_NUMBERS)
    _COMMUNICATORS[name] = _Made(blocks, largest)
    return name


@traced
def qr_max_size() -> int:
    """Return the bytes of the largest message.

    It holds for a communicator that is made without a bound.

    Returns:
        2 GiB, in bytes.

    Source: AITER ``qr_max_size``.
    """
    return _LARGEST


@graph_break("it exports memory that ranks share")
def qr_get_handle(fa: int, out_ptr: int | None = None) -> torch.Tensor | None:
    """Return the handle of this rank's memory, 64 bytes.

    It is written to an address, or returned, as clients of older trees want it.

    Args:
        fa: the communicator.
        out_ptr: an address on the host; None: as a tensor.

    Returns:
        None, or [64] uint8 on the host.

    Raises:
        ArgumentKindError: no such communicator.
        DriverError: the driver exports no memory.

    Source: AITER ``qr_get_handle``; vLLM calls it without an address.
    """
    handle = _made("qr_get_handle", fa).blocks.handle()
    if out_ptr is not None:
        ctypes.memmove(out_ptr, handle, HANDLE_BYTES)
        return None
    import torch

    return torch.frombuffer(bytearray(handle), dtype=torch.uint8)


@graph_break("it maps memory that ranks share")
def qr_open_handles(fa: int, handle_ptrs: Sequence[int | torch.Tensor]) -> None:
    """Map the memory of all ranks.

    In the exchange of handles before it all ranks wait for all.

    Args:
        fa: the communicator.
        handle_ptrs: all ranks' handles, by rank, this one's among them: addresses on the host, or tensors of 64 bytes.

    Raises:
        ArgumentKindError: no such communicator.
        ArgumentShapeError: handles of more or fewer ranks, or of another size.
        UnsupportedError: devices that cannot reach each other.
        DriverError: a handle of memory that is gone.

    Source: AITER ``qr_open_handles``; vLLM gives tensors.
    """
    blocks = _made("qr_open_handles", fa).blocks
    if len(handle_ptrs) != blocks.world:
        raise ArgumentShapeError(
            "qr_open_handles",
            f"handle_ptrs must have one handle for each of {blocks.world} ranks, got {len(handle_ptrs)}",
            "Pass them in the order of the ranks",
        )
    blocks.open([_handle(each) for each in handle_ptrs])


def _handle(told: Any) -> bytes:
    """Read a handle from a host address or from a tensor."""
    if isinstance(told, int):
        return ctypes.string_at(told, HANDLE_BYTES)
    found = bytes(told.flatten().tolist())
    if len(found) != HANDLE_BYTES:
        raise ArgumentShapeError(
            "qr_open_handles",
            f"a handle must have {HANDLE_BYTES} bytes, got {len(found)}",
            "Pass what qr_get_handle returned",
        )
    return found


@graph_break("the memory that ranks share is no tensor of torch")
def qr_all_reduce(
    fa: int, inp: torch.Tensor, out: torch.Tensor, quant_level: int, cast_bf2half: bool = False
) -> None:
    """Sum all ranks' ``inp`` into ``out``, by codes of few bits.

    Args:
        fa: the communicator; its calls follow each other on the device, in the same order in all ranks.
        inp: bf16 or fp16, dense, a multiple of 16 bytes; where one of 32, or of their sums, is no finite number, all of them are
            NaN, but for FP.
        out: like it, written.
        quant_level: a number or member of AITER's ``QuickReduceRegime``: FP (0: messages keep their bits), FP8 (1: of 8 bits, but
            integers, where AITER has e4m3), INT6 (2), INT4 (3), INT3 (4: two ranks alone).
        cast_bf2half: accepted and ignored: sums are in fp32.

    Raises:
        UnsupportedError: another level.
        ArgumentError: tensors that do not fit, or no such communicator.
        NoKernelError: another element type.

    Source: AITER ``qr_all_reduce``.
    """
    del cast_bf2half
    blocks, largest = _made("qr_all_reduce", fa)
    bits = _bits("qr_all_reduce", quant_level, blocks.world)
    _fitting("qr_all_reduce", largest, inp, out)
    if not _alike(inp, out):
        inp = packed(inp)
    _reduce(blocks, inp, out, bits)


@graph_break("the memory that ranks share is no tensor of torch")
def qr_all_reduce_rmsnorm(
    fa: int,
    inp: torch.Tensor,
    residual_inp: torch.Tensor,
    residual_out: torch.Tensor,
    out: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    hidden_dim: int,
    quant_level: int,
    cast_bf2half: bool = False,
) -> None:
    """Sum all ranks' ``inp`` and the residual, and normalise.

    ``residual_out`` is the sum of all ranks' ``inp``, as of ``qr_all_reduce``, and ``residual_inp``; ``out`` its RMS norm.

    Args:
        fa: the communicator, as of :func:`qr_all_reduce`.
        inp: bf16 or fp16, dense, a multiple of 16 bytes, as of :func:`qr_all_reduce`.
        residual_inp: like ``inp``, this rank's residual.
        residual_out: like ``inp``, contiguous, written, out of place.
        out: like ``inp``, contiguous, written, out of place.
        weight: [hidden_dim].
        eps: added to the mean square.
        hidden_dim: columns of a row.
        quant_level: a number or member of AITER's ``QuickReduceRegime``, as of :func:`qr_all_reduce`.
        cast_bf2half: accepted and ignored: sums are in fp32.

    Raises:
        UnsupportedError: another level.
        ArgumentError: tensors that do not fit, or no such communicator.
        NoKernelError: another element type.

    Source: AITER ``qr_all_reduce_rmsnorm``.
    """
    from aiter_prebuilt.ops.generated.norm import rmsnorm2d_fwd_with_add

    del cast_bf2half
    name = "qr_all_reduce_rmsnorm"
    blocks, largest = _made(name, fa)
    bits = _bits(name, quant_level, blocks.world)
    for option, value in (
        ("inp", inp),
        ("residual_inp", residual_inp),
        ("residual_out", residual_out),
        ("out", out),
        ("weight", weight),
    ):
        checks.tensor_of(name, option, value)
    tensors = (packed(inp), packed(residual_inp), residual_out, out)
    for each in tensors[1:]:
        _fitting(name, largest, tensors[0], each)
    elements = nbytes(inp) // BY_NAME[kind_of(inp)].itemsize
    if not _whole(hidden_dim) or hidden_dim < 1 or elements % hidden_dim:
        raise ArgumentShapeError(
            name,
            f"hidden_dim must divide the {elements} elements of inp, got {hidden_dim}",
            "Pass inp's columns",
        )
    checks.rows(name, tensors, weight, hidden_dim, eps)
    total = made(tensors[0])
    _reduce(blocks, tensors[0], total, bits)
    rows = (elements // hidden_dim, hidden_dim)
    summed, residual, residual_rows, normed = (as_rows(each, rows) for each in (total, *tensors[1:]))
    rmsnorm2d_fwd_with_add(normed, summed, residual, residual_rows, weight, eps)


@graph_break("it frees memory that ranks share")
def qr_destroy(fa: int) -> None:
    """Free a communicator's memory.

    All ranks must be through with their calls. A second call, or one without a communicator (0), does nothing.

    Args:
        fa: the communicator.

    Raises:
        DriverError: the driver refuses it.

    Source: AITER ``qr_destroy``.
    """
    found = _COMMUNICATORS.pop(fa, None)
    if found is not None:
        found.blocks.close()


def _made(function: str, fa: int) -> _Made:
    found = _COMMUNICATORS.get(fa)
    if found is None:
        raise ArgumentKindError(
            function,
            f"fa must be an open communicator, got {fa!r}",
            "Pass what init_custom_qr returned",
        )
    return found


def _whole(value: Any) -> bool:
    return isinstance(value, int)


def _most(qr_max_size: Any) -> int:
    """Bytes of the largest message."""
    bound = 0 if qr_max_size is None else number(qr_max_size)
    if not isinstance(bound, int) or bound < 0:
        raise ArgumentKindError(
            "init_custom_qr",
            f"qr_max_size must be a number of bytes or None, got {qr_max_size!r}",
            "",
        )
    return min(bound or _LARGEST, _LARGEST)


def _bits(function: str, quant_level: Any, world: int) -> int:
    level = number(quant_level)
    if not isinstance(level, int) or level not in range(len(_BITS)) or (_BITS[level] == 3 and world > 2):
        raise refuse(
            function, "quant_level", quant_level, "0 (FP), 1 (FP8), 2 (INT6), 3 (INT4), of two ranks 4 (INT3)"
        )
    return _BITS[level]


def _fitting(function: str, largest: int, inp: Any, out: Any) -> None:
    """Check that two messages have one type and a valid size."""
    got = f"{kind_of(inp)} {list(inp.shape)} and {kind_of(out)} {list(out.shape)}"
    size = nbytes(inp)
    if kind_of(inp) != kind_of(out) or size != nbytes(out):
        raise ArgumentShapeError(function, f"inp and out must have one type and size, got {got}", "")
    if size % _PACK or size > largest or not aligned(inp) or not aligned(out):
        raise ArgumentShapeError(
            function,
            f"inp and out must be aligned to 16 bytes, and have a multiple of 16 bytes, at most {largest}; got {size} bytes",
            "Use the library's all-reduce",
        )
    if not dense(out) or (packed(out) is not out and not _alike(inp, out)):
        raise ArgumentShapeError(function, "out must have the memory order of inp", "Pass contiguous tensors")


def _alike(inp: Any, out: Any) -> bool:
    """Do their elements lie in memory in the same order?"""
    if isinstance(inp, tuple) or isinstance(out, tuple):
        return True
    return dense(inp) and tuple(inp.shape) == tuple(out.shape) and inp.stride() == out.stride()


def _reduce(blocks: RankBlocks, inp: Any, out: Any, bits: int) -> None:
    kind = kind_of(inp)
    at_once = blocks.capacity // BY_NAME[kind].itemsize
    for result, message in zip(parts(flat(out), at_once), parts(flat(inp), at_once), strict=True):
        if bits:
            blocks.all_reduce_codes(result, message, bits)
        else:
            blocks.all_reduce(result, message, kind)
