"""Rotary embeddings of AITER's ``rope_*`` functions, as sums over whole rows.

``y = x * cos + R x * sin``, with R the quarter turn of each pair; of gradients ``x = y * cos + R' (y * sin)``,
with R' its transpose.
A kernel multiplies twice and adds once, in fp32. Its sines and cosines of angles are right to 2^-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Of the sum of both products, and the smallest that fp32 holds.
_RELATIVE, _LOST = 2.0**-22, 2.0**-148
#: Of a sine and a cosine of an angle.
_OF_ANGLE = 2.0**-22


def _quarter(x: Values, style: int) -> Values:
    """Each pair (a, b) of the last dim becomes (-b, a): its halves (0), or neighbours (1)."""
    if style == 0:
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([-b, a], axis=-1)
    turned = np.empty_like(x)
    turned[..., 0::2], turned[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    return turned


def _whole(row: Values, style: int, reuse: bool) -> Values:
    """A number for each element that is turned: of a table of half as many each stands for a pair."""
    if not reuse:
        return row
    return np.concatenate([row, row], axis=-1) if style == 0 else np.repeat(row, 2, axis=-1)


def _turned(
    x: Values, tables: tuple[Values, Values], style: int, last: bool, transposed: bool, absolute: float = 0.0
) -> Near:
    """``x`` [..., heads, d], of which ``tables`` [..., 1, r] (cosines, sines of each element) turn the first r, or the last."""
    cos, sin = tables
    start = x.shape[-1] - cos.shape[-1] if last else 0
    part = slice(start, start + cos.shape[-1])
    out, error = x.copy(), np.zeros(x.shape)
    across = -_quarter(x[..., part] * sin, style) if transposed else _quarter(x[..., part], style) * sin
    out[..., part] = x[..., part] * cos + across
    size = np.abs(x[..., part] * cos) + np.abs(across)
    inputs = np.abs(x[..., part]) + np.abs(_quarter(x[..., part], style))
    error[..., part] = np.nan_to_num(_RELATIVE * size + absolute * inputs, posinf=0.0) + _LOST
    return near(out, absolute=error)


def _by_rows(
    x: Values,
    rows: Values,
    pair: tuple[Values, Values],
    style: int,
    reuse: bool,
    last: bool,
    transposed: bool,
) -> Near:
    """By row ``rows`` [...] of two tables of cosines and sines, where there is one; ``x`` [..., heads, d] stays elsewhere."""
    cos, sin = (table.reshape(int(np.prod(table.shape[:-1])), table.shape[-1]) for table in pair)
    there = (rows >= 0) & (rows < len(cos))
    found = np.where(there, rows, 0)
    if not len(cos):
        return near(np.ma.masked_array(x, mask=True))
    tables = tuple(_whole(table[found], style, reuse)[..., None, :] for table in (cos, sin))
    turned = _turned(x, (tables[0], tables[1]), style, last, transposed)
    kept = np.broadcast_to(~there[..., None, None], x.shape)
    return near(np.ma.masked_array(turned.values, mask=kept), absolute=turned.error)


def _in_order(x: Values) -> Values:
    """The row of each token of [s, b, h, d]: s."""
    return np.broadcast_to(np.arange(x.shape[0])[:, None], x.shape[:2])


def _by_angles(
    x: Values, rows: Values, freqs: Values, style: int, reuse: bool, last: bool, transposed: bool
) -> Near:
    """By row ``rows`` [...] of angles, each of which there is; -1: the token stays as it is."""
    if not freqs.shape[0]:
        return near(np.ma.masked_array(x, mask=True))
    angles = _whole(freqs[np.maximum(rows, 0), 0, 0], style, reuse)[..., None, :]
    turned = _turned(x, (np.cos(angles), np.sin(angles)), style, last, transposed, _OF_ANGLE)
    kept = np.broadcast_to((rows < 0)[..., None, None], x.shape)
    return near(np.ma.masked_array(turned.values, mask=kept), absolute=turned.error)


def _places(cu_seqlens: Values, tokens: int, longest: int) -> Values:
    """The place of each token in its sequence; -1 in none, or at ``longest`` and behind it."""
    places = np.full(tokens, -1)
    for begin, end in pairwise(cu_seqlens):
        stop = min(int(end), int(begin) + longest, tokens)
        places[int(begin) : stop] = np.arange(max(stop - int(begin), 0))
    return places


def _in_image(
    x: Values,
    tables: tuple[tuple[Values, Values], tuple[Values, Values]],
    shape: tuple[int, int],
    style: int,
    reuse: bool,
    transposed: bool,
) -> Near:
    """``x`` [b, s, h, d]: its first half by the first table at s // width, its second by the other at s % width."""
    rows = np.indices(shape).reshape(2, -1)
    halves = [
        _by_rows(part, np.broadcast_to(row, part.shape[:2]), pair, style, reuse, False, transposed)
        for part, row, pair in zip(np.split(x, 2, axis=-1), rows, tables, strict=True)
    ]
    return near(
        np.concatenate([half.values for half in halves], axis=-1),
        absolute=np.concatenate([half.error for half in halves], axis=-1),
    )


