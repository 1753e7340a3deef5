"""Dense attention, forward."""

from __future__ import annotations

from build_tools.cases.attention import NEAREST, Scores, attend, batched
from build_tools.cases.near import Near, Values
from build_tools.cases.windows import seen


def flash_attn_func(
    q: Values,
    k: Values,
    v: Values,
    softmax_scale: float | None,
    causal: bool,
    window_size: tuple[int, ...],
    return_lse: bool,
    sink_ptr: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """:func:`attend` of each batch. q [b, sq, hq, d], k [b, sk, hk, d], v [b, sk, hk, dv], hq a multiple of hk; softmax_scale is
    d^-1/2 unless given.
    """
    scale = q.shape[3] ** -0.5 if softmax_scale is None else softmax_scale
    left, right, first = seen(window_size, q.shape[1], k.shape[1], causal)
    how = Scores(scale, left, right, 0.0, first)
    found = {
        (place, 0, q.shape[1]): attend(q[place], k[place], v[place], how, sink_ptr, NEAREST[kinds["v"]])
        for place in range(q.shape[0])
    }
    out, lse = batched(found, (*q.shape[:3], v.shape[3]))
    return {"out": out, "lse": lse if return_lse else None}
