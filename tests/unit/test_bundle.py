"""The bundle format: what is written is read back, and no damaged byte goes unnoticed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from support.bundles import small_bundle, small_operator, small_root

from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract import header
from aiter_prebuilt.contract.records import LAYOUT, Root, check_layout, record_size
from build_tools.pack import writer


def test_layout_names_every_field() -> None:
    check_layout()
    assert len(LAYOUT) == 16


def test_round_trip() -> None:
    data, operators = small_bundle()
    bundle = contract.Bundle(data)
    assert bundle.root.target == "gfx942"
    assert bundle.names == tuple(sorted(op.name for op in operators))
    for operator in operators:
        assert bundle.operator(operator.name) == operator
        for entry in operator.entries:
            assert hashlib.sha256(bundle.code_object(entry)).digest() == entry.sha256


def test_the_same_arguments_give_the_same_bytes() -> None:
    assert small_bundle()[0] == small_bundle()[0]


def _use_everything(data: bytes) -> None:
    bundle = contract.Bundle(data)
    for name in bundle.names:
        for entry in bundle.operator(name).entries:
            bundle.code_object(entry)


def test_equal_arrays_are_stored_once() -> None:
    """A hundred variants with the same steps cost little more than their own records."""
    operator = small_operator("many")
    recipes = tuple(replace(operator.recipes[0], variant=f"v{place}") for place in range(100))
    frame = writer.Frame(b"x", 1, hashlib.sha256(b"x").digest(), "raw")
    data = writer.encode(small_root(), (replace(operator, recipes=recipes),), (frame,))
    assert contract.Bundle(data).operator("many").recipes == recipes
    assert len(data) < 100 * 80 + 3000


def test_every_truncation_is_noticed() -> None:
    data, _ = small_bundle()
    for size in range(len(data)):
        with pytest.raises(contract.FormatError):
            contract.Bundle(data[:size])


def test_trailing_bytes_are_noticed() -> None:
    with pytest.raises(contract.FormatError, match="cut or grew"):
        contract.Bundle(small_bundle()[0] + b"\0")


def test_every_flipped_bit_is_noticed() -> None:
    """There is no padding between parts: any flip must end in a FormatError."""
    data, _ = small_bundle()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at % 8)
        with pytest.raises(contract.FormatError):
            _use_everything(bytes(damaged))


def test_the_parts_fill_the_file() -> None:
    data, _ = small_bundle()
    end = 0
    for name, offset, size in contract.Bundle(data).parts():
        assert offset == end, name
        end += size
    assert end == len(data)


@pytest.mark.parametrize("older_or_newer", [-1, 1])
@pytest.mark.parametrize(("offset", "part"), [(8, "bundle format"), (12, "recipe version")])
def test_another_version_says_which(offset: int, part: str, older_or_newer: int) -> None:
    data = bytearray(small_bundle()[0])
    data[offset] += older_or_newer
    data[96:128] = hashlib.sha256(data[:96]).digest()
    with pytest.raises(contract.VersionError, match=f"{part} {data[offset]}"):
        contract.Bundle(bytes(data))


def test_an_unknown_operator_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        contract.Bundle(small_bundle()[0]).operator("nothing")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"return_count": 9}, "more returns"),
        ({"entries": ()}, "names entry"),
        ({"kernels": ()}, "names kernel"),
        ({"slots": ()}, "slot"),
    ],
)
def test_rules_of_an_operator(change: dict[str, Any], part: str) -> None:
    operator = replace(small_operator("broken"), **change)
    with pytest.raises(contract.FormatError, match=part):
        contract.check_operator(operator, 10)


def test_bytecode_is_checked_when_an_operator_is_read() -> None:
    operator = small_operator("broken")
    recipe = replace(operator.recipes[0], cost=b"\x10")
    with pytest.raises(contract.FormatError, match="underflow"):
        contract.check_operator(replace(operator, recipes=(recipe,)), 10)


def test_the_smallest_root() -> None:
    """All of it zeros, which is a root of nothing; a byte less is none."""
    size = record_size(Root)
    bundle = contract.Bundle(header.pack(128 + size, bytes(size)) + bytes(size))
    assert (bundle.root.target, bundle.names, bundle.root.code_object_count) == ("", (), 0)
    with pytest.raises(
        contract.FormatError,
        match=f"^the root: {size - 1} bytes at 128 leave the file of {127 + size} bytes$",
    ):
        contract.Bundle(header.pack(127 + size, bytes(size - 1)) + bytes(size - 1))


def test_a_vendor_that_there_is_not() -> None:
    frame = writer.Frame(b"x", 1, hashlib.sha256(b"x").digest(), "raw")
    for vendor in range(3):
        root = replace(small_root(), vendor=vendor)
        data = writer.encode(root, (small_operator("one"),), (frame,))
        if vendor < 2:
            assert contract.Bundle(data).root.vendor == vendor
        else:
            with pytest.raises(contract.FormatError, match=r"^the root names an unknown vendor$"):
                contract.Bundle(data)
