"""A router's choices in the order of their experts, and products over such lists."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases import numbers
from build_tools.cases.experts import HALF, ROUNDING, activated
from build_tools.cases.near import Near, Values, near

_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
_SHARE = 32
#: What stands where nothing is read.
_RUBBISH = 0x7F7F7F7F


def moe_routing_lists(
    logits: Values,
    n_expts_act: int,
    block_m: int,
    sm_first: bool,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> tuple[Values, Values, Near, Values, Values, Values, Values]:
    """Places of choices, places' choices and scores, and how each expert's are found."""
    count = logits.shape[1]
    values = logits
    if sm_first:
        values = numbers.rounded(_softmax(logits), kinds["logits"])
    # NaN above all, 0 above -0; of equal ones that of the higher number, by a stable sort of what is turned around
    turned = values[:, ::-1]
    sizes_of = -np.nan_to_num(turned, nan=0.0, posinf=np.inf, neginf=-np.inf)
    order = np.lexsort((np.signbit(turned), sizes_of, ~np.isnan(turned)), axis=1)
    chosen = np.sort(count - 1 - order[:, :n_expts_act], axis=1)
    picked = np.take_along_axis(values, chosen, axis=1)
    scores = picked if sm_first else _softmax(picked)
    flat = chosen.reshape(-1)
    gather = np.argsort(flat, kind="stable")
    scatter = np.empty_like(gather)
    scatter[gather] = np.arange(len(gather))
    hist = np.bincount(flat, minlength=count)
    starts = np.concatenate([[0], np.cumsum(hist)])
    own = -(-hist // block_m)
    blocks = np.full(sizes["NB"], -1)
    found = [number << 16 | expert for expert in range(count) for number in range(own[expert])]
    blocks[: len(found)] = found
    gates = near(scores.reshape(-1)[gather], relative=2.0**-18, absolute=2.0**-40)
    return gather, scatter, gates, hist, starts, np.concatenate([[0], np.cumsum(own)]), blocks


def _softmax(rows: Values) -> Values:
    power = np.exp(rows - rows.max(axis=1, keepdims=True, initial=-np.inf))
    found: Values = power / power.sum(axis=1, keepdims=True)
    return found


def moe_gemm_gathered(
    x: Values,
    w: Values,
    w_scales: Values,
    hist: Values,
    token_offs_raw: Values,
    block_pid_map: Values,
    topk: int,
    block_m: int,
    bias: Values | None,
    gather_indx: Values | None,
    scatter_indx: Values | None,
    gammas: Values | None,
    swizzled: bool,
    apply_swiglu: bool,
    alpha: float,
    limit: float,
    residual: float,
    gate_valid: Values | None,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Block by block; what no block has stays as it was."""
    kind = kinds["x"]
    half, smallest = HALF[kind]
    matrices = _weights(w, w_scales, swizzled, kind)
    places = sizes["O"] if scatter_indx is None else len(scatter_indx)
    result, error = np.zeros((2, places, sizes["NO"]))
    made = np.zeros(places, bool)
    for told in block_pid_map[block_pid_map >= 0]:
        expert, number = told & 0xFFFF, told >> 16
        if expert >= len(hist):
            continue
        rows = np.arange(number * block_m, min((number + 1) * block_m, hist[expert]))
        place = token_offs_raw[expert] + rows
        source = place if gather_indx is None else gather_indx[place] // topk
        matrix = matrices[expert]
        sums = x[source] @ matrix.T
        off = 2 * x.shape[1] * ROUNDING * (np.abs(x[source]) @ np.abs(matrix).T)
        if bias is not None:
            sums = sums + bias[expert]
            off = off + (np.abs(sums) + np.abs(bias[expert])) * ROUNDING
        if apply_swiglu:
            sums, off = _swiglu(sums, off, alpha, limit, residual)
        if gammas is not None:
            factor = gammas[place][:, None]
            sums, off = sums * factor, (off + np.abs(sums) * ROUNDING) * np.abs(factor)
        result[place], error[place], made[place] = sums, off, True
    if scatter_indx is None:
        return near(
            np.ma.array(result, mask=np.repeat(~made, sizes["NO"]).reshape(result.shape)), absolute=error
        )
    error = error + (np.abs(result) + error) * half + smallest
    groups = scatter_indx.reshape(-1, topk)
    if gate_valid is not None:
        # One place more, of zeros: what a choice that is not here adds.
        groups = np.where(gate_valid.reshape(-1, topk) != 0, groups, places)
        result, error = (np.concatenate([each, np.zeros((1, sizes["NO"]))]) for each in (result, error))
    total = result[groups].sum(axis=1)
    return near(
        total, absolute=error[groups].sum(axis=1) + np.abs(result[groups]).sum(axis=1) * topk * ROUNDING
    )


