"""The formulas of every operator in numpy and float64, for the demo, which has no torch. Arrays come in as exact values.

``tests/reference`` has the same formulas in torch; there they are compared over all types, layouts and sizes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any
_ERF = np.vectorize(math.erf)


def round_to(kind: str, values: Array) -> Array:
    """Values rounded once, to nearest even, to ``kind`` (bf16, f16, f32, e4m3fn, e4m3fnuz saturating), as float64."""
    if kind in ("f16", "f32"):
        return values.astype({"f16": np.float16, "f32": np.float32}[kind]).astype(np.float64)
    if kind == "bf16":
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        return (
            ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000)
            .astype(np.uint32)
            .view(np.float32)
            .astype(np.float64)
        )
    largest, least = (448.0, -6) if kind == "e4m3fn" else (240.0, -7)
    cut = np.clip(values, -largest, largest)
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(cut), 2.0**-40))), least)
    step = 2.0 ** (exponent - 3)
    return np.round(cut / step) * step


def encode(kind: str, values: Array) -> bytes:
    """The stored bytes of values that ``kind`` holds exactly."""
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    if kind.startswith("e4m3"):
        table = decode(kind, bytes(range(256)))
        order = np.argsort(np.where(np.isnan(table), np.inf, table), kind="stable")
        finite = order[: int(np.isfinite(table).sum())]
        return finite[np.searchsorted(table[finite], values)].astype(np.uint8).tobytes()
    return values.astype(
        {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32, "i64": np.int64}[kind]
    ).tobytes()


def decode(kind: str, data: bytes) -> Array:
    """The exact values of stored bytes, as a flat float64 array."""
    if kind == "bf16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if kind.startswith("e4m3"):
        code = np.frombuffer(data, np.uint8).astype(np.int64)
        exponent, fraction = code >> 3 & 15, code & 7
        bias = 7 if kind == "e4m3fn" else 8
        size = np.where(
            exponent > 0, (8 + fraction) * 2.0 ** (exponent - bias - 3), fraction * 2.0 ** (-bias - 2)
        )
        size = np.where(code >> 7 == 1, -size, size)
        return np.where((code & 0x7F) == 0x7F if kind == "e4m3fn" else code == 0x80, np.nan, size)
    return np.frombuffer(
        data, {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32, "i64": np.int64}[kind]
    ).astype(np.float64)


def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    """``x / sqrt(mean(x^2) + epsilon) * weight`` over the last dimension."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight


def softmax(x: Array) -> Array:
    """Softmax over the last dimension."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def gated(name: str, x: Array) -> Array:
    """``act(gate) * up`` of the two halves of the last dimension."""
    gate, up = np.split(x, 2, axis=-1)
    if name == "silu_and_mul":
        return gate / (1 + np.exp(-gate)) * up
    if name == "gelu_and_mul":
        return gate * (1 + _ERF(gate / math.sqrt(2))) / 2 * up
    if name == "gelu_tanh_and_mul":
        return gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))) / 2 * up
    gate, up = np.minimum(gate, 7.0), np.clip(up, -7.0, 7.0)  # swiglu_and_mul of gpt-oss
    return gate / (1 + np.exp(-1.702 * gate)) * (up + 1)


def attention(q: Array, k: Array, v: Array, scale: float) -> tuple[Array, Array]:
    """(out [b, sq, hq, d], lse [b, hq, sq]) of causal attention with grouped heads, aligned bottom-right."""
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    logits = np.einsum("bihd,bjhd->bhij", q, k) * scale
    rows, columns = logits.shape[-2:]
    hidden = np.arange(columns)[None, :] > np.arange(rows)[:, None] + columns - rows
    logits = np.where(hidden, -np.inf, logits)
    top = logits.max(axis=-1, keepdims=True)
    lse = (top + np.log(np.exp(logits - top).sum(axis=-1, keepdims=True)))[..., 0]
    return np.einsum("bhij,bjhd->bihd", np.exp(logits - lse[..., None]), v), lse


def quantised(x: Array, largest: float) -> tuple[Array, Array]:
    """(x / scale before rounding, scale [M, 1]) with ``scale = amax(|row|) / largest``."""
    scale = np.abs(x).max(axis=-1, keepdims=True) / largest
    return x / scale, scale


def shuffled(w: Array) -> Array:
    """A weight [N, K] in the (16, 16) layout of ``shuffle_weight`` for types of one byte."""
    rows, columns = w.shape
    blocks = w.reshape(rows // 16, 16, columns // 32, 2, 16)
    return blocks.transpose(0, 2, 3, 1, 4).reshape(rows, columns)
