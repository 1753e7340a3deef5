"""Add the residual, normalise and quantise after an all-reduce.

It takes as few launches as there are kernels for.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._rank_blocks import GROUPS, RankBlocks, kind_of
from aiter_prebuilt.ops._rank_views import as_rows, first_columns, flat, nbytes

#: Bytes from which two exchanges and a launch more are shorter than one exchange of everything: AITER's bounds.
_LONG = {4: 163840, 6: 81920, 8: 81920}
#: Columns that one launch adds, norms and quantises.
_WIDEST = 16384


class Layer(NamedTuple):
    """The operands of the norm after an all-reduce."""

    residual: Any
    weight: Any
    epsilon: float
    gemma_norm: bool
    one_launch: bool


class Form(NamedTuple):
    """The form of a quantised norm.

    ``group``: columns of a scale (0: all); ``emit``: the norm itself is returned, too; ``transposed``: scales are transposed.
    """

    group: int
    emit: bool
    transposed: bool


def in_groups(inp: Any, group_size: int) -> bool:
    """Can its columns have a scale for each ``group_size``?"""
    return group_size in (32, 64, 128) and inp.shape[-1] % group_size == 0


def made(inp: Any) -> Any:
    """Allocate a contiguous tensor of the same shape and type."""
    return inp.new_empty(inp.shape)


def norm(blocks: RankBlocks, layer: Layer, inp: Any, out: Any, res_out: Any) -> None:
    """``res_out = sum + residual`` and its norm, in one launch where the message is short or that is asked for."""
    kind = kind_of(inp)
    if layer.one_launch or nbytes(inp) < _LONG.get(blocks.world, 1 << 62):
        rows, width = prod(inp.shape[:-1]), inp.shape[-1] * BY_NAME[kind].itemsize
        most = -(-rows // max(1, min(GROUPS, rows))) * width
        if most <= blocks.region and width % 16 == 0:
            tensors = (out, res_out, inp, layer.residual, layer.weight)
            return blocks.all_reduce_rmsnorm(tensors, kind, layer.epsilon, layer.gemma_norm)
    from aiter_prebuilt.ops.generated.norm import rmsnorm2d_fwd_with_add

    total = _sum(blocks, inp)
    return rmsnorm2d_fwd_with_add(
        out, total, layer.residual, res_out, layer.weight, layer.epsilon, layer.gemma_norm
    )


def padded_norm(blocks: RankBlocks, layer: Layer, inp: Any, out: Any, res_out: Any) -> None:
    """:func:`norm` of the first columns of ``inp``, as many as the weight has; behind them ``out`` has zeros."""
    rows, width = prod(inp.shape[:-1]), prod(layer.weight.shape)
    narrow = (rows, width)
    operator("fused_add_rmsnorm_pad")(
        as_rows(out, (rows, out.shape[-1])), as_rows(res_out, narrow), first_columns(_sum(blocks, inp), narrow), layer.weight,
        as_rows(layer.residual, narrow), layer.epsilon,
    )  # fmt: skip


def _sum(blocks: RankBlocks, inp: Any) -> Any:
    total = made(inp)
    blocks.all_reduce(flat(total), flat(inp), kind_of(inp))
    return total


def codes(
    blocks: RankBlocks, layer: Layer, inp: Any, written: tuple[Any, Any, Any], form: Form
) -> tuple[Any, ...]:
    """fp8 of the norm into ``written`` (codes, residual, scales), and the norm where the form wants it."""
    from aiter_prebuilt.ops.generated.qk_norm import add_rmsnorm_quant, rmsnorm_quant
    from aiter_prebuilt.ops.generated.quant import dynamic_per_token_scaled_quant

    code, res_out, scale = written
    rest = (layer.weight, layer.epsilon, form.group, form.transposed, layer.gemma_norm)
    if not form.emit and inp.shape[-1] <= _WIDEST:
        add_rmsnorm_quant(code, _sum(blocks, inp), layer.residual, res_out, scale, *rest)
        return ()
    normed = made(inp)
    norm(blocks, layer, inp, normed, res_out)
    if form.transposed:
        rmsnorm_quant(code, res_out, scale, *rest)
    else:
        rows = prod(scale.shape)
        shape = (rows, prod(inp.shape) // max(1, rows))
        dynamic_per_token_scaled_quant(
            as_rows(code, shape), as_rows(normed, shape), as_rows(scale, (rows, 1))
        )
    return (normed,) if form.emit else ()
