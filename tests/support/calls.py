"""Calls made by hand, with answers from a few lines of Python: for tests of the executor, which must not need the pipeline."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import mul
from typing import Any

from aiter_prebuilt.contract.calls import Argument, Array, Call, ElementType, Want


def bf16(values: Sequence[float]) -> bytes:
    """Rounded once, to nearest even."""
    out = bytearray()
    for value in values:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        out += struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return bytes(out)


def f32(values: Sequence[float]) -> bytes:
    """Rounded once."""
    return struct.pack(f"<{len(values)}f", *values)


def i32(values: Sequence[float]) -> bytes:
    """Store values as int32."""
    return struct.pack(f"<{len(values)}i", *map(int, values))


STORE = {"bf16": bf16, "f32": f32, "i32": i32}
_FORMAT = {"bf16": "H", "f32": "f", "i32": "i"}


def array(
    dtype: str, rows: Sequence[Sequence[float]] | int, columns: int = 0, *, pad: int = 0, offset: int = 0
) -> Array:
    """A matrix; only its number of rows: poisoned. ``pad``: elements behind each row, which hold 0x5A."""
    size = struct.calcsize(_FORMAT[dtype])
    if isinstance(rows, int):
        return Array(dtype, (rows, columns), (columns + pad, 1), offset, None)
    width = len(rows[0])
    gap = b"\x5a" * size
    data = gap * offset + (gap * pad).join(STORE[dtype](row) for row in rows)
    return Array(dtype, (len(rows), width), (width + pad, 1), offset, data)


def want(
    name: str, dtype: str, rows: Sequence[Sequence[float]], slack: float = 0.0, *, returned: bool
) -> Want:
    """Each value with ``slack`` (relative) on both sides, then rounded."""
    flat = [value for row in rows for value in row]
    low, high = ([value + sign * slack * abs(value) for value in flat] for sign in (-1, 1))
    store = STORE[dtype]
    return Want(name, dtype, (len(rows), len(rows[0])), store(low), store(high), None, returned)


def stored_bf16(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Round values to bf16."""
    return [[struct.unpack("<f", b"\0\0" + bf16([value]))[0] for value in row] for row in rows]


def drawn(source: random.Random, rows: int, columns: int) -> list[list[float]]:
    """Normal values, as bf16 holds them."""
    return stored_bf16([[source.gauss(0, 1) for _ in range(columns)] for _ in range(rows)])


def rms_norm(seed: int = 1, *, pad: int = 0, offset: int = 0, compute_units: int = 0) -> Call:
    """A returned tensor, strided rows, a misaligned base."""
    source = random.Random(seed)
    x, (w,) = drawn(source, 3, 40), drawn(source, 1, 40)
    scales = [(sum(v * v for v in row) / 40 + 1e-6) ** -0.5 for row in x]
    right = [
        [v * scale * g for v, g in zip(row, w, strict=True)] for row, scale in zip(x, scales, strict=True)
    ]
    weight = Array("bf16", (40,), (1,), 0, bf16(w))
    arguments: dict[str, Argument] = {
        "input": array("bf16", x, pad=pad, offset=offset),
        "weight": weight,
        "epsilon": 1e-6,
    }
    wants = (want("out", "bf16", right, 2.0**-18, returned=True),)
    return Call("rms_norm", f"3x40 pad={pad} offset={offset}", arguments, wants, compute_units)


def silu_and_mul(seed: int = 1, *, pad: int = 5) -> Call:
    """A written argument with gaps between its rows."""
    both = drawn(random.Random(seed), 3, 48)
    right = [[g / (1 + math.exp(-g)) * u for g, u in zip(row[:24], row[24:], strict=True)] for row in both]
    arguments: dict[str, Argument] = {"out": array("bf16", 3, 24, pad=pad), "input": array("bf16", both)}
    return Call(
        "silu_and_mul", f"3x24 pad={pad}", arguments, (want("out", "bf16", right, 2.0**-18, returned=False),)
    )


def topk_softmax(seed: int = 1) -> Call:
    """Three written arguments of two types, and a bool."""
    source = random.Random(seed)
    gates = drawn(source, 4, 60)
    order = [[e for _, e in sorted((-value, e) for e, value in enumerate(row))][:6] for row in gates]
    shares = []
    for row, best in zip(gates, order, strict=True):
        sizes = [math.exp(row[e]) for e in best]
        shares.append([size / math.fsum(sizes) for size in sizes])
    pairs = [[j * 4 + t for j in range(6)] for t in range(4)]
    arguments: dict[str, Argument] = {
        "topk_weights": array("f32", 4, 6), "topk_indices": array("i32", 4, 6), "token_expert_indices": array("i32", 4, 6),
        "gating_output": array("f32", gates), "need_renorm": True,
    }  # fmt: skip
    wants = (
        want("topk_weights", "f32", shares, 2.0**-19, returned=False),
        want("topk_indices", "i32", order, returned=False),
        want("token_expert_indices", "i32", pairs, returned=False),
    )
    return Call("topk_softmax", "4x60 k=6", arguments, wants)


def gemm(seed: int = 1, *, compute_units: int = 0) -> Call:
    """A product of small whole numbers, whose sums every order gives exactly; compute units decide how it is split."""
    source = random.Random(seed)
    a, b = ([[float(source.randint(-2, 2)) for _ in range(2048)] for _ in range(rows)] for rows in (3, 64))
    right = [[sum(map(mul, row, column)) for column in b] for row in a]
    wants = (want("out", "bf16", right, returned=True),)
    arguments: dict[str, Argument] = {
        "A": array("bf16", a),
        "B": array("bf16", b),
        "bias": None,
        "otype": ElementType("bf16"),
    }
    return Call("gemm_a16w16", f"3x64x2048 cus={compute_units}", arguments, wants, compute_units)


def right() -> Iterator[Call]:
    """Calls that every device executes right."""
    yield rms_norm()
    yield rms_norm(2, pad=7, offset=3)
    yield silu_and_mul()
    yield topk_softmax()
    yield gemm()


def other(call: Call, **arguments: Argument) -> Call:
    """The call with other arguments."""
    return replace(call, arguments={**call.arguments, **arguments})


def wanting(call: Call, place: int, **fields: Any) -> Call:
    """The call with another want."""
    wants = list(call.wants)
    wants[place] = replace(wants[place], **fields)
    return replace(call, wants=tuple(wants))
