"""Rotary embedding of queries and keys, with a norm before it or a cache behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from build_tools.cases.near import Near, Values, near

_LARGEST = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}
_ROUNDING = 2.0**-24


def _turned(x: Values, cos: Values, sin: Values, neox: bool) -> tuple[Values, Values]:
    """``x`` [..., 2 * half] turned by the angles ``cos``, ``sin`` [..., half], and its error: two products and a sum in fp32."""
    half = cos.shape[-1]
    first, second = (slice(0, half), slice(half, None)) if neox else (slice(0, None, 2), slice(1, None, 2))
    found, error = np.zeros(x.shape), np.zeros(x.shape)
    a, b = x[..., first], x[..., second]
    found[..., first], found[..., second] = a * cos - b * sin, b * cos + a * sin
    error[..., first] = 2 * _ROUNDING * (np.abs(a * cos) + np.abs(b * sin)) + 2.0**-140
    error[..., second] = 2 * _ROUNDING * (np.abs(b * cos) + np.abs(a * sin)) + 2.0**-140
    return found, np.where(np.isfinite(error), error, 0.0)


def _stored(values: Values, error: Values, scale: Values | None, kind: str) -> tuple[Values, Values]:
    """What is stored: the values, or of fp8 values / scale, cut at the largest number, by the rounded reciprocal."""
    if kind not in _LARGEST or scale is None:
        return values, error
    divided, error = values / scale.reshape(()), error / np.abs(scale.reshape(()))
    cut = np.clip(divided, -_LARGEST[kind], _LARGEST[kind])
    return cut, error + 4 * _ROUNDING * np.where(np.isfinite(divided), np.abs(divided), 0.0)


def fused_qk_rope_concat_and_cache_mla(
    q_nope: Values,
    q_pe: Values,
    kv_c: Values,
    k_pe: Values,
    kv_cache: Values,
    slot_mapping: Values,
    k_scale: Values,
    q_scale: Values,
    positions: Values,
    cos_cache: Values,
    sin_cache: Values,
    is_neox: bool,
    is_nope_first: bool,
    compute_all_q_rope: bool,
    kinds: Mapping[str, str],
) -> dict[str, Near]:
    """The cache and the queries after it; rows of no slot stay as they were."""
    tokens, half, width = slot_mapping.size, cos_cache.shape[-1], kv_cache.shape[-1]
    tables = [table.reshape(-1, half) for table in (cos_cache, sin_cache)]
    at = np.clip(positions.reshape(-1)[:tokens], 0, len(tables[0]) - 1)
    cos, sin = (table[at] for table in tables)

    def joined(nope: Values, pe: Values, angles: tuple[Values, Values]) -> tuple[Values, Values]:
        turned, error = _turned(pe, *angles, is_neox)
        parts, errors = [nope, turned], [np.zeros(nope.shape), error]
        order = slice(None) if is_nope_first else slice(None, None, -1)
        return np.concatenate(parts[order], axis=-1), np.concatenate(errors[order], axis=-1)

    angles = cos[:, None], sin[:, None]
    keys = joined(kv_c[:tokens], k_pe[:tokens], angles)
    queries = joined(q_nope[:tokens], q_pe[:tokens], angles)
    stored, error = _stored(*keys, k_scale, kinds["kv_cache"])
    rows = kv_cache.reshape(-1, kv_c.shape[1], width)
    cache = np.ma.array(rows, mask=np.ones(rows.shape, bool))
    errors = np.zeros(cache.shape)
    shape = (*q_nope.shape[:2], width)
    out = np.ma.array(np.zeros(shape), mask=np.ones(shape, bool))
    out_errors = np.zeros(out.shape)
    written, written_error = _stored(*queries, q_scale, kinds["q_out"])
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot >= 0:
            cache[slot], errors[slot] = stored[token], error[token]
        if slot >= 0 or compute_all_q_rope:
            out[token], out_errors[token] = written[token], written_error[token]
    return {
        "kv_cache": near(cache.reshape(kv_cache.shape), absolute=errors.reshape(kv_cache.shape)),
        "q_out": near(out, absolute=out_errors),
    }


def _normed(x: Values, weight: Values, epsilon: float) -> tuple[Values, Values]:
    """RMSNorm of the last dim in fp32, and its error, relative: a sum of squares, a root, two products."""
    size = x.shape[-1]
    mean = (x * x).mean(axis=-1, keepdims=True) + epsilon
    found = x / np.sqrt(mean) * weight
    return found, np.abs(found) * _ROUNDING * (size / 16 + 12)


def _heads(
    x: Values, weight: Values | None, epsilon: float, cos: Values, sin: Values, neox: bool
) -> tuple[Values, Values]:
    """Heads [tokens, heads, size], normed if there is a weight, of which the first elements are turned; and the error."""
    half = cos.shape[-1]
    found, error = (x, np.zeros(x.shape)) if weight is None else _normed(x, weight, epsilon)
    part, lost = _turned(found[..., : 2 * half], cos[:, None], sin[:, None], neox)
    # What the norm is off by is turned, too.
    before = _turned(error[..., : 2 * half], np.abs(cos[:, None]), np.abs(sin[:, None]), neox)[0]
    swapped = _turned(error[..., : 2 * half], np.abs(cos[:, None]), -np.abs(sin[:, None]), neox)[0]
    rest = error[..., 2 * half :]
    both = np.concatenate([np.maximum(np.abs(before), np.abs(swapped)) + lost, rest], axis=-1)
    out = np.concatenate([part, found[..., 2 * half :]], axis=-1)
    return out, np.where(np.isfinite(both), both, 0.0)


def _angles(table: Values, half: int, positions: Values) -> tuple[Values, Values]:
    """Cosines and sines of each token, from rows that have both."""
    rows = table[np.clip(positions, 0, len(table) - 1)]
    return rows[:, :half], rows[:, half : 2 * half]


def _own_scales(values: Values, error: Values, kind: str) -> tuple[Values, Values, Values]:
    """(codes before their rounding, their error, scales) of heads that have scales of their own."""
    amax = np.fmax.reduce(np.abs(values), axis=-1, initial=0.0)
    scales = np.maximum(amax, np.float32(1e-8).astype(np.float64)) / _LARGEST[kind]
    codes = np.clip(values / scales[..., None], -_LARGEST[kind], _LARGEST[kind])
    worst = error.max(axis=-1, initial=0.0) / (scales * _LARGEST[kind])
    lost = np.abs(codes) * (worst[..., None] + 6 * _ROUNDING) + error / scales[..., None]
    return codes, np.where(np.isfinite(lost), lost, 0.0), scales


def fused_qk_norm_rope_cache_quant_shuffle(
    q: Values,
    k: Values,
    v: Values,
    num_heads_q: int,
    num_heads_k: int,
    num_heads_v: int,
    head_dim: int,
    eps: float,
    qw: Values,
    kw: Values,
    cos_sin_cache: Values,
    is_neox_style: bool,
    pos_ids: Values,
    k_cache: Values,
    v_cache: Values,
    slot_mapping: Values,
    kv_cache_dtype: str,
    k_scale: Values | None,
    v_scale: Values | None,
    kinds: Mapping[str, str],
) -> dict[str, Near | None]:
    """Queries and keys after it, both caches, and with fp8 the scales."""
    tokens = len(q)
    angles = _angles(cos_sin_cache, cos_sin_cache.shape[1] // 2, pos_ids)
    queries = _heads(q.reshape(tokens, num_heads_q, head_dim), qw, eps, *angles, is_neox_style)
    keys = _heads(k.reshape(tokens, num_heads_k, head_dim), kw, eps, *angles, is_neox_style)
    values = v.reshape(tokens, num_heads_v, head_dim)
    kind = None if kv_cache_dtype == "auto" else kinds["k_cache"]
    stored = [
        _tiles(cells, cache, scale, k_cache.shape, slot_mapping, kind, keys=cache is k_cache)
        for cells, cache, scale in (
            (keys, k_cache, k_scale),
            ((values, np.zeros(values.shape)), v_cache, v_scale),
        )
    ]
    return {
        "q": near(queries[0].reshape(q.shape), absolute=queries[1].reshape(q.shape)),
        "k": near(keys[0].reshape(k.shape), absolute=keys[1].reshape(k.shape)),
        "k_cache": stored[0][0],
        "v_cache": stored[1][0],
        "k_scale": stored[0][1],
        "v_scale": stored[1][1],
    }


def _tiles(
    cells: tuple[Values, Values],
    cache: Values,
    scale: Values | None,
    shape: tuple[int, ...],
    slots: Values,
    kind: str | None,
    *,
    keys: bool,
) -> tuple[Near, Near | None]:
    """A cache of tiles of x after the write of ``cells`` [tokens, heads, size] and their error; with fp8 (``kind``) the scales.

    ``shape``: of the keys' cache, [blocks, heads, size / x, page, x].
    """
    numbers, error = cells
    page, x = shape[3:]
    heads, size = numbers.shape[1:]
    scales = None
    if kind:
        numbers, error, scales = _own_scales(numbers, error, kind)
    found = _cached((numbers, error), cache, (page, x), slots, keys=keys)
    if scale is None:
        return found, None
    written = np.ma.array(scale.reshape(-1).copy(), mask=np.ones(scale.size, bool))
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0 and scales is not None:
            block, offset = divmod(slot, page)
            written[(block * heads + np.arange(heads)) * page + offset] = scales[token]
    return found, near(written.reshape(scale.shape), relative=_ROUNDING * (size / 16 + 20))


def fused_qk_norm_rope_cache_block_quant_shuffle(
    qkv: Values,
    num_heads_q: int,
    num_heads_k: int,
    num_heads_v: int,
    head_dim: int,
    eps: float,
    qw: Values,
    kw: Values,
    cos_sin_cache: Values,
    is_neox_style: bool,
    pos_ids: Values,
    k_cache: Values,
    v_cache: Values,
    slot_mapping: Values,
    kv_cache_dtype: str,
    k_scale: Values | None,
    v_scale: Values | None,
    kinds: Mapping[str, str],
) -> dict[str, Near | None]:
    """``qkv`` after it, both caches, and with fp8 the scales of heads of blocks.

    A key is coded from what is written into ``qkv``: it is rounded twice.
    """
    tokens = len(qkv)
    parts = qkv.reshape(tokens, num_heads_q + num_heads_k + num_heads_v, head_dim)
    queries, keys, values = np.split(parts, [num_heads_q, num_heads_q + num_heads_k], axis=1)
    angles = _angles(cos_sin_cache, cos_sin_cache.shape[1] // 2, pos_ids)
    turned = _heads(queries, qw, eps, *angles, is_neox_style)
    cells = _heads(keys, kw, eps, *angles, is_neox_style)
    whole = [np.concatenate(each, axis=1) for each in zip(turned, cells, (values, 0 * values), strict=True)]
    kept = np.zeros(whole[0].shape, bool)
    kept[:, num_heads_q + num_heads_k :] = True
    layout = (k_cache.shape[3], k_cache.shape[4])
    plain = (values, np.zeros(values.shape))
    if kv_cache_dtype == "auto" or k_scale is None or v_scale is None:
        found: list[tuple[Near, Near | None]] = [
            (_cached(cells, k_cache, layout, slot_mapping, keys=True), _as_it_was(k_scale)),
            (_cached(plain, v_cache, layout, slot_mapping, keys=False), _as_it_was(v_scale)),
        ]
    else:
        once = 2.0**-8 if kinds["qkv"] == "bf16" else 2.0**-11
        rounded = (cells[0], cells[1] + once * np.abs(cells[0]) + 2.0**-26)
        kind, shape = kinds["k_cache"], k_cache.shape
        found = [
            _in_blocks(cells, rounded[1], k_cache, k_scale, slot_mapping, shape, kind, keys=True),
            _in_blocks(plain, plain[1], v_cache, v_scale, slot_mapping, shape, kind, keys=False),
        ]
    return {
        "qkv": near(
            np.ma.array(whole[0], mask=kept).reshape(qkv.shape), absolute=whole[1].reshape(qkv.shape)
        ),
        "k_cache": found[0][0],
        "v_cache": found[1][0],
        "k_scale": found[0][1],
        "v_scale": found[1][1],
    }


def _as_it_was(scales: Values | None) -> Near | None:
    """Scales that a cache of 16 bits does not write."""
    return None if scales is None else near(np.ma.array(scales, mask=np.ones(scales.shape, bool)))


def _in_blocks(
    cells: tuple[Values, Values],
    lost: Values,
    cache: Values,
    scales: Values,
    slots: Values,
    shape: tuple[int, ...],
    kind: str,
    *,
    keys: bool,
) -> tuple[Near, Near]:
    """An fp8 cache and its scales [blocks, heads] after the write of ``cells`` [tokens, heads, size].

    Args:
        cells: numbers and their error, which the scale has.
        lost: error of the numbers that are coded.
        cache: the cache before the call.
        scales: its scales before the call.
        slots: where each token goes; -1 is passed over.
        shape: of the keys' cache, [blocks, heads, size / x, page, x].
        kind: name of the fp8 type.
        keys: whether it is the cache of keys, not that of values.
    """
    blocks, heads, groups, page, x = shape
    size, largest = groups * x, _LARGEST[kind]
    inner, order = (
        ((heads, groups, page, x), (0, 3, 1, 2, 4))
        if keys
        else ((heads, page // x, size, x), (0, 2, 4, 1, 3))
    )
    before = cache.reshape(blocks, *inner).transpose(order)
    turned = before.shape
    codes = before.reshape(blocks * page, heads, size).copy()
    same, errors = np.ones(codes.shape, bool), np.zeros(codes.shape)
    own = scales.reshape(blocks, heads).copy()
    kept = np.ones(own.shape, bool)
    for first, count in _runs(slots, page, blocks * page):
        slot = int(slots[first])
        block, offset = divmod(slot, page)
        numbers, error = cells[0][first : first + count], lost[first : first + count]
        amax = np.abs(numbers).max(axis=(0, 2), initial=0.0)
        each = np.maximum(amax, np.float64(np.float32(1e-8))) / largest
        worst = cells[1][first : first + count].max(axis=(0, 2), initial=0.0) / (each * largest)
        if offset:
            grows = own[block] < each
            ratio, past = (own[block] / each)[:, None], slice(slot - offset, slot)
            errors[past] = np.where(
                grows[:, None], np.abs(codes[past] * ratio) * (worst[:, None] + 6 * _ROUNDING), 0.0
            )
            codes[past] = np.where(grows[:, None], codes[past] * ratio, codes[past])
            same[past] = ~grows[:, None]
            each = np.where(grows, each, own[block])
        own[block], kept[block] = each, False
        here = slice(slot, slot + count)
        codes[here] = np.clip(numbers / each[:, None], -largest, largest)
        errors[here] = np.abs(codes[here]) * (worst[:, None] + 6 * _ROUNDING) + error / each[:, None]
        same[here] = False
    back = np.argsort(order)
    after, same, errors = (
        part.reshape(turned).transpose(back).reshape(cache.shape) for part in (codes, same, errors)
    )
    return near(np.ma.array(after, mask=same), absolute=errors), near(
        np.ma.array(own, mask=kept).reshape(scales.shape), relative=_ROUNDING * (size / 16 + 20)
    )


def _runs(slots: Values, page: int, end: int) -> list[tuple[int, int]]:
    """(first token, how many) of the tokens behind one another whose slots follow one another in a block."""
    found: list[tuple[int, int]] = []
    for token, slot in enumerate(slots.tolist()):
        if not 0 <= slot < end:
            continue
        if slot % page and token and slots[token - 1] == slot - 1:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((token, 1))
    return found


def fused_qk_norm_rope_cache_pts_quant_shuffle(
    qkv: Values,
    qw: Values,
    kw: Values,
    cos_sin: Values,
    positions: Values,
    num_tokens: int,
    num_heads_q: int,
    num_heads_k: int,
    num_heads_v: int,
    head_size: int,
    is_neox_style: bool,
    eps: float,
    k_cache: Values,
    v_cache: Values,
    slot_mapping: Values,
    per_tensor_k_scale: float,
    per_tensor_v_scale: float,
    return_kv: bool,
    block_size: int,
    rotary_dim: int,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near | None]:
    """Queries, both caches, and what was stored, if it is wanted."""
    heads = num_heads_q + num_heads_k + num_heads_v
    tokens = qkv.reshape(-1)[: num_tokens * heads * head_size].reshape(num_tokens, heads, head_size)
    angles = _angles(cos_sin, (rotary_dim or head_size) // 2, positions[:num_tokens])
    queries = _heads(tokens[:, :num_heads_q], qw, eps, *angles, is_neox_style)
    keys = _heads(tokens[:, num_heads_q : num_heads_q + num_heads_k], kw, eps, *angles, is_neox_style)
    values = tokens[:, num_heads_q + num_heads_k :]
    kind = kinds["k_cache"]
    found: dict[str, Near | None] = {"q_out": _rows(queries, (sizes["o_rows"], sizes["o_last"]))}
    for name, part, cache, scale in (
        ("k", keys, k_cache, per_tensor_k_scale),
        ("v", (values, np.zeros(values.shape)), v_cache, per_tensor_v_scale),
    ):
        stored = _stored(part[0], part[1], np.array(scale), kind)
        found[f"{name}_cache"] = _in_tiles(
            stored, cache, max(block_size, 1), slot_mapping[:num_tokens], keys=name == "k"
        )
        out = None
        if f"{name}_out" in kinds:
            kept = slot_mapping[:num_tokens] < 0 if return_kv else np.ones(num_tokens, bool)
            out = _rows(stored, (sizes[f"{name}o_rows"], sizes[f"{name}o_last"]), kept)
        found[f"{name}_out"] = out
    return found


def fused_qk_norm_mrope_3d_cache_pts_quant_shuffle(
    qkv: Values,
    qw: Values,
    kw: Values,
    cos_sin: Values,
    positions: Values,
    num_tokens: int,
    num_heads_q: int,
    num_heads_k: int,
    num_heads_v: int,
    head_size: int,
    is_neox_style: bool,
    mrope_section_: tuple[int, int, int],
    is_interleaved: bool,
    eps: float,
    k_cache: Values,
    v_cache: Values,
    slot_mapping: Values,
    per_tensor_k_scale: float,
    per_tensor_v_scale: float,
    return_kv: bool,
    block_size: int,
    rotary_dim: int,
    gemma_norm: bool,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near | None]:
    """The same with a row of angles for each token, put together from the rows at its three positions."""
    pair = np.arange((rotary_dim or head_size) // 2)
    if is_interleaved:
        axis = pair % 3
        axis[pair >= 3 * np.array(mrope_section_)[axis]] = 0
    else:
        axis = np.repeat(np.arange(3), mrope_section_)
    rows = cos_sin[np.clip(positions[:, :num_tokens], 0, len(cos_sin) - 1)]
    halves = [rows[axis, :, at].T for at in (pair, pair + len(pair))]
    return fused_qk_norm_rope_cache_pts_quant_shuffle(
        qkv, qw + gemma_norm, kw + gemma_norm, np.concatenate(halves, axis=-1), np.arange(num_tokens), num_tokens, num_heads_q,
        num_heads_k, num_heads_v, head_size, is_neox_style, eps, k_cache, v_cache, slot_mapping, per_tensor_k_scale,
        per_tensor_v_scale, return_kv, block_size, rotary_dim, kinds, sizes,
    )  # fmt: skip


#: How far a number may move when it is rounded to 16 bits: relative, and below the smallest normal one.
_HALVES = {"bf16": (2.0**-8, 0.0), "f16": (2.0**-11, 2.0**-25)}


def _coded(part: tuple[Values, Values], kind: str, own: bool, rounded: str) -> tuple[Values, Values, Values]:
    """(codes before their last rounding, their error, scales) of heads; of a cache of 16 bits the heads as they are.

    Args:
        part: heads and their error.
        kind: element type of the cache.
        own: each head has a scale of its own; else scales are 1.
        rounded: the type of 16 bits that heads are rounded to before they are divided.
    """
    values, error = part
    scales = np.ones(values.shape[:-1])
    if kind not in _LARGEST:
        return values, error, scales
    largest = _LARGEST[kind]
    relative, absolute = _HALVES[rounded]
    lost = error + np.abs(values) * relative + absolute
    if own:
        amax = np.fmax.reduce(np.abs(values), axis=-1, initial=0.0)
        scales = np.where(amax > 0, amax / largest, 1.0)
        # What the largest element is off by moves the scale, and so all codes of the head.
        with np.errstate(invalid="ignore"):
            worst = np.fmax.reduce(error, axis=-1, initial=0.0) / (scales * largest) + 2 * _ROUNDING
            lost = lost + np.abs(values) * worst[..., None]
    with np.errstate(invalid="ignore"):
        codes = np.clip(values / scales[..., None], -largest, largest)
        lost = lost / scales[..., None] + 4 * _ROUNDING * np.abs(codes)
    return codes, np.where(np.isfinite(lost), lost, 0.0), scales


def _scales(found: Values, scales: Values, slots: Values, page: int, tiles: bool, size: int) -> Near:
    """Scales after the write: [blocks, heads, page], or [heads, slots]."""
    after = np.ma.array(found, mask=np.ones(found.shape, bool))
    flat = after.reshape(-1)
    heads = np.arange(scales.shape[1])
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            block, offset = divmod(slot, page)
            places = (
                (block * len(heads) + heads) * page + offset
                if tiles
                else heads * (found.size // len(heads)) + slot
            )
            flat[places] = scales[token]
    return near(flat.reshape(found.shape), relative=_ROUNDING * (size / 16 + 20))


def fused_qknorm_idxrqknorm(
    qkv: Values,
    q_norm_weight: Values,
    k_norm_weight: Values,
    cos_sin_cache: Values,
    positions: Values,
    num_heads: int,
    num_kv_heads: int,
    rotary_dim: int,
    eps: float,
    index_q_norm_weight: Values | None,
    index_k_norm_weight: Values | None,
    num_index_heads: int,
    slot_mapping: Values | None,
    kv_cache_k: Values | None,
    kv_cache_v: Values | None,
    index_cache: Values | None,
    block_size: int,
    index_slot_mapping: Values | None,
    kv_cache_dtype: str,
    k_scale: Values | None,
    v_scale: Values | None,
    asm_layout: bool,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near | None]:
    """Queries and keys, in place or into their outputs; the caches, and the scales of what is stored in them."""
    tokens = len(qkv)
    row = qkv.reshape(tokens, qkv.shape[1] // 128, 128)
    after = np.ma.array(row.copy(), mask=np.ones(row.shape, bool))
    errors = np.zeros(after.shape)
    angles = _angles(cos_sin_cache, rotary_dim // 2, positions[:tokens])
    found: dict[str, Near | None] = {}
    ends = np.cumsum([0, num_heads, num_kv_heads, num_kv_heads, num_index_heads, bool(num_index_heads)])
    weights = (q_norm_weight, k_norm_weight, None, index_q_norm_weight, index_k_norm_weight)
    heads = []
    for weight, begin, end in zip(weights, ends[:-1], ends[1:], strict=True):
        part = row[:, begin:end], np.zeros(row[:, begin:end].shape)
        if weight is not None and end > begin:
            part = _heads(part[0], weight.reshape(-1) + 1, eps, *angles, True)
        heads.append(part)
    for place, name in enumerate(("q_out", "k", "v", "index_q_out", "index_k")):
        if name in kinds:
            prefix = "o" if name == "q_out" else "io"
            found[name] = _rows(heads[place], (sizes[f"{prefix}_rows"], sizes[f"{prefix}_last"]))
        elif name.endswith("_out") or (kv_cache_k is None and name != "v"):
            after[:, ends[place] : ends[place + 1]] = heads[place][0]
            errors[:, ends[place] : ends[place + 1]] = heads[place][1]
    found["qkv"] = near(after.reshape(qkv.shape), absolute=errors.reshape(qkv.shape))
    own = kv_cache_k is not None and kv_cache_dtype in ("fp8", "fp8_e4m3")
    for name, place, cache, scale in (("k", 1, kv_cache_k, k_scale), ("v", 2, kv_cache_v, v_scale)):
        if cache is None:
            continue
        slots = np.full(tokens, -1) if slot_mapping is None else slot_mapping[:tokens]
        codes, error, scales = _coded(heads[place], kinds[f"kv_cache_{name}"], own, kinds["qkv"])
        found[f"kv_cache_{name}"] = _in_tiles((codes, error), cache, block_size, slots, keys=name == "k")
        if scale is not None and own:
            found[f"{name}_scale"] = _scales(scale, scales, slots, block_size, asm_layout, 128)
    if index_cache is not None and kv_cache_k is not None and num_index_heads:
        given = index_slot_mapping if index_slot_mapping is not None else slot_mapping
        slots = np.full(tokens, -1) if given is None else given[:tokens]
        codes, error, _ = _coded(heads[4], kinds["index_cache"], False, kinds["qkv"])
        flat = index_cache.reshape(-1, 1, 128)
        stored = _cached((codes, error), flat, (1, 0), slots, keys=True)
        kept = False if stored.kept is None else stored.kept
        masked = np.ma.array(stored.values, mask=kept).reshape(index_cache.shape)
        found["index_cache"] = near(masked, absolute=stored.error.reshape(index_cache.shape))
    return {
        name: found.get(name, _kept(each))
        for name, each in (
            ("qkv", qkv), ("kv_cache_k", kv_cache_k), ("kv_cache_v", kv_cache_v), ("index_cache", index_cache),
            ("q_out", None), ("index_q_out", None), ("k_scale", k_scale), ("v_scale", v_scale),
        )
    }  # fmt: skip


def _kept(each: Values | None) -> Near | None:
    """A tensor that the call must leave as it was."""
    return None if each is None else near(np.ma.array(each, mask=np.ones(each.shape, bool)))


def _rows(part: tuple[Values, Values], shape: tuple[int, int], kept: Values | None = None) -> Near:
    """Numbers and their error at the begin of a tensor; tokens that are ``kept``, and what is behind them, stay as they were."""
    numbers = np.ma.array(np.zeros(shape), mask=np.ones(shape, bool))
    error = np.zeros(shape)
    size = part[0].size
    mask = np.zeros(part[0].shape, bool) | (False if kept is None else kept[:, None, None])
    numbers.reshape(-1)[:size] = np.ma.array(part[0], mask=mask).reshape(-1)
    error.reshape(-1)[:size] = part[1].reshape(-1)
    return near(numbers, absolute=error)


def _cached(
    part: tuple[Values, Values], cache: Values, layout: tuple[int, int], slots: Values, *, keys: bool
) -> Near:
    """A cache after the write; ``layout``: (keys of a page, width of a tile, or 0 for rows of a head)."""
    page, x = layout
    heads, size = part[0].shape[1:]
    blocks = cache.size // max(page * heads * size, 1)
    if not x:
        shape: tuple[int, ...] = (blocks, page, heads, size)
    elif keys:
        shape = (blocks, heads, size // x, page, x)
    else:
        shape = (blocks, heads, page // x, size, x)
    after = np.ma.array(cache.reshape(shape), mask=np.ones(shape, bool))
    errors = np.zeros(shape)
    for token, slot in enumerate(slots.tolist()):
        if slot < 0:
            continue
        block, offset = divmod(slot, page)
        for into, cells in ((after, part[0][token]), (errors, part[1][token])):
            if not x:
                into[block, offset] = cells
            elif keys:
                into[block, :, :, offset] = cells.reshape(heads, size // x, x)
            else:
                into[block, :, offset // x, :, offset % x] = cells
    return near(after.reshape(cache.shape), absolute=errors.reshape(cache.shape))


def _in_tiles(part: tuple[Values, Values], cache: Values, page: int, slots: Values, *, keys: bool) -> Near:
    """Keys [blocks, heads, tiles, page, width] or values [blocks, heads, tiles, size, width] after the write."""
    after = np.ma.array(cache, mask=np.ones(cache.shape, bool))
    errors = np.zeros(cache.shape)
    width = cache.shape[-1]
    for token, slot in enumerate(slots.tolist()):
        if slot < 0:
            continue
        block, offset = divmod(slot, page)
        for into, cells in ((after, part[0][token]), (errors, part[1][token])):
            if keys:
                into[block, :, :, offset] = cells.reshape(len(cells), -1, width)
            else:
                into[block, :, offset // width, :, offset % width] = cells
    return near(after, absolute=errors)


def _streams(
    streams: Sequence[tuple[Values, Values, Values]],
    sizes: tuple[int, int, int],
    eps: float,
    interleaved: bool,
) -> Near:
    """Heads of streams of (values, weight, table), one behind the other in each sequence, normed and turned.

    ``sizes``: sequences, heads of a token, elements of a head.
    """
    batch, heads, size = sizes
    parts: list[Values]
    errors: list[Values]
    parts, errors = [], []
    for values, weight, table in streams:
        rows = table.reshape(-1, size)
        angles = _angles(np.tile(rows, (batch, 1)), size // 2, np.arange(batch * len(rows)))
        found = _heads(values.reshape(-1, heads, size), weight, eps, *angles, not interleaved)
        for each, into in zip(found, (parts, errors), strict=True):
            into.append(each.reshape(batch, len(rows), heads, size))
    numbers, error = (np.concatenate(each, axis=1).reshape(-1, size) for each in (parts, errors))
    return near(numbers, absolute=error)


def fused_qk_norm_rope_1way(
    q: Values,
    k: Values,
    w_q: Values,
    w_k: Values,
    cos_sin: Values,
    batch_size: int,
    num_heads_q: int,
    num_heads_k: int,
    head_size: int,
    is_interleaved: bool,
    eps: float,
) -> dict[str, Near]:
    """Queries and keys."""
    made = {}
    for name, values, weight, heads in (("out_q", q, w_q, num_heads_q), ("out_k", k, w_k, num_heads_k)):
        sizes = batch_size, heads, head_size
        made[name] = _streams([(values, weight, cos_sin)], sizes, eps, is_interleaved)
    return made


def fused_qk_norm_rope_2way(
    q0: Values,
    k0: Values,
    q1: Values,
    k1: Values,
    w_q0: Values,
    w_k0: Values,
    w_q1: Values,
    w_k1: Values,
    cos_sin0: Values,
    cos_sin1: Values,
    batch_size: int,
    num_heads_q: int,
    num_heads_k: int,
    head_size: int,
    is_interleaved: bool,
    eps: float,
) -> dict[str, Near]:
    """Queries and keys of both streams."""
    queries, keys = [(q0, w_q0, cos_sin0), (q1, w_q1, cos_sin1)], [(k0, w_k0, cos_sin0), (k1, w_k1, cos_sin1)]
    return {
        "out_q01": _streams(queries, (batch_size, num_heads_q, head_size), eps, is_interleaved),
        "out_k01": _streams(keys, (batch_size, num_heads_k, head_size), eps, is_interleaved),
    }


def minimax_qk_norm_rope(
    qkv: Values,
    q_weight: Values,
    k_weight: Values,
    cos_sin_cache: Values,
    positions: Values,
    head_dim: int,
    eps: float,
    is_neox_style: bool,
) -> dict[str, Near]:
    """Queries, keys and values."""
    rot = cos_sin_cache.shape[-1]
    angles = _angles(cos_sin_cache, rot // 2, positions[: len(qkv)])
    queries, turned = q_weight.size, q_weight.size + k_weight.size
    return {
        "q_out": _row_of_heads(qkv[:, :queries], q_weight, eps, head_dim, angles, is_neox_style),
        "k_out": _row_of_heads(qkv[:, queries:turned], k_weight, eps, head_dim, angles, is_neox_style),
        "v_out": near(qkv[:, turned:]),
    }


def _row_of_heads(
    x: Values, weight: Values, eps: float, size: int, angles: tuple[Values, Values], neox: bool
) -> Near:
    """Rows [tokens, heads * size], normed as one, of each head of which the first elements are turned."""
    cos, sin = (each[:, None] for each in angles)
    turning = 2 * cos.shape[-1]
    with np.errstate(invalid="ignore"):
        heads, error = (each.reshape(len(x), x.shape[1] // size, size) for each in _normed(x, weight, eps))
        part, lost = _turned(heads[..., :turning], cos, sin, neox)
        # What the norm is off by is turned, too.
        before = _turned(error[..., :turning], np.abs(cos), np.abs(sin), neox)[0]
        swapped = _turned(error[..., :turning], np.abs(cos), -np.abs(sin), neox)[0]
    both = np.maximum(np.abs(before), np.abs(swapped)) + lost
    found = np.concatenate([part, heads[..., turning:]], axis=-1).reshape(x.shape)
    errors = np.concatenate([both, error[..., turning:]], axis=-1).reshape(x.shape)
    return near(found, absolute=np.where(np.isfinite(errors), errors, 0.0))


def draw_slots(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], count: float = 0
) -> Values:
    """A slot of its own for each token, anywhere in the cache; the second of three tokens and more is skipped. ``count``: of
    so many, where sizes do not say it.
    """
    there = int(count) or (sizes["slots"] if "slots" in sizes else sizes["NB"] * sizes["PS"])
    slots = rng.permutation(there)[: shape[0]]
    if shape[0] > 2:
        slots[1] = -1
    return slots


def draw_sequences(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], length: float
) -> Values:
    """Sequences of ``length`` tokens, each in blocks of its own, from a place in the first one on.

    The last token of a sequence of several is skipped, as is each that finds no block.
    """
    page, count = sizes["PS"], int(length)
    free = rng.permutation(sizes["NB"]).tolist()
    slots = np.full(shape[0], -1)
    for first in range(0, shape[0], count):
        offset = int(rng.integers(page))
        for token in range(first, min(first + count - (count > 1), shape[0])):
            if token == first or offset == page:
                if not free:
                    break
                block, offset = free.pop(), offset % page
            slots[token] = block * page + offset
            offset += 1
    return slots


def draw_places(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Positions of the tables, the first one before them, the third behind."""
    places = rng.integers(0, sizes["P"], shape)
    places.reshape(-1)[:1] = -5
    places.reshape(-1)[2:3] = sizes["P"] + 3
    return places


