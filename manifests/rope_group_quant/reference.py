"""Heads, normed or not, whose last elements are turned, as fp8 codes with a power of two for each group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import FLOATS, decode

_LARGEST = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}
_ROUNDING = 2.0**-24
#: What amax counts at least.
_LEAST = float(np.float32(1e-8))


def _turned(x: Values, cos: Values, sin: Values, neox: bool) -> tuple[Values, Values]:
    """``x`` [..., 2 * half] turned by the angles ``cos``, ``sin`` [..., half], and its error: two products and a sum in fp32."""
    half = cos.shape[-1]
    first, second = (slice(0, half), slice(half, None)) if neox else (slice(0, None, 2), slice(1, None, 2))
    found, error = np.zeros(x.shape), np.zeros(x.shape)
    a, b = x[..., first], x[..., second]
    found[..., first], found[..., second] = a * cos - b * sin, b * cos + a * sin
    error[..., first] = 2 * _ROUNDING * (np.abs(a * cos) + np.abs(b * sin)) + 2.0**-140
    error[..., second] = 2 * _ROUNDING * (np.abs(b * cos) + np.abs(a * sin)) + 2.0**-140
    return found, _finite(error)


def _finite(values: Values) -> Values:
    found: Values = np.where(np.isfinite(values), values, 0.0)
    return found


def _heads(
    x: Values, weight: Values | None, eps: float, angles: tuple[Values, Values], neox: bool
) -> tuple[Values, Values]:
    """Heads [..., size], normed, the last elements turned, and the error of each element."""
    cos, sin = angles
    rest = x.shape[-1] - 2 * cos.shape[-1]
    with np.errstate(invalid="ignore"):
        found = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
        if weight is not None:
            found = found * weight
        # A sum of squares, a root, two products.
        error = _finite(np.abs(found) * _ROUNDING * (x.shape[-1] / 16 + 12))
        part, lost = _turned(found[..., rest:], cos, sin, neox)
        # What the norm is off by is turned, too.
        before = _turned(error[..., rest:], np.abs(cos), np.abs(sin), neox)[0]
        swapped = _turned(error[..., rest:], np.abs(cos), -np.abs(sin), neox)[0]
    both = np.maximum(np.abs(before), np.abs(swapped)) + lost
    return (
        np.concatenate([found[..., :rest], part], axis=-1),
        np.concatenate([error[..., :rest], _finite(both)], axis=-1),
    )


def _angles(tables: tuple[Values, Values], positions: Values) -> tuple[Values, Values]:
    """Cosines and sines of each token."""
    cos, sin = (table.reshape(-1, table.shape[-1]) for table in tables)
    places = np.clip(positions, 0, len(cos) - 1)
    return cos[places], sin[places]


def _quantised(values: Values, error: Values, group: int, kind: str) -> tuple[Values, Values, Values]:
    """(codes before their rounding, their error, e8m0 bytes) of rows [..., columns]."""
    groups = values.reshape(*values.shape[:-1], values.shape[-1] // group, group)
    amax = np.maximum(np.fmax.reduce(np.abs(groups), axis=-1, initial=0.0), _LEAST)
    fraction, exponent = np.frexp(np.where(np.isinf(amax), 1.0, amax / _LARGEST[kind]))
    bytes_ = np.where(np.isinf(amax), 255, exponent - (fraction == 0.5) + 127)
    with np.errstate(invalid="ignore"):
        inverse = np.where(bytes_ == 255, 0.0, np.exp2(127.0 - bytes_))[..., None]
        codes = np.clip(groups * inverse, -_LARGEST[kind], _LARGEST[kind]).reshape(values.shape)
    lost = error * np.broadcast_to(inverse, groups.shape).reshape(values.shape)
    return codes, _finite(lost), bytes_


def _cells(values: Values, error: Values, kind: str, stored: str) -> tuple[Values, Values]:
    """Numbers of ``kind`` as elements of ``stored``: themselves, or bytes.

    The byte of a number has a fraction before its rounding: codes of one sign lie at even distances between powers of two.
    """
    if stored != "u8":
        return values, error
    form = FLOATS[kind]

    def place(sizes: Values) -> Values:
        exponent = np.where(
            sizes > 0, np.maximum(np.frexp(np.maximum(sizes, 0.0))[1] - 1, form.lowest), form.lowest
        )
        found: Values = (exponent - form.lowest) * (1 << form.fraction) + np.ldexp(
            sizes, form.fraction - exponent
        )
        return found

    sizes = np.minimum(np.abs(values), _LARGEST[kind])
    code, high, low = place(sizes), place(sizes + error), place(np.maximum(sizes - error, 0.0))
    negative = np.signbit(values) & ((code > 0.5) | (not form.fnuz))
    return code + 128 * negative, np.maximum(high - code, code - low)


def _entries(values: Values, error: Values, group: int, kinds: tuple[str, str]) -> tuple[Values, Values]:
    """Entries of codes and two bytes for each group, from rows [..., columns]; ``kinds``: fp8, and what holds entries."""
    kind, stored = kinds
    codes, lost, powers = _quantised(values, error, group, kind)
    cells, errors = _cells(codes, lost, kind, stored)
    twice = np.repeat(powers, 2, axis=-1)
    scales = twice if stored == "u8" else decode(twice.astype(np.uint8), stored)
    return (
        np.concatenate([cells, scales], axis=-1),
        np.concatenate([errors, np.zeros(scales.shape)], axis=-1),
    )


def _stays(like: Values) -> tuple[Values, Values]:
    """Elements that keep their bytes until they are written, and their errors."""
    return np.ma.array(np.zeros(like.shape), mask=np.ones(like.shape, bool)), np.zeros(like.shape)


def fused_kv_norm_rope_group_quant(
    kv: Values,
    kv_weight: Values,
    positions: Values,
    slot_mapping: Values,
    cos_cache: Values,
    sin_cache: Values,
    eps: float,
    k_nope_scale_buff: Values,
    k_rope_buff: Values,
    is_neox: bool,
    quant_group_size: int,
    kinds: Mapping[str, str],
) -> dict[str, Near]:
    """Both caches after the write."""
    rows = kv.reshape(-1, kv.shape[-1])
    rest = kv.shape[-1] - k_rope_buff.shape[-1]
    angles = _angles((cos_cache, sin_cache), positions[: len(rows)])
    found, error = _heads(rows, kv_weight, eps, angles, is_neox)
    stored = (kinds["fp8"], kinds["k_nope_scale_buff"])
    entries = _entries(found[:, :rest], error[:, :rest], quant_group_size, stored)
    made = {}
    for name, cache, cells in (
        ("k_nope_scale_buff", k_nope_scale_buff, entries),
        ("k_rope_buff", k_rope_buff, (found[:, rest:], error[:, rest:])),
    ):
        after, errors = _stays(cache)
        for token, slot in enumerate(slot_mapping[: len(rows)].tolist()):
            if 0 <= slot < cache.shape[0] * cache.shape[1]:
                block, offset = divmod(slot, cache.shape[1])
                width = cells[0].shape[-1]
                after[block, offset, :width], errors[block, offset, :width] = cells[0][token], cells[1][token]
        made[name] = near(after, absolute=errors)
    return made


def fused_qk_norm_rope_group_quant(
    q: Values,
    kv: Values,
    k_weight: Values,
    positions: Values,
    cos_cache: Values,
    sin_cache: Values,
    eps: float,
    is_neox: bool,
    q_weight: Values | None,
    quant_group_size: int,
    swa_nope_scale_buff: Values | None,
    swa_rope_buff: Values | None,
    swa_block_tables: Values | None,
    swa_dest_row: Values | None,
    swa_block_size: int,
    batch_id_per_token: Values | None,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near | None]:
    """Entries and turned elements of queries and keys, and both parts of the window after the write."""
    tokens, size = len(q), q.shape[-1]
    rest = size - 2 * cos_cache.shape[-1]
    cos, sin = _angles((cos_cache, sin_cache), positions[:tokens])
    queries = _heads(q, q_weight, eps, (cos[:, None], sin[:, None]), is_neox)
    keys = _heads(kv.reshape(tokens, size), k_weight, eps, (cos, sin), is_neox)
    stored = (kinds["fp8"], kinds["k_nope_scale_buff"])
    entries = _entries(keys[0][:, :rest], keys[1][:, :rest], 64, stored)
    turned = keys[0][:, rest:], keys[1][:, rest:]
    made: dict[str, Near | None] = {
        "k_nope_scale_buff": _wider(entries, (*kv.shape[:-1], sizes["E"])),
        "k_rope_buff": _wider(turned, (*kv.shape[:-1], size - rest)),
        "q_nope_scale_buff": near(queries[0], absolute=queries[1]),
    }
    if kinds["q_nope_scale_buff"] in _LARGEST:
        group = 64 if quant_group_size == 64 else 32
        codes = _entries(queries[0][..., :rest], queries[1][..., :rest], group, (kinds["fp8"], kinds["fp8"]))
        made["q_nope_scale_buff"] = _wider(codes, (*q.shape[:-1], sizes["QE"]))
    if "q_rope_buff" in kinds:
        part = queries[0][..., rest:], queries[1][..., rest:]
        fresh, errors = _stays(np.zeros(part[0].shape))
        made["q_rope_buff"] = (
            near(part[0], absolute=part[1])
            if kinds["q_nope_scale_buff"] in _LARGEST
            else near(fresh, absolute=errors)
        )
    if swa_nope_scale_buff is None or swa_rope_buff is None or batch_id_per_token is None:
        return made
    after = [_stays(swa_nope_scale_buff), _stays(swa_rope_buff)]
    for token in range(tokens):
        sequence, position = int(batch_id_per_token[token]), int(positions[token])
        if sequence < 0 or position < 0:
            continue
        if swa_dest_row is not None:
            row = int(swa_dest_row[token])
        else:
            assert swa_block_tables is not None
            block, offset = divmod(position, swa_block_size)
            if sequence >= swa_block_tables.shape[0] or block >= swa_block_tables.shape[1]:
                continue
            first = int(swa_block_tables[sequence, block])
            row = first * swa_block_size + offset if first >= 0 else -1
        if 0 <= row < len(swa_nope_scale_buff):
            for (cells, errors), part in zip(after, (entries, turned), strict=True):
                width = part[0].shape[-1]
                cells[row, :width], errors[row, :width] = part[0][token], part[1][token]
    for name, (cells, errors) in zip(("swa_nope_scale_buff", "swa_rope_buff"), after, strict=True):
        made[name] = near(cells, absolute=errors)
    return made


def _wider(part: tuple[Values, Values], shape: tuple[int, ...]) -> Near:
    """Rows in the first elements of longer ones, whose others stay as they are."""
    cells, errors = _stays(np.zeros(shape))
    width = part[0].shape[-1]
    rows = part[0].reshape(*shape[:-1], width), part[1].reshape(*shape[:-1], width)
    cells[..., :width], errors[..., :width] = rows
    return near(cells, absolute=errors)


def inverse_rope_group_quant(
    o: Values,
    positions: Values,
    cos_cache: Values,
    sin_cache: Values,
    num_groups: int,
    quant_group_size: int,
    scale_layout: str,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near]:
    """Codes [tokens, parts, columns], and the bytes of their scales; those of no token and no group stay as they are."""
    rest = o.shape[-1] - 2 * cos_cache.shape[-1]
    cos, sin = (each[:, None] for each in _angles((cos_cache, sin_cache), positions[: len(o)]))
    with np.errstate(invalid="ignore"):
        part, lost = _turned(o[..., rest:], cos, -sin, False)
    shape = (len(o), num_groups, sizes["D"])
    values = np.concatenate([o[..., :rest], part], axis=-1).reshape(shape)
    error = np.concatenate([np.zeros(o[..., :rest].shape), lost], axis=-1).reshape(shape)
    codes, lost, powers = _quantised(values, error, quant_group_size, kinds["fp8"])
    scales, _ = _stays(np.zeros((sizes["A"], sizes["B"], sizes["C"])))
    flat = scales.reshape(-1)
    flat[_scale_places(powers.shape, scale_layout, quant_group_size, sizes).reshape(-1)] = powers.reshape(-1)
    return {"x_fp8": near(codes, absolute=lost), "x_scale": near(flat.reshape(scales.shape))}


def _scale_places(shape: tuple[int, ...], layout: str, group: int, sizes: Mapping[str, int]) -> Values:
    """Where scale k of part p of token t lies among all of a layout."""
    t, p, k = np.indices(shape)
    if layout == "row":
        return np.arange(t.size).reshape(shape)
    width = sizes["C"]
    if layout == "n32k4":
        found: Values = (t // 32 * sizes["B"] + p) * width + k // 4 * 128 + t % 32 * 4 + k % 4
        return found
    base = p * sizes["B"] * width + t // 32 * 32 * width
    if group == 128:  # of 32 tokens and 2 scales: token % 16, scale, half of the tokens
        return np.asarray(base + k // 2 * 64 + t % 16 * 4 + k % 2 * 2 + t % 32 // 16)
    # of 32 tokens and 8 scales: scale % 4, token % 16, half of the scales, half of the tokens
    return np.asarray(base + k // 8 * 256 + (k % 4 * 16 + t % 16) * 4 + k % 8 // 4 * 2 + t % 32 // 16)


def draw_slots(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A slot of its own for each token, anywhere in the cache; of three tokens and more the second has none."""
    slots: Values = rng.permutation(sizes["NB"] * sizes["PS"])[: shape[0]]
    if shape[0] > 2:
        slots[1] = -1
    return slots


