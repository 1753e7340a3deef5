"""Reading code objects: the facts of real ones, and nothing but CodeObjectError for anything else."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection
from elftools.elf.segments import Segment
from hypothesis import given, settings
from hypothesis import strategies as st

from build_tools.errors import CodeObjectError
from build_tools.objects import amdgpu, codeobject
from build_tools.records import CodeObjectFacts

FOLDER = Path(__file__).resolve().parents[1] / "data" / "codeobjects"
NAMES = ("scale_gfx942.co", "add_gfx950.hsaco", "add_sm_90.cubin")


def load(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def test_a_hip_code_object() -> None:
    facts = codeobject.read(load("scale_gfx942.co"))
    assert (facts.target, facts.vendor, facts.version, facts.features) == ("gfx942", "amd", 5, ())
    (kernel,) = facts.kernels
    assert kernel.symbol == "scale"
    assert tuple(arg[:3] for arg in kernel.args) == (
        (0, 8, "global_buffer"),
        (8, 8, "global_buffer"),
        (16, 4, "by_value"),
        (20, 4, "by_value"),
    )
    assert (kernel.kernarg_size, kernel.kernarg_align, kernel.hidden) == (24, 8, ())
    assert (kernel.lds_static, kernel.max_threads, kernel.wave) == (256, 64, 64)
    assert (kernel.scratch, kernel.sgpr_spills, kernel.vgpr_spills, kernel.uses_dynamic_stack) == (
        0,
        0,
        0,
        False,
    )
    assert kernel.vgprs > 0
    assert "scale.kd" in facts.symbols


def test_a_triton_code_object_has_two_hidden_pointers_and_preloaded_arguments() -> None:
    (kernel,) = codeobject.read(load("add_gfx950.hsaco")).kernels
    assert [(offset, size) for offset, size, *_ in kernel.args] == [
        (0, 8),
        (8, 8),
        (16, 8),
        (24, 4),
        (32, 8),
        (40, 8),
    ]
    assert (kernel.kernarg_size, kernel.max_threads, kernel.kernarg_preload > 0) == (48, 64, True)


def test_a_cubin() -> None:
    facts = codeobject.read(load("add_sm_90.cubin"))
    assert (facts.target, facts.vendor, facts.version) == ("sm_90", "nvidia", 0)
    (kernel,) = facts.kernels
    assert [(offset, size) for offset, size, *_ in kernel.args] == [
        (0, 8),
        (8, 8),
        (16, 8),
        (24, 4),
        (32, 8),
        (40, 8),
    ]
    assert (kernel.symbol, kernel.kernarg_size, kernel.max_threads, kernel.wave) == ("add", 48, 32, 32)
    assert 0 < kernel.vgprs <= 255


@pytest.mark.parametrize(("mach", "target"), [(0x4C, "gfx942"), (0x4F, "gfx950"), (0x41, "mach 0x41")])
def test_the_target_is_what_the_elf_flags_say(mach: int, target: str) -> None:
    data = bytearray(load("scale_gfx942.co"))
    data[48] = mach
    assert codeobject.read(bytes(data)).target == target


@pytest.mark.parametrize(
    ("flags", "features"),
    [
        (0x000, ()),
        (0x500, ()),
        (0x200, ("xnack-",)),
        (0x300, ("xnack+",)),
        (0xC00, ("sramecc+",)),
        (0xA00, ("sramecc-", "xnack-")),
    ],
)
def test_features_that_a_device_must_have(flags: int, features: tuple[str, ...]) -> None:
    data = bytearray(load("scale_gfx942.co"))
    struct.pack_into("<I", data, 48, flags | 0x4C)
    assert codeobject.read(bytes(data)).features == features


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(64), "clang-offload-bundler --unbundle"),
        (b"CCOB" + bytes(64), "clang-offload-bundler --unbundle"),
        (b"\x50\xed\x55\xba" + bytes(64), "cuobjdump --extract-elf"),
        (b"", "starts with b''."),
        (b"#!/bin/sh\n", "starts with b'#!/b'."),
        (b"\x7fELF\x01\x01" + bytes(64), "not 64 bits"),
    ],
)
def test_what_is_no_code_object_is_refused_with_what_to_do(data: bytes, words: str) -> None:
    with pytest.raises(CodeObjectError, match=words):
        codeobject.read(data)


def test_an_elf_for_the_host_is_refused() -> None:
    data = bytearray(load("scale_gfx942.co"))
    struct.pack_into("<H", data, 18, 62)
    with pytest.raises(CodeObjectError, match="EM_X86_64"):
        codeobject.read(bytes(data))


def test_an_object_that_was_not_linked_is_refused() -> None:
    data = bytearray(load("scale_gfx942.co"))
    struct.pack_into("<H", data, 16, 1)
    with pytest.raises(CodeObjectError, match="not linked"):
        codeobject.read(bytes(data))


def read_or_refuse(data: bytes) -> CodeObjectFacts | None:
    try:
        return codeobject.read(data)
    except CodeObjectError:
        return None


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_file_never_raises_anything_else(name: str) -> None:
    data = load(name)
    for length in range(0, len(data), 61):
        read_or_refuse(data[:length])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_changed_bytes_never_raise_anything_else(name: str, draw: st.DataObject) -> None:
    data = bytearray(load(name))
    for _ in range(draw.draw(st.integers(1, 6))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    read_or_refuse(bytes(data))


def section(elf: ELFFile, name: str) -> Section:
    found = elf.get_section_by_name(name)
    assert found is not None
    return found


def test_a_descriptor_that_its_segment_cuts_off_is_refused() -> None:
    """Its 64 bytes must all be loaded: what lies behind the end of a segment is not what a device reads."""
    image = bytearray(load("scale_gfx942.co"))
    elf = ELFFile(io.BytesIO(image))
    symbols = section(elf, ".dynsym")
    assert isinstance(symbols, SymbolTableSection)
    found = symbols.get_symbol_by_name("scale.kd")
    assert found is not None
    (descriptor,) = found
    places = [place for place in range(elf.num_segments()) if elf.get_segment(place)["p_type"] == "PT_LOAD"]
    place = next(p for p in places if _holds(elf.get_segment(p), descriptor["st_value"]))
    sizes = elf["e_phoff"] + place * elf["e_phentsize"] + 32
    whole = descriptor["st_value"] + amdgpu.DESCRIPTOR_SIZE - elf.get_segment(place)["p_vaddr"]
    for size in (whole, whole - 1, whole - 63):
        struct.pack_into("<QQ", image, sizes, size, size)
        if size == whole:
            assert codeobject.read(bytes(image)).kernels[0].symbol == "scale"
            continue
        with pytest.raises(CodeObjectError, match=r"descriptor scale\.kd points outside of all segments"):
            codeobject.read(bytes(image))


def _holds(segment: Segment, address: int) -> bool:
    inside: bool = segment["p_vaddr"] <= address < segment["p_vaddr"] + segment["p_filesz"]
    return inside


@pytest.mark.parametrize("behind", [0x0000, 0x0080, 0xFF80])
@pytest.mark.parametrize("name", NAMES[:2])
def test_preloaded_arguments_are_counted_without_where_they_begin(name: str, behind: int) -> None:
    """Bits 0 to 6 of the field are the dwords that firmware loads, the rest is the first of them; without any the kernel begins
    where its descriptor says, and not 256 bytes later.
    """
    image = bytearray(load(name))
    (kernel,) = codeobject.read(bytes(image)).kernels
    at = section(ELFFile(io.BytesIO(image)), ".rodata")["sh_offset"] + 58
    (field,) = struct.unpack_from("<H", image, at)
    if name == NAMES[0]:
        _begin_at_the_end(image, at - 42)
    assert kernel.kernarg_preload == field & 0x7F and (kernel.kernarg_preload > 0) == (name != NAMES[0])
    struct.pack_into("<H", image, at, field & 0x7F | behind)
    assert codeobject.read(bytes(image)).kernels == (kernel,)


def _begin_at_the_end(image: bytearray, at: int) -> None:
    """Move the kernel's entry to the last 256 bytes of its code."""
    size = section(ELFFile(io.BytesIO(image)), ".text")["sh_size"]
    (entry,) = struct.unpack_from("<q", image, at)
    struct.pack_into("<q", image, at, entry + (size - 4) // 256 * 256)