def moe_gemm_gathered_fp8(
    x: Values,
    w: Values,
    w_scales: Values,
    hist: Values,
    token_offs_raw: Values,
    block_pid_map: Values,
    topk: int,
    block_m: int,
    x_scales: Values | None,
    x_scale: Values | None,
    quant_scale: Values | None,
    bias: Values | None,
    gather_indx: Values | None,
    scatter_indx: Values | None,
    gammas: Values | None,
    swizzled: bool,
    apply_swiglu: bool,
    alpha: float,
    limit: float,
    residual: float,
    gate_valid: Values | None,
    sizes: Mapping[str, int],
) -> Near:
    """The same of rows times their scales; the result divided by its own."""
    if x_scales is not None:
        x = x * np.repeat(np.exp2(x_scales - 127.0), _SHARE, axis=1)
    if x_scale is not None:
        x = x * x_scale
    found = moe_gemm_gathered(
        x, w, w_scales, hist, token_offs_raw, block_pid_map, topk, block_m, bias, gather_indx, scatter_indx, gammas,
        swizzled, apply_swiglu, alpha, limit, residual, gate_valid, {**sizes, "O": sizes["R"]}, {"x": "bf16"},
    )  # fmt: skip
    if quant_scale is None:
        return found
    values = found.values / quant_scale
    kept = np.zeros(values.shape, bool) if found.kept is None else found.kept
    return near(np.ma.array(values, mask=kept), relative=ROUNDING, absolute=found.error / quant_scale)


def moe_gemm_gathered_fp4(
    x: Values,
    w: Values,
    x_scales: Values,
    w_scales: Values,
    hist: Values,
    token_offs_raw: Values,
    block_pid_map: Values,
    topk: int,
    block_m: int,
    bias: Values | None,
    gather_indx: Values | None,
    scatter_indx: Values | None,
    gammas: Values | None,
    swizzled: bool,
    apply_swiglu: bool,
    alpha: float,
    limit: float,
    residual: float,
    gate_valid: Values | None,
    sizes: Mapping[str, int],
) -> Near:
    """The same of rows that are pairs of codes, too."""
    return moe_gemm_gathered(
        _numbers(x) * np.repeat(np.exp2(x_scales - 127.0), _SHARE, axis=1), w, w_scales, hist, token_offs_raw,
        block_pid_map, topk, block_m, bias, gather_indx, scatter_indx, gammas, swizzled, apply_swiglu, alpha, limit,
        residual, gate_valid, {**sizes, "O": sizes["R"]}, {"x": "bf16"},
    )  # fmt: skip


def _numbers(pairs: Values) -> Values:
    """What pairs of fp4 mean, the lower half first."""
    both = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(*pairs.shape[:-1], 2 * pairs.shape[-1])
    found: Values = np.where(both & 8, -1.0, 1.0) * _FP4[both & 7]
    return found


