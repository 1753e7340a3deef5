"""The two readers in Python read each vector as the file says; the limits of the build's reader, at and beyond each."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.amdgpu_elf import write
from support.code_object_readers import VECTORS, build, compared, expected, runtime
from support.code_object_vectors import Vector
from support.message_writer import packed

from aiter_prebuilt.bundles import elf
from aiter_prebuilt.contract.elf import MOST_NOTES, ElfError
from build_tools.errors import CodeObjectError
from build_tools.objects import codeobject
from build_tools.records import KernelFacts


@pytest.mark.parametrize("vector", VECTORS.vectors, ids=lambda vector: vector.name)
def test_both_readers_read_what_the_vectors_say(vector: Vector) -> None:
    found = {"build": build(vector.image), "runtime": runtime(vector.image)}
    lines = [
        line
        for reader, reading in found.items()
        for line in compared(vector.name, reader, expected(vector, reader), reading)
    ]
    assert not lines, "\n".join(lines)


NIL = {"$raw": "c0"}
METADATA = {
    ".name": "k", ".symbol": "k.kd", ".kernarg_segment_size": 8, ".kernarg_segment_align": 8,
    ".group_segment_fixed_size": 0, ".private_segment_fixed_size": 0, ".max_flat_workgroup_size": 64,
    ".wavefront_size": 64, ".sgpr_count": 8, ".vgpr_count": 9, ".args": [],
}  # fmt: skip


def image(descriptor: Mapping[str, int] | None = None, **metadata: object) -> bytes:
    """A code object with one kernel; a key of ``metadata`` is without its dot."""
    row = METADATA | {"." + key: NIL if value is None else value for key, value in metadata.items()}
    return write({"kernels": [{"metadata": row, "descriptor": descriptor or {}, "symbol": {"name": "k.kd"}}]})


def kernel(descriptor: Mapping[str, int] | None = None, **metadata: object) -> KernelFacts:
    (found,) = codeobject.read(image(descriptor, **metadata)).kernels
    return found


def refused(data: bytes) -> str:
    """What is found, and what to do."""
    with pytest.raises(CodeObjectError) as caught:
        codeobject.read(data)
    assert caught.value.asked == "read a code object"
    return f"{caught.value.found}. {caught.value.fix}"


PLAIN = KernelFacts(
    symbol="k", kernarg_size=8, kernarg_align=8, args=(), hidden=(), lds_static=0, max_threads=64, wave=64, sgprs=8, vgprs=9,
    agprs=0, sgpr_spills=0, vgpr_spills=0, scratch=0, kernarg_preload=0, uses_dynamic_stack=False,
)  # fmt: skip


def test_what_is_left_out_is_zero() -> None:
    assert kernel() == PLAIN
    assert kernel(args=None) == kernel(agpr_count=None, sgpr_spill_count=None, vgpr_spill_count=None) == PLAIN
    counts = kernel(agpr_count=1, sgpr_spill_count=2, vgpr_spill_count=3)
    assert counts == replace(PLAIN, agprs=1, sgpr_spills=2, vgpr_spills=3)


@pytest.mark.parametrize("key", ["max_flat_workgroup_size", "sgpr_count", "vgpr_count", "agpr_count"])
def test_numbers_have_32_bits(key: str) -> None:
    field = {"max_flat_workgroup_size": "max_threads"}.get(key, f"{key.removesuffix('_count')}s")
    for number in (0, 1, (1 << 32) - 1):
        assert getattr(kernel(None, **{key: number}), field) == number
    for wrong in (1 << 32, -1, True, "8"):
        assert refused(image(None, **{key: wrong})) == (
            f".{key} of its metadata is {wrong!r}, no 32-bit number. Recompile it"
        )


def test_an_argument_segment_has_a_limit() -> None:
    most = 1 << 20
    assert kernel(kernarg_segment_size=most).kernarg_size == most
    said = refused(image(kernarg_segment_size=most + 1))
    assert said == f"kernel k has {most + 1} bytes of arguments aligned to 8. Recompile it"
    for align in (1, 2, 64):
        assert kernel(kernarg_segment_align=align).kernarg_align == align
    for align in (0, 3, 12):
        assert f"aligned to {align}." in refused(image(kernarg_segment_align=align))


@pytest.mark.parametrize("key", [".offset", ".size"])
def test_an_argument_has_the_same_limit(key: str) -> None:
    """Beyond the segment it is no refusal here: the audit judges."""
    arg = {".offset": 4, ".size": 4, ".value_kind": "by_value"}
    most = 1 << 20
    (found,) = kernel(args=[arg | {key: most}]).args
    assert found[:3] == ((most, 4, "by_value") if key == ".offset" else (4, most, "by_value"))
    wrong = arg | {key: most + 1}
    assert refused(image(args=[wrong])) == (
        f"an argument of kernel k has {wrong['.size']} bytes at byte {wrong['.offset']}. Recompile it"
    )


def test_hidden_arguments_are_kept_apart() -> None:
    kinds = ("by_value", "hidden_none", "global_buffer", "hidden_block_count_x")
    rows = [{".offset": 8 * at, ".size": 8, ".value_kind": kind} for at, kind in enumerate(kinds)]
    found = kernel(args=rows)
    assert [arg[:3] for arg in found.args] == [(0, 8, "by_value"), (16, 8, "global_buffer")]
    assert found.hidden == ("hidden_none", "hidden_block_count_x")


@pytest.mark.parametrize(
    ("stack", "properties", "uses"),
    [
        (None, 0, False), (False, 0, False), (True, 0, True), (False, 1 << 11, True), (None, 1 << 11, True),
        (False, 1 << 12, False), (False, 1 << 9, False),
    ],
)  # fmt: skip
def test_a_dynamic_stack_is_told_by_either(stack: object, properties: int, uses: bool) -> None:
    assert kernel({"properties": properties}, uses_dynamic_stack=stack).uses_dynamic_stack is uses


def test_a_dynamic_stack_is_told_by_a_boolean() -> None:
    said = refused(image(uses_dynamic_stack=1))
    assert said == ".uses_dynamic_stack of its metadata is 1, no boolean. Recompile it"


def test_waves_are_those_of_the_descriptor() -> None:
    assert kernel({"properties": 1 << 10}, wavefront_size=32).wave == 32
    words = "descriptor k.kd and .wavefront_size of the metadata differ about waves of 32 lanes"
    for data in (image({"properties": 1 << 10}), image(wavefront_size=32)):
        assert refused(data) == f"{words}. Compile or copy it again"


@pytest.mark.parametrize(
    ("field", "key", "fact"),
    [
        ("lds", "group_segment_fixed_size", "lds_static"),
        ("scratch", "private_segment_fixed_size", "scratch"),
    ],
)
def test_memory_is_what_the_descriptor_says(field: str, key: str, fact: str) -> None:
    """It may have more than the metadata ask for, and not less."""
    for told in (0, 15, 16):
        assert getattr(kernel({field: 16}, **{key: told}), fact) == 16
    assert f".{key} is 17 in the metadata, 16 in descriptor k.kd" in refused(image({field: 16}, **{key: 17}))


def test_a_descriptor_may_leave_the_size_of_arguments_open() -> None:
    assert kernel({"kernarg": 0}) == kernel({"kernarg": 8}) == PLAIN
    for size in (7, 9):
        said = refused(image({"kernarg": size}))
        assert f"descriptor k.kd has {size} bytes of arguments, the metadata 8" in said


@pytest.mark.parametrize("dwords", [0, 1, 2, 64, 127])
def test_preloaded_dwords(dwords: int) -> None:
    """Of one, too, the kernel begins 256 bytes behind its entry."""
    found = kernel({"preload": dwords})
    assert found.kernarg_preload == dwords
    behind = {"preload": dwords, "entry_shift": 256}
    assert "is not in the code" in refused(image(behind)), "each case has as much code as it needs"


@pytest.mark.parametrize("shift", [-256, -4, 4, 64, 255, 256])
def test_an_entry_is_in_the_code_and_aligned(shift: int) -> None:
    words = "the entry of descriptor k.kd is not in the code or not aligned to 256 bytes"
    assert words in refused(image({"entry_shift": shift}))


def test_an_entry_is_in_a_segment_that_is_executed() -> None:
    """The file's first byte is loaded and aligned, and is no code."""
    (code,) = struct.unpack_from("<Q", image(), 64 + 56 + 16)
    words = "the entry of descriptor k.kd is not in the code"
    assert words in refused(image({"entry_shift": -code}))
    rows = [{"metadata": METADATA, "symbol": {"name": "k.kd"}}]
    assert codeobject.read(write({"kernels": rows, "file": {"code_segment_size": 4}})).kernels == (PLAIN,)
    short = write({"kernels": rows, "file": {"code_segment_size": 3}})
    assert words in refused(short)
    with pytest.raises(ElfError, match=r"the entry of descriptor 'k\.kd' is not in the code"):
        elf.read(short)


