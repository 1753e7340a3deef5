"""Dense attention, forward."""

from __future__ import annotations

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Half a unit of the last place: a kernel rounds the probabilities to the type of v before the second product.
_PROBABILITY = {"bf16": 2.0**-8, "f16": 2.0**-11}
_ROUNDING = 2.0**-24


def flash_attn_func(
    q: Values,
    k: Values,
    v: Values,
    softmax_scale: float | None,
    causal: bool,
    return_lse: bool,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """softmax(q @ k^T * softmax_scale) @ v for each head; lse is the natural logarithm of the sum of the exponentials.

    q [b, sq, hq, d], k and v [b, sk, hk, d], hq a multiple of hk; softmax_scale is d^-1/2 unless given. causal is aligned
    bottom-right: query i sees key j when j <= i + sk - sq. A query that sees no key has out 0 and lse -inf.

    Scores are sums in fp32 and the argument of exp2: they are off by about d / 4 + 8 roundings of their size. A kernel adds the
    probabilities before it rounds them for the second product, so out is off by half a unit of them times sum p * |v|.

    Limit: a kernel multiplies keys that a query does not see by 0, and those that fill a tile too: an infinity or NaN in v may
    make NaN of what does not depend on it. The lse of a query with NaN is -inf, and not NaN, while its out is NaN.
    """
    group = q.shape[2] // k.shape[2]
    queries, keys, values = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    keys, values = (np.repeat(x, group, axis=1) for x in (keys, values))
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    scores = queries @ keys.swapaxes(-1, -2) * scale
    if causal:
        hidden = np.arange(k.shape[1])[None, :] > np.arange(q.shape[1])[:, None] + (k.shape[1] - q.shape[1])
        scores = np.where(hidden, -np.inf, scores)
    peak = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.where(peak == -np.inf, 0.0, np.exp(scores - peak))
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total == 0, 1.0, total)
    out = weights @ values
    size = _size(queries, keys) * abs(scale)
    off = _ROUNDING * ((q.shape[-1] / 4 + 8) * size + 32)
    error = (_PROBABILITY[kinds["v"]] * 1.01 + 2 * off) * (weights @ np.abs(values)) + 2.0**-125
    lse = (peak + np.log(total))[..., 0]
    return {
        "out": near(out.transpose(0, 2, 1, 3), absolute=_finite(error.transpose(0, 2, 1, 3))),
        "lse": near(lse, relative=2 * _ROUNDING, absolute=_finite(off[..., 0])) if return_lse else None,
    }


def _size(queries: Values, keys: Values) -> Values:
    """The largest partial sum that a score of each query may have, about."""
    sizes = np.sqrt((queries**2) @ (keys**2).swapaxes(-1, -2))
    largest: Values = 2 * sizes.max(axis=-1, keepdims=True, initial=0.0)
    return largest


def _finite(error: Values) -> Values:
    return np.where(np.isfinite(error), error, 0.0)
