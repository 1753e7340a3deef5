"""What of compile, audit and plan stands where in a bundle; and how the writer lays regions and dictionaries out."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.audited import FACTS, GFX942
from support.bundles import code, small_operator, small_root

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.bundle import Bundle
from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.receipt import recipe_digests
from aiter_prebuilt.contract.records import NONE32, VENDORS
from build_tools.judge.receipts import NOT_EXECUTED, Receipt
from build_tools.objects.unpack import decompress
from build_tools.pack.bundle import BuiltBundle, build_bundle
from build_tools.pack.compress import regions
from build_tools.pack.writer import Frame, Packed, Region, as_is, encode
from build_tools.records import AuditReport, CompileJob, CompileResult, PlannedBundle, PlannedOperator

MADE = small_operator("scale")
(STEP,) = MADE.recipes[0].steps
NAMES = ("one", "two", "same")
DATA = {"one": b"first" * 100, "two": b"second" * 10, "same": b"first" * 100}
KERNEL = replace(
    FACTS.kernels[0], kernarg_size=40, kernarg_align=16, lds_static=7, max_threads=512, sgprs=11, vgprs=12, agprs=13,
    sgpr_spills=2, vgpr_spills=3, scratch=24,
)  # fmt: skip


def build(folder: Path, *, receipts: dict[str, Receipt] | None = None, suffix: str = "", target: Any = GFX942,
          step: Any = STEP, **result: Any) -> BuiltBundle:  # fmt: skip
    """Three jobs, the last of which gave the same bytes as the first. ``result``: what else their compile gave."""
    recipes = tuple(
        replace(recipe, steps=(replace(step, entry=place),)) for place, recipe in enumerate(MADE.recipes)
    )
    operator = replace(MADE, entries=(), recipes=recipes)
    results, audits = {}, {}
    for name in NAMES:
        path = folder / f"{name}.co"
        path.write_bytes(DATA[name])
        job = CompileJob(name, target, "hip", "scale.hip", "scale", (), (), 24, (64, 1, 1), ("scale.hip",))
        results[name] = CompileResult(job, f"{name:->40}", True, path, "scale", **result)
        audits[name] = AuditReport(
            name, replace(FACTS, kernels=(replace(KERNEL, symbol="other", sgprs=99), KERNEL)), ()
        )
    planned = PlannedBundle(target, "ck-free", (PlannedOperator(operator, NAMES),))
    return build_bundle(
        planned, results, audits, {"zig": "1", "clang": "2"}, "0.1.0", suffix, folder, receipts or {}
    )


def opened(built: BuiltBundle) -> Bundle:
    return Bundle(built.path.read_bytes(), decompress)


def test_a_bundle_is_counted_and_named(tmp_path: Path) -> None:
    built = build(tmp_path, suffix="-ck")
    data = built.path.read_bytes()
    assert built == BuiltBundle(
        path=tmp_path / "gfx942-ck-free.apb", target="gfx942", profile="ck-free", distribution="d-ck", entries=3, code_objects=2,
        raw_bytes=560, size=len(data), sha256=hashlib.sha256(data).hexdigest(), unproved=3,
    )  # fmt: skip
    assert build(tmp_path).distribution == "d"
    bundle = opened(built)
    entries = bundle.operator("scale").entries
    assert [bundle.code_object(entry) for entry in entries] == [DATA[name] for name in NAMES]
    assert [entry.code_object for entry in entries] == [0, 1, 0]


def test_the_root_has_the_facts_of_the_target(tmp_path: Path) -> None:
    target = replace(
        GFX942, name="sm_90", vendor="nvidia", wave=32, lds_bytes=777, fp8="e4m3fn", cus=(132, 114)
    )
    root = opened(build(tmp_path, target=target)).root
    assert root.provenance == '{"tools":{"clang":"2","zig":"1"},"cus":[132,114]}'
    assert (root.target, root.profile, root.version) == ("sm_90", "ck-free", "0.1.0")
    assert (root.vendor, root.wave, root.lds_bytes) == (VENDORS.index("nvidia"), 32, 777)
    assert root.fp8 == dtype.BY_NAME["e4m3fn"].number != dtype.BY_NAME["e4m3fnuz"].number
    assert (root.code_object_count, root.entry_count) == (2, 3)


def test_an_entry_has_the_facts_of_its_kernel(tmp_path: Path) -> None:
    entry = opened(build(tmp_path)).operator("scale").entries[1]
    assert (entry.name, entry.symbol, entry.job, entry.receipt) == ("two", "scale", "-" * 16, NOT_EXECUTED)
    assert (entry.kernarg_size, entry.kernarg_align, entry.lds_static, entry.max_threads) == (40, 16, 7, 512)
    assert (entry.sgprs, entry.vgprs, entry.agprs, entry.spills, entry.scratch) == (11, 12, 13, 5, 24)


@pytest.mark.parametrize(
    ("step", "result", "block", "lds"),
    [
        (STEP, {}, 256, b""), (STEP, {"threads": 128}, 128, b""), (replace(STEP, block_y=2), {"threads": 128}, 256, b""),
        (replace(STEP, block_z=2), {"threads": 128}, 256, b""), (STEP, {"extra": {"lds": "0"}}, 256, b""),
        (STEP, {"extra": {"lds": "1"}}, 256, compile_expression(1, Scope({}))),
        (STEP, {"extra": {"lds": "4096"}, "threads": 1}, 1, compile_expression(4096, Scope({}))),
        (replace(STEP, lds=code("16")), {"extra": {"lds": "4096"}}, 256, code("16")),
        (replace(STEP, lds=code("16")), {}, 256, code("16")),
    ],
)  # fmt: skip
def test_what_only_the_compiler_knew(
    tmp_path: Path, step: Any, result: dict[str, Any], block: int, lds: bytes
) -> None:
    """A launch that the manifest lays out in more than one dimension, or whose LDS it says, stays as it is."""
    for recipe in opened(build(tmp_path, step=step, **result)).operator("scale").recipes:
        (found,) = recipe.steps
        assert (found.block_x, found.lds) == (block, lds)
        assert (found.block_y, found.block_z) == (step.block_y, step.block_z)


def test_receipts_are_counted(tmp_path: Path) -> None:
    digests = recipe_digests(opened(build(tmp_path)).operator("scale"))
    receipts = {
        digest: Receipt(
            digest, "norm", "scale.row", "", "gfx942", "d", "c", frozenset(), "r", "c", 3, 0.5, {}
        )
        for digest in digests
    }
    built = build(tmp_path, receipts=receipts)
    said = [json.loads(entry.receipt)["executed"] for entry in opened(built).operator("scale").entries]
    assert (said, built.unproved) == ([True, True, False], 1), "no recipe launches the third"


def frames(*sizes: int) -> tuple[Frame, ...]:
    return as_is([bytes([place]) * size for place, size in enumerate(sizes)]).frames


def test_frames_as_they_are() -> None:
    (frame,) = as_is([b"abc"]).frames
    assert frame == Frame(b"abc", 3, hashlib.sha256(b"abc").digest(), "raw")
    assert as_is([]) == Packed((), ())


def test_dictionaries_are_numbered_through() -> None:
    """First those of code objects, then those of operator blocks, then that of the table."""
    (stored,) = regions([b"a" * 500]).frames
    asked: list[int] = []

    def pack(blobs: list[bytes]) -> Packed:
        asked.append(len(blobs))
        kind = b"table" if len(asked) == 2 else b"blocks"
        found = tuple(replace(as_is([blob]).frames[0], dictionary=place) for place, blob in enumerate(blobs))
        return Packed(found, as_is([kind + b"%d" % place for place in range(len(blobs))]).frames)

    operators = (small_operator("b", 1), small_operator("a", 0))
    own = as_is([b"own0", b"own1", b"own2"]).frames
    objects = (replace(frames(30)[0], dictionary=2), replace(stored, dictionary=None))
    data = encode(small_root(), operators, objects, own, pack)
    root = Bundle(data, lambda frame, size, dictionary: frame).root
    assert asked == [2, 1]
    assert [reference.name for reference in root.operators] == ["a", "b"]
    assert [reference.stored.dictionary for reference in root.operators] == [3, 4]
    assert root.table.dictionary == 5
    places = [data[each.offset : each.offset + each.stored_size] for each in root.dictionaries]
    assert places == [b"own0", b"own1", b"own2", b"blocks0", b"blocks1", b"table0"]
    assert all(each.dictionary == NONE32 for each in root.dictionaries)
    table = data[root.table.offset : root.table.offset + root.table.stored_size]
    assert [struct.unpack_from("<IIII", table, 16 * place)[:3] for place in range(2)] == [
        (30, 30, 2),
        (len(stored.data), 500, NONE32),
    ]
    assert root.frames_size == 30 + len(stored.data) and root.frames_offset + root.frames_size == len(data)
    assert (root.code_object_count, root.entry_count) == (2, 2)


def test_equal_texts_and_arrays_are_stored_once() -> None:
    one, other = Region(), Region()
    assert one._text("abc") == one._text(b"abc") == (0, 3)
    assert one._text("") == one._text(b"") == (0, 0)
    assert one._text("d") == (3, 1) and bytes(one._bytes) == b"abcd"
    assert one._array("str", ("abc", "d", "abc")) == (8, 3)
    assert struct.unpack_from("<6I", one._bytes, 8) == (0, 3, 3, 1, 0, 3)
    size = len(one._bytes)
    assert one._array("str", ("abc", "d", "abc")) == (8, 3) and len(one._bytes) == size
    assert one._array("str", ()) == (0, 0)
    assert other._array("u32", (1, 2, 3)) == (0, 3) and len(other._bytes) == 12
    assert other._array("u32", (4,)) == (16, 1) and other._array("u32", (1, 2, 3)) == (0, 3)
    assert struct.unpack_from("<5I", other._bytes, 0) == (1, 2, 3, 0, 4)
