"""Read a code object with the standard library alone: what `verify` needs on a machine that has nothing else.

AMDGPU: ELF64, machine 0xE0, target in the flags, one 64-byte kernel descriptor per kernel (symbol ``NAME.kd``), and a
note of type 32 ("AMDGPU") with MessagePack metadata that lists every kernel's arguments.
CUDA: ELF64, machine 190, one ``.text.NAME`` per kernel, and ``.nv.info.NAME`` with a parameter record per argument.
Sources: LLVM's AMDGPU usage document (code object v5/v6); NVIDIA publishes no specification of ``.nv.info``, so that part is
from public binary tools and is checked against what Triton's own compiler reports.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

EM_AMDGPU: Final = 0xE0
EM_CUDA: Final = 190
_NT_AMDGPU_METADATA: Final = 32
_SHT_SYMTAB, _SHT_NOTE, _SHT_DYNSYM = 2, 7, 11
#: EF_AMDGPU_MACH of the targets that exist here; `manifests/targets.toml` has the same numbers (a test compares).
MACHS: Final = {0x4C: "gfx942", 0x4F: "gfx950"}
_EIATTR_KPARAM_INFO: Final = 0x17
_EIATTR_CBANK_PARAM_SIZE: Final = 0x19
_EIFMT_SVAL: Final = 0x04


class ElfError(ValueError):
    """Bytes that are not the ELF they should be."""


@dataclass(frozen=True, slots=True)
class KernelImage:
    """One kernel: ``args`` are (offset, size, kind) of its explicit arguments; sizes in bytes."""

    symbol: str
    kernarg_size: int
    args: tuple[tuple[int, int, str], ...]
    has_descriptor: bool
    lds_static: int
    max_threads: int
    wave: int


@dataclass(frozen=True, slots=True)
class Image:
    """One code object. ``target`` is ``gfx942`` and the like, or ``sm_90``."""

    machine: int
    target: str
    kernels: tuple[KernelImage, ...]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        if len(data) < 64 or data[:4] != b"\x7fELF":
            raise ElfError("not an ELF file")
        if data[4] != 2 or data[5] != 1:
            raise ElfError("not a 64-bit little-endian ELF")
        self.abi_version = data[8]
        self.machine = struct.unpack_from("<H", data, 18)[0]
        self.flags = struct.unpack_from("<I", data, 48)[0]
        self.sections = self._sections()

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        if at < 0 or at + struct.calcsize(form) > len(self.data):
            raise ElfError(f"the file ends before byte {at + struct.calcsize(form)}")
        return struct.unpack_from(form, self.data, at)

    def _sections(self) -> tuple[_Section, ...]:
        (table,) = self.unpack("<Q", 40)
        entry_size, count, names_index = self.unpack("<HHH", 58)
        rows = []
        for place in range(count):
            name, kind, _, _, offset, size, link = self.unpack("<IIQQQQI", table + place * entry_size)
            if kind != 8 and offset + size > len(self.data):
                raise ElfError(f"section {place} leaves the file")
            rows.append((name, kind, offset, size, link))
        if not rows or names_index >= len(rows):
            raise ElfError("no section names")
        base = rows[names_index][2]
        return tuple(
            _Section(self.text(base + name), kind, offset, size, link)
            for name, kind, offset, size, link in rows
        )

    def text(self, at: int) -> str:
        end = self.data.find(b"\0", at)
        if at > len(self.data) or end < 0:
            raise ElfError("a name leaves the file")
        return self.data[at:end].decode("utf-8", "replace")

    def section(self, name: str) -> _Section | None:
        return next((section for section in self.sections if section.name == name), None)

    def symbols(self) -> set[str]:
        names = set()
        for section in self.sections:
            if section.kind in (_SHT_SYMTAB, _SHT_DYNSYM) and section.link < len(self.sections):
                base = self.sections[section.link].offset
                for at in range(section.offset, section.offset + section.size - 23, 24):
                    names.add(self.text(base + self.unpack("<I", at)[0]))
        return names

    def metadata(self) -> dict[str, Any]:
        for section in self.sections:
            if section.kind != _SHT_NOTE:
                continue
            at, end = section.offset, section.offset + section.size
            while at + 12 <= end:
                name_size, size, kind = self.unpack("<III", at)
                start = at + 12 + name_size + -name_size % 4
                if kind == _NT_AMDGPU_METADATA and self.data[at + 12 : at + 18] == b"AMDGPU":
                    value, _ = _message(self.data[start : start + size], 0)
                    if isinstance(value, dict):
                        return value
                at = start + size + -size % 4
        raise ElfError("no AMDGPU metadata note")


def read(data: bytes) -> Image:
    """Read a code object.

    Raises:
        ElfError: it is cut off, is no ELF, or is for another kind of machine.
    """
    reader = _Reader(data)
    try:
        if reader.machine == EM_AMDGPU:
            return _read_amdgpu(reader)
        if reader.machine == EM_CUDA:
            return _read_cuda(reader)
    except (KeyError, TypeError, IndexError, struct.error) as error:
        raise ElfError(f"metadata that breaks its own form: {error!r}") from None
    raise ElfError(f"machine {reader.machine} is no GPU that is known here")


def _read_amdgpu(reader: _Reader) -> Image:
    mach = reader.flags & 0xFF
    symbols = reader.symbols()
    kernels = []
    for kernel in reader.metadata()["amdhsa.kernels"]:
        descriptor = kernel[".symbol"]
        args = tuple(
            (arg[".offset"], arg[".size"], arg[".value_kind"])
            for arg in kernel.get(".args", ())
            if not arg[".value_kind"].startswith("hidden_")
        )
        kernels.append(
            KernelImage(
                symbol=kernel[".name"],
                kernarg_size=kernel[".kernarg_segment_size"],
                args=args,
                has_descriptor=descriptor in symbols and descriptor == kernel[".name"] + ".kd",
                lds_static=kernel[".group_segment_fixed_size"],
                max_threads=kernel[".max_flat_workgroup_size"],
                wave=kernel[".wavefront_size"],
            )
        )
    return Image(reader.machine, MACHS.get(mach, f"unknown AMDGPU machine 0x{mach:x}"), tuple(kernels))


def _read_cuda(reader: _Reader) -> Image:
    kernels = []
    for section in reader.sections:
        if not section.name.startswith(".text."):
            continue
        symbol = section.name[len(".text.") :]
        info = reader.section(".nv.info." + symbol)
        if info is None:
            continue  # a device function, not a kernel
        args, size = _cuda_parameters(reader, info)
        kernels.append(KernelImage(symbol, size, args, True, 0, 1024, 32))
    # CUDA 13 ELFs carry the architecture in bits 8..15 of the flags, older ones in 0..7
    number = (reader.flags >> 8) & 0xFF if (reader.flags & 0xFF) < 30 else reader.flags & 0xFF
    return Image(reader.machine, f"sm_{number}", tuple(kernels))


def _cuda_parameters(reader: _Reader, info: _Section) -> tuple[tuple[tuple[int, int, str], ...], int]:
    args: list[tuple[int, int, int]] = []
    total = 0
    at, end = info.offset, info.offset + info.size
    while at + 4 <= end:
        form, attribute, value = reader.unpack("<BBH", at)
        at += 4
        if attribute == _EIATTR_CBANK_PARAM_SIZE:
            total = value
        if form == _EIFMT_SVAL:
            if attribute == _EIATTR_KPARAM_INFO:
                _, ordinal, offset, packed = reader.unpack("<IHHI", at)
                args.append((ordinal, offset, packed >> 18))
            at += value
    return tuple((offset, size, "by_value") for _, offset, size in sorted(args)), total


def _message(data: bytes, at: int) -> tuple[Any, int]:
    """One MessagePack value at ``at`` and the offset behind it: the forms that LLVM writes."""
    tag = data[at]
    at += 1
    if tag <= 0x7F:
        return tag, at
    if tag >= 0xE0:
        return tag - 256, at
    if tag & 0xF0 == 0x80:
        return _map(data, at, tag & 0x0F)
    if tag & 0xF0 == 0x90:
        return _list(data, at, tag & 0x0F)
    if tag & 0xE0 == 0xA0:
        return data[at : at + (tag & 0x1F)].decode(), at + (tag & 0x1F)
    if tag in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[tag], at
    if tag in _NUMBERS:
        return struct.unpack_from(_NUMBERS[tag], data, at)[0], at + struct.calcsize(_NUMBERS[tag])
    if tag in _SIZED:
        form, kind = _SIZED[tag]
        count = struct.unpack_from(form, data, at)[0]
        at += struct.calcsize(form)
        if kind == "map":
            return _map(data, at, count)
        if kind == "list":
            return _list(data, at, count)
        raw = data[at : at + count]
        return (raw.decode() if kind == "str" else raw), at + count
    raise ElfError(f"MessagePack tag 0x{tag:02x} is not used in AMDGPU metadata")


_NUMBERS: Final = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_SIZED: Final = {
    0xC4: (">B", "bin"), 0xC5: (">H", "bin"), 0xC6: (">I", "bin"),
    0xD9: (">B", "str"), 0xDA: (">H", "str"), 0xDB: (">I", "str"),
    0xDC: (">H", "list"), 0xDD: (">I", "list"), 0xDE: (">H", "map"), 0xDF: (">I", "map"),
}  # fmt: skip


def _map(data: bytes, at: int, count: int) -> tuple[dict[Any, Any], int]:
    result = {}
    for _ in range(count):
        key, at = _message(data, at)
        result[key], at = _message(data, at)
    return result, at


def _list(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    result = []
    for _ in range(count):
        value, at = _message(data, at)
        result.append(value)
    return result, at
