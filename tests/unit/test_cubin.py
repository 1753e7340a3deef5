"""Reading cubins that are made up, so that every fact has a value of its own: which record tells what, and which are skipped."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import replace

import pytest

from aiter_prebuilt.bundles import elf
from build_tools.errors import CodeObjectError
from build_tools.objects import codeobject
from build_tools.records import ArgFacts, KernelFacts

CUDA, PROGBITS, SYMTAB, STRTAB, NOBITS = 190, 1, 2, 3, 8
#: EIATTR numbers, by CUDA's own names.
MAX_THREADS, PARAM_CBANK, REQNTID, FRAME_SIZE, KPARAM_INFO, CBANK_PARAM_SIZE, REGCOUNT = (
    0x05,
    0x0A,
    0x10,
    0x11,
    0x17,
    0x19,
    0x2F,
)


def cubin(
    sections: Mapping[str, bytes], symbols: tuple[str, ...] = (), abi: int = 7, flags: int = 0x5A, shared: int = 0
) -> bytes:  # fmt: skip
    """A CUDA ELF with these sections; ``shared``: size of ``.nv.shared.k``, which has no bytes in the file."""
    texts = b"\0" + b"".join(name.encode() + b"\0" for name in symbols)
    at, rows = 1, b""
    for name in symbols:
        rows += struct.pack("<IBBHQQ", at, 0x12, 0, 1, 0, 0)
        at += len(name) + 1
    parts = [(name, PROGBITS, data, 0) for name, data in sections.items()]
    if symbols:
        parts = [(".strtab", STRTAB, texts, 0), (".symtab", SYMTAB, bytes(24) + rows, 1), *parts]
    if shared:
        parts.append((".nv.shared.k", NOBITS, bytes(shared), 0))
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in parts) + b".shstrtab\0"
    body, table, name_at = b"", bytes(64), 1
    for name, kind, data, link in (*parts, (".shstrtab", STRTAB, names, 0)):
        entry = 24 if kind == SYMTAB else 0
        table += struct.pack("<IIQQQQIIQQ", name_at, kind, 0, 0, 64 + len(body), len(data), link, 0, 1, entry)
        name_at += len(name) + 1
        body += b"" if kind == NOBITS else data
    count = len(parts) + 2
    header = struct.pack(
        "<4sBBBBB7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0x33, abi, 2, CUDA, 1, 0, 0, 64 + len(body), flags, 64, 56, 0, 64,
        count, count - 1,
    )  # fmt: skip
    return header + body + table


def record(attribute: int, *words: int, form: str = "I") -> bytes:
    """A record with a size."""
    raw = struct.pack(f"<{len(words)}{form}", *words)
    return struct.pack("<BBH", 4, attribute, len(raw)) + raw


def parameter(offset: int, size: int, low: int = 0) -> bytes:
    """The size stands above 18 bits of something else."""
    return struct.pack("<BBHIHHI", 4, KPARAM_INFO, 12, 0, 0, offset, size << 18 | low)


def bank(size: int) -> bytes:
    return struct.pack("<BBHIHH", 4, PARAM_CBANK, 8, 0, 0x210, size)


def kernel(info: bytes, name: str = "k", about: bytes = b"", **words: int) -> KernelFacts:
    """The one kernel of a cubin; ``about``: what ``.nv.info`` says, of which the kernel is symbol 1."""
    sections = {f".text.{name}": b"code", f".nv.info.{name}": info, ".nv.info": about}
    (found,) = codeobject.read(cubin(sections, (name,), **words)).kernels
    return found


PLAIN = KernelFacts(
    symbol="k", kernarg_size=0, kernarg_align=8, args=(), hidden=(), lds_static=0, max_threads=0, wave=32, sgprs=0, vgprs=0,
    agprs=0, sgpr_spills=0, vgpr_spills=0, scratch=0,
)  # fmt: skip


def test_a_kernel_about_which_nothing_is_said() -> None:
    assert kernel(b"") == PLAIN


def test_a_record_may_end_with_its_section() -> None:
    """The runtime's reader: a number of 16 bits stands in the record's own four bytes, and nothing behind it."""
    size = struct.pack("<BBH", 3, CBANK_PARAM_SIZE, 28)
    for info in (size, parameter(0, 8) + size):
        (found,) = elf.read(cubin({".text.k": b"code", ".nv.info.k": info})).kernels
        assert found.kernarg_size == 28
    (cut,) = elf.read(cubin({".text.k": b"code", ".nv.info.k": size[:3]})).kernels
    assert cut.kernarg_size == 0


def test_parameters_are_sorted_by_their_place() -> None:
    info = parameter(24, 4) + parameter(0, 8) + parameter(16, 1, low=(1 << 18) - 1)
    assert kernel(info) == replace(
        PLAIN, args=(ArgFacts(0, 8, "by_value"), ArgFacts(16, 1, "by_value"), ArgFacts(24, 4, "by_value"))
    )
    assert kernel(bank(28)) == replace(PLAIN, kernarg_size=28)
    assert kernel(parameter(0, 8) + bank(8)) == replace(
        PLAIN, kernarg_size=8, args=(ArgFacts(0, 8, "by_value"),)
    )


@pytest.mark.parametrize("attribute", [MAX_THREADS, REQNTID])
@pytest.mark.parametrize(("block", "threads"), [((128, 1, 1), 128), ((2, 3, 5), 30), ((1, 4, 8), 32)])
def test_threads_are_those_of_the_block(attribute: int, block: tuple[int, int, int], threads: int) -> None:
    assert kernel(record(attribute, *block)) == replace(PLAIN, max_threads=threads)


@pytest.mark.parametrize("attribute", [0x00, 0x04, 0x06, 0x09, 0x0B, 0x0F, 0x11, 0x12, 0x16, 0x18, 0x2F])
def test_other_records_are_skipped(attribute: int) -> None:
    info = record(attribute, 7, 7, 7) + record(MAX_THREADS, 64, 1, 1)
    assert kernel(info) == replace(PLAIN, max_threads=64)


@pytest.mark.parametrize("form", [1, 2, 3])
def test_a_record_without_a_size_has_two_bytes(form: int) -> None:
    """Whatever they are, they are no size."""
    info = struct.pack("<BBH", form, 0x1B, 0xFFFF) + record(MAX_THREADS, 64, 2, 1)
    assert kernel(info) == replace(PLAIN, max_threads=128)


def test_an_attribute_of_all_kernels_is_looked_up_by_symbol() -> None:
    about = record(REGCOUNT, 1, 40) + record(FRAME_SIZE, 1, 16) + record(REGCOUNT, 0, 99)
    assert kernel(b"", about=about) == replace(PLAIN, vgprs=40, scratch=16)
    behind = record(REGCOUNT, 2, 50) + record(REGCOUNT, 3, 60) + record(REGCOUNT, 1, 7, 7)
    assert kernel(b"", about=behind + record(0x30, 1, 5) + record(0x12, 1, 5)) == PLAIN


def test_shared_memory_is_the_size_of_its_section() -> None:
    assert kernel(b"", shared=1) == replace(PLAIN, lds_static=1)
    assert kernel(b"", shared=49152).lds_static == 49152


@pytest.mark.parametrize("tail", [b"", b"\4", b"\4\5\0"])
def test_fewer_bytes_than_a_record_end_a_section(tail: bytes) -> None:
    assert kernel(record(MAX_THREADS, 64, 1, 1) + tail) == replace(PLAIN, max_threads=64)


@pytest.mark.parametrize("missing", [1, 11, 12])
def test_a_record_that_is_cut_off(missing: int) -> None:
    info = parameter(0, 8) + record(MAX_THREADS, 64, 1, 1)[:-missing]
    with pytest.raises(CodeObjectError, match=r"section \.nv\.info\.k is cut off") as caught:
        kernel(info)
    assert (caught.value.asked, caught.value.fix) == ("read a cubin", "Compile or copy it again")


@pytest.mark.parametrize(
    ("abi", "flags", "target"),
    [
        (7, 0x0005_055A, "sm_90"), (7, 0x0050_6450, "sm_80"), (8, 0x0600_5A04, "sm_90"), (8, 0x0600_6402, "sm_100"),
        (9, 0x0600_7804, "sm_120"), (7, 0x0005_0559, "sm_89"), (8, 0x0600_6702, "sm_103"),
    ],
)  # fmt: skip
def test_the_target_moved_with_the_version_of_the_format(abi: int, flags: int, target: str) -> None:
    facts = codeobject.read(cubin({".text.k": b"", ".nv.info.k": b""}, ("k",), abi, flags))
    assert facts.target == target


def test_a_file_of_several_kernels() -> None:
    """Code without an info section is a function, and no kernel."""
    sections = {
        ".text.second": b"", ".nv.info.second": bank(8), ".text.first": b"", ".nv.info.first": bank(16), ".text.helper": b"",
        ".nv.info": record(REGCOUNT, 2, 11) + record(REGCOUNT, 1, 22),
    }  # fmt: skip
    data = cubin(sections, ("second", "first", "", "helper"))
    facts = codeobject.read(data)
    assert facts == replace(
        facts, target="sm_90", vendor="nvidia", version=0, features=(), symbols=("first", "helper", "second"), size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    assert [(found.symbol, found.kernarg_size, found.vgprs) for found in facts.kernels] == [
        ("first", 16, 11),
        ("second", 8, 22),
    ]


def test_a_file_without_symbols_has_kernels_all_the_same() -> None:
    facts = codeobject.read(
        cubin({".text.k": b"", ".nv.info.k": bank(4), ".nv.info": record(REGCOUNT, 0, 9)})
    )
    assert (facts.symbols, facts.kernels) == ((), (replace(PLAIN, kernarg_size=4),))
    assert codeobject.read(cubin({".text.k": b""}, ("k",))).kernels == ()
