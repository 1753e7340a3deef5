"""Bank conflicts of LDS: known patterns, and random addresses beside a model of its own."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.assembly import code_object
from support.counted import Launch, profiled

TARGETS = ("gfx942", "gfx950")
_COUNTERS = ("SQ_LDS_BANK_CONFLICT", "SQ_LDS_IDX_ACTIVE", "SQ_LDS_ADDR_CONFLICT")

#: `{address}` leaves an LDS byte address in v1.
_ACCESS = """
  {address}
  s_mov_b32 exec_lo, {low:#x}
  s_mov_b32 exec_hi, {high:#x}
  {what}
  s_waitcnt lgkmcnt(0)
  s_endpgm
"""
_ALL = (1 << 64) - 1


def _kernel(target: str, address: str, what: str, mask: int = _ALL) -> Launch:
    body = _ACCESS.format(address=address, what=what, low=mask & 0xFFFFFFFF, high=mask >> 32)
    return Launch(code_object(target, body, lds=65536))


def _stride(shift: int) -> str:
    return f"v_lshlrev_b32_e32 v1, {shift}, v0"


#: What, address, and the conflicts on gfx942 and gfx950. By hand: lanes of a phase that share a bank, less one, times phases.
_KNOWN = (
    ("ds_read_b32 v2, v1", _stride(2), 0, 0),
    ("ds_read_b32 v2, v1", _stride(3), 2 * 1, 0),  # 32 lanes on every second bank: of 32 two share one, of 64 none
    ("ds_write_b32 v1, v2", _stride(3), 2 * 1, 2 * 1),  # stores have 32 banks on both
    ("ds_read_b32 v2, v1", _stride(7), 2 * 31, 2 * 15),
    ("ds_write_b32 v1, v2", _stride(7), 2 * 31, 2 * 31),
    ("ds_read_b32 v2, v1", "v_mov_b32_e32 v1, 64", 0, 0),  # all lanes read one dword
    ("ds_read_u8 v2, v1", "v_mov_b32_e32 v1, v0", 0, 0),  # four lanes share each dword
    ("ds_write_b16 v1, v2", _stride(7), 2 * 31, 2 * 31),
    ("ds_read_b64 v[2:3], v1", _stride(3), 0, 0),
    ("ds_read_b64 v[2:3], v1", _stride(7), 4 * 15, 2 * 15),  # phases of 16 lanes; of 32 lanes on two places of 64 banks
    ("ds_write_b64 v1, v[2:3]", _stride(3), 0, 0),
    ("ds_write_b64 v1, v[2:3]", _stride(7), 4 * 15, 4 * 15),
    ("ds_read_b96 v[2:4], v1", _stride(4), 0, 0),
    ("ds_read_b128 v[2:5], v1", _stride(4), 0, 0),
    ("ds_read_b128 v[2:5], v1", _stride(7), 8 * 7, 4 * 7),
    ("ds_write_b128 v1, v[2:5]", _stride(4), 0, 0),
    ("ds_write_b128 v1, v[2:5]", _stride(7), 8 * 7, 8 * 7),
    ("ds_read2_b32 v[2:3], v1 offset1:1", _stride(3), 2 * 2 * 1, 0),  # two accesses
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_known_patterns(target: str, tmp_path: Path) -> None:
    launches = [_kernel(target, address, what) for what, address, *_ in _KNOWN]
    found = profiled(target, tmp_path, launches, *_COUNTERS)
    for (what, address, *expected), counted in zip(_KNOWN, found, strict=True):
        assert counted["SQ_LDS_BANK_CONFLICT"] == expected[TARGETS.index(target)], (what, address)
        assert counted["SQ_LDS_ADDR_CONFLICT"] == 0


def _lanes(*ranges: tuple[int, int]) -> list[int]:
    return [lane for first, last in ranges for lane in range(first, last + 1)]


_HALVES = [_lanes((0, 31))]
_READ_QUARTERS = [_lanes((0, 3), (12, 15), (20, 27)), _lanes((4, 11), (16, 19), (28, 31))]
_READ_EIGHTHS = [
    _lanes((0, 3), (20, 23)), _lanes((4, 7), (16, 19)), _lanes((8, 11), (28, 31)), _lanes((12, 15), (24, 27)),
]  # fmt: skip
_QUARTERS = [_lanes((0, 15)), _lanes((16, 31))]
_EIGHTHS = [_lanes((first, first + 7)) for first in range(0, 32, 8)]


def _ports(target: str, reads: bool, size: int) -> tuple[list[list[int]], int]:
    """Lanes of half a wave that are served together, and banks."""
    new = target == "gfx950" and reads
    if size <= 4:
        return _HALVES, 64 if new else 32
    if not reads:
        return (_QUARTERS if size == 8 else _EIGHTHS), 32
    if size == 8:
        return (_HALVES, 64) if new else (_READ_QUARTERS, 32)
    return (_READ_QUARTERS, 64) if new and size == 16 else (_READ_EIGHTHS, 32)


def _expected(target: str, reads: bool, size: int, addresses: list[int], mask: int) -> tuple[int, int]:
    """Conflicts and all cycles."""
    halves, banks = _ports(target, reads, size)
    conflicts = cycles = 0
    if not mask:
        return 0, 0
    for phase in halves + [[lane + 32 for lane in half] for half in halves]:
        dwords = {
            dword
            for lane in phase
            if mask >> lane & 1
            for dword in range(addresses[lane] // 4, (addresses[lane] + size - 1) // 4 + 1)
        }
        if not dwords:
            cycles += 1
            continue
        depth = max(sum(dword % banks == bank for dword in dwords) for bank in range(banks))
        conflicts += depth - 1
        cycles += depth
    return conflicts, cycles


@pytest.mark.parametrize("target", TARGETS)
def test_random_addresses(target: str, tmp_path: Path) -> None:
    """Addresses (lane * a ^ lane >> b) * size, with some lanes off."""
    forms = {
        ("ds_read_b32 v2, v1", 4, True), ("ds_write_b32 v1, v2", 4, False), ("ds_read_u16 v2, v1", 2, True),
        ("ds_read_b64 v[2:3], v1", 8, True), ("ds_write_b64 v1, v[2:3]", 8, False), ("ds_read_b96 v[2:4], v1", 12, True),
        ("ds_write_b96 v1, v[2:4]", 12, False), ("ds_read_b128 v[2:5], v1", 16, True), ("ds_write_b128 v1, v[2:5]", 16, False),
    }  # fmt: skip
    cases, launches = [], []
    for what, size, reads in sorted(forms):
        for mask in (_ALL, random.getrandbits(64), random.getrandbits(64) & random.getrandbits(64)):
            factor, shift, step = random.randint(1, 60), random.randint(0, 5), 16 if size > 8 else size
            addresses = [((lane * factor) ^ (lane >> shift)) * step & 0xFFF0 for lane in range(64)]
            setup = (
                f"v_mul_u32_u24_e32 v1, {factor}, v0\n v_lshrrev_b32_e32 v2, {shift}, v0\n v_xor_b32_e32 v1, v1, v2\n"
                f"v_mul_u32_u24_e32 v1, {step}, v1\n v_and_b32_e32 v1, 0xfff0, v1"
            )
            cases.append((what, addresses, mask, _expected(target, reads, size, addresses, mask)))
            launches.append(_kernel(target, setup, what, mask))
    found = profiled(target, tmp_path, launches, *_COUNTERS)
    assert any(conflicts for *_, (conflicts, _) in cases)
    for (what, addresses, mask, expected), counted in zip(cases, found, strict=True):
        assert (counted["SQ_LDS_BANK_CONFLICT"], counted["SQ_LDS_IDX_ACTIVE"]) == expected, (
            what,
            addresses,
            hex(mask),
        )


@pytest.mark.parametrize("target", TARGETS)
def test_atomics_on_one_dword(target: str, tmp_path: Path) -> None:
    """32 lanes of each half change it one after the other; one that returns does it in as many phases."""
    address = "v_mov_b32_e32 v1, 64"
    launches = [
        _kernel(target, address, "ds_add_u32 v1, v0"),
        _kernel(target, address, "ds_add_rtn_u32 v2, v1, v0"),
        _kernel(target, _stride(2), "ds_add_u32 v1, v0"),
    ]
    names = (*_COUNTERS, "SQ_LDS_ATOMIC_RETURN", "SQ_INSTS_LDS")
    same, returning, apart = profiled(target, tmp_path, launches, *names)
    assert same["SQ_LDS_ADDR_CONFLICT"] == returning["SQ_LDS_ADDR_CONFLICT"] == 2 * 31
    assert same["SQ_LDS_BANK_CONFLICT"] == 0 and same["SQ_LDS_IDX_ACTIVE"] == 2 + 2 * 31
    assert (same["SQ_LDS_ATOMIC_RETURN"], returning["SQ_LDS_ATOMIC_RETURN"]) == (0, 2)
    assert apart["SQ_LDS_ADDR_CONFLICT"] == 0 and apart["SQ_LDS_IDX_ACTIVE"] == 2


_TO_LDS = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, {shift}, v0
  s_waitcnt lgkmcnt(0)
  s_mov_b64 s[8:9], s[4:5]
  s_mov_b32 s10, 0x10000
  s_mov_b32 s11, 0x20000
  s_mov_b32 m0, 0
  {what} v1, s[8:11], 0 offen lds
  s_waitcnt vmcnt(0)
  s_endpgm
"""


@pytest.mark.parametrize(
    ("target", "what", "shift", "phases"),
    [
        ("gfx942", "buffer_load_dword", 2, 2),
        ("gfx950", "buffer_load_dword", 2, 2),
        ("gfx950", "buffer_load_dwordx4", 4, 8),
    ],
)
def test_loads_to_lds_go_through_the_banks(
    target: str, what: str, shift: int, phases: int, tmp_path: Path
) -> None:
    launch = Launch(code_object(target, _TO_LDS.format(what=what, shift=shift), lds=4096))
    names = (
        "SQ_LDS_IDX_ACTIVE",
        "SQ_LDS_BANK_CONFLICT",
        "EMU_DIRECT_LDS_BANK_CONFLICT",
        "SQ_INSTS_LDS",
        "SQ_INSTS_VMEM_RD",
    )
    (found,) = profiled(target, tmp_path, [launch], *names)
    assert list(found.values()) == [phases, 0, 0, 0, 1]
