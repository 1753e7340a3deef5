"""``AITER_PREBUILT_EMULATOR_TRACE``: filters choose instructions, and registers hold what a reference says."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from emulator.test_package import command
from support.assembly import code_object
from support.hip_process import INVALID_VALUE, SUCCESS, Launch, launch, program
from support.hip_source import hip_object

#: v1 = 4 * item, v2 = the buffer's word, v3 = v2 + v1 with carry, a0 = v3, s6 counts; two waves a group.
BODY = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    global_load_dword v2, v1, s[4:5]
    s_waitcnt vmcnt(0)
    v_add_co_u32_e32 v3, vcc, v2, v1
    s_add_u32 s6, s2, 7
    v_accvgpr_write_b32 a0, v3
    ds_write_b32 v1, v3
    s_barrier
    global_store_dword v1, v3, s[4:5]
    s_endpgm
"""
MNEMONICS = [
    "s_load_dwordx2", "v_lshlrev_b32_e32", "s_waitcnt", "global_load_dword", "s_waitcnt", "v_add_co_u32_e32", "s_add_u32",
    "v_accvgpr_write_b32", "ds_write_b32", "s_barrier", "global_store_dword", "s_endpgm",
]  # fmt: skip
WORDS = [random.randrange(2**32) for _ in range(128)]
DATA = b"".join(word.to_bytes(4, "little") for word in WORDS)


def request(groups: int = 3, target: str = "gfx942") -> Launch:
    return Launch(
        code_object(target, BODY, lds=512), [("buffer", DATA)], grid=(groups, 1, 1), block=(128, 1, 1)
    )


def traced(trace: str, groups: int = 3, target: str = "gfx942") -> list[dict[str, Any]]:
    """The records of a launch."""
    answer, log = launch(request(groups, target), devices=target, trace=f"{trace},format=json".lstrip(","))
    assert answer.status == SUCCESS, log
    found = [json.loads(line) for line in log.splitlines()]
    assert all(row["version"] == 1 and row["kernel"] == "kernel" and row["launch"] == 1 for row in found)
    return found


def mnemonics(rows: list[dict[str, Any]]) -> list[str]:
    return [row["instruction"].split()[0] for row in rows]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_registers_before_and_after(target: str) -> None:
    rows = traced("workgroup=0:0:0,wave=1", groups=1, target=target)
    assert mnemonics(rows) == MNEMONICS
    items = list(range(64, 128))
    by_name = dict(zip(MNEMONICS, rows, strict=True))
    shift, load, add, scalar, accumulate, store = (
        by_name[n] for n in ("v_lshlrev_b32_e32", "global_load_dword", "v_add_co_u32_e32", "s_add_u32", "v_accvgpr_write_b32",
                             "global_store_dword")
    )  # fmt: skip
    assert shift["reads"] == [{"name": "v0", "values": items}]
    assert shift["writes"][0]["after"] == [4 * item for item in items]
    loaded = WORDS[64:]
    assert (
        load["writes"] == [{"name": "v2", "before": load["writes"][0]["before"], "after": loaded}]
        and load["writes"][0]["before"] != loaded
    )
    # s[4:5] is two registers, each with one value.
    assert [(r["name"], len(r["values"])) for r in load["reads"]] == [("v1", 64), ("s4", 1), ("s5", 1)]
    sums = [(word + 4 * item) % 2**32 for word, item in zip(loaded, items, strict=True)]
    carries = sum(
        (word + 4 * item >= 2**32) << lane
        for lane, (word, item) in enumerate(zip(loaded, items, strict=True))
    )
    written = {w["name"]: w["after"] for w in add["writes"]}
    assert written["v3"] == sums
    if carries != int(add["vcc"], 16):
        assert (written.get("vcc_lo", [carries % 2**32])[0], written.get("vcc_hi", [carries >> 32])[0]) == (
            carries % 2**32, carries >> 32,
        )  # fmt: skip
    assert next(w for w in scalar["writes"] if w["name"] == "s6")["after"] == [7]
    assert accumulate["writes"][0]["name"] == "a0" and accumulate["writes"][0]["after"] == sums
    assert [r["values"] for r in store["reads"] if r["name"] == "v3"] == [sums] and store["writes"] == []


def test_filters() -> None:
    everything = traced("")
    assert len(everything) == 3 * 2 * len(MNEMONICS)
    offset = {row["instruction"]: row["pc"] for row in everything}
    for text, wanted in {
        "workgroup=1:0:0": lambda r: r["workgroup"] == [1, 0, 0],
        "workgroup=1-2:*:*,wave=0": lambda r: r["workgroup"][0] in (1, 2) and r["wave"] == 0,
        "wave=1": lambda r: r["wave"] == 1,
        "wave=0+1": lambda r: True,
        "class=lds+vmem_load": lambda r: r["class"] in ("lds", "vmem_load"),
        "class=salu,wave=0": lambda r: r["class"] == "salu" and r["wave"] == 0,
        f"pc=0x8-0x{offset['s_barrier']:x}": lambda r: 8 <= r["pc"] <= offset["s_barrier"],
        "pc=0": lambda r: r["pc"] == 0,
        "kernel=ker*l": lambda r: True,
        "kernel=other+k*": lambda r: True,
        "kernel=other": lambda r: False,
        "launch=2": lambda r: False,
    }.items():
        found = traced(text)
        key = lambda r: (r["workgroup"], r["wave"], r["pc"])  # noqa: E731
        assert sorted(map(key, found)) == sorted(map(key, filter(wanted, everything))), text


