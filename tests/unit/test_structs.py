"""Structs by value: where C puts fields, and which arguments make one up."""

from __future__ import annotations

import ctypes
import random

import pytest

from aiter_prebuilt.contract.structs import fields_of, laid_out

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
