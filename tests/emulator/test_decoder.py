"""The decoder against the assembler: what is printed must assemble to the bytes that were decoded, real and random."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from support.coverage import code_objects
from support.encodings import Generator, Sample
from support.instructions import assemble, disassemble
from support.one_wave import run_wave

from csrc.emulator.generate import isa_tables

TARGETS = ("gfx942", "gfx950")
#: The assembler's second names: matrix shapes without an underscore before the type, and older ones.
ALIAS = re.compile(r"v_mfma_[a-z0-9]+_\d+x\d+x\d+[a-z]|v_mul_lo_i32$|v_accvgpr_(read|write)$")


def has(row: isa_tables.OpcodeRow, target: str) -> bool:
    return bool(row.targets & (1 << TARGETS.index(target)))


@cache
def table() -> tuple[isa_tables.OpcodeRow, ...]:
    return tuple(isa_tables.rows())


@pytest.mark.parametrize("target", TARGETS)
def test_random_instructions_of_every_opcode(target: str) -> None:
    seed = random.randrange(1 << 32)
    generator = Generator(seed)
    samples: list[Sample] = []
    lines: list[str] = []
    for row in (row for row in table() if has(row, target)):
        for sample in generator.samples(row, 5):
            text, size = disassemble(target, sample.words)
            if not size:  # a literal and another second dword exclude each other
                assert sample.what in ("sdwa", "dpp"), (seed, row.opcode, sample.what, text)
                continue
            assert size == len(sample.words), (seed, row.opcode, text)
            samples.append(sample)
            lines.append(text)
    accepted: dict[tuple[str, str], int] = defaultdict(int)
    for sample, text, result in zip(samples, lines, assemble(target, lines), strict=True):
        if result.words:
            assert result.words == sample.words, (seed, sample.row.encoding, sample.what, text)
            accepted[sample.row.encoding, sample.row.opcode] += sample.what == "plain"
    refused = [
        (row.encoding, row.opcode)
        for row in table()
        if has(row, target) and not accepted[row.encoding, row.opcode]
    ]
    assert not refused, (seed, "the assembler takes no plain form of these")


@pytest.mark.parametrize("target", TARGETS)
def test_opcodes_of_the_other_target_are_unknown(target: str) -> None:
    generator = Generator(random.randrange(1 << 32))
    absent = [row for row in table() if not has(row, target)]
    assert absent
    for row in absent:
        for sample in generator.samples(row, 2):
            text, size = disassemble(target, sample.words)
            if row.encoding == "vop3px2":  # where its prefix is unknown, so is the whole
                assert size == 0, text
            assert size == 0 or not text.startswith(isa_tables.mnemonic(row.opcode)), text


@cache
def names_in_clang() -> tuple[str, ...]:
    """Everything in clang's executable that looks like an instruction's name."""
    ziglang = pytest.importorskip("ziglang")
    data = (Path(ziglang.__file__).parent / "zig").read_bytes()
    pattern = rb"(?<![a-z0-9_])(?:v|s|ds|buffer|tbuffer|global|flat|scratch)_[a-z0-9_]+"
    return tuple(sorted({match.decode() for match in re.findall(pattern, data) if len(match) < 60}))


@pytest.mark.parametrize("target", TARGETS)
def test_the_tables_have_every_mnemonic_of_the_assembler(target: str) -> None:
    """What clang takes as an instruction of the target, the tables must have, and nothing else."""
    names = names_in_clang()
    assert len(names) > 2000
    known: set[str] = set()
    for name, result in zip(names, assemble(target, names), strict=True):
        exists = result.words or not re.search(r"not supported|invalid instruction|unknown", result.error)
        if exists and not ALIAS.match(name):
            known.add(re.sub(r"_(e32|e64|sdwa|dpp)$", "", name))
    ours = {isa_tables.mnemonic(row.opcode) for row in table() if has(row, target)}
    assert len(ours) > 1000
    assert known == ours


def text_words(image: bytes) -> tuple[int, ...]:
    """The words of ``.text``."""
    import io

    elffile = pytest.importorskip("elftools.elf.elffile")
    data = elffile.ELFFile(io.BytesIO(image)).get_section_by_name(".text").data()
    return tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))


def listing(target: str, words: tuple[int, ...], known: dict[tuple[int, ...], str]) -> None:
    """Adds the instructions of a program to ``known``. Each is asked about once: bundles hold millions, and most are alike. No
    instruction begins as another one, which :func:`test_any_bits_are_decoded_within_the_code` asks.
    """
    at = 0
    while at < len(words):
        if words[at] == 0:  # between two kernels of an object; no instruction is all zeros
            at += 1
            continue
        size = next((size for size in range(1, 5) if words[at : at + size] in known), 0)
        if not size:
            text, size = disassemble(target, words[at : at + 4], 4 * at)
            assert size, f"word {at}: {text}"
            known[words[at : at + size]] = text
        at += size


# op_sel[2] and op_sel_hi[2] of v_mfma_ld_scale_b32, the prefix of v_mfma_scale: it has two sources, so nothing
# reads them. LLVM's assembler sets both, the one that made AITER's f4gemm objects neither.
NO_THIRD_SOURCE = 0x6000


def spelt(text: str, words: tuple[int, ...]) -> str:
    """As LLVM's assembler needs it: a scalar load has an offset of 0 beside a register, or none, and both read the same."""
    both = words[0] >> 26 == 0b110000 and words[0] & 0x24000 == 0x24000 and words[1] & 0x1FFFFF == 0
    return f"{text} offset:0x0" if both else text


