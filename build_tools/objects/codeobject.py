"""What an ELF says about itself: an AMDGPU code object (metadata note and kernel descriptors) or a CUDA cubin (info sections).

Read only; judging is ``audit.py``. Sources of the formats: the LLVM manual "User Guide for AMDGPU Backend" (code object
versions 3 to 6: e_flags, note NT_AMDGPU_METADATA, kernel descriptor); for cubins the attribute records of ``.nv.info`` sections.
"""

from __future__ import annotations

import hashlib
import io
import struct
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

import msgpack
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from aiter_prebuilt.contract import elf as limits
from build_tools.errors import CodeObjectError
from build_tools.objects.cubin import read_cubin
from build_tools.records import CodeObjectFacts, KernelFacts

EM_CUDA: Final = 190
EM_AMDGPU: Final = 224
_ELFOSABI_HSA: Final = 64
_NT_METADATA: Final = 32
_BUNDLE_MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_MAGIC: Final = b"CCOB"
_FATBIN_MAGIC: Final = b"\x50\xed\x55\xba"

#: EF_AMDGPU_MACH of the targets that are known, from the LLVM manual.
MACHS: Final = {0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950"}
_XNACK: Final = {0x100: "", 0x200: "xnack-", 0x300: "xnack+"}
_SRAMECC: Final = {0x400: "", 0x800: "sramecc-", 0xC00: "sramecc+"}
_KNOWN_ABI: Final = {1: 3, 2: 4, 3: 5, 4: 6}
DESCRIPTOR_SIZE: Final = 64


def read(data: bytes) -> CodeObjectFacts:
    """The facts of one code object.

    Raises:
        CodeObjectError: not an ELF, truncated, for another machine, or a bundle of several.
    """
    _refuse_containers(data)
    try:
        limits.check(data)
        elf = ELFFile(io.BytesIO(data))
        machine = elf.header["e_machine"]
        if machine == "EM_AMDGPU" or machine == EM_AMDGPU:
            return _amdgpu(elf, data)
        if machine == "EM_CUDA" or machine == EM_CUDA:
            return read_cubin(elf, data)
    except CodeObjectError:
        raise
    except Exception as error:
        # pyelftools meets broken offsets with whatever its parsers raise; here all of them mean a damaged file.
        raise CodeObjectError(
            "read a code object",
            f"the file is damaged ({type(error).__name__}: {error})",
            "Compile or copy it again",
        ) from error
    raise CodeObjectError(
        "read a code object",
        f"the ELF is for the machine {machine}",
        "Only AMDGPU and CUDA ELF files are read",
    )


def texts(data: bytes) -> bytes:
    """The parts of an ELF in which names stand: its string tables and notes, one after the other.

    Raises:
        CodeObjectError: the file is damaged.
    """
    try:
        return b"\0".join(
            section.data()
            for section in ELFFile(io.BytesIO(data)).iter_sections()
            if section["sh_type"] in ("SHT_STRTAB", "SHT_NOTE")
        )
    except Exception as error:
        raise CodeObjectError(
            "read a code object", f"the file is damaged ({error})", "Compile it again"
        ) from error


def _refuse_containers(data: bytes) -> None:
    asked = "read a code object"
    if data.startswith((_BUNDLE_MAGIC, _COMPRESSED_MAGIC)):
        raise CodeObjectError(
            asked,
            "the file is a clang offload bundle, which holds one code object per target",
            "Take one out: clang-offload-bundler --unbundle --type=o --targets=hipv4-amdgcn-amd-amdhsa--TARGET "
            "--input=FILE --output=OUT.co",
        )
    if data.startswith(_FATBIN_MAGIC):
        raise CodeObjectError(
            asked,
            "the file is a CUDA fat binary, which holds code for several targets",
            "Take one out: cuobjdump --extract-elf all FILE",
        )
    if data[:4] != b"\x7fELF":
        raise CodeObjectError(
            asked, f"the file starts with {data[:4]!r}", "Give it an ELF file (.co, .hsaco or .cubin)"
        )
    if data[4:6] != b"\x02\x01":
        raise CodeObjectError(
            asked,
            "the ELF is not 64 bits, little endian",
            "Give it a code object for gfx942, gfx950 or sm_90",
        )


def _amdgpu(elf: ELFFile, data: bytes) -> CodeObjectFacts:
    if data[7] != _ELFOSABI_HSA:
        raise CodeObjectError(
            "read a code object",
            f"the AMDGPU ELF has OS ABI {data[7]}, not HSA",
            "Compile it for amdgcn-amd-amdhsa",
        )
    if elf.header["e_type"] != "ET_DYN":
        raise CodeObjectError(
            "read a code object",
            f"the AMDGPU ELF is {elf.header['e_type']}, not linked",
            "Link it: ld.lld -shared FILE -o OUT.co",
        )
    metadata = _metadata(elf)
    symbols = {symbol.name: symbol for symbol in _symbols(elf)}
    rows = metadata.get("amdhsa.kernels", [])
    placed = _Placed(elf, data)
    kernels = tuple(_kernel(row, symbols, placed) for row in rows)
    return CodeObjectFacts(
        target=MACHS.get(elf.header["e_flags"] & 0xFF, f"mach 0x{elf.header['e_flags'] & 0xFF:02x}"),
        vendor="amd",
        version=_KNOWN_ABI.get(data[8], 0),
        features=_features(elf.header["e_flags"]),
        kernels=tuple(sorted(kernels, key=lambda kernel: kernel.symbol)),
        symbols=tuple(sorted(name for name in symbols if name)),
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _features(flags: int) -> tuple[str, ...]:
    names = (_SRAMECC.get(flags & 0xC00, ""), _XNACK.get(flags & 0x300, ""))
    return tuple(name for name in names if name)


def _symbols(elf: ELFFile) -> list[Any]:
    return [
        symbol
        for section in elf.iter_sections()
        if isinstance(section, SymbolTableSection)
        for symbol in section.iter_symbols()
        if symbol["st_shndx"] != "SHN_UNDEF"
    ]


def _metadata(elf: ELFFile) -> Mapping[str, Any]:
    for section in elf.iter_sections():
        if isinstance(section, NoteSection):
            for note in section.iter_notes():
                if note["n_name"] == "AMDGPU" and note["n_type"] in (_NT_METADATA, "NT_AMDGPU_METADATA"):
                    return _unpacked(note["n_descdata"] if "n_descdata" in note else note["n_desc"])
    raise CodeObjectError(
        "read a code object", "it has no AMDGPU metadata note", "Recompile it with code object version 5"
    )


def _unpacked(blob: bytes | str) -> Mapping[str, Any]:
    raw = blob if isinstance(blob, bytes) else blob.encode("latin-1")
    table = msgpack.unpackb(raw, strict_map_key=False)
    if not isinstance(table, dict):
        raise CodeObjectError("read a code object", "its metadata is not a map", "Recompile it")
    return table


def _kernel(row: Mapping[str, Any], symbols: Mapping[str, Any], placed: _Placed) -> KernelFacts:
    symbol = str(row.get(".symbol", "")).removesuffix(".kd") or str(row[".name"])
    descriptor = _descriptor(symbols.get(f"{symbol}.kd"), placed)
    args = [(int(arg[".offset"]), int(arg[".size"]), str(arg[".value_kind"])) for arg in row.get(".args", [])]
    return KernelFacts(
        symbol=symbol,
        kernarg_size=int(row.get(".kernarg_segment_size", descriptor.get("kernarg_size", 0))),
        kernarg_align=int(row.get(".kernarg_segment_align", 8)),
        args=tuple(arg for arg in args if not arg[2].startswith("hidden_")),
        hidden=tuple(arg[2] for arg in args if arg[2].startswith("hidden_")),
        lds_static=int(row.get(".group_segment_fixed_size", 0)),
        max_threads=int(row.get(".max_flat_workgroup_size", 0)),
        wave=int(row.get(".wavefront_size", 0)),
        sgprs=int(row.get(".sgpr_count", 0)),
        vgprs=int(row.get(".vgpr_count", 0)),
        agprs=int(row.get(".agpr_count", 0)),
        sgpr_spills=int(row.get(".sgpr_spill_count", 0)),
        vgpr_spills=int(row.get(".vgpr_spill_count", 0)),
        scratch=int(row.get(".private_segment_fixed_size", 0)),
        kernarg_preload=descriptor.get("preload", 0),
        uses_dynamic_stack=bool(row.get(".uses_dynamic_stack", False)),
    )


class _Placed:
    """The sections that have an address, by it: a descriptor is looked up for every kernel."""

    def __init__(self, elf: ELFFile, data: bytes) -> None:
        rows = ((s["sh_addr"], s["sh_size"], s["sh_offset"]) for s in elf.iter_sections() if s["sh_addr"])
        self._rows = sorted(rows)
        self._data = data

    def read(self, address: int, size: int) -> bytes | None:
        """``size`` bytes at ``address``, or None when no section has them all."""
        place = bisect_right(self._rows, address, key=lambda row: row[0]) - 1
        if place < 0:
            return None
        start, length, offset = self._rows[place]
        at = offset + address - start
        found = self._data[at : at + size]
        return found if address + size <= start + length and len(found) == size else None


def _descriptor(symbol: Any, placed: _Placed) -> dict[str, int]:
    """Fields of a kernel descriptor: 64 bytes in .rodata at the symbol. Empty when there is no such symbol.

    Raises:
        CodeObjectError: the symbol points at no section.
    """
    if symbol is None:
        return {}
    raw = placed.read(symbol["st_value"], DESCRIPTOR_SIZE)
    if raw is None:
        raise CodeObjectError(
            "read a code object",
            f"descriptor {symbol.name} points outside of all sections",
            "Compile or copy it again",
        )
    preload = struct.unpack_from("<H", raw, 58)[0]
    # Bits 0 to 6 are the length in dwords, the rest the first dword.
    return {"kernarg_size": struct.unpack_from("<I", raw, 8)[0], "preload": preload & 0x7F}
