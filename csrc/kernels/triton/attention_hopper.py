"""The dense flash attention of `attention.py` for NVIDIA's Hopper: the same kernel with another loop over keys.

Products are asynchronous there, and the powers are what takes the time beside them. So a score is scaled where its power is
worked out, by the multiplication that is part of the addition there, and of a row only the maximum is scaled by itself; and the
powers are added up behind the second product, while it runs.

`flash_attn_fwd_kernel` has the arguments, the constexprs and the results of its namesake.
"""

from types import FunctionType

import attention
import triton
import triton.language as tl


@triton.jit
def _attend(
    acc,
    total,
    peak,
    q,
    k,
    v,
    limit,
    begin,
    end,
    last_key,
    k_stride,
    v_stride,
    scale,
    HEAD: tl.constexpr,
    BN: tl.constexpr,
    MASKED: tl.constexpr,
    AWAY: tl.constexpr,
):
    """Online softmax over keys [begin, end); row m sees key j when j <= limit[m]."""
    rd = tl.arange(0, HEAD)
    rn = tl.arange(0, BN)
    # Only with a scale that is not negative the largest score is the largest before scaling, too: else all keys go the other way.
    if MASKED:
        begin = tl.where(scale < 0.0, 0, begin)
    else:
        end = tl.where(scale < 0.0, begin, end)
    k += tl.cast(begin, tl.int64) * k_stride
    v += tl.cast(begin, tl.int64) * v_stride
    near = rn
    for start in tl.range(begin, end, BN, num_stages=1 if MASKED else None):
        if MASKED:
            # A key past the end repeats the last one: the loads need no mask, the logits have one.
            tl.assume(last_key - start >= 0)
            near = tl.minimum(rn, last_key - start)
        kt = tl.load(k + (near[None, :] * k_stride + rd[:, None]))
        vt = tl.load(v + (near[:, None] * v_stride + rd[None, :]))
        s = tl.dot(q, kt)
        if MASKED:
            # Scaled before the mask is laid on: -inf times 0 is NaN.
            s = tl.where((rn + start)[None, :] <= limit[:, None], s * scale, float("-inf"))
            higher = tl.maximum(peak, tl.max(s, 1))
            # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
            base = tl.where(higher == float("-inf"), 0.0, higher)
            p = tl.math.exp2(s - base[:, None])
        else:
            higher = tl.maximum(peak, tl.max(s, 1) * scale)
            base = higher
            p = tl.math.exp2(s * scale - base[:, None])
        shrink = tl.math.exp2(peak - base)
        acc = acc * shrink[:, None]
        acc = tl.dot(p.to(vt.dtype), vt, acc)
        total = total * shrink + tl.sum(p, 1)
        peak = higher
        k += BN * k_stride
        v += BN * v_stride
    return acc, total, peak


_shared = attention.flash_attn_fwd_kernel.fn
_here = FunctionType(_shared.__code__, {**attention.__dict__, "_attend": _attend}, _shared.__name__)
_here.__annotations__ = _shared.__annotations__  # which parameters are constexprs
flash_attn_fwd_kernel = triton.jit(_here)
