"""What judges a device's answers: stored types, where elements lie, intervals, and everything that must not be written."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
import torch
from support import calls

from aiter_prebuilt import errors
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.calls import Want
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.execute import array, judge, values
from aiter_prebuilt.execute.layout import Layout, changed, dense
from aiter_prebuilt.execute.values import decode, span, step
from build_tools.cases import numbers

#: torch names what it can turn into float64; fp4 pairs it cannot.
KNOWN = [kind for kind in dtype.DTYPES if kind.name != "fp4x2" and hasattr(torch, kind.torch)]


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.name)
def test_stored_bytes_mean_what_torch_says(kind: dtype.DType) -> None:
    """Every code of types of one and two bytes; random ones of the others."""
    if kind.itemsize == 1:
        data = bytes(range(2 if kind.name == "bool" else 256))
    elif kind.itemsize == 2:
        data = struct.pack("<65536H", *range(1 << 16))
    else:
        data = random.Random(5).randbytes(kind.itemsize * 5000)
    wanted = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(getattr(torch, kind.torch))
    exact = wanted.tolist() if not wanted.is_floating_point() else wanted.double().tolist()
    found = values.decode(kind.name, data)
    assert len(found) == len(exact) == len(data) // kind.itemsize
    assert all(
        (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
        for a, b in zip(found, exact, strict=True)
    )


def test_pairs_of_four_bits() -> None:
    """OCP's e2m1, the low half first."""
    assert values.decode("fp4x2", b"\x10\x72\xf9") == [0.0, 0.5, 1.0, 6.0, -0.5, -6.0]
    # e2m1: two bits of exponent with a bias of 1, one of fraction
    wanted = [
        (code & 1) / 2 if code < 2 else (1 + (code & 1) / 2) * 2.0 ** ((code >> 1) - 1) for code in range(8)
    ]
    found = values.decode("fp4x2", bytes(range(16)))
    assert found[0::2] == [*wanted, *(-value for value in wanted)]
    assert values.values_per_element("fp4x2") == 2 and values.values_per_element("bf16") == 1


def test_poison_is_nan_or_no_usual_value() -> None:
    for kind in dtype.DTYPES:
        (value, *_) = values.decode(kind.name, bytes([values.POISON[kind.name]]) * kind.itemsize)
        floating = kind.name[0] in "fbe" and kind.name not in ("bool", "fp4x2")
        assert value != value if floating else value not in (0, 1, -1, 127, -127), kind.name


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((3, 5), (5, 1), 0), ((3, 5), (9, 1), 2), ((2, 3, 4), (40, 12, 1), 1), ((4, 3), (1, 4), 0), ((2, 3), (20, 5), 3),
     ((7,), (1,), 4), ((), (), 2), ((1, 1, 6), (99, 7, 2), 0), ((2, 0), (3, 1), 2)],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_elements_are_where_torch_has_them(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, size: int
) -> None:
    layout = Layout(shape, strides, offset, size)
    data = random.Random(1).randbytes(layout.nbytes)
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    memory = (
        torch.frombuffer(bytearray(data), dtype=torch.uint8).view(kind)
        if data
        else torch.empty(0, dtype=kind)
    )
    wanted = memory.as_strided(shape, strides, offset).contiguous() if layout.count else memory[:0]
    assert layout.gather(data) == wanted.view(-1).view(torch.uint8).numpy().tobytes()
    # Whatever is written to elements is no gap; every other byte is.
    other = random.Random(2).randbytes(layout.nbytes)
    memory = torch.frombuffer(bytearray(other), dtype=torch.uint8).view(kind) if other else memory
    if layout.count:
        source = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(kind)
        memory.as_strided(shape, strides, offset).copy_(source.as_strided(shape, strides, offset))
    assert layout.without(other, data) == memory.view(torch.uint8).numpy().tobytes()


def test_an_index_is_a_place() -> None:
    layout = Layout((2, 3, 4), dense((2, 3, 4)), 0, 1)
    assert layout.place(0) == [0, 0, 0] and layout.place(23) == [1, 2, 3] and layout.place(5) == [0, 1, 1]
    assert Layout((), (), 0, 1).place(0) == []