def noted(*documents: bytes) -> bytes:
    return write({"kernels": [], "notes": [{"payload": document.hex()} for document in documents]})


def version(number: object) -> bytes:
    return packed({"amdhsa.version": NIL if number is None else number, "amdhsa.kernels": []}, {})


@pytest.mark.parametrize("number", [[1, 2, 3], [1], [2, 0], [0, 0], [1, True], "1.2", None, {}])
def test_metadata_of_another_format(number: object) -> None:
    assert f"its metadata have amdhsa.version {number!r}, not [1, x]. Recompile it" == refused(
        noted(version(number))
    )


def test_metadata_notes_are_joined() -> None:
    one = version([1, 2])
    assert codeobject.read(noted(*[one] * MOST_NOTES)).kernels == ()
    said = refused(noted(*[one] * (MOST_NOTES + 1)))
    assert f"it has more than {MOST_NOTES} metadata notes" in said
    for others in ((one, version([1, 1])), (version([1, 1]), one), (one, one, version([1, 0]))):
        assert "it has two metadata notes with different amdhsa.version" in refused(noted(*others))


def nested(depth: int) -> bytes:
    inner: Any = 1
    for _ in range(depth):
        inner = [inner]
    return packed({"amdhsa.version": [1, 2], "amdhsa.kernels": [], "x": inner}, {})


