"""Read kernel descriptors and metadata of AMDGPU code objects.

A descriptor has 64 bytes and the symbol ``NAME.kd``. The metadata is MessagePack in a note of type 32 ("AMDGPU") and lists every
kernel's arguments.

Source: LLVM's AMDGPU usage document, code object versions 4 to 6. ``tests/data/code_object_vectors.toml`` compares this reader
with the two others of this project.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from aiter_prebuilt.bundles.kernel_image import KernelImage
from aiter_prebuilt.bundles.message import read_message
from aiter_prebuilt.contract.elf import MOST_NOTES, PADDING, ElfError, ElfFile
from aiter_prebuilt.contract.targets import AMDGPU_MACHS

_OS_ABI_HSA, _SHARED_OBJECT = 64, 3
#: EI_ABIVERSION of code object versions 4, 5 and 6.
_ABI_VERSIONS: Final = (2, 3, 4)
_NT_METADATA: Final = 32
_DESCRIPTOR: Final = struct.Struct("<III4xq20x12xHH4x")
_ENTRY_ALIGNMENT: Final = 256
_WAVE32: Final = 1 << 10
#: Far more than any kernel has.
_MOST_ARGUMENT_BYTES: Final = 1 << 20


def read_amdgpu(file: ElfFile) -> tuple[str, tuple[KernelImage, ...]]:
    """Target and kernels.

    Raises:
        ElfError: it is not linked, damaged, or contradicts itself.
        MessageError: its metadata are no MessagePack.
    """
    if (file.os_abi, file.kind) != (_OS_ABI_HSA, _SHARED_OBJECT):
        raise ElfError(f"OS ABI {file.os_abi} and ELF type {file.kind}, a linked code object has 64 and 3")
    if file.abi_version not in _ABI_VERSIONS:
        raise ElfError(f"ABI version {file.abi_version}, code object versions 4, 5 and 6 have 2, 3 and 4")
    symbols = file.symbols()
    kernels: dict[str, KernelImage] = {}
    for table in _metadata(file):
        for row in _rows(table, "amdhsa.kernels", required=True):
            kernel = _kernel(row, symbols, file)
            if kernels.setdefault(kernel.symbol, kernel) is not kernel:
                raise ElfError(f"two kernels are named {kernel.symbol!r}")
    mach = file.flags & 0xFF
    return AMDGPU_MACHS.get(mach, f"mach 0x{mach:02x}"), tuple(kernels.values())


def _metadata(file: ElfFile) -> list[Mapping[str, Any]]:
    notes = [payload for name, kind, payload in file.notes() if (name, kind) == (b"AMDGPU\0", _NT_METADATA)]
    if not 1 <= len(notes) <= MOST_NOTES:
        raise ElfError("no AMDGPU metadata note" if not notes else f"{len(notes)} AMDGPU metadata notes")
    tables = [_table(read_message(payload)) for payload in notes]
    if any(table["amdhsa.version"] != tables[0]["amdhsa.version"] for table in tables):
        raise ElfError("two AMDGPU metadata notes with different amdhsa.version")
    return tables


def _table(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ElfError("the metadata are no map")
    version = value.get("amdhsa.version")
    if not (isinstance(version, list) and [type(part) for part in version] == [int, int] and version[0] == 1):
        raise ElfError(f"the metadata have amdhsa.version {version!r}, not [1, x]")
    return value


def _rows(table: Mapping[str, Any], key: str, required: bool = False) -> list[Mapping[str, Any]]:
    value = table.get(key)
    if value is None and not required:
        return []
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ElfError(f"{key} of the metadata is no list of maps")
    return value


def _number(row: Mapping[str, Any], key: str) -> int:
    value = row.get(key)
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise ElfError(f"{key} of the metadata is {value!r}, no 32-bit number")
    return value


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise ElfError(f"{key} of the metadata is {value!r}, no text")
    return value


def _kernel(row: Mapping[str, Any], symbols: Mapping[str, int], file: ElfFile) -> KernelImage:
    name, size = _text(row, ".name"), _number(row, ".kernarg_segment_size")
    align = _number(row, ".kernarg_segment_align")
    if align.bit_count() != 1 or size > _MOST_ARGUMENT_BYTES:
        raise ElfError(f"kernel {name!r} has {size} bytes of arguments aligned to {align}")
    for key in (".sgpr_count", ".vgpr_count"):
        _number(row, key)
    if not isinstance(row.get(".uses_dynamic_stack"), bool | None):
        raise ElfError(f".uses_dynamic_stack of kernel {name!r} is no boolean")
    args = tuple(
        (_number(arg, ".offset"), _number(arg, ".size"), _text(arg, ".value_kind"))
        for arg in _rows(row, ".args")
    )
    # Beyond the segment's size is no refusal: AITER ships such kernels.
    for offset, width, _ in args:
        if max(offset, width) > _MOST_ARGUMENT_BYTES:
            raise ElfError(f"an argument of kernel {name!r} has {width} bytes at byte {offset}")
    return KernelImage(
        symbol=name,
        kernarg_size=size,
        args=tuple(arg for arg in args if not arg[2].startswith("hidden_")),
        lds_static=_described_lds(row, symbols, file),
        max_threads=_number(row, ".max_flat_workgroup_size"),
        wave=_number(row, ".wavefront_size"),
        padding=frozenset(_number(arg, ".offset") for arg in _rows(row, ".args") if _is_padding(arg)),
    )


def _is_padding(arg: Mapping[str, Any]) -> bool:
    name = arg.get(".name")
    return isinstance(name, str) and arg[".value_kind"] == "by_value" and PADDING.fullmatch(name) is not None


def _described_lds(row: Mapping[str, Any], symbols: Mapping[str, int], file: ElfFile) -> int:
    """Read static LDS from the kernel's descriptor.

    The hardware goes by it; the rest of the descriptor must fit the metadata.
    """
    symbol = _text(row, ".symbol")
    if symbol not in symbols:
        raise ElfError(f"no symbol {symbol!r}, the kernel's descriptor")
    address = symbols[symbol]
    raw = file.loaded(address, _DESCRIPTOR.size)
    if raw is None:
        raise ElfError(f"descriptor {symbol!r} lies outside of the file")
    lds, scratch, kernarg, entry, properties, preload = _DESCRIPTOR.unpack(raw)
    size = _number(row, ".kernarg_segment_size")
    if kernarg not in (0, size):  # 0: not said
        raise ElfError(f"descriptor {symbol!r} has {kernarg} bytes of arguments, the metadata {size}")
    for key, given in ((".group_segment_fixed_size", lds), (".private_segment_fixed_size", scratch)):
        if _number(row, key) > given:
            raise ElfError(f"{key} is {_number(row, key)} in the metadata, {given} in descriptor {symbol!r}")
    if bool(properties & _WAVE32) != (_number(row, ".wavefront_size") == 32):
        raise ElfError(
            f"descriptor {symbol!r} and .wavefront_size of the metadata differ about waves of 32 lanes"
        )
    # Firmware that preloads arguments starts behind the 256 bytes that do it for older firmware.
    start = address + entry + (_ENTRY_ALIGNMENT if preload & 0x7F else 0)
    if start % _ENTRY_ALIGNMENT or file.loaded(start, 4, code=True) is None:
        raise ElfError(f"the entry of descriptor {symbol!r} is not in the code or not aligned to 256 bytes")
    return int(lds)
