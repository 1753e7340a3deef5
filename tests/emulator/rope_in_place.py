"""Rotary embeddings in place: each function of AITER's that says so, for the child of ``test_in_place.py``."""

from __future__ import annotations

import random
import struct
from typing import Any, Final

from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator.memory import DeviceArray

_FORWARD: Final = (
    "rope",
    "rope_cached",
    "rope_cached_positions",
    "rope_cached_positions_offsets",
    "rope_thd",
    "rope_2d",
)
_BACKWARD: Final = ("rope", "rope_cached", "rope_thd", "rope_2d")


def _pairs(base: str, way: str, two: bool) -> tuple[str, list[tuple[str, str]]]:
    """The function's name; what it writes, each with what that may be."""
    out, into = ("output", "input") if way == "fwd" else ("input_grads", "output_grads")
    name = f"{base}{'_2c' if two else ''}_{way}_impl"
    return name, [(f"{out}{end}", f"{into}{end}") for end in (("_x", "_y") if two else ("",))]


#: Function -> what it writes, each with what that may be.
ROPE: Final = dict(
    _pairs(base, way, two)
    for way, bases in (("fwd", _FORWARD), ("bwd", _BACKWARD))
    for base in bases
    for two in ((False,) if base in ("rope_thd", "rope_2d") else (False, True))
)


def _floats(draw: random.Random, kind: str, count: int) -> bytes:
    values = [draw.uniform(-2, 2) for _ in range(count)]
    if kind == "bf16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{count}{'e' if kind == 'f16' else 'f'}", *values)


def _tables(name: str, draw: random.Random) -> list[DeviceArray]:
    """What a call has beside what is turned: rows of 4, places of 6 tokens."""

    def rows(count: int, shape: tuple[int, ...]) -> list[DeviceArray]:
        return [DeviceArray("f32", shape, _floats(draw, "f32", 16)) for _ in range(count)]

    if "2d" in name:
        return rows(4, (1, 4, 1, 4))
    found = rows(2 if "cached" in name else 1, (4, 1, 1, 4))
    if "thd" in name:
        return [DeviceArray("i32", (3,), struct.pack("<3i", 0, 2, 5)), *found]
    for _ in range(name.count("positions") + name.count("offsets")):
        found.append(DeviceArray("i64", (3, 2), struct.pack("<6q", *(draw.randint(0, 2) for _ in range(6)))))
    return found


def turned(name: str, kind: str, style: int, last: bool) -> None:
    """What ``name`` leaves in tensors that are both must be what it leaves in two, gaps and tokens of no row included."""
    draw = random.Random(f"{name} {kind} {style} {last}")
    tokens = (6,) if "thd" in name else (1, 6) if "2d" in name else (3, 2)
    heads, width, pitch = 3, 16 if "2d" in name else 12, 20
    strides = (tokens[-1] * heads * pitch, heads * pitch)[-len(tokens) :]
    size = 6 * heads * pitch
    data = [_floats(draw, kind, size) for _ in ROPE[name]]
    shape, steps = (*tokens, heads, width), (*strides, pitch, 1)

    def view(array: DeviceArray) -> tuple[object, ...]:
        return (array.address, kind, shape, steps, ("amd", 0))

    def given(array: DeviceArray) -> Any:
        dense = tuple(_dense(array.shape))
        return (array.address, array.dtype, array.shape, dense, ("amd", 0))

    tables = _tables(name, draw)
    extra = [given(table) for table in tables]
    options = [2, 3] if "2d" in name else []
    operator = dispatch.operator(name)
    source = [DeviceArray(kind, (size,), each) for each in data]
    apart = [DeviceArray(kind, (size,), each) for each in data]
    both = [DeviceArray(kind, (size,), each) for each in data]
    operator(*map(view, apart), *map(view, source), *extra, *options, style, 1, int(last), stream=0)
    operator(*map(view, both), *map(view, both), *extra, *options, style, 1, int(last), stream=0)
    for one, two, before in zip(apart, both, data, strict=True):
        assert two.read() == one.read() != before, (name, kind, style, last)
    assert [array.read() for array in source] == data


def cached(kind: str, size: int, neox: bool) -> None:
    """The same of ``fused_qk_rope_reshape_and_cache``: heads of queries and keys, and values, of one tensor; caches of rows."""
    draw = random.Random(f"{kind} {size}")
    tokens, heads, page = 5, 3, 4
    row = (heads + 2) * size
    data = _floats(draw, kind, tokens * row)
    angles = [DeviceArray(kind, (6, size // 2), _floats(draw, kind, 3 * size)) for _ in range(2)]
    places = DeviceArray("i64", (tokens,), struct.pack("<5q", 3, 0, 5, 1, 4))
    operator = dispatch.operator("fused_qk_rope_reshape_and_cache")

    def call(array: DeviceArray, out: DeviceArray) -> bytes:
        def part(of: DeviceArray, first: int, count: int) -> tuple[object, ...]:
            return (of.address + 2 * first * size, kind, (tokens, count, size), (row, size, 1), ("amd", 0))

        caches = [DeviceArray(kind, (2 * page * size,), bytes(4 * page * size)) for _ in range(2)]
        views = [
            (cache.address, kind, (2, 1, *dims), (page * size, size, *steps), ("amd", 0))
            for cache, dims, steps in zip(
                caches, ((1, page, size), (page, size, 1)), ((size, size, 1), (size, 1, 1)), strict=True
            )
        ]
        given = [part(array, 0, heads), part(array, heads, 1), part(array, heads + 1, 1), *views]
        rest = [
            (each.address, each.dtype, each.shape, tuple(_dense(each.shape)), ("amd", 0))
            for each in (places, places, *angles)
        ]
        operator(
            *given,
            *rest,
            None,
            None,
            None,
            part(out, 0, heads),
            part(out, heads, 1),
            None,
            int(neox),
            stream=0,
        )
        return out.read() + b"".join(cache.read() for cache in caches)

    source, apart, both = (DeviceArray(kind, (tokens * row,), data) for _ in range(3))
    assert call(both, both) == call(source, apart), (kind, size)
    assert source.read() == data != apart.read()


def _dense(shape: tuple[int, ...]) -> list[int]:
    steps = [1]
    for size in reversed(shape[1:]):
        steps.insert(0, steps[0] * size)
    return steps
