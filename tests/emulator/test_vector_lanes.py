"""How vector instructions of the embedded device get at lanes and parts of registers: EXEC, DPP, SDWA, halves, masks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from support.one_wave import ALL, EXEC, LANES, VCC, run_wave

TARGETS = ("gfx942", "gfx950")
both = pytest.mark.parametrize("target", TARGETS)
END = "\ns_nop 4\ns_endpgm"
WORD = 0xFFFFFFFF
Row = list[int]


@pytest.fixture
def rng(record_property: Callable[[str, object], None]) -> random.Random:
    """Fresh numbers for every run; the seed is in the report."""
    seed = random.SystemRandom().getrandbits(32)
    record_property("seed", seed)
    return random.Random(seed)


def garbage(rng: random.Random) -> Row:
    return [rng.getrandbits(32) for _ in range(LANES)]


def active(execute: int, lane: int) -> bool:
    return bool(execute >> lane & 1)


def mask(bits: Sequence[bool], execute: int) -> int:
    return sum(1 << lane for lane in range(LANES) if bits[lane]) & execute


def _inside(lane: int, place: int, source: int) -> int | None:
    return source if 0 <= place < 16 else None


def dpp_controls(rng: random.Random) -> dict[str, Callable[[int], int | None]]:
    """Assembly of each control and where a lane then reads from; None: nowhere."""
    quad = [rng.randrange(4) for _ in range(4)]
    n = rng.randrange(1, 16)
    return {
        f"quad_perm:[{','.join(map(str, quad))}]": lambda i: i // 4 * 4 + quad[i % 4],
        f"row_shl:{n}": lambda i: _inside(i, i % 16 + n, i + n),
        f"row_shr:{n}": lambda i: _inside(i, i % 16 - n, i - n),
        f"row_ror:{n}": lambda i: i // 16 * 16 + (i - n) % 16,
        "wave_shl:1": lambda i: i + 1 if i < 63 else None,
        "wave_rol:1": lambda i: (i + 1) % 64,
        "wave_shr:1": lambda i: i - 1 if i else None,
        "wave_ror:1": lambda i: (i - 1) % 64,
        "row_mirror": lambda i: i // 16 * 16 + 15 - i % 16,
        "row_half_mirror": lambda i: i // 8 * 8 + 7 - i % 8,
        "row_bcast:15": lambda i: i // 16 * 16 - 1 if i >= 16 else None,
        "row_bcast:31": lambda i: 31 if i >= 32 else None,
        f"row_newbcast:{n}": lambda i: i // 16 * 16 + n,
    }


@both
@pytest.mark.parametrize("bound", [False, True])
def test_dpp(target: str, bound: bool, rng: random.Random) -> None:
    """All controls with EXEC, row and bank masks: a lane whose source is missing or disabled keeps its value, or reads 0."""
    for text, source in dpp_controls(rng).items():
        execute = rng.choice([ALL, rng.getrandbits(64)])
        rows, banks = rng.choice([(15, 15), (rng.getrandbits(4), rng.getrandbits(4))])
        a, b, old = garbage(rng), garbage(rng), garbage(rng)
        suffix = f"{text} row_mask:{rows:#x} bank_mask:{banks:#x}" + (" bound_ctrl:0" if bound else "")
        code = f"v_sub_u32_dpp v2, v0, v1 {suffix}\nv_mov_b32_dpp v0, v0 {suffix}" + END
        result = run_wave(target, code, vector={0: a, 1: b, 2: old}, execute=execute)
        difference, moved = list(old), list(a)
        for lane in range(LANES):
            where = source(lane)
            valid = where is not None and active(execute, where)
            if (
                not active(execute, lane)
                or not rows >> lane // 16 & 1
                or not banks >> lane // 4 % 4 & 1
                or not (valid or bound)
            ):
                continue
            value = a[where] if valid and where is not None else 0
            difference[lane], moved[lane] = (value - b[lane]) & WORD, value
        assert result.row(2) == difference, suffix
        assert result.row(0) == moved, suffix


@both
def test_dpp_of_pairs(target: str, rng: random.Random) -> None:
    """64-bit moves take both dwords from the other lane."""
    lane = rng.randrange(16)
    low, high = garbage(rng), garbage(rng)
    code = f"v_mov_b64_dpp v[4:5], v[2:3] row_newbcast:{lane} row_mask:0xf bank_mask:0xf" + END
    result = run_wave(target, code, vector={2: low, 3: high})
    assert result.row(4) == [low[i // 16 * 16 + lane] for i in range(LANES)]
    assert result.row(5) == [high[i // 16 * 16 + lane] for i in range(LANES)]


SELECTS = {
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}


def selected(value: int, select: str, signed: bool) -> int:
    shift, width = SELECTS[select]
    part = value >> shift & (1 << width) - 1
    return (part - (1 << width)) & WORD if signed and part >> width - 1 else part


def merged(value: int, old: int, select: str, unused: str) -> int:
    """The destination when the low bits of ``value`` go to ``select``."""
    shift, width = SELECTS[select]
    field = ((1 << width) - 1) << shift
    part = value << shift & field
    if unused == "UNUSED_PRESERVE":
        return part | old & ~field
    if unused == "UNUSED_SEXT" and part >> shift + width - 1:
        return (part | WORD << shift + width) & WORD
    return part


@both
def test_sdwa(target: str, rng: random.Random) -> None:
    """Every selection with sign extension, of a vector and a scalar register, into every part of the destination."""
    for select in SELECTS:
        for unused in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"):
            first, second = rng.choice(list(SELECTS)), rng.choice(list(SELECTS))
            signed, scalar = rng.random() < 0.5, rng.getrandbits(32)
            a, old, execute = garbage(rng), garbage(rng), rng.getrandbits(64)
            source = "sext(v0)" if signed else "v0"
            code = (
                f"""
                v_add_u32_sdwa v2, {source}, s5 dst_sel:{select} dst_unused:{unused} src0_sel:{first} src1_sel:{second}
                v_cmp_lt_u32_sdwa s[10:11], {source}, s5 src0_sel:{first} src1_sel:{second}"""
                + END
            )
            result = run_wave(target, code, vector={0: a, 2: old}, scalar={5: scalar}, execute=execute)
            right = selected(scalar, second, False)
            left = [selected(value, first, signed) for value in a]
            assert result.pair(10) == mask([value < right for value in left], execute)
            want = [merged(x + right & WORD, o, select, unused) for x, o in zip(left, old, strict=True)]
            assert result.row(2) == [
                w if active(execute, i) else o for i, (w, o) in enumerate(zip(want, old, strict=True))
            ]


@both
def test_halves(target: str, rng: random.Random) -> None:
    """op_sel picks halves. Without it v_mad_u16 keeps what lies above its result, v_add_u16 writes zeros there."""
    a, b, c, old, execute = garbage(rng), garbage(rng), garbage(rng), garbage(rng), rng.getrandbits(64)
    code = (
        """
        v_mad_u16 v4, v0, v1, v2 op_sel:[1,0,1,1]
        v_mad_u16 v5, v0, v1, v2
        v_add_u16 v6, v0, v1
        v_pack_b32_f16 v7, -v0, v1 op_sel:[1,1,0]"""
        + END
    )
    result = run_wave(
        target, code, vector={0: a, 1: b, 2: c, 4: old, 5: old, 6: old, 7: old}, execute=execute
    )
    for lane in range(LANES):
        x, y, z, was = a[lane], b[lane], c[lane], old[lane]
        want = (
            (((x >> 16) * (y & 0xFFFF) + (z >> 16)) & 0xFFFF) << 16 | was & 0xFFFF,
            (x * y + z) & 0xFFFF | was & 0xFFFF0000,
            (x + y) & 0xFFFF,
            y & 0xFFFF0000 | x >> 16 ^ 0x8000,
        )
        assert tuple(result.row(4 + i)[lane] for i in range(4)) == (
            want if active(execute, lane) else (was,) * 4
        )


@both
def test_carries_and_selection(target: str, rng: random.Random) -> None:
    """Carries go from mask to mask; bits of disabled lanes become 0; v_cndmask takes modifiers."""
    a, b, old, execute, carry = (
        garbage(rng),
        garbage(rng),
        garbage(rng),
        rng.getrandbits(64),
        rng.getrandbits(64),
    )
    code = (
        """
        v_addc_co_u32 v2, s[10:11], v0, v1, s[20:21]
        v_subb_co_u32 v3, s[12:13], v0, v1, s[20:21]
        v_cndmask_b32 v4, -v0, |v1|, s[20:21]
        v_sub_u32 v5, v0, v1 clamp"""
        + END
    )
    scalar = {20: carry & WORD, 21: carry >> 32}
    result = run_wave(
        target, code, vector={0: a, 1: b, 2: old, 3: old, 4: old, 5: old}, scalar=scalar, execute=execute
    )
    sums = [x + y + (carry >> i & 1) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    differences = [x - y - (carry >> i & 1) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    assert result.pair(10) == mask([value > WORD for value in sums], execute)
    assert result.pair(12) == mask([value < 0 for value in differences], execute)
    for lane in range(LANES):
        x, y = a[lane], b[lane]
        want = [
            sums[lane] & WORD,
            differences[lane] & WORD,
            y & 0x7FFFFFFF if carry >> lane & 1 else x ^ 0x80000000,
            max(x - y, 0),
        ]
        assert [result.row(2 + i)[lane] for i in range(4)] == (
            want if active(execute, lane) else [old[lane]] * 4
        )


@both
def test_compare_and_mask(target: str, rng: random.Random) -> None:
    """v_cmpx writes EXEC and VCC, v_swap exchanges what is then active."""
    a, b, execute = garbage(rng), garbage(rng), rng.getrandbits(64)
    result = run_wave(
        target, "v_cmpx_lt_i32 vcc, v0, v1\nv_swap_b32 v0, v1" + END, vector={0: a, 1: b}, execute=execute
    )
    left = mask([x - (x >> 31 << 32) < y - (y >> 31 << 32) for x, y in zip(a, b, strict=True)], execute)
    assert result.pair(VCC) == result.pair(EXEC) == left
    assert result.row(0) == [y if active(left, i) else x for i, (x, y) in enumerate(zip(a, b, strict=True))]
    assert result.row(1) == [x if active(left, i) else y for i, (x, y) in enumerate(zip(a, b, strict=True))]
