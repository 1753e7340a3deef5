"""Read a code object with the standard library alone: what `verify` needs on a machine that has nothing else.

AMDGPU: ELF64, machine 0xE0 (``amdgpu.py``).
CUDA: ELF64, machine 190, one ``.text.NAME`` per kernel, and ``.nv.info.NAME`` with a parameter record per argument.
NVIDIA publishes no specification of ``.nv.info``, so that part is from public binary tools and is checked against what
Triton's own compiler reports.
"""

from __future__ import annotations

import struct
from typing import Final

from aiter_prebuilt.bundles.amdgpu import read_amdgpu
from aiter_prebuilt.bundles.kernel_image import Image, KernelImage
from aiter_prebuilt.bundles.message import MessageError
from aiter_prebuilt.contract.elf import ElfError, ElfFile, Section

EM_AMDGPU: Final = 0xE0
EM_CUDA: Final = 190
_EIATTR_KPARAM_INFO: Final = 0x17
_EIATTR_CBANK_PARAM_SIZE: Final = 0x19
_EIFMT_SVAL: Final = 0x04


def read(data: bytes) -> Image:
    """Read a code object.

    Raises:
        ElfError: it is cut off, is no ELF, contradicts itself, or is for another kind of machine.
    """
    reader = ElfFile(data)
    try:
        if reader.machine == EM_AMDGPU:
            return Image(EM_AMDGPU, *read_amdgpu(reader))
        if reader.machine == EM_CUDA:
            return _read_cuda(reader)
    except MessageError as error:
        raise ElfError(str(error)) from None
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError, struct.error) as error:
        raise ElfError(f"metadata that breaks its own form: {error!r}") from None
    raise ElfError(f"machine {reader.machine} is no GPU that is known here")


def _read_cuda(reader: ElfFile) -> Image:
    kernels = []
    for section in reader.sections:
        if not section.name.startswith(".text."):
            continue
        symbol = section.name[len(".text.") :]
        info = reader.section_of_name.get(".nv.info." + symbol)
        if info is None:
            continue  # a device function, not a kernel
        args, size = _cuda_parameters(reader, info)
        kernels.append(KernelImage(symbol, size, args, 0, 1024, 32))
    # CUDA 13 ELFs carry the architecture in bits 8..15 of the flags, older ones in 0..7
    number = (reader.flags >> 8) & 0xFF if (reader.flags & 0xFF) < 30 else reader.flags & 0xFF
    return Image(reader.machine, f"sm_{number}", tuple(kernels))


def _cuda_parameters(reader: ElfFile, info: Section) -> tuple[tuple[tuple[int, int, str], ...], int]:
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