def rope_fwd_impl(
    input: Values, freqs: Values, rotate_style: int, reuse_freqs_front_part: bool, nope_first: bool
) -> Near:
    """Each token is turned by the angles of its s."""
    return _by_angles(input, _in_order(input), freqs, rotate_style, reuse_freqs_front_part, nope_first, False)


def rope_cached_fwd_impl(
    input: Values, cos: Values, sin: Values, rotate_style: int, reuse_freqs_front_part: bool, nope_first: bool
) -> Near:
    """Each token is turned by the row of its s."""
    return _by_rows(
        input, _in_order(input), (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False
    )


def rope_cached_positions_fwd_impl(
    input: Values,
    cos: Values,
    sin: Values,
    positions: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> Near:
    """Each token is turned by the row at its position."""
    return _by_rows(input, positions, (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False)


def rope_cached_positions_offsets_fwd_impl(
    input: Values,
    cos: Values,
    sin: Values,
    positions: Values,
    offsets: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> Near:
    """Each token is turned by the row at position + offset."""
    return _by_rows(
        input, positions + offsets, (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False
    )


def rope_2c_fwd_impl(
    input_x: Values,
    input_y: Values,
    freqs: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> tuple[Near, Near]:
    """Both, turned by the angles of its s."""
    return (
        _by_angles(
            input_x, _in_order(input_x), freqs, rotate_style, reuse_freqs_front_part, nope_first, False
        ),
        _by_angles(
            input_y, _in_order(input_y), freqs, rotate_style, reuse_freqs_front_part, nope_first, False
        ),
    )


def rope_cached_2c_fwd_impl(
    input_x: Values,
    input_y: Values,
    cos: Values,
    sin: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> tuple[Near, Near]:
    """Both, turned by the row of its s."""
    return (
        _by_rows(
            input_x, _in_order(input_x), (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False
        ),
        _by_rows(
            input_y, _in_order(input_y), (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False
        ),
    )


def rope_cached_positions_2c_fwd_impl(
    input_x: Values,
    input_y: Values,
    cos: Values,
    sin: Values,
    positions: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> tuple[Near, Near]:
    """Both, turned by the row at its position."""
    return (
        _by_rows(input_x, positions, (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False),
        _by_rows(input_y, positions, (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False),
    )


def rope_cached_positions_offsets_2c_fwd_impl(
    input_x: Values,
    input_y: Values,
    cos: Values,
    sin: Values,
    positions: Values,
    offsets: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> tuple[Near, Near]:
    """Both, turned by the row at position + offset."""
    return (
        _by_rows(
            input_x, positions + offsets, (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False
        ),
        _by_rows(
            input_y, positions + offsets, (cos, sin), rotate_style, reuse_freqs_front_part, nope_first, False
        ),
    )


def rope_thd_fwd_impl(
    input: Values,
    cu_seqlens: Values,
    freqs: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> Near:
    """Each token of [t, h, d] by the angles of its place in its sequence."""
    return _by_angles(
        input,
        _places(cu_seqlens, len(input), len(freqs)),
        freqs,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
        False,
    )


def rope_2d_fwd_impl(
    input: Values,
    cos_h: Values,
    sin_h: Values,
    cos_w: Values,
    sin_w: Values,
    img_height: int,
    img_width: int,
    rotate_style: int,
    reuse_freqs_front_part: bool,
) -> Near:
    """The first half of each head by the row of the image, the second by its column."""
    return _in_image(
        input,
        ((cos_h, sin_h), (cos_w, sin_w)),
        (img_height, img_width),
        rotate_style,
        reuse_freqs_front_part,
        False,
    )


def rope_bwd_impl(
    output_grads: Values, freqs: Values, rotate_style: int, reuse_freqs_front_part: bool, nope_first: bool
) -> Near:
    """Each token is turned back by the angles of its s."""
    return _by_angles(
        output_grads, _in_order(output_grads), freqs, rotate_style, reuse_freqs_front_part, nope_first, True
    )


def rope_cached_bwd_impl(
    output_grads: Values,
    cos: Values,
    sin: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> Near:
    """Each token is turned back by the row of its s."""
    return _by_rows(
        output_grads,
        _in_order(output_grads),
        (cos, sin),
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
        True,
    )


def rope_2c_bwd_impl(
    output_grads_x: Values,
    output_grads_y: Values,
    freqs: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> tuple[Near, Near]:
    """Both, turned back by the angles of its s."""
    return (
        _by_angles(
            output_grads_x,
            _in_order(output_grads_x),
            freqs,
            rotate_style,
            reuse_freqs_front_part,
            nope_first,
            True,
        ),
        _by_angles(
            output_grads_y,
            _in_order(output_grads_y),
            freqs,
            rotate_style,
            reuse_freqs_front_part,
            nope_first,
            True,
        ),
    )


def rope_cached_2c_bwd_impl(
    output_grads_x: Values,
    output_grads_y: Values,
    cos: Values,
    sin: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> tuple[Near, Near]:
    """Both, turned back by the row of its s."""
    return (
        _by_rows(
            output_grads_x,
            _in_order(output_grads_x),
            (cos, sin),
            rotate_style,
            reuse_freqs_front_part,
            nope_first,
            True,
        ),
        _by_rows(
            output_grads_y,
            _in_order(output_grads_y),
            (cos, sin),
            rotate_style,
            reuse_freqs_front_part,
            nope_first,
            True,
        ),
    )


def rope_thd_bwd_impl(
    output_grads: Values,
    cu_seqlens: Values,
    freqs: Values,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> Near:
    """Each token of [t, h, d] by the angles of its place in its sequence."""
    return _by_angles(
        output_grads,
        _places(cu_seqlens, len(output_grads), len(freqs)),
        freqs,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
        True,
    )


def rope_2d_bwd_impl(
    output_grads: Values,
    cos_h: Values,
    sin_h: Values,
    cos_w: Values,
    sin_w: Values,
    img_height: int,
    img_width: int,
    rotate_style: int,
    reuse_freqs_front_part: bool,
) -> Near:
    """As forward, and back."""
    return _in_image(
        output_grads,
        ((cos_h, sin_h), (cos_w, sin_w)),
        (img_height, img_width),
        rotate_style,
        reuse_freqs_front_part,
        True,
    )


def draw_begins(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where sequences begin, one of them empty or of one token: from 0 to the last token but one, never falling."""
    inner = np.sort(rng.integers(0, max(sizes["N"], 1), size=max(shape[0] - 1, 0)))
    return np.concatenate([[0], inner]).astype(np.float64)[: shape[0]]
