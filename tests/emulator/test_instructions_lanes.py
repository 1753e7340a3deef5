"""Instructions on the wave as a whole: readlane and its relatives, swaps, DS lane exchange; against AMD's
pseudocode but where said.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from emulator.pcode.entries import FUNCTIONS, compiled, text_of
from emulator.pcode.frame import Frame
from emulator.pcode.session import FRESH, TARGETS, report
from emulator.pcode.values import Value, unsigned
from emulator.pcode.vector_cases import differences, noise
from support.instructions import EXEC, LANES, M0, Wave, assemble, run

SOURCE, TARGET, SCALAR, INDEX = 7, 20, 30, M0
#: Mnemonic -> line. Registers: v7 source or address, v9 data, v20 destination, s30 result, m0 lane number.
LINES: Mapping[str, str] = {
    "V_READFIRSTLANE_B32": "v_readfirstlane_b32 s30, v7",
    "V_READLANE_B32": "v_readlane_b32 s30, v7, m0",
    "V_WRITELANE_B32": "v_writelane_b32 v20, s30, m0",
    "V_SWAP_B32": "v_swap_b32 v20, v7",
    "V_PERMLANE16_SWAP_B32": "v_permlane16_swap_b32 v20, v7",
    "V_PERMLANE32_SWAP_B32": "v_permlane32_swap_b32 v20, v7",
    "DS_PERMUTE_B32": "ds_permute_b32 v20, v7, v9 offset:12",
    "DS_BPERMUTE_B32": "ds_bpermute_b32 v20, v7, v9 offset:12",
}
COVERED = frozenset(LINES)
ONLY_GFX950 = ("V_PERMLANE16_SWAP_B32", "V_PERMLANE32_SWAP_B32")
MASKS = ((1 << 64) - 1, 0xF0F0_0000_FFFF_1234, 1 << 37, 0)


def waves(name: str) -> list[Wave]:
    choice = random.Random(f"{FRESH}:{name}")
    found = []
    masks: tuple[int, ...] = (*MASKS, choice.getrandbits(64))
    if "_SWAP_B32" in name and name != "V_SWAP_B32":
        # The text swaps whatever EXEC says. Pairs of lanes that are both on (or off:
        # test_permlane_swap_with_lanes_off) are not in doubt.
        masks = MASKS[:1]
    for i, mask in enumerate(masks):
        wave = noise(i).copy()
        wave.set_pair(EXEC, mask)
        wave.scalar[INDEX] = choice.getrandbits(32)
        if name.startswith("DS_") and i % 2:  # several lanes with the same target
            wave.vector[SOURCE] = [choice.randrange(12) * 4 for _ in range(LANES)]
        found.append(wave)
    return found


def expected(name: str, encoding: str, before: Wave) -> Wave:
    """The pseudocode run once for the wave, or (v_swap) once per active lane."""
    text = text_of(encoding, name)
    assert text is not None
    after = before.copy()
    mask = before.pair(EXEC)
    lanes = [lane for lane in range(LANES) if mask >> lane & 1] if name == "V_SWAP_B32" else [0]
    for lane in lanes:
        frame = _frame(name, before, lane, mask)
        compiled(text)(frame)
        for (row_lane, number), value in frame.register_writes.items():
            after.vector[number, row_lane] = value.bits
        if name == "V_SWAP_B32":
            after.vector[TARGET, lane], after.vector[SOURCE, lane] = (
                frame.values["D0"].bits,
                frame.values["S0"].bits,
            )
        elif frame.written["D0"]:
            after.scalar[SCALAR] = frame.values["D0"].bits
    return after


def _frame(name: str, wave: Wave, lane: int, mask: int) -> Frame:
    exchange = name.startswith("DS_")
    values: dict[str, Value] = {
        "EXEC": unsigned(mask, 64), "SRC0": unsigned(SOURCE), "VDST": unsigned(TARGET), "ADDR": unsigned(SOURCE),
        "DATA0": unsigned(9),
        "OFFSET": unsigned(12, 16), "D0": unsigned(int(wave.vector[TARGET, lane])), "S1": unsigned(int(wave.scalar[INDEX])),
        "S0": unsigned(int(wave.scalar[SCALAR] if name == "V_WRITELANE_B32" else wave.vector[SOURCE, lane])),
    }  # fmt: skip
    if exchange:
        values["EXEC"] = unsigned(mask, 64)
    return Frame(
        values,
        written={"D0": 0, "S0": 0},
        functions=FUNCTIONS,
        registers=lambda at, number: int(wave.vector[number, at]),
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(LINES))
def test_whole_wave(target: str, name: str) -> None:
    (line,) = assemble(target, [LINES[name]])
    if target == "gfx942" and name in ONLY_GFX950:
        assert not line.words
        return
    assert line.words, line.error
    encoding = (
        "DS"
        if name.startswith("DS_")
        else "VOP3"
        if name in ("V_READLANE_B32", "V_WRITELANE_B32")
        else "VOP1"
    )
    found = []
    for before in waves(name):
        after, want = run(target, line.words, before), expected(name, encoding, before)
        found += [f"{text}, EXEC {before.pair(EXEC):#x}" for text in differences(want, after)]
    assert not found, report(found)


def swizzled(lane: int, offset: int) -> int:
    """The lane that DS_SWIZZLE_B32 reads. The package's text has only the FFT table; quad and bit-mask
    modes are from the CDNA3 ISA document: offset[15] quads with two bits per lane; otherwise and[4:0],
    or[9:5], xor[14:10] on the lane within 32.
    """
    if offset & 0x8000:
        return lane & ~3 | offset >> 2 * (lane & 3) & 3
    within = (lane & offset & 31 | offset >> 5 & 31) ^ offset >> 10 & 31
    return lane & ~31 | within


@pytest.mark.parametrize("target", TARGETS)
def test_swizzle(target: str) -> None:
    choice = random.Random(FRESH)
    offsets = (
        [0x8000 | choice.getrandbits(8) for _ in range(4)]
        + [choice.getrandbits(15) for _ in range(8)]
        + [0x1F, 0x041F, 0x7C1F]
    )
    for offset, line in zip(
        offsets, assemble(target, [f"ds_swizzle_b32 v20, v7 offset:{n}" for n in offsets]), strict=True
    ):
        for mask in MASKS:
            before = noise(1).copy()
            before.set_pair(EXEC, mask)
            after = run(target, line.words, before)
            for lane in range(LANES):
                place = swizzled(lane, offset)
                want = int(before.vector[TARGET, lane])
                if mask >> lane & 1:  # a lane that is off gives 0
                    want = int(before.vector[SOURCE, place]) if mask >> place & 1 else 0
                assert int(after.vector[TARGET, lane]) == want, (hex(offset), lane, hex(mask))


@pytest.mark.parametrize(("name", "width"), [("v_permlane16_swap_b32", 16), ("v_permlane32_swap_b32", 32)])
def test_permlane_swap_with_lanes_off(name: str, width: int) -> None:
    """Without modifiers a lane that is off is not written, and one whose partner is off keeps its value:
    the instruction has bound_ctrl and fi as DPP moves have them, so EXEC must count; AMD's text is
    silent.
    """
    (line,) = assemble("gfx950", [f"{name} v20, v7"])
    for mask in MASKS:
        before = noise(1).copy()
        before.set_pair(EXEC, mask)
        after, want = run("gfx950", line.words, before), before.copy()
        for even in range(LANES):
            odd = even + width
            if not even & width and mask >> even & 1 and mask >> odd & 1:
                want.vector[TARGET, odd], want.vector[SOURCE, even] = (
                    before.vector[SOURCE, even],
                    before.vector[TARGET, odd],
                )
        assert (want.vector == after.vector).all()
