"""Writing new keys and values into the paged cache (vLLM's layouts).

key_cache [blocks, h, d / x, block_size, x], x = 16 bytes of elements; value_cache [blocks, h, d, block_size], or with asm_layout
[blocks, h, block_size / x, d, x]. slot = block * block_size + offset; a negative slot is skipped, and what no token is written to
stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import decode, encode

_LARGEST = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}
_QMAX = {"i8": 127.0, **_LARGEST}


def _cells(x: Values, scale: Values | None, kv_cache_dtype: str, kind: str) -> Values:
    """What is stored: x itself with "auto", else x / scale, cut at the largest number of the fp8 type."""
    if kv_cache_dtype == "auto":
        return x
    divided = x if scale is None else x / scale.reshape(())
    cut: Values = np.clip(divided, -_LARGEST[kind], _LARGEST[kind])
    return cut


def reshape_and_cache(
    key: Values,
    value: Values,
    key_cache: Values,
    value_cache: Values,
    slot_mapping: Values,
    kv_cache_dtype: str,
    k_scale: Values | None,
    v_scale: Values | None,
    asm_layout: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """Both caches after the write.

    A kernel multiplies by the rounded reciprocal of the scale: three roundings before the last.
    """
    blocks, h, groups, block_size, x = key_cache.shape
    keys = _cells(key, k_scale, kv_cache_dtype, kinds["key_cache"])
    values = _cells(value, v_scale, kv_cache_dtype, kinds["value_cache"])
    new_keys = np.ma.array(key_cache, mask=np.ones(key_cache.shape, bool))
    new_values = np.ma.array(value_cache, mask=np.ones(value_cache.shape, bool))
    layout = (
        (blocks, h, block_size // x, groups * x, x) if asm_layout else (blocks, h, groups * x, block_size)
    )
    places = new_values.reshape(layout)  # a view
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot < 0:
            continue
        block, offset = divmod(slot, block_size)
        new_keys[block, :, :, offset, :] = keys[token].reshape(h, groups, x)
        if asm_layout:
            places[block, :, offset // x, :, offset % x] = values[token]
        else:
            places[block, :, :, offset] = values[token]
    error = 3 * 2.0**-24 if kv_cache_dtype != "auto" else 0.0
    return near(new_keys, relative=error), near(places.reshape(value_cache.shape), relative=error)


def _stored(x: Values, scale: Values, kv_cache_dtype: str, kind: str) -> Values:
    """As AITER's kernels have it: what is no finite fp32 number after the division is stored as NaN."""
    if kv_cache_dtype == "auto":
        return x
    divided = x / scale.reshape(())
    cut = np.clip(divided, -_LARGEST[kind], _LARGEST[kind])
    return np.where(np.abs(divided) < 2.0**128, cut, np.nan)


def _masked(cache: Values) -> Values:
    """The cache as it is where nothing is written."""
    return np.ma.array(cache, mask=np.ones(cache.shape, bool))


