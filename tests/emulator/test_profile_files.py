"""The files that ``run --pmc`` and ``run --perfetto`` write, and what is refused."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.assembly import code_object
from support.counted import Launch, counters
from support.emulator import library_path
from support.hip_process import program

ROOT = Path(__file__).resolve().parents[2]

#: rocprofv3's, of ROCm 6.4 and later.
_COLUMNS = [
    "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size", "Kernel_Id", "Kernel_Name",
    "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count", "Counter_Name",
    "Counter_Value", "Start_Timestamp", "End_Timestamp",
]  # fmt: skip

_INIT = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).hipInit(0))"


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        rows = list(reader)
    assert reader.fieldnames == _COLUMNS
    return rows


def test_csv_has_rocprofv3s_columns(tmp_path: Path) -> None:
    small, large = (
        code_object("gfx950", "s_endpgm", lds=100),
        code_object("gfx950", "s_nop 0\n s_endpgm", vgprs=96),
    )
    launches = [Launch(small, 3, 100), Launch(large, 2, 64), Launch(small, 1, 64)]
    counters(
        "gfx950", tmp_path, [launches], pmc="SQ_WAVES,OccupancyPercent", pmc_output=str(tmp_path / "out-%pid%"),
        pmc_format="csv,json",
    )  # fmt: skip
    (file,) = tmp_path.glob("*_counter_collection.csv")
    rows = _rows(file)
    process = rows[0]["Process_Id"]
    assert file.name == f"out-{process}_counter_collection.csv"
    assert [row["Counter_Name"] for row in rows] == ["SQ_WAVES", "OccupancyPercent"] * 3
    assert [row["Counter_Value"] for row in rows[::2]] == ["6.000000", "2.000000", "1.000000"]
    assert [row["Dispatch_Id"] for row in rows] == ["1", "1", "2", "2", "3", "3"]
    assert [row["Grid_Size"] for row in rows[::2]] == ["300", "128", "64"]
    assert [row["Workgroup_Size"] for row in rows[::2]] == ["100", "64", "64"]
    assert [row["LDS_Block_Size"] for row in rows[::2]] == ["1280", "0", "1280"]
    assert [(row["VGPR_Count"], row["Accum_VGPR_Count"]) for row in rows[::2]] == [
        ("64", "64"),
        ("64", "32"),
        ("64", "64"),
    ]
    assert {row["Kernel_Name"] for row in rows} == {"kernel"} and {row["Agent_Id"] for row in rows} == {
        "Agent 1"
    }
    for row in rows:
        assert int(row["End_Timestamp"]) >= int(row["Start_Timestamp"]) > 0
        assert float(row["Counter_Value"]) >= 0
    document = json.loads((tmp_path / f"out-{process}_results.json").read_text(encoding="utf-8"))
    assert document["version"] == 1 and document["process"] == int(process)
    assert document["pmc"]["counters"] == ["SQ_WAVES", "OccupancyPercent"]
    found = [dispatch["counters"]["SQ_WAVES"] for dispatch in document["pmc"]["dispatches"]]
    assert found == [6, 2, 1] and document["pmc"]["dropped"] == 0


def test_a_counter_of_one_target_has_rows_of_its_devices_only(tmp_path: Path) -> None:
    image = code_object("gfx942", "s_endpgm")
    (document,) = counters("gfx942,gfx950", tmp_path, [[Launch(image)]], pmc="SQ_INSTS_LDS_LOAD,SQ_WAVES")
    assert document["pmc"]["dispatches"][0]["counters"] == {"SQ_WAVES": 1}


_SITES = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 7, v0
  s_waitcnt lgkmcnt(0)
  ds_write_b32 v1, v0
  v_nop
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  s_endpgm
"""


def test_sites_say_where_in_the_code(tmp_path: Path) -> None:
    """The write's 62 conflicts, the load's bytes and the wait for it, each at its offset, over two launches."""
    image = code_object("gfx942", _SITES, lds=65536)
    names = ("SQ_LDS_BANK_CONFLICT", "EMU_BYTES_TOUCHED", "EMU_WAIT_VMCNT_CYCLES", "EMU_WAIT_LGKMCNT_CYCLES")
    (document,) = counters("gfx942", tmp_path, [[Launch(image, 2), Launch(image)]], pmc=",".join(names))
    totals = {name: sum(one["counters"][name] for one in document["pmc"]["dispatches"]) for name in names}
    (kernel,) = document["pmc"]["kernels"]
    assert kernel["kernel"] == "kernel" and kernel["kernel_id"] == 1
    sites = {site["instruction"].split()[0]: site for site in kernel["sites"] if site["offset"] > 12}
    assert [site["offset"] for site in kernel["sites"]] == sorted(site["offset"] for site in kernel["sites"])
    assert set(sites) == {"ds_write_b32", "global_load_dword", "s_waitcnt"}
    assert all(site["executed"] == 3 for site in sites.values())
    assert sites["ds_write_b32"]["lds_conflicts"] == 3 * 62 == totals["SQ_LDS_BANK_CONFLICT"]
    assert sites["ds_write_b32"]["offset"] == 16
    assert sites["global_load_dword"]["bytes_wanted"] == 3 * 256
    assert sites["global_load_dword"]["bytes_touched"] == 3 * 64 * 64 == totals["EMU_BYTES_TOUCHED"]
    assert sites["s_waitcnt"]["wait_cycles"] == totals["EMU_WAIT_VMCNT_CYCLES"] > 0
    waits = sum(site["wait_cycles"] for site in kernel["sites"])
    assert waits == totals["EMU_WAIT_VMCNT_CYCLES"] + totals["EMU_WAIT_LGKMCNT_CYCLES"]