def test_metadata_nest_to_a_depth() -> None:
    """The document is at depth 0, what is in it one deeper."""
    assert codeobject.read(noted(nested(15))).kernels == ()
    assert "its metadata nest deeper than 16" in refused(noted(nested(16)))


def test_extensions_are_named_with_their_type() -> None:
    head = b"\x81\xa1x"
    assert "a MessagePack extension of type 5." in refused(noted(head + b"\xd4\x05\0"))
    assert "a MessagePack extension of type -1." in refused(noted(head + b"\xd6\xff\0\0\0\0"))


def test_a_file_of_another_kind_is_told() -> None:
    data = bytearray(image())
    for at, form, value, words in (
        (7, "<B", 0, "the AMDGPU ELF has OS ABI 0, not HSA. Compile it for amdgcn-amd-amdhsa"),
        (16, "<H", 2, "the AMDGPU ELF is of type 2, not linked. Link it: ld.lld -shared FILE -o OUT.co"),
        (8, "<B", 1, "its ABI version 1 is none of code object version 4, 5 or 6"),
        (8, "<B", 5, "its ABI version 5 is none of code object version 4, 5 or 6"),
        (18, "<H", 62, "the ELF is for the machine EM_X86_64. Only AMDGPU and CUDA ELF files are read"),
    ):
        changed = data.copy()
        struct.pack_into(form, changed, at, value)
        assert words in refused(bytes(changed))
    for abi, number in ((2, 4), (3, 5), (4, 6)):
        data[8] = abi
        assert codeobject.read(bytes(data)).version == number
