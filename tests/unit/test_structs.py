"""Structs by value: where C puts fields, and which arguments make one up."""

from __future__ import annotations

import ctypes
import random

import pytest

from aiter_prebuilt.contract.structs import fields_of, laid_out, packed

KINDS = {1: ctypes.c_uint8, 4: ctypes.c_int32, 8: ctypes.c_double}


def test_fields_lie_where_c_has_them() -> None:
    for _ in range(200):
        sizes = random.choices(list(KINDS), k=random.randint(1, 7))
        fields = [(f"f{place}", KINDS[size]) for place, size in enumerate(sizes)]
        struct = type("Struct", (ctypes.Structure,), {"_fields_": fields})
        offsets = [getattr(struct, name).offset for name, _ in fields]
        assert laid_out(sizes) == (offsets, ctypes.sizeof(struct)), sizes


STATE = [(24, 8), (32, 8), (40, 4), (44, 1)]


def test_a_struct_in_the_middle_of_arguments() -> None:
    others = [(0, 8), (8, 8), (16, 4), (20, 4), (48, 1), (52, 4)]
    assert fields_of((24, 24), [*others[:4], *STATE, *others[4:]]) == tuple(STATE)
    assert fields_of((24, 24), [*STATE[::-1], *others]) == tuple(STATE)


@pytest.mark.parametrize(
    "passed",
    [
        [], STATE[:1], [(24, 24)], STATE[:2], STATE[1:], [*STATE, (46, 1)], [(24, 8), (32, 8), (44, 4)],
        [(28, 4), (32, 8), (40, 8)], [(24, 8), (28, 4), (32, 8), (40, 8)],
    ],
)  # fmt: skip
def test_what_leaves_more_than_padding(passed: list[tuple[int, int]]) -> None:
    assert fields_of((24, 24), passed) == ()


def test_packed_fields_have_no_gap_between_them() -> None:
    for _ in range(200):
        sizes = random.choices(list(KINDS), k=random.randint(1, 7))
        fields = [(f"f{place}", KINDS[size]) for place, size in enumerate(sizes)]
        struct = type("Struct", (ctypes.Structure,), {"_pack_": 1, "_layout_": "ms", "_fields_": fields})
        offsets = [getattr(struct, name).offset for name, _ in fields]
        assert packed(sizes) == (offsets, ctypes.sizeof(struct)), sizes


def test_a_packed_struct_is_found_among_arguments() -> None:
    sizes_and_strides = [(8, 4), (12, 4), (16, 4), (20, 8), (28, 8)]
    assert fields_of((8, 28), [(0, 8), *sizes_and_strides, (36, 4)]) == tuple(sizes_and_strides)
    assert fields_of((8, 28), sizes_and_strides[:-1]) == ()
    assert fields_of((8, 32), sizes_and_strides) == ()
    moved = [(8, 4), (12, 4), (16, 4), (24, 8), (32, 8)]  # as C has them, in a struct that is packed
    assert fields_of((8, 28), moved) == () and fields_of((8, 32), moved) == tuple(moved)