@pytest.mark.parametrize(
    ("expressions", "count"),
    [
        ({"pmc_include": "^kernel$"}, 1), ({"pmc_include": "ern"}, 1), ({"pmc_include": "^ern"}, 0),
        ({"pmc_exclude": "k(e|x)r"}, 0),
        ({"pmc_exclude": "gemm"}, 1), ({"pmc_include": "kernel", "pmc_exclude": "kernel"}, 0),
    ],
)  # fmt: skip
def test_kernels_are_chosen_by_name(expressions: dict[str, str], count: int, tmp_path: Path) -> None:
    image = code_object("gfx942", "s_endpgm")
    file = tmp_path / "timeline.json"
    (document,) = counters(
        "gfx942", tmp_path, [[Launch(image)]], pmc="SQ_WAVES", perfetto=str(file), **expressions
    )
    assert len(document["pmc"]["dispatches"]) == count and len(document["launches"]) == 1
    slices = [
        event for event in json.loads(file.read_text(encoding="utf-8"))["traceEvents"] if event["ph"] == "X"
    ]
    assert len(slices) == 2 * count


def test_nothing_is_profiled_unless_asked(tmp_path: Path) -> None:
    (document,) = counters("gfx942", tmp_path, [[Launch(code_object("gfx942", "s_endpgm"))]])
    assert "pmc" not in document


def test_a_fault_is_profiled_as_far_as_it_came(tmp_path: Path) -> None:
    source = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.apb_emulator_counters.restype = ctypes.c_void_p
