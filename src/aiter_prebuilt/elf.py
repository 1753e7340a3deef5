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
from functools import cached_property
from typing import Any, Final

from aiter_prebuilt.contract.elf import NOTE, ElfError, Section, Sections

__all__ = ["ElfError", "Image", "KernelImage", "read"]

EM_AMDGPU: Final = 0xE0
EM_CUDA: Final = 190
_NT_AMDGPU_METADATA: Final = 32
#: EF_AMDGPU_MACH of the targets that exist here; `manifests/targets.toml` has the same numbers (a test compares).
MACHS: Final = {0x4C: "gfx942", 0x4F: "gfx950"}
_EIATTR_KPARAM_INFO: Final = 0x17
_EIATTR_CBANK_PARAM_SIZE: Final = 0x19
_EIFMT_SVAL: Final = 0x04


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


@dataclass(frozen=True)
class Image:
    """One code object. ``target`` is ``gfx942`` and the like, or ``sm_90``."""

    machine: int
    target: str
    kernels: tuple[KernelImage, ...]

    @cached_property
    def by_symbol(self) -> dict[str, KernelImage]:
        """The kernels by their symbols; the first one where a file has two."""
        return {kernel.symbol: kernel for kernel in reversed(self.kernels)}


class _Reader(Sections):
    def __init__(self, data: bytes) -> None:
        if len(data) < 64 or data[:4] != b"\x7fELF":
            raise ElfError("not an ELF file")
        if data[4] != 2 or data[5] != 1:
            raise ElfError("not a 64-bit little-endian ELF")
        self.abi_version = data[8]
        self.machine = struct.unpack_from("<H", data, 18)[0]
        self.flags = struct.unpack_from("<I", data, 48)[0]
        super().__init__(data)
        self.by_name: dict[str, Section] = {}
        for section in self.all:
            self.by_name.setdefault(section.name, section)

    def metadata(self) -> dict[str, Any]:
        for section in self.all:
            if section.kind != NOTE:
                continue
            place = self.walk(section)
            at = place.start
            while at + 12 <= place.stop:
                name_size, size, kind = self.unpack("<III", at)
                start = at + 12 + name_size + -name_size % 4
                if kind == _NT_AMDGPU_METADATA and self.data[at + 12 : at + 18] == b"AMDGPU":
                    value, _ = _message(self.data[start : start + size], 0)
                    if not isinstance(value, dict):
                        raise ElfError("its AMDGPU metadata is no map")
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
    except UnicodeDecodeError as error:
        raise ElfError(f"text in its metadata is not UTF-8: {error}") from None
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError, struct.error) as error:
        raise ElfError(f"metadata that breaks its own form: {error!r}") from None
    raise ElfError(f"machine {reader.machine} is no GPU that is known here")


def _read_amdgpu(reader: _Reader) -> Image:
    mach = reader.flags & 0xFF
    symbols = set(reader.symbols())
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
                symbol=_text(kernel[".name"]),
                kernarg_size=_number(kernel[".kernarg_segment_size"]),
                args=args,
                has_descriptor=descriptor in symbols and descriptor == kernel[".name"] + ".kd",
                lds_static=_number(kernel[".group_segment_fixed_size"]),
                max_threads=_number(kernel[".max_flat_workgroup_size"]),
                wave=_number(kernel[".wavefront_size"]),
            )
        )
    return Image(reader.machine, MACHS.get(mach, f"unknown AMDGPU machine 0x{mach:x}"), tuple(kernels))


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _read_cuda(reader: _Reader) -> Image:
    kernels = []
    for section in reader.all:
        if not section.name.startswith(".text."):
            continue
        symbol = section.name[len(".text.") :]
        info = reader.by_name.get(".nv.info." + symbol)
        if info is None:
            continue  # a device function, not a kernel
        args, size = _cuda_parameters(reader, info)
        kernels.append(KernelImage(symbol, size, args, True, 0, 1024, 32))
    # CUDA 13 ELFs carry the architecture in bits 8..15 of the flags, older ones in 0..7
    number = (reader.flags >> 8) & 0xFF if (reader.flags & 0xFF) < 30 else reader.flags & 0xFF
    return Image(reader.machine, f"sm_{number}", tuple(kernels))


def _cuda_parameters(reader: _Reader, info: Section) -> tuple[tuple[tuple[int, int, str], ...], int]:
    args: list[tuple[int, int, int]] = []
    total = 0
    place = reader.walk(info)
    at = place.start
    while at + 4 <= place.stop:
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
