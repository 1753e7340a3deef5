"""Torch reference of the fp8 matrix product with a preshuffled weight."""

from __future__ import annotations

import torch


def unshuffle_weight(w: torch.Tensor) -> torch.Tensor:
    """fp8 weight [N, K] back from the (16, 16) layout: element (n, k) lies in 16-byte groups [k / 16][n] of
    each 16 x 32 block."""
    rows, columns = w.shape
    flat = w.view(torch.uint8).flatten()
    n = torch.arange(rows, device=w.device).unsqueeze(1)
    k = torch.arange(columns, device=w.device).unsqueeze(0)
    block = (n // 16) * (columns // 32) + k // 32
    return flat[((block * 2 + k % 32 // 16) * 16 + n % 16) * 16 + k % 16].view(w.dtype)


def gemm_a8w8_bpreshuffle(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    """(XQ [M, K] @ WQ^T) * x_scale [M, 1] * w_scale [N, 1] (or [1, N]) in `dtype`, in float64 and rounded
    once.

    WQ [N, Kw], fp8, is what shuffle_weight(layout=(16, 16)) gave; columns K .. Kw are padding and take no
    part. A kernel that accumulates in fp32 differs by about K * 2^-24 of the sum of absolute products before
    the last rounding.
    """
    k = XQ.shape[-1]
    w = unshuffle_weight(WQ)[:, :k].double()
    out = XQ.double() @ w.T
    return (out * x_scale.double().reshape(-1, 1) * w_scale.double().reshape(1, -1)).to(dtype)
