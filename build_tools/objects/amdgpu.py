"""Read the kernels of an AMDGPU code object.

Their facts are in its metadata note and kernel descriptors.

Reader only; called by ``codeobject.read``.

Source: LLVM's "User Guide for AMDGPU Backend", code object versions 4 to 6. What a driver goes by is read where the driver
reads it: notes and descriptors through the program headers. ``tests/data/code_object_vectors.toml`` compares this reader
with the two others of this project.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgpack

from aiter_prebuilt.contract.elf import MOST_NOTES, ElfFile
from aiter_prebuilt.contract.targets import AMDGPU_MACHS
from build_tools.errors import CodeObjectError
from build_tools.records import ArgFacts, CodeObjectFacts, KernelFacts

_ELFOSABI_HSA, _ET_DYN = 64, 3
_NT_METADATA: Final = 32
_XNACK: Final = {0x200: "xnack-", 0x300: "xnack+"}
_SRAMECC: Final = {0x800: "sramecc-", 0xC00: "sramecc+"}
#: EI_ABIVERSION. Version 3 (1) gives the feature bits of e_flags another meaning.
_VERSIONS: Final = {2: 4, 3: 5, 4: 6}
DESCRIPTOR_SIZE: Final = 64
_ENTRY_ALIGNMENT: Final = 256
_WAVE32: Final = 1 << 10
_DYNAMIC_STACK: Final = 1 << 11
# Maps and lists: far deeper than any metadata. Bytes of arguments: far more than any kernel has.
_DEEPEST, _MOST_ARGUMENT_BYTES = 16, 1 << 20


def read_amdgpu(file: ElfFile) -> CodeObjectFacts:
    """Return the facts of an AMDGPU ELF.

    Raises:
        CodeObjectError: it is not linked, damaged, or contradicts itself.
        ElfError: it is damaged.
    """
    if file.os_abi != _ELFOSABI_HSA:
        raise _refusal(
            f"the AMDGPU ELF has OS ABI {file.os_abi}, not HSA", "Compile it for amdgcn-amd-amdhsa"
        )
    if file.kind != _ET_DYN:
        raise _refusal(
            f"the AMDGPU ELF is of type {file.kind}, not linked", "Link it: ld.lld -shared FILE -o OUT.co"
        )
    if file.abi_version not in _VERSIONS:
        raise _refusal(
            f"its ABI version {file.abi_version} is none of code object version 4, 5 or 6",
            "Compile it with -mcode-object-version=5",
        )
    symbols = file.symbols()
    kernels = [_kernel(row, symbols, file) for table in _metadata(file) for row in _rows(table)]
    for name, count in Counter(kernel.symbol for kernel in kernels).items():
        if count > 1:
            raise _refusal(f"two kernels are named {name}")
    flags = file.flags
    return CodeObjectFacts(
        target=AMDGPU_MACHS.get(flags & 0xFF, f"mach 0x{flags & 0xFF:02x}"),
        vendor="amd",
        version=_VERSIONS[file.abi_version],
        features=tuple(
            name for name in (_SRAMECC.get(flags & 0xC00), _XNACK.get(flags & 0x300)) if name is not None
        ),
        kernels=tuple(sorted(kernels, key=lambda kernel: kernel.symbol)),
        symbols=tuple(sorted(symbols)),
        size=len(file.data),
        sha256=hashlib.sha256(file.data).hexdigest(),
    )


def _refusal(found: str, fix: str = "Compile or copy it again") -> CodeObjectError:
    return CodeObjectError("read a code object", found, fix)


def _metadata(file: ElfFile) -> list[Mapping[str, Any]]:
    """Read the maps of the metadata notes.

    The linker puts the notes of its inputs behind one another.
    """
    notes = [payload for name, kind, payload in file.notes() if (name, kind) == (b"AMDGPU\0", _NT_METADATA)]
    if not notes:
        raise _refusal("it has no AMDGPU metadata note", "Recompile it with code object version 5")
    if len(notes) > MOST_NOTES:
        raise _refusal(f"it has more than {MOST_NOTES} metadata notes")
    tables = [_unpacked(payload) for payload in notes]
    if any(table["amdhsa.version"] != tables[0]["amdhsa.version"] for table in tables):
        raise _refusal("it has two metadata notes with different amdhsa.version")
    return tables


def _unpacked(blob: bytes) -> Mapping[str, Any]:
    # Not unpackb: bytes may follow the map.
    unpacker = msgpack.Unpacker(strict_map_key=False, object_pairs_hook=_map, ext_hook=_no_extension)
    unpacker.feed(blob)
    table = unpacker.unpack()
    if not isinstance(table, dict):
        raise _refusal("its metadata are no map", "Recompile it")
    _check_values(table, 0)
    version = table.get("amdhsa.version")
    if not (isinstance(version, list) and [type(part) for part in version] == [int, int] and version[0] == 1):
        raise _refusal(f"its metadata have amdhsa.version {version!r}, not [1, x]", "Recompile it")
    return table


def _map(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs) or not all(isinstance(key, str) for key in table):
        raise _refusal("a map of its metadata has a key twice or one that is no text")
    return table


def _no_extension(kind: int, _: bytes) -> None:
    raise _refusal(f"its metadata have a MessagePack extension of type {kind}")


def _check_values(value: object, depth: int) -> None:
    if depth > _DEEPEST:
        raise _refusal(f"its metadata nest deeper than {_DEEPEST}")
    if isinstance(value, msgpack.Timestamp):
        _no_extension(-1, b"")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_values(part, depth + 1)


def _rows(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _list(table, "amdhsa.kernels", required=True)


def _list(row: Mapping[str, Any], key: str, required: bool = False) -> list[Mapping[str, Any]]:
    value = row.get(key)
    if value is None and not required:
        return []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise _refusal(f"{key} of its metadata is no list of maps", "Recompile it")
    return value


def _number(row: Mapping[str, Any], key: str, required: bool = True) -> int:
    value = row.get(key)
    if value is None and not required:
        return 0
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise _refusal(f"{key} of its metadata is {value!r}, no 32-bit number", "Recompile it")
    return value


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise _refusal(f"{key} of its metadata is {value!r}, no text", "Recompile it")
    return value


def _word(row: Mapping[str, Any], key: str) -> str:
    """Read an optional text.

    Only words for people and the audit depend on it.
    """
    value = row.get(key)
    return value if isinstance(value, str) else ""


def _kernel(row: Mapping[str, Any], symbols: Mapping[str, int], file: ElfFile) -> KernelFacts:
    symbol, size, align = (
        _text(row, ".name"),
        _number(row, ".kernarg_segment_size"),
        _number(row, ".kernarg_segment_align"),
    )
    stack = row.get(".uses_dynamic_stack")
    if not isinstance(stack, bool | None):
        raise _refusal(f".uses_dynamic_stack of its metadata is {stack!r}, no boolean", "Recompile it")
    if align.bit_count() != 1 or size > _MOST_ARGUMENT_BYTES:
        raise _refusal(f"kernel {symbol} has {size} bytes of arguments aligned to {align}", "Recompile it")
    args = [
        ArgFacts(
            _number(arg, ".offset"),
            _number(arg, ".size"),
            _text(arg, ".value_kind"),
            _word(arg, ".name"),
            _word(arg, ".actual_access") or _word(arg, ".access"),
        )
        for arg in _list(row, ".args")
    ]
    # Beyond the segment's size is no refusal: AITER ships such kernels.
    for offset, width, *_ in args:
        if max(offset, width) > _MOST_ARGUMENT_BYTES:
            raise _refusal(
                f"an argument of kernel {symbol} has {width} bytes at byte {offset}", "Recompile it"
            )
    lds, scratch, preload, properties = _descriptor(row, symbols, file)
    return KernelFacts(
        symbol=symbol,
        kernarg_size=size,
        kernarg_align=align,
        args=tuple(arg for arg in args if not arg.kind.startswith("hidden_")),
        hidden=tuple(arg.kind for arg in args if arg.kind.startswith("hidden_")),
        lds_static=lds,
        max_threads=_number(row, ".max_flat_workgroup_size"),
        wave=_number(row, ".wavefront_size"),
        sgprs=_number(row, ".sgpr_count"),
        vgprs=_number(row, ".vgpr_count"),
        agprs=_number(row, ".agpr_count", required=False),
        sgpr_spills=_number(row, ".sgpr_spill_count", required=False),
        vgpr_spills=_number(row, ".vgpr_spill_count", required=False),
        scratch=scratch,
        # Bits 0 to 6 are the length in dwords, the rest the first dword.
        kernarg_preload=preload & 0x7F,
        uses_dynamic_stack=bool(stack) or bool(properties & _DYNAMIC_STACK),
    )


def _descriptor(
    row: Mapping[str, Any], symbols: Mapping[str, int], file: ElfFile
) -> tuple[int, int, int, int]:
    """Read the kernel's descriptor: static LDS, scratch, preload and properties.

    The hardware goes by it.

    Raises:
        CodeObjectError: there is none, or it contradicts the metadata.
    """
    symbol = _text(row, ".symbol")
    if symbol not in symbols:
        raise _refusal(f"it has no symbol {symbol}, the kernel's descriptor")
    address = symbols[symbol]
    raw = file.loaded(address, DESCRIPTOR_SIZE)
    if raw is None:
        raise _refusal(f"descriptor {symbol} points outside of all segments")
    lds, scratch, kernarg, entry, properties, preload = struct.unpack("<III4xq20x12xHH4x", raw)
    size = _number(row, ".kernarg_segment_size")
    if kernarg not in (0, size):  # 0: not said
        raise _refusal(f"descriptor {symbol} has {kernarg} bytes of arguments, the metadata {size}")
    for key, given in ((".group_segment_fixed_size", lds), (".private_segment_fixed_size", scratch)):
        if _number(row, key) > given:
            raise _refusal(f"{key} is {_number(row, key)} in the metadata, {given} in descriptor {symbol}")
    if bool(properties & _WAVE32) != (_number(row, ".wavefront_size") == 32):
        raise _refusal(
            f"descriptor {symbol} and .wavefront_size of the metadata differ about waves of 32 lanes"
        )
    # Firmware that preloads arguments starts behind the 256 bytes that do it for older firmware.
    start = address + entry + (_ENTRY_ALIGNMENT if preload & 0x7F else 0)
    if start % _ENTRY_ALIGNMENT or file.loaded(start, 4, code=True) is None:
        raise _refusal(f"the entry of descriptor {symbol} is not in the code or not aligned to 256 bytes")
    return lds, scratch, preload, properties
