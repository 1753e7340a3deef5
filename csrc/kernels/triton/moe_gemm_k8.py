"""The products of `moe_gemm.py` where the width between them is a multiple of 8: N of the first, K of the second.

Arguments, constexprs and grids are those of `moe_gemm.py`.

guarantee   as there, but: in the first K is a multiple of 32, and N of 8, of 16 with shuffled; in the second N is a multiple of
            32, K of 8, and shuffled is 0
"""

import triton
import triton.language as tl
from moe_gemm import _stage


@triton.jit
def moe_stage1_k8_kernel(
    out,
    x,
    w,
    ids,
    weights,
    experts,
    valid,
    tokens,
    topk,
    E,
    N,
    K,
    blocks,
    shuffled,
    weighted,
    bias,
    biased,
    activation,
    limit,
    BM: tl.constexpr,
    BN1: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
):
    # A product is how the compiler learns what divides a number: loads and stores are of 16 bytes.
    N = N // 8 * 8
    _stage(
        out,
        x,
        w,
        ids,
        weights,
        experts,
        valid,
        tokens,
        topk,
        E,
        N,
        K,
        blocks,
        shuffled,
        weighted,
        bias,
        biased,
        activation,
        limit,
        BM,
        BN1,
        BK,
        GROUP_M,
        XCDS,
        1,
    )


@triton.jit
def moe_stage2_k8_kernel(
    out,
    x,
    w,
    ids,
    weights,
    experts,
    valid,
    tokens,
    topk,
    E,
    N,
    K,
    blocks,
    shuffled,
    weighted,
    bias,
    biased,
    BM: tl.constexpr,
    BN2: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
):
    K = K // 8 * 8
    _stage(
        out,
        x,
        w,
        ids,
        weights,
        experts,
        valid,
        tokens,
        topk,
        E,
        N,
        K,
        blocks,
        shuffled,
        weighted,
        bias,
        biased,
        0,
        0.0,
        BM,
        BN2,
        BK,
        GROUP_M,
        XCDS,
        0,
    )