def reshape_and_cache_flash(
    key: Values,
    value: Values,
    key_cache: Values,
    value_cache: Values,
    slot_mapping: Values,
    kv_cache_dtype: str,
    k_scale: Values,
    v_scale: Values,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """Both caches [blocks, block_size, h, d] after the write."""
    block_size = key_cache.shape[1]
    stored = (
        _stored(key, k_scale, kv_cache_dtype, kinds["key_cache"]),
        _stored(value, v_scale, kv_cache_dtype, kinds["key_cache"]),
    )
    written = (_masked(key_cache), _masked(value_cache))
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot >= 0:
            for cache, rows in zip(written, stored, strict=True):
                cache[slot // block_size, slot % block_size] = rows[token]
    error = 3 * 2.0**-24 if kv_cache_dtype != "auto" else 0.0
    return near(written[0], relative=error), near(written[1], relative=error)


def reshape_and_cache_with_pertoken_quant(
    key: Values,
    value: Values,
    key_cache: Values,
    value_cache: Values,
    k_dequant_scales: Values,
    v_dequant_scales: Values,
    slot_mapping: Values,
    asm_layout: bool,
    clamp_scale: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near, Near, Near]:
    """Both caches and their scales after the write: a token's head has the scale amax / qmax; what is stored is
    value / scale, or with clamp_scale value / max(scale, 1e-12).

    A kernel divides twice and multiplies: three roundings. A code of int8 is cut off towards 0: where the quotient is that
    close to an integer it may be the one before. Where it is not clamped a head of zeros is 0 / 0: NaN in
    fp8, 0 in int8.
    """
    blocks, h, groups, block_size, x = key_cache.shape
    kind = kinds["key_cache"]
    layout = (
        (blocks, h, block_size // x, groups * x, x) if asm_layout else (blocks, h, groups * x, block_size)
    )
    scale_shape = (blocks, h, block_size) if asm_layout else (h, blocks, block_size)
    codes, scales = [], []
    for place, (rows, cache, dequant) in enumerate(
        ((key, key_cache, k_dequant_scales), (value, value_cache, v_dequant_scales))
    ):
        each = np.abs(rows).max(axis=-1, initial=0.0) / _QMAX[kind]
        quotients = rows / np.maximum(each, 1e-12 if clamp_scale else 0.0)[..., None]
        cells = _masked(cache.reshape(cache.shape if place == 0 else layout))
        errors = np.zeros(cells.shape)
        own = _masked(dequant.reshape(scale_shape))
        for token, slot in enumerate(slot_mapping.tolist()):
            if slot < 0:
                continue
            block, offset = divmod(slot, block_size)
            exact, error = _codes(quotients[token], kind)
            if place == 0:
                where: tuple[int | slice, ...] = (block, slice(None), slice(None), offset, slice(None))
                exact, error = exact.reshape(h, groups, x), error.reshape(h, groups, x)
            elif asm_layout:
                where = (block, slice(None), offset // x, slice(None), offset % x)
            else:
                where = (block, slice(None), slice(None), offset)
            cells[where], errors[where] = exact, error
            own[(block, slice(None), offset) if asm_layout else (slice(None), block, offset)] = each[token]
        codes.append(near(cells.reshape(cache.shape), absolute=errors.reshape(cache.shape)))
        scales.append(near(own.reshape(dequant.shape), relative=2.0**-23))
    return codes[0], codes[1], scales[0], scales[1]


def reshape_and_cache_with_block_quant(
    key: Values,
    value: Values,
    key_cache: Values,
    value_cache: Values,
    k_dequant_scales: Values,
    v_dequant_scales: Values,
    slot_mapping: Values,
    asm_layout: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near, Near, Near]:
    """Both caches and their scales after the write, with a scale for each head of a block."""
    layout = (key_cache.shape, key_cache.shape[3], asm_layout, kinds["key_cache"])
    keys = _block_scales(key, key_cache, k_dequant_scales, slot_mapping, layout, keys=True)
    values = _block_scales(value, value_cache, v_dequant_scales, slot_mapping, layout, keys=False)
    return keys[0], values[0], keys[1], values[1]


def reshape_and_cache_with_block_quant_for_asm_pa(
    key: Values,
    value: Values,
    key_cache: Values,
    value_cache: Values,
    k_dequant_scales: Values,
    v_dequant_scales: Values,
    slot_mapping: Values,
    asm_layout: bool,
    ori_block_size: int,
    kinds: Mapping[str, str],
) -> tuple[Near, Near, Near, Near]:
    """The same with a scale for each head of ``ori_block_size`` slots, which are several blocks of the cache."""
    layout = (key_cache.shape, ori_block_size, asm_layout, kinds["key_cache"])
    keys = _block_scales(key, key_cache, k_dequant_scales, slot_mapping, layout, keys=True)
    values = _block_scales(value, value_cache, v_dequant_scales, slot_mapping, layout, keys=False)
    return keys[0], values[0], keys[1], values[1]


def _block_scales(
    rows: Values,
    cache: Values,
    scales: Values,
    slots: Values,
    layout: tuple[tuple[int, ...], int, bool, str],
    *,
    keys: bool,
) -> tuple[Near, Near]:
    """A cache and its scales after the write of ``rows`` [batch, tokens, h, d].

    ``layout``: the shape of the keys' cache, how many slots share a scale, asm_layout, and the type of the cache. The scale is
    max(amax, 1e-6) / qmax of what is new. Behind the first slot of a group it only grows, and the codes before are multiplied
    by the old scale over the new one: a division and a product.
    """
    shape, group, asm_layout, kind = layout
    (blocks, h, groups, page, x), d = shape, rows.shape[-1]
    tokens = rows.reshape(-1, h, d)
    inner = (h, groups, page, x) if keys else (h, page // x, d, x) if asm_layout else (h, d, page)
    order = (0, 3, 1, 2, 4) if keys else (0, 2, 4, 1, 3) if asm_layout else (0, 3, 1, 2)
    cells = cache.reshape(blocks, *inner).transpose(order)
    turned = cells.shape
    cells = cells.reshape(blocks * page, h, d)
    new, kept, errors = cells.copy(), np.ones(cells.shape, bool), np.zeros(cells.shape)
    own = scales.copy() if asm_layout else scales.T.copy()
    same = np.ones(own.shape, bool)
    for first, count in _runs(slots, group, blocks * page):
        slot = int(slots[first])
        block, offset = divmod(slot, group)
        added = tokens[first : first + count]
        each = (
            np.maximum(np.abs(added).max(axis=(0, 2), initial=0.0), np.float64(np.float32(1e-6)))
            / _QMAX[kind]
        )
        if offset:
            grows = own[block] < each
            before = slice(slot - offset, slot)
            exact, error = _codes(cells[before] * (own[block] / each)[:, None], kind)
            new[before] = np.where(grows[:, None], exact, cells[before])
            errors[before] = np.where(grows[:, None], error, 0.0)
            kept[before] = ~grows[:, None]
            each = np.where(grows, each, own[block])
        own[block], same[block] = each, False
        here = slice(slot, slot + count)
        new[here], errors[here] = _codes(added / each[:, None], kind)
        kept[here] = False
    back = np.argsort(order)
    new, kept, errors = (
        part.reshape(turned).transpose(back).reshape(cache.shape) for part in (new, kept, errors)
    )
    written = np.ma.array(own, mask=same)
    return near(np.ma.array(new, mask=kept), absolute=errors), near(
        written if asm_layout else written.T, relative=2.0**-22
    )


def _runs(slots: Values, group: int, end: int) -> list[tuple[int, int]]:
    """(first token, how many) of the tokens behind one another whose slots follow one another in a group."""
    found: list[tuple[int, int]] = []
    for token, slot in enumerate(slots.tolist()):
        if not 0 <= slot < end:
            continue
        if slot % group and token and slots[token - 1] == slot - 1:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((token, 1))
    return found


def _codes(quotients: Values, kind: str) -> tuple[Values, Values]:
    """(what is stored before its rounding, its error)."""
    if kind != "i8":
        cut = np.clip(quotients, -_LARGEST[kind], _LARGEST[kind])
        return cut, 4 * 2.0**-24 * np.abs(cut)
    quotients = np.nan_to_num(quotients, nan=0.0)
    nearest = np.rint(quotients)
    close = np.abs(quotients - nearest) <= 6 * 2.0**-24 * np.abs(quotients)
    return np.where(close, nearest, np.trunc(quotients)), np.where(close & (nearest != 0), 1.0, 0.0)


def concat_and_cache_mla(
    kv_c: Values,
    k_pe: Values,
    kv_cache: Values,
    slot_mapping: Values,
    kv_cache_dtype: str,
    scale: Values,
    kinds: Mapping[str, str],
) -> Near:
    """The cache [blocks, block_size, rank + pe] after the write."""
    block_size, tokens = kv_cache.shape[1], slot_mapping.size
    rows = np.concatenate([kv_c[:tokens], k_pe[:tokens]], axis=1)
    stored = _stored(rows, scale, kv_cache_dtype, kinds["kv_cache"])
    cache = _masked(kv_cache)
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot >= 0:
            cache[slot // block_size, slot % block_size] = stored[token]
    return near(cache, relative=3 * 2.0**-24 if kv_cache_dtype != "auto" else 0.0)


def indexer_k_quant_and_cache(
    k: Values,
    kv_cache: Values,
    slot_mapping: Values,
    scale_fmt: str,
    preshuffle: bool,
    kinds: Mapping[str, str],
) -> Values:
    """The cache [blocks, block_size, width] after the write, byte by byte: codes are rounded where fp32 puts them.

    A group of 128 has the scale max(amax, 1e-4) / qmax, with ue8m0 the next power of two. NaN is left out of amax, and its code
    is the lowest one.
    """
    kind, (blocks, block_size, width) = kinds["fp8"], kv_cache.shape
    tokens, d = k.shape
    groups = k.astype(np.float32).reshape(tokens, d // 128, 128)
    amax = np.fmax.reduce(np.abs(groups), axis=-1, initial=np.float32(0.0))
    scales = np.maximum(amax, np.float32(1e-4)) / np.float32(_LARGEST[kind])
    if scale_fmt == "ue8m0":
        scales = np.exp2(np.ceil(np.log2(scales)))
    products = np.clip(groups * (np.float32(1.0) / scales)[..., None], -_LARGEST[kind], _LARGEST[kind])
    codes = encode(np.where(np.isnan(products), -_LARGEST[kind], products), kind).reshape(tokens, d)
    written = _masked(_bytes(kv_cache, kinds["kv_cache"]).reshape(blocks, block_size * width))
    for token, slot in enumerate(slot_mapping.tolist()):
        if 0 <= slot < blocks * block_size:
            block, offset = divmod(slot, block_size)
            written[block, _columns(offset, d, preshuffle) % (block_size * width)] = codes[token]
            behind = block_size * d + offset * (d // 32)
            written[block, behind : behind + d // 32] = scales[token].astype(np.float32).view(np.uint8)
    return _numbers(written.reshape(kv_cache.shape), kinds["kv_cache"])


def _columns(offset: int, d: int, tiles: bool) -> Values:
    """Where the codes of a page's key lie: one behind the other, or in tiles of 16 keys and 16 columns."""
    column = np.arange(d)
    if not tiles:
        return offset * d + column
    return offset // 16 * 16 * d + column // 16 * 256 + offset % 16 * 16 + column % 16


def cp_gather_indexer_k_quant_cache(
    kv_cache: Values,
    block_table: Values,
    cu_seq_lens: Values,
    preshuffle: bool,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> tuple[Values, Values]:
    """The codes [tokens, d] and the scales of each token, as the cache has them."""
    d, tokens = sizes["d"], sizes["tokens"]
    blocks, block_size, width = kv_cache.shape
    stored = _bytes(kv_cache, kinds["kv_cache"]).reshape(blocks, block_size * width)
    codes, scales = np.zeros((tokens, d), np.uint8), np.zeros((tokens, d // 32), np.uint8)
    kept = np.ones(tokens, bool)
    for sequence, (first, end) in enumerate(
        zip(cu_seq_lens[:-1].tolist(), cu_seq_lens[1:].tolist(), strict=True)
    ):
        for token in range(first, end):
            page, offset = divmod(token - first, block_size)
            block = block_table[sequence, page]
            if not 0 <= block < blocks:
                continue
            kept[token] = False
            behind = block_size * d + offset * (d // 32)
            codes[token] = stored[block, _columns(offset, d, preshuffle) % (block_size * width)]
            scales[token] = stored[block, behind : behind + d // 32]
    numbers = _numbers(codes, kinds["dst_k"])
    found = decode(scales.view(_STORED[kinds["dst_scale"]]), kinds["dst_scale"])
    lost = [np.broadcast_to(kept[:, None], values.shape) for values in (numbers, found)]
    return np.ma.array(numbers, mask=lost[0]), np.ma.array(found, mask=lost[1])


_STORED: dict[str, Any] = {"f32": np.float32, "u8": np.uint8}


def _bytes(cache: Values, kind: str) -> Values:
    """What a cache has in memory: it may be given as numbers of fp8."""
    return cache.astype(np.uint8) if kind == "u8" else encode(cache, kind)


def _numbers(stored: Values, kind: str) -> Values:
    """Bytes as the type of a tensor reads them; what is masked stays so."""
    numbers = decode(np.ma.getdata(stored), kind)
    return np.ma.array(numbers, mask=np.ma.getmaskarray(stored)) if np.ma.isMaskedArray(stored) else numbers


def draw_slots(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A slot of its own for each token, anywhere in the cache; the second of three tokens and more is skipped."""
    slots = rng.permutation(sizes["blocks"] * sizes["block_size"])[: shape[0]]
    if shape[0] > 2:
        slots[1] = -1
    return slots


def draw_run(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """One slot after the other, as in a prefill, from a place in the first block on."""
    return np.arange(shape[0]) + rng.integers(
        min(sizes["block_size"], sizes["blocks"] * sizes["block_size"] - shape[0] + 1)
    )


def draw_sequences(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], group: float = 0.0
) -> Values:
    """Sequences of ``seq`` tokens, each in groups of slots of its own, from a place in the first one on.

    The last token of a sequence of several is skipped, as is each that finds no group.
    """
    size, length = int(group) or sizes["block_size"], sizes["seq"]
    free = rng.permutation(sizes["blocks"] * sizes["block_size"] // size).tolist()
    slots = np.full(shape[0], -1)
    for first in range(0, shape[0], max(length, 1)):
        offset = int(rng.integers(size))
        for token in range(length - (length > 1)):
            if (token == 0 or offset == size) and not free:
                break
            if token == 0 or offset == size:
                block, offset = free.pop(), offset % size
            slots[first + token] = block * size + offset
            offset += 1
    return slots


def draw_starts(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where the tokens of each sequence begin: sequences of any lengths, that fit their pages, the first of several has none."""
    tokens, count = sizes["tokens"], shape[0] - 1
    most = sizes["table_columns"] * sizes["block_size"]
    lengths = np.zeros(count, np.int64)
    for _ in range(tokens):
        free = np.flatnonzero(lengths[1:] < most) + 1 if count > 1 else np.zeros(1, np.int64)
        lengths[rng.choice(free)] += 1
    return np.concatenate([[0], np.cumsum(lengths)])


def draw_pages(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any blocks of the cache."""
    return rng.integers(0, sizes["blocks"], shape)


def draw_wild(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """``slots``, of which the third and the fourth lie behind the cache."""
    slots = draw_slots(rng, shape, sizes)
    slots[2:4] = sizes["blocks"] * sizes["block_size"], 2**32 + 1
    return slots


def draw_lost_pages(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """``pages``, of which those of the second column are in no cache."""
    pages = draw_pages(rng, shape, sizes)
    pages[:, 1::2] = np.array([-1, sizes["blocks"], -(2**31), 2**31 - 1])[np.arange(shape[0]) % 4, None]
    return pages