def draw_wild(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """``slots``, of which all but the first, the fourth and the last are in no cache."""
    slots = draw_slots(rng, shape, sizes)
    none = np.array([sizes["NB"] * sizes["PS"], -1, 2**32 + 1, -(2**40)])
    for place in range(1, shape[0] - 1):
        if place != 3:
            slots[place] = none[place % 4]
    return slots


def draw_places(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Positions of the tables, the first one before them, the third behind."""
    places = rng.integers(0, sizes["P"], shape)
    places.reshape(-1)[:1] = -5
    places.reshape(-1)[2:3] = sizes["P"] + 3
    return places


def draw_sequences(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A sequence of its own for each token; of three tokens and more the second has none."""
    del sizes
    found: Values = rng.permutation(shape[0])
    if shape[0] > 2:
        found[1] = -1
    return found


def draw_blocks(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A block of its own in each place, some of them none, and some behind all rows."""
    del sizes
    found: Values = rng.permutation(shape[0] * shape[1]).reshape(shape)
    found[rng.random(shape) < 0.2] = -1
    return found


def draw_rows(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A row of its own for each token, the fourth in none, the fifth behind all."""
    found: Values = rng.permutation(sizes["R"])[: shape[0]]
    found[3:4] = -1
    found[4:5] = sizes["R"]
    return found
