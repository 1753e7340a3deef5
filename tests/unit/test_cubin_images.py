"""What `verify` reads of a cubin: kernels by their sections, parameters in their order, the architecture in either place."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from aiter_prebuilt.bundles import elf
from aiter_prebuilt.bundles.kernel_image import Image, KernelImage
from aiter_prebuilt.contract.elf import ElfError

CUDA = 190


def cubin(sections: Mapping[str, bytes], flags: int = 90, machine: int = CUDA) -> bytes:
    """An ELF with these sections."""
    names, rows, body = b"\0", b"", b""
    places = {}
    for name in sections:
        places[name] = len(names)
        names += name.encode() + b"\0"
    at = 64
    for name, contents in [("", names), *sections.items()]:
        rows += struct.pack("<IIQQQQIIQQ", places.get(name, 0), 1, 0, 0, at, len(contents), 0, 0, 0, 0)
        body += contents
        at += len(contents)
    header = struct.pack(
        "<4sBBBBB7xHHIQQQIHHHHHH",
        b"\x7fELF", 2, 1, 1, 51, 7, 2, machine, 1, 0, 0, at, flags, 64, 0, 0, 64, len(sections) + 1, 0,
    )  # fmt: skip
    return header + body + rows


def value(attribute: int, size: int) -> bytes:
    """An attribute that is a number."""
    return struct.pack("<BBH", 3, attribute, size)


def parameter(ordinal: int, offset: int, size: int) -> bytes:
    return struct.pack("<BBHIHHI", 4, 0x17, 12, 0, ordinal, offset, size << 18 | 0x1F000)


OTHER = struct.pack("<BBH", 4, 0x2F, 8) + b"\x17\x17\x17\x17\x04\x17\x0c\x00"


def test_kernels_and_their_parameters() -> None:
    first = (
        OTHER
        + parameter(1, 8, 4)
        + value(0x19, 20)
        + parameter(0, 0, 8)
        + parameter(2, 16, 4)
        + value(0x1B, 99)
    )
    data = cubin(
        {
            ".text.two": b"",
            ".nv.info": parameter(0, 0, 8),
            ".text.helper": b"",
            ".nv.info.two": b"",
            ".text.one": b"x",
            ".nv.info.one": first,
        }
    )
    assert elf.read(data) == Image(
        CUDA, "sm_90",
        (
            KernelImage("two", 0, (), 0, 1024, 32),
            KernelImage("one", 20, ((0, 8, "by_value"), (8, 4, "by_value"), (16, 4, "by_value")), 0, 1024, 32),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "target"),
    [(90, "sm_90"), (0x500 | 90, "sm_90"), (0x5A02, "sm_90"), (30, "sm_30"), (0x641D, "sm_100"), (29 | 80 << 8, "sm_80"),
    (0xFF00_5900, "sm_89")],
)  # fmt: skip
def test_the_architecture(flags: int, target: str) -> None:
    assert elf.read(cubin({}, flags)).target == target


@pytest.mark.parametrize("behind", [b"", b"\4", b"\4\x17\x0c"])
def test_half_an_attribute_at_the_end_is_none(behind: bytes) -> None:
    (kernel,) = elf.read(cubin({".text.k": b"", ".nv.info.k": parameter(0, 0, 8) + behind})).kernels
    assert kernel.args == ((0, 8, "by_value"),)


def test_a_parameter_that_leaves_the_file() -> None:
    data = cubin({".text.k": b"", ".nv.info.k": b""})
    data = data[:40] + struct.pack("<Q", 64) + data[48:]
    with pytest.raises(ElfError):
        elf.read(data)


@pytest.mark.parametrize("machine", [3, 62, 189, 191, 223, 225])
def test_other_machines(machine: int) -> None:
    with pytest.raises(ElfError, match=rf"^machine {machine} is no GPU that is known here$"):
        elf.read(cubin({}, machine=machine))


def test_the_first_of_two_kernels_of_a_name() -> None:
    one, two = (KernelImage("k", size, (), 0, 1024, 32) for size in (1, 2))
    assert Image(CUDA, "sm_90", (one, two)).by_symbol == {"k": one}