def test_lanes_and_no_registers() -> None:
    (row,) = traced("pc=0x8,workgroup=0:0:0,wave=0,lanes=0-1+63")
    assert row["reads"] == [{"name": "v0", "values": [0, 1, 63]}] and row["lanes"] == "0x8000000000000003"
    assert "reads" not in traced("wave=0,registers=no")[0]


def test_text() -> None:
    answer, log = launch(request(1), trace="class=valu,wave=0")
    assert answer.status == SUCCESS
    first, *_ = log.splitlines()
    assert first.startswith(
        "kernel kernel, launch 1, workgroup (0, 0, 0), wave 0, code+0x8, exec 0xffffffffffffffff, valu: v_lshl"
    )
    assert "  reads  v0\n      [0] 0x00000000 0x00000001" in log and "\n      [56] 0x00000038" in log
    assert "  writes v1\n      [0] 0x00000000 0x00000004" in log


def test_source_lines() -> None:
    text = """
#line 20 "lines.hip"
__device__ inline __attribute__((always_inline)) u32 twice(u32 x) { return x * x; }
extern "C" __global__ void kernel(u32* data) {
  u32 item = __builtin_amdgcn_workitem_id_x();
  u32 value = data[item];
  data[item] = twice(value);
}
"""
    image = hip_object("gfx942", text, "-gline-tables-only")
    every, log = launch(Launch(image, [("buffer", DATA)]), trace="registers=no,format=json")
    rows = [json.loads(line) for line in log.splitlines()]
    assert every.status == SUCCESS and len(rows) > 5
    for asked, part in {
        "lines.hip:23": ":23 in kernel",
        "lines.hip:20": ":20 in twice",
        "lines.hip:24": ":24 in kernel",
    }.items():
        _, log = launch(Launch(image, [("buffer", DATA)]), trace=f"line={asked},registers=no,format=json")
        found = [json.loads(line) for line in log.splitlines()]
        assert found and found == [row for row in rows if part in row.get("source", "")], asked
    _, log = launch(Launch(image, [("buffer", DATA)]), trace="line=other.hip:23,format=json")
    assert log == ""


def test_a_file_for_it(tmp_path: Path) -> None:
    answer, log = launch(request(2), trace="wave=1,format=json", trace_file=str(tmp_path / "trace-%p.json"))
    assert answer.status == SUCCESS and log == ""
    (path,) = tmp_path.iterdir()
    assert path.name.removeprefix("trace-").removesuffix(".json").isdigit()
    assert (
        mnemonics([json.loads(line) for line in path.read_text().splitlines()][: len(MNEMONICS)])[0]
        == "s_load_dwordx2"
    )


def test_a_fault_is_in_the_trace() -> None:
    body = "v_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 0\nglobal_load_dword v4, v[2:3], off\ns_endpgm"
    answer, log = launch(
        Launch(code_object("gfx942", body), [("buffer", DATA)]), trace="class=vmem_load,format=json"
    )
    assert answer.status == 700
    row = json.loads(log.splitlines()[0])
    assert "illegal address at code+0x8" in row["fault"]


BAD = {
    "wvae=2": ("'wvae=2'", "kernel, launch, workgroup, wave"), "wave=x": ("'wave=x'", "wave=2"), "wave=": ("'wave='", "wave=2"),
    "workgroup=1:2": ("'workgroup=1:2'", "workgroup=1:0:0"), "pc=80-40": ("'pc=80-40'", "pc=0x40-0x80"),
    "class=mfma+foo": ("'class=mfma+foo'", "vmem_store"), "line=x.hip": ("'line=x.hip'", "line=x.hip:12"),
    "lanes=64": ("'lanes=64'", "lanes=0-3+63"), "format=xml": ("'format=xml'", "text or json"),
    "registers": ("'registers'", "no or yes"),
    "kernel=": ("'kernel='", "kernel=add_*"),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_bad_filters(bad: str) -> None:
    """The verb says what was found and what to write, before anything runs; the library says it at the first call."""
    words = ("run", "--trace", f"wave=0,{bad}", "--", sys.executable, "-c", "print('ran')")
    done = command("aiter_prebuilt_emulator", *words, expect=2)
    assert done.stdout == "" and all(part in done.stderr for part in BAD[bad]), done.stderr
    out, log = program("import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).hipInit(0))", trace=bad)
    assert int(out) == INVALID_VALUE and "AITER_PREBUILT_EMULATOR_TRACE: found " in log
    assert all(part in log for part in BAD[bad])


def test_run_sets_what_the_library_reads(tmp_path: Path) -> None:
    code = "import os; print(os.environ['AITER_PREBUILT_EMULATOR_TRACE'], os.environ['AITER_PREBUILT_EMULATOR_TRACE_FILE'])"
    words = (
        "--trace",
        "wave=0",
        "--trace-file",
        str(tmp_path / "f"),
        "--trace-json",
        "--",
        sys.executable,
        "-c",
        code,
    )
    done = command("aiter_prebuilt_emulator", "run", *words)
    assert done.stdout.split() == ["wave=0,format=json", str(tmp_path / "f")]
    done = command("aiter_prebuilt_emulator", "run", "--trace-json", "--", "true", expect=2)
    assert "--trace kernel=NAME" in done.stderr


def test_a_file_that_cannot_be_written_is_said_once() -> None:
    answer, log = launch(request(2), trace="wave=0", trace_file="/nonexistent/trace")
    assert answer.status == SUCCESS
    (line,) = log.splitlines()
    assert "AITER_PREBUILT_EMULATOR_TRACE_FILE: cannot write '/nonexistent/trace'" in line
