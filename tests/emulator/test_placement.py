"""Where waves say that they run: HW_ID and XCC_ID, as HIP's ``__smid()`` and kernels that order their work by XCD read them."""

from __future__ import annotations

from collections import Counter

import pytest
from support.hip_process import SUCCESS, Launch, launch
from support.hip_source import hip_object

#: Each wave stores HW_ID (register 4) and XCC_ID (20), whole: s_getreg takes size - 1, offset and number.
_WHERE = """
extern "C" __global__ void kernel(u32* data) {
  u32 item = __builtin_amdgcn_workitem_id_x(), wave = item / 64, waves = __builtin_amdgcn_workgroup_size_x() / 64;
  u32 at = 2 * (__builtin_amdgcn_workgroup_id_x() * waves + wave);
  if (item % 64 == 0) {
    data[at] = __builtin_amdgcn_s_getreg(31 << 11 | 4);
    data[at + 1] = __builtin_amdgcn_s_getreg(3 << 11 | 20);
  }
}
"""


def where(target: str, groups: int, waves: int, devices: str = "") -> list[tuple[int, ...]]:
    """Per wave: XCC, shader engine, compute unit, SIMD, slot, slot of the workgroup."""
    request = Launch(
        hip_object(target, _WHERE), [("buffer", bytes(8 * groups * waves))], grid=(groups, 1, 1), block=(64 * waves, 1, 1)
    )  # fmt: skip
    answer, log = launch(request, devices=devices or target)
    assert answer.status == SUCCESS, log
    words = answer.words()
    assert not any(word & ~0xF_EF3F for word in words[::2]), "the fields that no kernel may use are 0"
    return [
        (xcc, hw >> 13 & 7, hw >> 8 & 15, hw >> 4 & 3, hw & 15, hw >> 16 & 15)
        for hw, xcc in zip(words[::2], words[1::2], strict=True)
    ]


@pytest.mark.parametrize(
    ("target", "each", "engines"), [("gfx942", 38, [10, 10, 9, 9]), ("gfx950", 32, [8, 8, 8, 8])]
)
def test_workgroups_go_round_the_xcds(target: str, each: int, engines: list[int]) -> None:
    places = where(target, 8 * each, 1)
    assert [xcc for xcc, *_ in places] == [n % 8 for n in range(8 * each)]
    assert len({place[:3] for place in places}) == 8 * each, "each its own compute unit"
    for xcc in range(8):
        assert Counter(engine for at, engine, *_ in places if at == xcc) == dict(enumerate(engines))
    assert max(unit for _, _, unit, *_ in places) == engines[0] - 1
    # One group more is on the first unit again, in another slot.
    again = where(target, 8 * each + 1, 1)
    assert again[-1][:3] == again[0][:3] and again[-1] != again[0]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("waves", [1, 3, 4, 16])
def test_no_two_resident_waves_share_a_slot(target: str, waves: int) -> None:
    units = 304 if target == "gfx942" else 256
    groups = units * (32 // waves if waves == 1 else min(32 // waves, 16))
    places = where(target, groups, waves)
    assert len({place[:5] for place in places}) == groups * waves
    assert max(slot for *_, slot, _ in places) == (groups // units * waves - 1) // 4
    for first in range(0, len(places), waves):
        group = places[first : first + waves]
        assert len({(*place[:3], place[5]) for place in group}) == 1, "a workgroup is on one compute unit"
        assert len({place[3] for place in group}) == min(waves, 4), "its waves are spread over the SIMDs"


def test_a_small_device() -> None:
    """Its compute units alone, on one XCD."""
    assert {place[:3] for place in where("gfx942", 64, 2, "gfx942:cus=4")} == {
        (0, engine, 0) for engine in range(4)
    }
