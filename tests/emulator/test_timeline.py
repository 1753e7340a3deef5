"""The waves' timeline: what Perfetto and the Chrome trace format ask of a file, and that it says what ran."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support.assembly import code_object
from support.counted import Launch, counters

_BARRIER = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  v_cmp_gt_u32_e32 vcc, 64, v0
  s_cbranch_vccz .Lothers
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
.Lothers:
  s_barrier
  s_endpgm
"""
_MANY_WAITS = """
  s_movk_i32 s6, {turns}
.Lloop:
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 .Lloop
  s_endpgm
"""


def _timeline(target: str, folder: Path, launches: list[Launch], **environment: str) -> dict[str, Any]:
    file = folder / "timeline.json"
    counters(target, folder, [launches], perfetto=str(file), **environment)
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def _slices(document: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Slices by track, as the format defines them: complete events, and names for every process and track that has some."""
    assert document["displayTimeUnit"] == "ns" and "estimated cycles" in document["otherData"]["time"]
    named, tracks = set(), defaultdict(list)
    for event in document["traceEvents"]:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "process_sort_index")
            if event["name"] != "process_sort_index":
                assert isinstance(event["args"]["name"], str)
                named.add((event["pid"], event["tid"] if event["name"] == "thread_name" else None))
            continue
        assert event["ph"] == "X" and isinstance(event["name"], str) and isinstance(event["args"], dict)
        assert event["ts"] >= 0 and event["dur"] >= 0
        tracks[event["pid"], event["tid"]].append(event)
    for process, track in tracks:
        assert (process, None) in named and (process, track) in named
    return tracks


def _assert_nested(events: list[dict[str, Any]]) -> None:
    """A slice lies in the one that is open or begins when it is over: what Perfetto asks of a track."""
    open_until: list[float] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while open_until and open_until[-1] <= event["ts"] + 1e-9:
            open_until.pop()
        end = event["ts"] + event["dur"]
        assert not open_until or end <= open_until[-1] + 2e-3, event  # a cycle: both are rounded
        open_until.append(end)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_waves_and_waits(target: str, tmp_path: Path) -> None:
    grid = random.randint(1, 700)
    image = code_object(target, _BARRIER)
    document = _timeline(target, tmp_path, [Launch(image, grid, 200), Launch(image, 1, 64)])
    tracks = _slices(document)
    for events in tracks.values():
        _assert_nested(events)
    processes = {
        event["pid"]: event["args"]["name"]
        for event in document["traceEvents"]
        if event["name"] == "process_name"
    }
    kernels = [
        event
        for (process, _), events in tracks.items()
        if processes[process].endswith("kernels")
        for event in events
    ]
    assert [event["args"]["workgroups"] for event in kernels] == [grid, 1]
    assert kernels[1]["ts"] == pytest.approx(kernels[0]["ts"] + kernels[0]["dur"])
    waves = [
        (event, processes[process])
        for (process, _), events in tracks.items()
        for event in events
        if "wave" in event["args"]
    ]
    assert len(waves) == 4 * grid + 1
    first = [event for event, _ in waves if event["ts"] < kernels[1]["ts"]]
    assert {(*event["args"]["workgroup"], event["args"]["wave"]) for event in first} == {
        (x, 0, 0, wave) for x in range(grid) for wave in range(4)
    }
    assert max(event["ts"] + event["dur"] for event in first) <= kernels[1]["ts"] + 1e-3
    assert len({process for _, process in waves}) == min(grid, 8)
    waits = [
        event["name"] for events in tracks.values() for event in events if event["name"].startswith("wait")
    ]
    assert waits.count("wait barrier") == 3 * grid and waits.count("wait vmcnt") == grid + 1
    assert document["otherData"]["workgroups_dropped"] == document["otherData"]["launches_dropped"] == 0


def test_two_devices_have_processes_of_their_own(tmp_path: Path) -> None:
    document = _timeline("gfx942,gfx942", tmp_path, [Launch(code_object("gfx942", "s_endpgm"))])
    names = {event["args"]["name"] for event in document["traceEvents"] if event["name"] == "process_name"}
    assert names == {"device 0 (gfx942) kernels", "device 0 (gfx942) XCD 0"}


def test_the_file_is_bounded_and_says_what_is_missing(tmp_path: Path) -> None:
    """Of a wave 256 waits are kept, of a process 300,000 slices."""
    image = code_object("gfx942", _MANY_WAITS.format(turns=300))
    grid = 300_000 // 257 + 50
    document = _timeline("gfx942", tmp_path, [Launch(image, grid, 64)])
    slices = [event for events in _slices(document).values() for event in events]
    waves = [event for event in slices if "wave" in event["args"]]
    assert all(event["args"]["waits_cut"] for event in waves)
    assert len(waves) * 257 == len(slices) - 1 <= 300_000
    assert document["otherData"]["workgroups_dropped"] == grid - len(waves) > 0


def test_it_is_written_without_a_launch(tmp_path: Path) -> None:
    assert _timeline("gfx942", tmp_path, [])["traceEvents"] == []