def _each(x: Values, cos: Values, sin: Values, neox: bool) -> tuple[Values, Values]:
    """``x`` [..., size] turned; tables [..., size] with an angle for each element, or for each pair."""
    half = x.shape[-1] // 2
    first, second = (slice(0, half), slice(half, None)) if neox else (slice(0, None, 2), slice(1, None, 2))
    tables = []
    for table in (cos, sin):
        both = np.zeros((*table.shape[:-1], 2 * half))
        whole = table.shape[-1] == 2 * half
        both[..., first], both[..., second] = (
            (table[..., first], table[..., second]) if whole else (table, table)
        )
        tables.append(both)
    cosines, sines = tables
    other = np.zeros(x.shape)
    other[..., first], other[..., second] = -x[..., second], x[..., first]
    lost = 2 * _ROUNDING * (np.abs(x * cosines) + np.abs(other * sines)) + 2.0**-140
    return x * cosines + other * sines, np.where(np.isfinite(lost), lost, 0.0)


def _divided(part: tuple[Values, Values], scale: Values | None, kind: str) -> tuple[Values, Values]:
    """Numbers by their scale, by the rounded reciprocal, and their error; of fp8 cut at the largest one."""
    values, error = part
    if scale is not None:
        values, error = values / scale.reshape(()), error / np.abs(scale.reshape(()))
        error = error + 4 * _ROUNDING * np.where(np.isfinite(values), np.abs(values), 0.0)
    most = _LARGEST.get(kind, np.inf)
    return np.clip(values, -most, most), error


