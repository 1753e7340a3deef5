"""What is read from a built bundle: entries with the recipes and kernels that launch them, recipes with their element types."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import zstandard
from support.bundles import blob, small_operator, small_root

from aiter_prebuilt.contract.bundle import Bundle
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.contract.receipt import recipe_digests
from aiter_prebuilt.contract.records import BACKENDS, Kernel, Operator, TypeVariable
from build_tools.objects.entries import BuiltEntry, BuiltRecipe, counted, entries_of, recipes_of, tools_of
from build_tools.objects.unpack import decompress
from build_tools.pack import writer

RECEIPT = '{"executed": true, "device": "d", "checks": "c", "cases": 1, "worst": 0.5}'
SHA = [hashlib.sha256(blob(place)).digest() for place in range(3)]


def bundle(*operators: Operator) -> Bundle:
    frames = tuple(writer.Frame(blob(place), 300, SHA[place], "raw") for place in range(3))
    return Bundle(writer.encode(small_root("gfx950", "ck-full"), operators, frames), decompress)


def operator() -> Operator:
    """Two kernels and three entries: of both kernels, of the second alone, of none. Only the second entry was executed."""
    made = small_operator("softmax")
    (step,), (variable,) = made.recipes[0].steps, (TypeVariable("T", ()),)
    numbers = {name: BY_NAME[name].number for name in ("bf16", "f32")}
    recipes = (
        replace(made.recipes[0], kernel=0, types=(numbers["bf16"],)),
        replace(made.recipes[1], kernel=1, types=(numbers["bf16"],), steps=(step, replace(step, entry=1))),
        replace(
            made.recipes[1], kernel=1, variant="", types=(numbers["f32"],), steps=(replace(step, entry=1),)
        ),
    )
    entries = tuple(
        replace(made.entries[0], name=f"e{place}", code_object=place, sha256=SHA[place], receipt=RECEIPT * (place == 1))
        for place in range(3)
    )  # fmt: skip
    kernels = (Kernel("rows", 3, 0, 0), Kernel("wide", 1, 0, 0))
    return replace(made, type_variables=(variable,), kernels=kernels, recipes=recipes, entries=entries)


def test_entries_name_what_launches_them() -> None:
    made = operator()
    one, two, three = recipe_digests(made)
    entries = entries_of(bundle(made, small_operator("a_first")))
    assert [entry.operator for entry in entries] == ["a_first", "softmax", "softmax", "softmax"]
    common = ("gfx950", "ck-full")
    assert entries[1:] == (
        BuiltEntry(
            "softmax", ("rows", "wide"), BACKENDS[3], *common, "e0", SHA[0].hex(), (one, two), False, "kernel"
        ),
        BuiltEntry(
            "softmax", ("wide",), BACKENDS[1], *common, "e1", SHA[1].hex(), (two, three), True, "kernel"
        ),
        BuiltEntry("softmax", (), "", *common, "e2", SHA[2].hex(), (), False, "kernel"),
    )


def test_recipes_are_told_with_their_element_types() -> None:
    made, eps = operator(), frozenset({"eps"})  # which no condition reads
    sized = frozenset({"N"})  # which a step is given
    assert list(recipes_of(bundle(made)).items()) == list(
        zip(
            recipe_digests(made),
            (
                BuiltRecipe("softmax", "rows", "small T=bf16", frozenset({SHA[0].hex()}), eps, sized=sized),
                BuiltRecipe(
                    "softmax",
                    "wide",
                    "large T=bf16",
                    frozenset({SHA[0].hex(), SHA[1].hex()}),
                    eps,
                    sized=sized,
                ),
                BuiltRecipe("softmax", "wide", "T=f32", frozenset({SHA[1].hex()}), eps, sized=sized),
            ),
            strict=True,
        )
    )
    assert [recipe.variant for recipe in recipes_of(bundle(small_operator("x"))).values()] == [
        "small",
        "large",
    ]


def test_entries_are_counted_by_kernel() -> None:
    entries = entries_of(bundle(operator(), small_operator("a_first")))
    counts = counted(entries)
    assert list(counts.items()) == [
        (("gfx950", "a_first", "kernel"), 1),
        (("gfx950", "softmax", ""), 1),
        (("gfx950", "softmax", "rows"), 1),
        (("gfx950", "softmax", "wide"), 2),
    ]
    assert counted([]) == {}


def test_tools_are_those_of_the_provenance() -> None:
    root = replace(small_root(), provenance='{"cus":[304],"tools":{"triton":"3.5","zig":"1"}}')
    frame = writer.Frame(blob(0), 300, SHA[0], "raw")
    made = Bundle(writer.encode(root, (small_operator("x"),), (frame,)), decompress)
    assert tools_of(made) == {"triton": "3.5", "zig": "1"}


@pytest.mark.parametrize("dictionary", [None, blob(1)])
def test_a_frame_is_as_long_as_it_is_recorded(dictionary: bytes | None) -> None:
    content = blob(1) + b"more"
    words = (
        None
        if dictionary is None
        else zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    )
    frame = zstandard.ZstdCompressor(dict_data=words).compress(content)
    assert decompress(frame, len(content), dictionary) == content
    for wrong in (len(content) - 1, len(content) + 1):
        with pytest.raises(
            (ValueError, zstandard.ZstdError), match=f"{len(content)} bytes decoded, {wrong} recorded"
        ):
            decompress(frame, wrong, dictionary)
    assert (dictionary is None) == (len(frame) > 300), "the dictionary has nearly all of it"
