"""Results of ``rope_group_quant`` that the caller did not give, for eager calls and for what torch.compile traces."""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.ops._common import element_type
from aiter_prebuilt.ops._current import fp8_of


def inverse_results(o: Any, parts: int, group: int, layout: str, codes: Any, scales: Any) -> tuple[Any, Any]:
    """Return the codes and scales of heads ``o``: those given, or new ones.

    Args:
        o: [tokens, heads, head_dim].
        parts: parts of a token with scales of their own.
        group: elements that share a scale.
        layout: of the scales, as the function names it.
        codes: what was given for the codes, or None.
        scales: what was given for the scales, or None.
    """
    tokens, heads, size = o.shape
    columns = heads * size // parts
    if codes is None:
        codes = o.new_empty((tokens, parts, columns), dtype=fp8_of(o))
    if scales is None:
        shape = scale_shape(tokens, parts, columns // group, layout, group)
        scales = o.new_empty(shape, dtype=element_type(o, "e8m0"))
    return codes, scales


def scale_shape(tokens: int, parts: int, count: int, layout: str, group: int) -> tuple[int, int, int]:
    """Return the shape of the scales, ``count`` of each part of a token."""
    if layout == "mfma_tile":
        each = 2 if group == 128 else 8  # the scales of a tile
        return parts, -(-tokens // 32) * 32, -(-count // each) * each
    if layout == "n32k4":
        return -(-tokens // 32), parts, count * 32
    return tokens, parts, count


def norm_results(
    inputs: tuple[Any, Any, Any], kind: Any, given: tuple[Any, Any, Any, Any]
) -> tuple[Any, Any, Any, Any]:
    """Return what is written for queries and keys, codes and turned elements of each: those given, or new ones.

    Args:
        inputs: queries [tokens, heads, size], keys [tokens, size] or [tokens, 1, size], and a table [positions, pairs].
        kind: element type of new codes of queries, or None for that of queries.
        given: what the caller gave for each result, or None. Queries that are no fp8 have no turned elements of their own.
    """
    q, kv, table = inputs
    codes, turned, k_codes, k_turned = given
    turning = 2 * table.shape[-1]
    own = fp8_of(q)
    if codes is None:
        codes = q.new_empty(q.shape, dtype=q.dtype if kind is None else kind)
    if codes.dtype != own:
        turned = None
    elif turned is None:
        turned = q.new_empty((*q.shape[:-1], turning))
    if k_codes is None:
        k_codes = q.new_empty((*_latent(kv), q.shape[-1]), dtype=own)
    if k_turned is None:
        k_turned = q.new_empty((*_latent(kv), turning))
    return codes, turned, k_codes, k_turned


def _latent(kv: Any) -> tuple[int, ...]:
    """Return the leading dims of new results of keys, which have a dim of one head as in AITER."""
    return (*kv.shape[:-1], 1) if len(kv.shape) == 2 else tuple(kv.shape[:-1])  # [tokens, size]
