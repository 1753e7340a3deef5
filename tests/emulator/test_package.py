"""The Python package of the emulator: its command, its memory, and ``aiter-prebuilt bench --counters`` on top of it."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.assembly import code_object
from support.emulator import bundles, library_path

import aiter_prebuilt_emulator
from aiter_prebuilt.commands import bench
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.inspection.timing import Benchmark

ROOT = Path(__file__).resolve().parents[2]


def command(*words: object, expect: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m ...`` with the checkout's packages, and its exit status checked."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == expect, done.stdout + done.stderr
    return done


@pytest.fixture(autouse=True)
def built() -> None:
    if not aiter_prebuilt_emulator.LIBRARY.is_file():
        pytest.skip("the library is not in the package: run python -m build_tools emulator")


def test_the_package_has_the_version_of_all_distributions() -> None:
    assert aiter_prebuilt_emulator.VERSION == VERSION


def test_path_names_the_library() -> None:
    assert command("aiter_prebuilt_emulator", "path").stdout.strip() == str(library_path())


def test_every_verb_has_its_help() -> None:
    said = command("aiter_prebuilt_emulator", "--help").stdout
    verbs = re.findall(r"^    ([a-z]+) ", said, re.MULTILINE)
    assert {"run", "debug", "counters", "coverage"} <= set(verbs)
    for verb in verbs:
        assert f"{verb} [-h]" in command("aiter_prebuilt_emulator", verb, "--help").stdout


def test_run_sets_what_programs_look_for() -> None:
    code = "import os; print(*(os.environ[n] for n in ('AITER_PREBUILT_HIP', 'TRITON_LIBHIP_PATH', 'AITER_PREBUILT_EMULATOR')))"
    words = ["--devices", "gfx950:cus=7", "--", sys.executable, "-c", code]
    hip, triton, devices = command("aiter_prebuilt_emulator", "run", *words).stdout.split()
    assert hip == triton == aiter_prebuilt_emulator.library() and devices == "gfx950:cus=7"
    assert "write: " in command("aiter_prebuilt_emulator", "run", expect=2).stderr
    done = command("aiter_prebuilt_emulator", "run", "--", "no-such-program", expect=1)
    assert done.stderr == "error: cannot run no-such-program: No such file or directory\n"


def test_a_program_that_opens_hip_by_soname_finds_it() -> None:
    code = "import ctypes; [ctypes.CDLL(name).hipInit for name in ('libamdhip64.so', 'libamdhip64.so.7')]; print('found')"
    assert command("aiter_prebuilt_emulator", "run", "--", sys.executable, "-c", code).stdout == "found\n"


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_coverage_counts_mnemonics(target: str, tmp_path: Path) -> None:
    path = tmp_path / "k.co"
    path.write_bytes(code_object(target, "v_add_f32 v0, v0, v1\nv_add_f32 v0, v0, v1\ns_nop 0\ns_endpgm"))
    found = json.loads(command("aiter_prebuilt_emulator", "coverage", "--json", path).stdout)
    counts = {
        row["mnemonic"]: row["count"]
        for row in found["instructions"]
        if row["target"] == target and row["covered"]
    }
    assert counts == {"v_add_f32": 2, "s_nop": 1, "s_endpgm": 1}


def test_coverage_says_what_is_missing_and_what_is_no_code_object(tmp_path: Path) -> None:
    unknown, junk = tmp_path / "unknown.co", tmp_path / "junk.co"
    # Encoding 0b1100 01 (VINTRP of older targets) does not exist on CDNA3.
    unknown.write_bytes(code_object("gfx942", ".long 0xd4000000\ns_endpgm"))
    junk.write_bytes(b"\x7fELF" + bytes(100))
    done = command("aiter_prebuilt_emulator", "coverage", unknown, junk, expect=1)
    assert "MISSING" in done.stdout and f"unreadable: {junk}" in done.stdout


def test_run_times_launches(tmp_path: Path) -> None:
    """Without a launch the file is there, too; a sample is executed of a call that would take long."""
    file, empty = tmp_path / "timing.json", tmp_path / "empty.json"
    code = "import ctypes; ctypes.CDLL('libamdhip64.so').hipInit(0)"
    command("aiter_prebuilt_emulator", "run", "--timing", empty, "--", sys.executable, "-c", code)
    assert json.loads(empty.read_text()) == {"version": 1, "launches": [], "launches_dropped": 0}
    options = ["--devices", "gfx942", "--timing", file, "--sample", 3]
    words = ["bench", "rms_norm", "M=65536", "N=1024", "T=bf16", "--repeat", 1, "--json"]
    command(
        "aiter_prebuilt_emulator", "run", *options, "--", sys.executable, "-m", "aiter_prebuilt", *words,
        AITER_PREBUILT_BUNDLES=os.pathsep.join(map(str, bundles("gfx942", "ck-free"))),
    )  # fmt: skip
    launches = json.loads(file.read_text())["launches"]
    assert len(launches) == 2 and all(
        sum(each["workgroups"] for each in one["classes"]) == 3 for one in launches
    )
    slots = launches[0]["compute_units"] * launches[0]["resident"]
    assert launches[0]["cycles"] > 65536 // (4 * slots) * 100


def test_bench_counts_what_a_call_does() -> None:
    files = os.pathsep.join(map(str, bundles("gfx942", "ck-free")))
    words = [
        "bench",
        "gemm_a16w16",
        "M=64",
        "N=64",
        "K=128",
        "bias=none",
        "--repeat",
        2,
        "--counters",
        "--json",
    ]
    done = command(
        "aiter_prebuilt",
        *words,
        AITER_PREBUILT_HIP=str(library_path()),
        AITER_PREBUILT_EMULATOR="gfx942",
        AITER_PREBUILT_BUNDLES=files,
    )
    found = json.loads(done.stdout)
    assert found["verb"] == "bench" and found["target"] == "gfx942" and found["seconds"] > 0
    assert found["embedded"] is True
    assert found["call"]["symbols"]["K"] == 128
    kernels = found["counters"]["kernels"]
    # A product of M x N x K takes 2 M N K operations, whatever the tile; padding of a tile may add more.
    assert sum(kernel["mfma_flops"] for kernel in kernels) >= 2 * 64 * 64 * 128
    assert all(kernel["instructions"]["valu"] > 0 for kernel in kernels)


def test_bench_prints_the_counters_that_were_asked_for() -> None:
    done = command(
        "aiter_prebuilt",
        *("bench", "rms_norm", "M=7", "N=512", "--repeat", 1, "--counters"),
        AITER_PREBUILT_HIP=str(library_path()),
        AITER_PREBUILT_EMULATOR="gfx950",
        AITER_PREBUILT_EMULATOR_PMC="SQ_WAVES,SQ_INSTS_MFMA",
        AITER_PREBUILT_BUNDLES=os.pathsep.join(map(str, bundles("gfx950", "ck-free"))),
    )
    assert "occupancy limited by" in done.stdout
    assert re.search(r"SQ_WAVES +[1-9]", done.stdout) and re.search(r"SQ_INSTS_MFMA +0", done.stdout)


def test_bench_without_a_device_says_how_to_get_one() -> None:
    done = command(
        "aiter_prebuilt", "bench", "rms_norm", "M=1", "N=8", AITER_PREBUILT_HIP="/nonexistent", expect=3
    )
    assert "NoDeviceError" in done.stderr and "aiter-prebuilt-emulator run" in done.stderr


def test_counters_of_a_device_that_does_not_count_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Benchmark("rms_norm", "device 0", "gfx942", {"types": {}, "symbols": {}}, 1, 1e-6, 1e-6, 0, None)
    monkeypatch.setattr(bench, "bench", lambda *words: plain)
    parser = argparse.ArgumentParser()
    bench.configure(parser)
    options = parser.parse_args(["rms_norm", "--counters"], argparse.Namespace(json=False))
    with pytest.raises(UnsupportedError, match="has no counters"):
        bench.execute(options)