def _written(part: tuple[Values, Values], cache: Values, slots: Values, *, keys: bool) -> Near:
    """A cache after the write: keys [blocks, heads, tiles, page, width], values [blocks, heads, tiles, size, keys of one]."""
    after = np.ma.array(cache, mask=np.ones(cache.shape, bool))
    errors = np.zeros(cache.shape)
    page = cache.shape[3] if keys else cache.shape[2] * cache.shape[4]
    for token, slot in enumerate(slots.tolist()):
        if not 0 <= slot < cache.shape[0] * page:
            continue
        block, offset = divmod(slot, page)
        for into, cells in ((after, part[0][token]), (errors, part[1][token])):
            if keys:
                into[block, :, :, offset] = cells.reshape(*cache.shape[1:3], cache.shape[4])
            else:
                into[block, :, offset // cache.shape[4], :, offset % cache.shape[4]] = cells
    return near(after, absolute=errors)


def fused_qk_rope_reshape_and_cache(
    q: Values,
    k: Values,
    v: Values,
    key_cache: Values,
    value_cache: Values,
    slot_mapping: Values,
    pos: Values,
    cos: Values,
    sin: Values,
    k_scale: Values | None,
    v_scale: Values | None,
    is_neox: bool,
    apply_scale: bool,
    offs: Values | None,
    kinds: Mapping[str, str],
) -> dict[str, Near | None]:
    """Queries and keys turned, both caches, and zeros where they are wanted."""
    tokens = len(q)
    places = pos[:tokens] + (0 if offs is None else offs[:tokens])
    tables = [table.reshape(-1, table.shape[-1]) for table in (cos, sin)]
    cosines, sines = (table[np.clip(places, 0, len(table) - 1)][:, None] for table in tables)
    queries, keys = _each(q, cosines, sines, is_neox), _each(k, cosines, sines, is_neox)
    scales = (k_scale, v_scale) if apply_scale else (None, None)
    stored = [
        _divided(part, scale, kinds["key_cache"])
        for part, scale in zip((keys, (v, np.zeros(v.shape))), scales, strict=True)
    ]
    return {
        "q_out": near(queries[0], absolute=queries[1]) if "q_out" in kinds else None,
        "k_out": near(keys[0], absolute=keys[1]) if "k_out" in kinds else None,
        "key_cache": _written(stored[0], key_cache, slot_mapping[:tokens], keys=True),
        "value_cache": _written(stored[1], value_cache, slot_mapping[:tokens], keys=False),
        "zeros_out": near(np.zeros(q.shape)) if "zeros_out" in kinds else None,
    }


def fused_qk_rope_cat_and_cache_mla(
    q_nope: Values,
    q_pe: Values,
    k_nope: Values,
    k_pe: Values,
    kv_cache: Values,
    slot_mapping: Values,
    pos: Values,
    cos: Values,
    sin: Values,
    k_scale: Values | None,
    is_neox: bool,
    num_decode_toks_for_zeros: int,
    apply_scale: bool,
    shuffled_kv_cache: bool,
    kinds: Mapping[str, str],
) -> dict[str, Near]:
    """Queries, the cache, and what is wanted beside; keys behind the tokens are as they came."""
    tokens, few = len(q_nope), num_decode_toks_for_zeros
    tables = [table.reshape(-1, table.shape[-1]) for table in (cos, sin)]
    cosines, sines = (table[np.clip(pos[:tokens], 0, len(table) - 1)][:, None] for table in tables)
    queries, lost = _each(q_pe, cosines, sines, is_neox)
    keys, error = k_pe.copy(), np.zeros(k_pe.shape)
    keys[:tokens], error[:tokens] = _each(k_pe[:tokens], cosines, sines, is_neox)
    joined = [
        np.concatenate(part, axis=-1)
        for part in (
            (k_nope, keys),
            (np.zeros(k_nope.shape), error),
            (q_nope, queries),
            (np.zeros(q_nope.shape), lost),
        )
    ]
    stored = _divided((joined[0], joined[1]), k_scale if apply_scale else None, kinds["kv_cache"])
    written = _divided((joined[2], joined[3]), None, kinds["q_out"])
    width = 16 if kinds["kv_cache"] in _LARGEST else 8
    shape = (few, *q_pe.shape[1:])
    some = np.ma.array(np.zeros(shape), mask=np.ones(shape, bool))
    some_lost = np.zeros(shape)
    some[: min(few, tokens)], some_lost[: min(few, tokens)] = queries[:few], lost[:few]
    rows = np.ma.array(keys, mask=np.ones(keys.shape, bool))
    rows[: len(slot_mapping)] = keys[: len(slot_mapping)]
    return {
        "kv_cache": _latent(
            stored, kv_cache, slot_mapping, (k_nope.shape[-1], width if shuffled_kv_cache else 0)
        ),
        "q_out": near(written[0], absolute=written[1]),
        "decode_q_pe_out": near(some, absolute=some_lost),
        "k_pe_out": near(rows, absolute=error),
        "q_nope_zeros_out": near(np.zeros((few, *q_nope.shape[1:]))),
    }


def _latent(part: tuple[Values, Values], cache: Values, slots: Values, layout: tuple[int, int]) -> Near:
    """A latent cache [blocks, heads, page, size] after the write; ``layout``: columns of the first part, of a tile (0: rows)."""
    rank, width = layout
    blocks, heads, page, size = cache.shape
    after = np.ma.array(cache, mask=np.ones(cache.shape, bool)).reshape(blocks, heads, page * size)
    errors = np.zeros(after.shape)
    for token, slot in enumerate(slots.tolist()):
        if not 0 <= slot < blocks * page:
            continue
        block, place = divmod(slot, page)
        at = place * size + np.arange(size)
        if width:
            spans = []
            for first, columns in ((0, rank), (page * rank, size - rank)):
                d = np.arange(columns)
                spans.append(
                    first
                    + place // 16 * 16 * columns
                    + d // width * 16 * width
                    + place % 16 * width
                    + d % width
                )
            at = np.concatenate(spans) % (page * size)
        for into, cells in ((after, part[0][token]), (errors, part[1][token])):
            into[block, np.arange(heads)[:, None], at] = cells
    return near(after.reshape(cache.shape), absolute=errors.reshape(cache.shape))


def draw_wild(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], count: float = 0
) -> Values:
    """``slots``, of which all but the first, the fourth and the last are in no cache."""
    slots = draw_slots(rng, shape, sizes, count)
    there = int(count) or sizes["NB"] * sizes["PS"]
    none = np.array([there, -1, 2**32 + 1, -(2**40)])
    for place in range(1, shape[0] - 1):
        if place != 3:
            slots[place] = none[place % 4]
    return slots
