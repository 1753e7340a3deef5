"""Code that reads or writes memory less than 4 bytes at a time beside matrix instructions is found, and named."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from build_tools.objects import subdword_access
from build_tools.report import subdword_loops
from build_tools.report.reason_table import read_table

ROOT = Path(__file__).resolve().parents[2]
#: gfx942, as clang writes it.
MFMA = (0xD3CD8000, 0x04020900)
USHORT, DWORD, BUFFER_USHORT = (0xDC488000, 0x007F0000), (0xDC508000, 0x007F0000), (0xE0481000, 0x80040000)
SHORT, DWORDX2 = (0xDC688000, 0x007F0000), (0xDC748000, 0x007F0000)
LITERAL = (0xBEFF00FF, 0xDC488000)  # s_mov_b32 of a number that looks like a load
NOP, END = (0xBF800000,), (0xBF810000,)


def back(words: int, opcode: int = 5) -> tuple[int]:
    """A branch (on scc1) over so many words before it, itself not counted."""
    return (0xBF800000 | opcode << 16 | (0xFFFF & (-words - 1)),)


def code_object(*parts: tuple[int, ...]) -> bytes:
    """An ELF with this text."""
    words = [word for part in parts for word in part]
    text, names = struct.pack(f"<{len(words)}I", *words), b"\0.text\0.shstrtab\0"
    head = (
        b"\x7fELF\2\1\1"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 2)
    )
    start = 64 + 3 * 64
    rows = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, 1, 6, 0, start, len(text), 0, 0, 4, 0),
        (7, 3, 0, 0, start + len(text), len(names), 0, 0, 1, 0),
    ]
    return head + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows) + text + names


@pytest.mark.parametrize(
    ("parts", "loads", "stores"),
    [
        ((USHORT, MFMA, back(4), END), {"load_ushort": 1}, {}),
        ((BUFFER_USHORT, USHORT, MFMA, back(6), END), {"load_ushort": 2}, {}),
        ((DWORD, MFMA, back(4), SHORT, SHORT, END), {}, {"store_short": 2}),
        ((DWORD, MFMA, back(4), DWORDX2, END), {}, {}),
        ((USHORT, DWORD, MFMA, back(4), END), {}, {}),  # before the loop
        ((DWORD, MFMA, back(4), USHORT, back(7), END), {}, {}),  # in an outer loop
        ((USHORT, NOP, back(3), SHORT, END), {}, {}),  # no matrix instruction
        ((USHORT, MFMA, back(4, opcode=9), END), {}, {}),  # back for the order of blocks
        ((LITERAL, MFMA, back(4), END), {}, {}),
    ],
)
def test_narrow_accesses_are_counted(
    parts: tuple[tuple[int, ...], ...], loads: dict[str, int], stores: dict[str, int]
) -> None:
    assert subdword_access.narrow(code_object(*parts)) == (loads, stores)


def test_what_is_found_is_said() -> None:
    first, second = subdword_access.said(code_object(USHORT, MFMA, back(4), SHORT, END))
    assert (
        first == "narrow: its loop of matrix instructions reads less than 4 bytes at a time (load_ushort 1)"
    )
    assert (
        second == "narrow: beside matrix instructions it stores less than 4 bytes at a time (store_short 1)"
    )
    assert not list(subdword_access.said(b"no ELF"))


def test_a_kernel_without_a_reason_is_named_once(tmp_path: Path) -> None:
    note = next(iter(subdword_access.said(code_object(USHORT, MFMA, back(4), END))))
    jobs = [
        {"id": f"gfx942-triton-{name}", "audit": {"notes": notes}}
        for name, notes in (
            ("product.planted-16x64-bf16", [note]), ("product.planted-64x64-bf16", [note]),
            ("product.wide-16x64-bf16", ["spills: 1 VGPR, 0 SGPR"]), ("product.told-16x64-bf16", [note]),
        )
    ]  # fmt: skip
    (tmp_path / "manifests").mkdir()
    (tmp_path / subdword_loops.FILE).write_text('edition = 1\n[kernels]\ntold = "why"\n')
    (line,) = subdword_loops.lines({"jobs": [*jobs, {"id": "gfx942-asm-x.y-z"}]}, tmp_path)
    assert line.startswith(f"gfx942-triton-product.planted-16x64-bf16: {note} (mend it, or say in ")


def test_each_reason_is_of_a_kernel_that_there_is() -> None:
    reasons = read_table(ROOT, subdword_loops.FILE, subdword_loops.Reasons).kernels
    texts = [path.read_text() for path in ROOT.glob("manifests/*/operators.toml")]
    for name in reasons:
        kernel = name.rpartition(".")[2]
        assert any(f"[kernels.{kernel}" in text for text in texts), name
    assert reasons
