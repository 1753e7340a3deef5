"""Read an ELF: an AMDGPU code object or a CUDA cubin.

See ``amdgpu.py`` and ``cubin.py``.

Read only; judging is ``audit.py``.
"""

from __future__ import annotations

import io
from typing import Final

from elftools.elf.elffile import ELFFile

from aiter_prebuilt.contract.elf import NOTE, STRTAB, ElfError, ElfFile
from aiter_prebuilt.contract.targets import NAMES
from build_tools.errors import CodeObjectError
from build_tools.objects.amdgpu import read_amdgpu
from build_tools.objects.cubin import bounded, read_cubin
from build_tools.records import CodeObjectFacts

EM_CUDA: Final = 190
EM_AMDGPU: Final = 224
_BUNDLE_MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_MAGIC: Final = b"CCOB"
_FATBIN_MAGIC: Final = b"\x50\xed\x55\xba"


def read(data: bytes) -> CodeObjectFacts:
    """Return the facts of one code object.

    Raises:
        CodeObjectError: not an ELF, truncated, for another machine, or a bundle of several.
    """
    _refuse_containers(data)
    try:
        file = ElfFile(data)
        if file.machine == EM_AMDGPU:
            return read_amdgpu(file)
        if file.machine == EM_CUDA:
            bounded(file)
            return read_cubin(ELFFile(io.BytesIO(data)), data)
        machine = ELFFile(io.BytesIO(data)).header["e_machine"]
    except CodeObjectError:
        raise
    except ElfError as error:
        raise CodeObjectError(
            "read a code object", f"the file is damaged: {error}", "Compile or copy it again"
        ) from error
    except Exception as error:
        # msgpack and pyelftools meet broken bytes with whatever their parsers raise; here all of it means a damaged file.
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
    """Return the parts of an ELF in which names stand.

    Its string tables and notes, one after the other.

    Raises:
        CodeObjectError: the file is damaged.
    """
    try:
        file = ElfFile(data)
        places = [file.walk(section) for section in file.sections if section.kind in (STRTAB, NOTE)]
    except ElfError as error:
        raise CodeObjectError(
            "read a code object", f"the file is damaged: {error}", "Compile it again"
        ) from error
    return b"\0".join(data[place.start : place.stop] for place in places)


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
            f"Give it a code object for one of {NAMES}",
        )
