"""Copying blocks of paged caches: within them, and between two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.errors import ArgumentKindError
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.launch.graph_break import graph_break
from aiter_prebuilt.ops._blocks import layers
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_copy_blocks = operator("copy_blocks")


@traced
def copy_blocks(key_caches: torch.Tensor, value_caches: torch.Tensor, block_mapping: torch.Tensor) -> None:
    """Copy blocks of all layers' caches to other blocks.

    Source and destination lie in the same cache.

    Args:
        key_caches: [layers, blocks, ...] of any type, each block contiguous, written: one launch. Or a list of tensors [blocks,
            ...], as AITER's callers have it: one launch for each.
        value_caches: the same for the values, of as many bytes a block.
        block_mapping: [pairs, 2] int64, on the device: from, to. A pair with a number of no block is skipped. A block that is
            written is in no other pair.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``copy_blocks``.
    """
    for keys, values in layers(key_caches, value_caches):
        _copy_blocks(keys, values, block_mapping)


@graph_break("it reads block_mapping on the host")
def swap_blocks(src: torch.Tensor, dst: torch.Tensor, block_mapping: torch.Tensor) -> None:
    """Copy blocks between caches, also of host and device.

    From a device to the host, back, or on one device; by torch alone.

    Blocks that follow one another in both are copied at once. Nothing waits for the copies: where a side is the host's, it is
    pinned memory, or torch waits.

    Args:
        src: [blocks, ...].
        dst: [blocks, ...] of the same blocks, written.
        block_mapping: [pairs, 2] int64, on the host: from, to.

    Raises:
        ArgumentKindError: a number of no block, or a mapping that is not on the host.

    Source: AITER ``swap_blocks``.
    """
    if block_mapping.device.type != "cpu":
        raise ArgumentKindError(
            "swap_blocks", f"block_mapping must be on the CPU, got {block_mapping.device}", "Call cpu() on it"
        )
    for source, target, count in _runs(block_mapping.tolist()):
        if min(source, target) < 0 or source + count > src.shape[0] or target + count > dst.shape[0]:
            raise ArgumentKindError(
                "swap_blocks",
                f"block_mapping must name blocks below {src.shape[0]} and {dst.shape[0]}, got {source} to {target}",
                "",
            )
        dst[target : target + count].copy_(src[source : source + count], non_blocking=True)


def _runs(pairs: Any) -> Iterator[tuple[int, int, int]]:
    """(from, to, how many) of pairs, those that follow one another as one."""
    start: tuple[int, int] | None = None
    count = 0
    for source, target in pairs:
        if start is not None and (source, target) == (start[0] + count, start[1] + count):
            count += 1
            continue
        if start is not None:
            yield (*start, count)
        start, count = (source, target), 1
    if start is not None:
        yield (*start, count)