def test_our_code_objects() -> None:
    """Every instruction of a fifth of the code objects of the built gfx950 bundles, another one in each run."""
    known: dict[tuple[int, ...], str] = {}
    images = [image for _, image in code_objects("gfx950")]
    lot = random.sample(images, len(images) // 5)
    for image in lot:
        listing("gfx950", text_words(image), known)
    assert len(lot) > 20
    assert len(known) > 5000
    both = sorted((text, words) for words, text in known.items())
    for (text, words), result in zip(both, assemble("gfx950", [spelt(*each) for each in both]), strict=True):
        unread = NO_THIRD_SOURCE if text.startswith("v_mfma_scale_") else 0
        assert result.words, (text, result.error)
        assert (result.words[0] | unread, *result.words[1:]) == (words[0] | unread, *words[1:]), text


@pytest.mark.parametrize("target", TARGETS)
def test_any_bits_are_decoded_within_the_code(target: str) -> None:
    """Random dwords, cut off after one to four: an instruction that needs more than there is, is none."""
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    decoded = 0
    for _ in range(20_000):
        words = [draw.getrandbits(32) for _ in range(draw.randint(1, 4))]
        text, size = disassemble(target, words)
        assert 0 <= size <= len(words), (seed, [hex(word) for word in words], text)
        decoded += size > 0
        if size > 1:
            assert disassemble(target, words[: size - 1])[1] == 0, (seed, text)
            longer = disassemble(target, [*words, 0, 0])
            assert longer == (text, size) or "mfma" in longer[0], (seed, text, longer)
    assert decoded > 5_000


# Inline constants and literals in the format of the operand that reads them, as bits of the result.
CONSTANTS = (
    ("v_mov_b32 v1, 1.0", 1, 0x3F800000),
    ("v_mov_b32 v1, -16", 1, 0xFFFFFFF0),
    ("v_mov_b32 v1, 0.15915494", 1, 0x3E22F983),
    ("v_or_b32 v1, 4.0, v0", 1, 0x40800000),
    ("v_max_f16_e64 v1, 0.5, 0.5", 1, 0x3800),
    ("v_max_f16_e64 v1, 0.15915494, 0.15915494", 1, 0x3118),
    ("v_pk_max_f16 v1, 2.0, v0", 1, 0x4000),  # the half stands in the lower bits alone
    ("v_pk_max_f16 v1, 2.0, v0 op_sel_hi:[0,1]", 1, 0x40004000),
    ("v_pk_max_u16 v1, 1.0, v0", 1, 0x3F800000),  # an integer operation sees the single
    ("v_pk_add_u16 v1, -1, v0", 1, 0xFFFFFFFF),
    ("v_max_f64 v[0:1], 1.0, 1.0", 0, 0),
    ("v_max_f64 v[0:1], 1.0, 1.0", 1, 0x3FF00000),
    ("v_max_f64 v[0:1], 0.15915494309189532, 0.15915494309189532", 0, 0x6DC9C882),
    ("v_max_f64 v[0:1], 0.15915494309189532, 0.15915494309189532", 1, 0x3FC45F30),
    ("v_cvt_f32_f64 v1, 0x40080000", 1, 0x40400000),  # a double's literal is its upper half: 3.0
    ("v_lshl_add_u64 v[0:1], -1, 0, 0", 1, 0xFFFFFFFF),
    ("v_fmamk_f32 v1, v0, 0x3f800000, v0", 1, 0),
    ("v_fmaak_f32 v1, v0, v0, 0x40a00000", 1, 0x40A00000),
)


@pytest.mark.parametrize(("source", "register", "bits"), CONSTANTS)
@pytest.mark.parametrize("target", TARGETS)
def test_constants(target: str, source: str, register: int, bits: int) -> None:
    result = run_wave(target, source + "\ns_endpgm")
    assert not result.fault, result.message
    assert result.row(register) == [bits] * 64


@pytest.mark.parametrize(
    ("source", "bits"),
    [
        ("s_mov_b64 s[2:3], 1.0", 0x3FF0000000000000),
        ("s_mov_b64 s[2:3], -2", 0xFFFFFFFFFFFFFFFE),
        ("s_mov_b64 s[2:3], 0x80000001", 0x80000001),  # unsigned: extended with zeros
        ("s_ashr_i64 s[2:3], 0x80000001, 0", 0xFFFFFFFF80000001),  # signed: extended with the sign
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_scalar_constants_of_64_bits(target: str, source: str, bits: int) -> None:
    result = run_wave(target, source + "\ns_endpgm")
    assert not result.fault, result.message
    assert result.pair(2) == bits
