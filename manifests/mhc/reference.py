"""Hyper-connections: streams of a residual, mixed before each layer and behind it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
_STREAMS = 4
#: How far a number may move when it is rounded to 16 bits: relative, and below the smallest normal one.
_HALVES = {"bf16": (2.0**-8, 0.0), "f16": (2.0**-11, 2.0**-25)}


def _streams(x: Values, residual: Values, post: Values, comb: Values) -> tuple[Values, Values]:
    """The residual behind a layer, and its error."""
    tokens = len(x)
    post, comb = post.reshape(tokens, _STREAMS), comb.reshape(tokens, _STREAMS, _STREAMS)
    with np.errstate(invalid="ignore"):
        found = x[:, None] * post[..., None] + np.einsum("tsh,tso->toh", residual, comb)
        size = np.abs(x[:, None] * post[..., None]) + np.einsum(
            "tsh,tso->toh", np.abs(residual), np.abs(comb)
        )
    error = 6 * _ROUNDING * size
    return found, np.where(np.isfinite(error), error, 0.0)


def mhc_post(x: Values, residual: Values, post_layer_mix: Values, comb_res_mix: Values) -> dict[str, Near]:
    """Five products and their sum."""
    found, error = _streams(x, residual, post_layer_mix, comb_res_mix)
    return {"out": near(found, absolute=error)}


def _products(x: Values, fn: Values, lost: Values) -> tuple[Near, Near]:
    """Products and squares of parts, [parts, tokens, k] times [parts, outs, k]; ``lost``: what each of x may be off by."""
    terms = x.shape[-1]
    off = _ROUNDING * (terms + 8)
    product = np.einsum("ptk,pnk->ptn", x, fn)
    error = np.einsum("ptk,pnk->ptn", np.abs(x) * off + lost, np.abs(fn))
    squares = (x * x).sum(axis=-1)
    return near(product, absolute=error), near(
        squares, absolute=squares * off + 2 * (np.abs(x) * lost).sum(axis=-1)
    )


def _shaped(each: Near, shape: tuple[int, ...]) -> Near:
    return near(each.values.reshape(shape), absolute=each.error.reshape(shape))


def mhc_pre_gemm_sqrsum(x: Values, fn: Values, sizes: Mapping[str, int]) -> dict[str, Near]:
    """A part has neighbouring columns."""
    outs, columns = fn.shape
    tokens = x.size // columns
    parts = sizes["P"] // max(tokens, 1)
    cut = x.reshape(tokens, parts, -1).transpose(1, 0, 2) if tokens else np.zeros((0, 0, columns))
    fns = fn.reshape(outs, parts, -1).transpose(1, 0, 2) if tokens else np.zeros((0, outs, columns))
    product, squares = _products(cut, fns, np.zeros(cut.shape))
    return {"out": _shaped(product, (sizes["P"], outs)), "sqrsum": _shaped(squares, (sizes["Q"],))}


def mhc_fused_post_pre_gemm_sqrsum(
    layer_input: Values,
    residual_in: Values,
    post_layer_mix: Values,
    comb_res_mix: Values,
    fn: Values,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near]:
    """The product is of streams that were rounded; a part has neighbouring columns of each of them."""
    streams, error = _streams(layer_input, residual_in, post_layer_mix, comb_res_mix)
    tokens, _, width = streams.shape
    outs, parts = len(fn), sizes["P"] // max(tokens, 1)
    relative, absolute = _HALVES[kinds["layer_input"]]
    if tokens:
        cut = streams.reshape(tokens, _STREAMS, parts, -1).transpose(2, 0, 1, 3).reshape(parts, tokens, -1)
        lost = error.reshape(tokens, _STREAMS, parts, -1).transpose(2, 0, 1, 3).reshape(parts, tokens, -1)
        fns = fn.reshape(outs, _STREAMS, parts, -1).transpose(2, 0, 1, 3).reshape(parts, outs, -1)
    else:
        cut = lost = np.zeros((0, 0, width))
        fns = np.zeros((0, outs, width))
    product, squares = _products(cut, fns, lost + np.abs(cut) * relative + absolute)
    return {
        "gemm_out_mul": _shaped(product, (sizes["P"], outs)), "gemm_out_sqrsum": _shaped(squares, (sizes["Q"],)),
        "next_residual": near(streams, absolute=error),
    }  # fmt: skip


def _sigmoid(x: Values, error: Values) -> tuple[Values, Values]:
    found = 1 / (1 + np.exp(-x))
    moved = np.minimum(error / 4, found * np.expm1(np.minimum(error, 1)))
    # Below the smallest normal number it may be 0.
    return found, moved + found * (8 + np.abs(x)) * _ROUNDING + 2.0**-126


def _mixed(
    gemm_out_mul: Values,
    gemm_out_sqrsum: Values,
    scale: Values,
    base: Values,
    residual: Values,
    numbers: tuple[float, float, float, float],
    repeat: int,
) -> tuple[tuple[Values, Values], tuple[Values, Values] | None, tuple[Values, Values] | None]:
    """(value, error) of the layer's input in fp32, of post_mix and of comb_mix; ``numbers``: rms_eps, pre_eps, sink_eps, post."""
    rms_eps, pre_eps, sink_eps, post_value = (float(np.float32(each)) for each in numbers)
    tokens, _, width = residual.shape
    outs = gemm_out_mul.shape[-1]
    parts = gemm_out_sqrsum.size // max(tokens, 1)
    sums = gemm_out_mul.reshape(parts, tokens, outs)
    root = 1 / np.sqrt(gemm_out_sqrsum.reshape(parts, tokens).sum(axis=0) / (_STREAMS * width) + rms_eps)
    mixes = sums.sum(axis=0) * root[:, None]
    lost = np.abs(sums).sum(axis=0) * root[:, None] * (parts + 8) * _ROUNDING

    def scaled(begin: int, end: int, of: int) -> tuple[Values, Values]:
        found = mixes[:, begin:end] * scale[of] + base[begin:end]
        size = np.abs(mixes[:, begin:end] * scale[of]) + np.abs(base[begin:end])
        return found, lost[:, begin:end] * np.abs(scale[of]) + 3 * _ROUNDING * size

    pre, off = _sigmoid(*scaled(0, 4, 0))
    pre, off = pre + pre_eps, off + _ROUNDING * (pre + pre_eps)
    with np.errstate(invalid="ignore"):
        made = np.einsum("ts,tsh->th", pre, residual)
        error = np.einsum("ts,tsh->th", off + 5 * _ROUNDING * pre, np.abs(residual))
    layer = made, np.where(np.isfinite(error), error, 0.0)
    if repeat <= 0:
        return layer, None, None
    post, post_off = _sigmoid(*scaled(4, 8, 1))
    logits, logit_off = scaled(8, 24, 2)
    comb = logits.reshape(tokens, 4, 4)
    comb = np.exp(comb - comb.max(axis=-1, keepdims=True))
    comb = comb / comb.sum(axis=-1, keepdims=True) + sink_eps
    comb = comb / (comb.sum(axis=-2, keepdims=True) + sink_eps)
    for _ in range(repeat - 1):
        comb = comb / (comb.sum(axis=-1, keepdims=True) + sink_eps)
        comb = comb / (comb.sum(axis=-2, keepdims=True) + sink_eps)
    # Dividing rows and columns by their sums moves no quotient further apart than the logits were.
    worst = 4 * logit_off.max(axis=-1, initial=0.0) + np.abs(logits).max(axis=-1, initial=0.0) * 4 * _ROUNDING
    comb_off = comb * (worst[:, None, None] + (16 * repeat + 32) * _ROUNDING)
    return (
        layer,
        (post * post_value, post_off * abs(post_value) + 2 * _ROUNDING * np.abs(post * post_value)),
        (comb, comb_off),
    )