def _weights(pairs: Values, scales: Values, swizzled: bool, kind: str) -> Values:
    """Numbers of ``kind`` [E, N, K]."""
    count, height, width = pairs.shape
    scales = scales.reshape(count, height, width // 16)
    if swizzled:
        parts = scales.reshape(count, height // 32, width // 128, 4, 16, 2, 2)
        scales = parts.transpose(0, 1, 6, 4, 2, 5, 3).reshape(count, height, width // 16)
    values = _numbers(pairs) * np.repeat(np.exp2(scales - 127.0), _SHARE, axis=2)
    found: Values = numbers.rounded(values, kind)
    return found


def _swiglu(sums: Values, off: Values, alpha: float, limit: float, residual: float) -> tuple[Values, Values]:
    """(a * sigmoid(alpha * a) * (b + residual) of each two columns; how far that may be off)."""
    gate, up, gate_off, up_off = sums[:, ::2], sums[:, 1::2], off[:, ::2], off[:, 1::2]
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    up, up_off = up + residual, up_off + (np.abs(up) + abs(residual)) * ROUNDING
    active, wrong = activated(alpha * gate, alpha * gate_off, False)
    active, wrong = active / alpha, wrong / alpha
    return active * up, wrong * (np.abs(up) + up_off) + np.abs(active) * up_off


def _lists(experts: int, tokens: float, topk: float, parts: float = 1) -> tuple[Values, Values]:
    """(Choices in the order of their experts, how many are each's), the same for all tensors of a call.

    With ``parts`` the experts are the first of so many times as many: choices of others stand behind the last place.
    """
    count = experts * int(parts)
    rng = np.random.default_rng([experts, int(tokens), int(topk)])
    chosen = np.sort([rng.permutation(count)[: int(topk)] for _ in range(int(tokens))], axis=1).reshape(-1)
    return np.argsort(chosen, kind="stable"), np.bincount(chosen, minlength=count)[:experts]


def draw_gather(
    rng: object, shape: object, sizes: Mapping[str, int], tokens: float, topk: float, parts: float = 1
) -> Values:
    """Of each place its choice."""
    del rng, shape
    order, hist = _lists(sizes["E"], tokens, topk, parts)
    return np.where(np.arange(len(order)) < hist.sum(), order, _RUBBISH)


def draw_scatter(
    rng: object, shape: object, sizes: Mapping[str, int], tokens: float, topk: float, parts: float = 1
) -> Values:
    """Of each choice its place."""
    del rng, shape
    order, hist = _lists(sizes["E"], tokens, topk, parts)
    places = np.argsort(order)
    return np.where(places < hist.sum(), places, _RUBBISH)


def draw_live(
    rng: object, shape: object, sizes: Mapping[str, int], tokens: float, topk: float, parts: float
) -> Values:
    """Of each choice whether it has a place."""
    del rng, shape
    order, hist = _lists(sizes["E"], tokens, topk, parts)
    found: Values = (np.argsort(order) < hist.sum()).astype(np.int64)
    return found


def draw_hist(
    rng: object, shape: object, sizes: Mapping[str, int], tokens: float, topk: float, parts: float = 1
) -> Values:
    """Choices of each expert."""
    del rng, shape
    return _lists(sizes["E"], tokens, topk, parts)[1]


def draw_starts(
    rng: object,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    tokens: float,
    topk: float,
    parts: float = 1,
) -> Values:
    """Where each expert's begin, and rubbish behind them."""
    del rng
    starts = np.full(shape, _RUBBISH)
    hist = _lists(sizes["E"], tokens, topk, parts)[1]
    starts[: len(hist) + 1] = np.concatenate([[0], np.cumsum(hist)])
    return starts


def draw_blocks(
    rng: object,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    tokens: float,
    topk: float,
    rows: float,
    parts: float = 1,
) -> Values:
    """Each expert's blocks of so many rows; -1 behind the last."""
    del rng
    hist = _lists(sizes["E"], tokens, topk, parts)[1]
    found = [
        number << 16 | expert
        for expert, count in enumerate(hist)
        for number in range(-(-int(count) // int(rows)))
    ]
    blocks = np.full(shape, -1)
    blocks[: len(found)] = found
    return blocks