module, function, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert lib.hipModuleLoad(ctypes.byref(module), sys.argv[2].encode()) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
params = (ctypes.c_void_p * 1)(ctypes.addressof(data))
assert lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None) != 0
print(ctypes.string_at(lib.apb_emulator_counters()).decode())
"""
    file = tmp_path / "kernel.co"
    file.write_bytes(code_object("gfx942", "v_mov_b32_e32 v1, 0\n s_trap 2\n s_endpgm"))
    out, _ = program(source, str(file), pmc="SQ_INSTS_VALU,SQ_WAVES", log="off")
    assert json.loads(out)["pmc"]["dispatches"][0]["counters"] == {"SQ_INSTS_VALU": 1, "SQ_WAVES": 1}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"pmc": "SQ_WAVES,Nonsense"}, ("EMULATOR_PMC", "'Nonsense'", "a counter of rocprofv3")),
        ({"pmc": "SQ_WAVES,"}, ("EMULATOR_PMC", "''")),
        ({"pmc": ","}, ("EMULATOR_PMC", "''")),
        ({"pmc": "sq_waves"}, ("'sq_waves'",)),
        ({"pmc": "SQ_WAVES TCC_HIT"}, ("'SQ_WAVES TCC_HIT'",)),
        ({"pmc": "SQ_WAIT_INST_LDS"}, ("'SQ_WAIT_INST_LDS'", "a counter that this device has", "EMU_WAIT_")),
        ({"pmc": "TCP_PENDING_STALL_CYCLES_sum"}, ("'TCP_PENDING_STALL_CYCLES_sum'", "vector cache")),
        ({"pmc": "SQ_INSTS_LDS_LOAD"}, ("'SQ_INSTS_LDS_LOAD'", "gfx950")),
        ({"pmc": "SQ_WAVES", "pmc_format": "xml"}, ("EMULATOR_PMC_FORMAT", "'xml'", "csv, json or csv,json")),
        ({"pmc": "SQ_WAVES", "pmc_format": "csv,"}, ("EMULATOR_PMC_FORMAT", "''")),
        ({"pmc": "SQ_WAVES", "pmc_include": "a(b"}, ("EMULATOR_PMC_INCLUDE", "'a(b'", "regular expression")),
        ({"perfetto": "file", "pmc_exclude": "["}, ("EMULATOR_PMC_EXCLUDE", "'['")),
        ({"pmc": "X" * 100_000}, ("EMULATOR_PMC",)),
    ],
)
def test_what_is_not_understood_is_refused(variables: dict[str, str], words: tuple[str, ...]) -> None:
    out, log = program(_INIT, devices="gfx942", **variables)
    assert out.strip() == "1"
    for word in (*words, "AITER_PREBUILT_EMULATOR"):
        assert word in log, log


@pytest.mark.parametrize("what", ["folder", "missing", "pipe"])
def test_files_that_cannot_be_written_are_said(what: str, tmp_path: Path) -> None:
    """And nobody waits for the reader of a pipe."""
    targets = {"folder": tmp_path, "missing": tmp_path / "no" / "folder.json", "pipe": tmp_path / "pipe"}
    if what == "pipe":
        os.mkfifo(targets[what])
    _, log = program(
        _INIT, perfetto=str(targets[what]), pmc="SQ_WAVES", pmc_output=str(tmp_path / "no" / "base")
    )
    assert "AITER_PREBUILT_EMULATOR_PERFETTO: cannot write" in log
    assert "AITER_PREBUILT_EMULATOR_PMC_OUTPUT: cannot write" in log


def _command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT_EMULATOR")}
    return subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt_emulator", *words], cwd=cwd, env=kept | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_run_takes_rocprofv3s_options(tmp_path: Path) -> None:
    init = [sys.executable, "-c", _INIT, str(library_path())]
    pmc = (
        "--kernel-include-regex",
        "gemm|norm",
        "--kernel-exclude-regex",
        "attention",
        "--pmc",
        "SQ_WAVES,TCC_HIT",
        "SQ_INSTS_VALU",
        "-d",
        "a/b",
        "-o",
        "name",
        "--output-format",
        "csv,json",
    )
    done = _command("run", *pmc, "--perfetto", "wave.json", "--", *init, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert _rows(tmp_path / "a" / "b" / "name_counter_collection.csv") == []
    document = json.loads((tmp_path / "a" / "b" / "name_results.json").read_text(encoding="utf-8"))
    assert document["pmc"]["counters"] == ["SQ_WAVES", "TCC_HIT", "SQ_INSTS_VALU"]
    assert json.loads((tmp_path / "wave.json").read_text(encoding="utf-8"))["traceEvents"] == []
    assert _command("run", "--pmc", "SQ_WAVES", "--", *init, cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.glob("*_counter_collection.csv"))) == 1


def test_formats_with_a_space_between(tmp_path: Path) -> None:
    init = [sys.executable, "-c", _INIT, str(library_path())]
    words = ("--pmc", "SQ_WAVES", "-o", "name", "--output-format", "csv", "json", "--", *init)
    done = _command("run", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert {one.name for one in tmp_path.iterdir()} == {"name_counter_collection.csv", "name_results.json"}


def test_a_command_that_is_not_there_replaces_no_file(tmp_path: Path) -> None:
    kept = tmp_path / "name_counter_collection.csv"
    kept.write_text("of yesterday", encoding="utf-8")
    done = _command("run", "--pmc", "SQ_WAVES", "-o", "name", "--", "/no/such/command", cwd=tmp_path)
    assert (
        done.returncode == 1
        and done.stderr == "error: cannot run /no/such/command: No such file or directory\n"
    )
    assert kept.read_text(encoding="utf-8") == "of yesterday"


def test_a_timeline_that_cannot_be_written_is_said_first(tmp_path: Path) -> None:
    for place in (tmp_path / "absent" / "wave.json", tmp_path):
        done = _command("run", "--perfetto", str(place), "--", "touch", str(tmp_path / "ran"), cwd=tmp_path)
        assert done.returncode == 1 and f"--perfetto {place}: no file can be written there" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_run_starts_nothing_when_a_counter_is_absent(tmp_path: Path) -> None:
    done = _command("run", "--pmc", "SQC_ICACHE_HITS", "--", "touch", str(tmp_path / "ran"), cwd=tmp_path)
    assert done.returncode == 2 and "fetches no instructions through a cache" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_counters_are_listed(tmp_path: Path) -> None:
    done = _command("counters", "--json", cwd=tmp_path)
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["version"] == 1 and document["verb"] == "counters"
    names = [one["name"] for one in document["counters"]]
    assert len(names) == len(set(names)) > 150
    for one in document["counters"]:
        assert one["exactness"] in ("exact", "modelled") and one["meaning"] and one["targets"]
    for absent in document["absent"]:
        assert absent["reason"] and absent["names"]
    fewer = json.loads(_command("counters", "--json", "--target", "gfx942", cwd=tmp_path).stdout)["counters"]
    assert {one["name"] for one in fewer} == {
        x["name"] for x in document["counters"] if "gfx942" in x["targets"]
    }
    text = _command("counters", cwd=tmp_path).stdout
    assert all(name in text for name in names)


def test_every_counter_that_is_listed_can_be_asked_for(tmp_path: Path) -> None:
    listed = json.loads(_command("counters", "--json", "--target", "gfx950", cwd=tmp_path).stdout)["counters"]
    names = [one["name"] for one in listed]
    (document,) = counters(
        "gfx950", tmp_path, [[Launch(code_object("gfx950", "s_endpgm"))]], pmc=",".join(names)
    )
    assert list(document["pmc"]["dispatches"][0]["counters"]) == names