def _result(found: tuple[Values, Values] | None, before: Values) -> Near:
    """A mix in the shape that it has, or what was there."""
    if found is None:
        return near(np.ma.array(before, mask=np.ones(before.shape, bool)))
    return near(found[0].reshape(before.shape), absolute=found[1].reshape(before.shape))


def mhc_pre_big_fuse(
    post_mix: Values,
    comb_mix: Values,
    gemm_out_mul: Values,
    gemm_out_sqrsum: Values,
    hc_scale: Values,
    hc_base: Values,
    residual: Values,
    rms_eps: float,
    hc_pre_eps: float,
    hc_sinkhorn_eps: float,
    hc_post_mult_value: float,
    sinkhorn_repeat: int,
) -> dict[str, Near]:
    """The layer's input, and both mixes."""
    numbers = (rms_eps, hc_pre_eps, hc_sinkhorn_eps, hc_post_mult_value)
    (made, error), post, comb = _mixed(
        gemm_out_mul, gemm_out_sqrsum, hc_scale, hc_base, residual, numbers, sinkhorn_repeat
    )
    return {
        "post_mix": _result(post, post_mix), "comb_mix": _result(comb, comb_mix), "layer_input": near(made, absolute=error),
    }  # fmt: skip


def mhc_pre_big_fuse_rmsnorm(
    post_mix: Values,
    comb_mix: Values,
    gemm_out_mul: Values,
    gemm_out_sqrsum: Values,
    hc_scale: Values,
    hc_base: Values,
    residual: Values,
    norm_weight: Values,
    rms_eps: float,
    hc_pre_eps: float,
    hc_sinkhorn_eps: float,
    norm_eps: float,
    hc_post_mult_value: float,
    sinkhorn_repeat: int,
) -> dict[str, Near]:
    """The norm of the layer's input, and both mixes."""
    numbers = (rms_eps, hc_pre_eps, hc_sinkhorn_eps, hc_post_mult_value)
    (made, error), post, comb = _mixed(
        gemm_out_mul, gemm_out_sqrsum, hc_scale, hc_base, residual, numbers, sinkhorn_repeat
    )
    width = made.shape[-1]
    with np.errstate(invalid="ignore"):
        mean = (made * made).mean(axis=-1, keepdims=True) + float(np.float32(norm_eps))
        root = 1 / np.sqrt(mean)
        found = made * root * norm_weight
        # What the squares are off by, over their mean.
        off = (np.abs(made) * error).mean(axis=-1, keepdims=True) * root * root + (
            width / 16 + 16
        ) * _ROUNDING
        lost = error * root * np.abs(norm_weight) + np.abs(found) * off
    return {
        "post_mix": _result(post, post_mix), "comb_mix": _result(comb, comb_mix),
        "out": near(found, absolute=np.where(np.isfinite(lost), lost, 0.0)),
    }  # fmt: skip