def test_changed_counts_bytes() -> None:
    assert changed(b"abcd", b"abcd") == (0, 0)
    assert changed(b"abcd", b"aXcY") == (2, 1)
    assert changed(b"abcd", b"aXcY", b"\xff\x00\xff\xff") == (1, 3)
    assert changed(b"abcd", b"aXcY", bytes(4)) == (0, 0)


def _want(low: list[float], high: list[float], kept: bytes | None = None, kind: str = "f32") -> Want:
    store = calls.STORE[kind]
    return Want("out", kind, (len(low) // 2, 2), store(low), store(high), kept, False)


NAN, INF = math.nan, math.inf
#: Of f32 from 2 on.
ULP = 2.0**-22


@pytest.mark.parametrize(
    ("found", "low", "high", "worst"),
    [
        ([1, 2], [1, 2], [1, 2], 0),
        ([1.5, 2], [1, 2], [2, 2], 0),
        ([1.75, 2], [1, 2], [2, 2], (0.5 - 2 * ULP) / (1 + ULP)),
        ([2, 2], [1, 2], [2, 2], (1 - 2 * ULP) / (1 + ULP)),
        ([-2, 2], [-2, 2], [-1, 2], (1 - 2 * ULP) / (1 + ULP)),
        ([2, 2], [2 - ULP / 2, 2], [2, 2], 0),
        ([2, 2], [2 - ULP, 2], [2 + ULP, 2], 0),
        ([2 + 3 * ULP, 2], [2, 2], [2 + 3 * ULP, 2], 0.25),
        ([NAN, 2], [NAN, 2], [NAN, 2], 0),
        ([INF, -INF], [INF, -INF], [INF, -INF], 0),
        ([INF, 9], [8, 8], [INF, 10], 0),
        ([-0.0, 0.0], [0.0, -0.0], [0.0, -0.0], 0),
    ],
)
def test_right(found: list[float], low: list[float], high: list[float], worst: float) -> None:
    assert judge.values(_want(low, high), calls.f32(found)) == (worst, [])


@pytest.mark.parametrize("error", [0.0, 0.3, 0.9])
def test_the_share_that_was_used_is_never_overstated(error: float) -> None:
    """Exact results at random places, kernels that are off by a known share of the allowance, everything rounded to bf16."""
    draw = np.random.default_rng(3)
    exact = draw.normal(size=20000)
    for allowed in (1e-4, 1e-3, 1e-2, 0.1):
        bound = allowed * np.abs(exact)
        off = exact + error * bound * draw.choice([-1, 1], exact.size)
        ends = [numbers.encode(each, "bf16").tobytes() for each in (exact - bound, exact + bound)]
        want = Want("out", "bf16", exact.shape, ends[0], ends[1], None, False)
        worst, problems = judge.values(want, numbers.encode(off, "bf16").tobytes())
        assert not problems and 0 <= worst <= error
        if allowed == 0.1:  # many steps wide: then it tells nearly all
            assert worst >= error * 0.85


def test_an_end_that_was_cut_says_nothing() -> None:
    """An exact 200, give or take 100, stored in 8 bits: 127 is the best answer, and the farthest from the middle."""
    assert judge.values(Want("out", "i8", (1,), b"\x64", b"\x7f", None, False), b"\x7f") == (0, [])
    assert judge.values(Want("out", "i8", (1,), b"\x54", b"\x64", None, False), b"\x64")[0] == (16 - 2) / 17


def test_steps_are_those_of_the_type() -> None:
    for name in ("f16", "bf16", "f32", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"):
        bits = BY_NAME[name].bits
        codes = range(1 << (bits - 1)) if bits < 32 else range(0, 0x7F000000, 0x01234567)
        data = b"".join(struct.pack({8: "B", 16: "<H", 32: "<I"}[bits], code) for code in codes)
        rows = b"".join(struct.pack({8: "B", 16: "<H", 32: "<I"}[bits], code + 1) for code in codes)
        for value, after in zip(decode(name, data), decode(name, rows), strict=True):
            if math.isfinite(value) and math.isfinite(after) and after > value:
                assert step(name, value) == after - value, (name, value)
    assert [span(name) for name in ("i8", "u8", "f16", "bf16", "e4m3fn", "e4m3fnuz", "e5m2", "fp4x2")] == [
        (-128, 127), (0, 255), (-INF, INF), (-INF, INF), (-448, 448), (-240, 240), (-57344, 57344), (-6, 6),
    ]  # fmt: skip
    assert (
        step("fp4x2", 0.5) == step("fp4x2", 1.5) == 0.5 and step("fp4x2", 4.0) == 2 and step("e8m0", 8.0) == 8
    )
    assert step("i8", 100) == step("i64", 2**62) == 1


@pytest.mark.parametrize(
    ("found", "low", "high", "worst", "said"),
    [
        ([3, 2], [1, 2], [2, 2], 3, "1 of 2 values are not what is wanted, the first at [0, 0]: 3.0 instead of 1.0 to 2.0"),
        ([1, 2.5], [1, 2], [2, 2], INF, "1 of 2 values are not what is wanted, the first at [0, 1]: 2.5 instead of 2.0"),
        ([1, NAN], [1, 2], [2, 3], INF, "at [0, 1]: nan instead of 2.0 to 3.0"),
        ([1, 2], [1, NAN], [2, NAN], INF, "at [0, 1]: 2.0 instead of nan"),
        ([INF, -INF], [1, INF], [2, INF], INF, "2 of 2 values"),
        ([INF, 0], [1, 0], [2, 0], INF, "inf instead of 1.0 to 2.0"),
    ],
)  # fmt: skip
def test_wrong(found: list[float], low: list[float], high: list[float], worst: float, said: str) -> None:
    far, (problem,) = judge.values(_want(low, high), calls.f32(found))
    assert far == worst and said in problem and problem.startswith("out: ")


def test_whole_numbers_are_exact() -> None:
    want = Want("n", "i64", (2,), struct.pack("<2q", 2**62, -1), struct.pack("<2q", 2**62, -1), None, False)
    assert judge.values(want, struct.pack("<2q", 2**62, -1)) == (0, [])
    far, (problem,) = judge.values(want, struct.pack("<2q", 2**62 + 1, -1))
    assert far == INF and f"{2**62 + 1} instead of {2**62}" in problem


def test_other_sizes_are_no_answer() -> None:
    assert judge.values(_want([1, 2], [1, 2]), calls.f32([1, 2, 3]))[0] == INF


def test_what_must_stay_is_not_compared_and_not_written() -> None:
    want = _want([1, 2, 3, 4], [1, 2, 3, 4], b"\0\1\1\0")
    now = calls.f32([1, 7, 8, 4])
    assert judge.values(want, now) == (0, [])
    assert judge.kept(want, now, calls.f32([0, 7, 8, 0])) == []
    (problem,) = judge.kept(want, now, calls.f32([1, 7, 9, 4]))
    assert "elements that must stay were written, the first at [1, 0]" in problem
    far, (problem,) = judge.values(want, calls.f32([1, 7, 8, 5]))
    assert far == INF and "1 of 2 values" in problem and "at [1, 1]: 5.0 instead of 4.0" in problem


def test_gaps_and_inputs_stay() -> None:
    layout = Layout((2, 2), (3, 1), 1, 2)
    before = bytes(range(layout.nbytes))
    now = bytearray(before)
    now[2:4] = b"\xff\xff"  # the first element
    assert judge.gaps("out", layout, bytes(now), before) == []
    now[6] ^= 1
    assert judge.gaps("out", layout, bytes(now), before) == [
        "out: 1 bytes between its elements were written, the first is byte 6 of 12"
    ]
    assert judge.untouched("x", before, before) == []
    (problem,) = judge.untouched("x", bytes(now), before)
    assert problem == "x: an input was written: 3 bytes, the first is byte 2 of 12"


def test_an_element_type_has_three_names() -> None:
    assert {array.dtype_named(name).name for name in ("bf16", "bfloat16", torch.bfloat16)} == {"bf16"}
    with pytest.raises(errors.ArgumentDTypeError, match="no element type has this name"):
        array.dtype_named("half")
