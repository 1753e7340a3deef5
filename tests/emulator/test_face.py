"""The commands and promises that need a device, on the embedded one: reference cases, preloading, capture, JSON, tuned tables."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support import proof, repository
from support.emulator import bundles, library_path

import aiter_prebuilt
from aiter_prebuilt.contract.calls import pack, read
from build_tools.objects.entries import recipes_of
from build_tools.objects.unpack import decompress, open_bundle

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "src" / "aiter_prebuilt" / "schemas"
TARGETS = ("gfx942", "gfx950")
#: The public functions that have an operator.
FUNCTIONS = sorted(aiter_prebuilt.ops.HOMES)
#: Of Composable Kernel alone, and with no instance in the sample, which the tests have.
NOT_SAMPLED = {
    operator.name
    for family in repository.manifest().families.values()
    for operator in family.operators
    if all(kernel.sets.get("sample") == [] for kernel in operator.kernels)
}


def served(profile: str = "ck-full") -> list[tuple[str, str]]:
    """(target, operator), as the bundles have them: AITER has some assembly for one target only, and ck-full some operators that
    ck-free lacks.
    """
    found = {
        (target, recipe.operator)
        for target in TARGETS
        for path in bundles(target, profile)
        for recipe in recipes_of(open_bundle(Path(path))).values()
    }
    assert profile == "ck-free" or {name for _, name in found} == {*FUNCTIONS} - NOT_SAMPLED
    return sorted(found)


@pytest.fixture(scope="module")
def surroundings() -> dict[str, str]:
    """Two emulated devices and their bundles, in the environment of a child."""
    files = dict.fromkeys(path for target in TARGETS for path in bundles(target, "ck-full"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_")}
    return kept | {
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", ROOT))),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": ",".join(TARGETS),
        "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, files)),
    }


def command(surroundings: dict[str, str], *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "aiter_prebuilt", *words]
    return subprocess.run(argv, env=surroundings | more, capture_output=True, text=True, timeout=300)


def document(surroundings: dict[str, str], code: int, *words: str, **more: str) -> dict[str, Any]:
    """What a verb prints with --json: its exit code is ``code`` and its schema holds."""
    return checked(command(surroundings, *words, "--json", **more), code, words[0])


def checked(done: subprocess.CompletedProcess[str], code: int, verb: str) -> dict[str, Any]:
    """What a verb printed: its exit code is ``code`` and its schema holds."""
    assert done.returncode == code, done.stdout[-2000:] + done.stderr
    found: dict[str, Any] = json.loads(
        done.stdout, parse_constant=lambda text: pytest.fail(f"{text} is no JSON")
    )
    schema = json.loads((SCHEMAS / f"{verb}.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    return found


#: A row of a user's table for softmax on gfx950.
USER_ROW = "gfx950,256,3,40,softmax_rows,{variant},f32"
SOFTMAX = ("explain", "softmax", "M=3", "N=40", "T=f32", "--target", "gfx950")


@pytest.fixture(scope="module")
def with_user_row(
    surroundings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], str]:
    """(settings with a user's table whose row names the second best variant of softmax, and with the trace; that variant)."""
    rows = document(surroundings, 0, *SOFTMAX)["decisions"]
    other = next(row for row in rows if row["accepted"] and not row["chosen"])["variant"]
    table = tmp_path_factory.mktemp("tuned") / "softmax.csv"
    table.write_text(f"target,cus,M,N,kernel,variant,types\n{USER_ROW.format(variant=other)}\n")
    return {"AITER_PREBUILT_TUNED": str(table), "AITER_PREBUILT_TRACE": "1"}, other


@pytest.fixture(scope="module")
def executed(
    surroundings: dict[str, str], with_user_row: tuple[dict[str, str], str]
) -> tuple[dict[str, Any], str]:
    """What ``verify --execute --json`` prints for both targets, with that row and the trace; and its standard error."""
    done = command(surroundings, "verify", "--execute", "--json", **with_user_row[0])
    return checked(done, 0, "verify"), done.stderr


def test_every_operator_executes_and_is_right(
    surroundings: dict[str, str], executed: tuple[dict[str, Any], str]
) -> None:
    found, _ = executed
    runs = found["executions"]
    names = {row["operator"] for row in runs}
    assert names == {*FUNCTIONS} - NOT_SAMPLED
    assert sorted({(row["target"], row["operator"]) for row in runs}) == served()
    mine = [(row["operator"], row["label"]) for row in runs if row["target"] == "gfx950"]
    files = [path.with_suffix(".calls") for path in bundles("gfx950", "ck-full")]
    labels = {label for path in files for label in proof.labels(path)}
    assert sorted(mine) == sorted(labels), "each once, though two bundles have it"
    assert all(row["ok"] and row["error"] <= 1 and row["launched"] for row in runs)
    # A comparison that never differs from its formula at all compares nothing. Where an operator's arithmetic may be off by more
    # than roundings, some of that is used.
    assert {row["operator"] for row in runs if row["error"] > 0} >= {
        "flash_attn_func",
        "gelu_and_mul",
        "softmax",
    }
    shown = command(surroundings, "verify", "--execute", "--target", "gfx942", COLUMNS="240").stdout
    assert (
        shown.count(" right ") >= sum(target == "gfx942" for target, _ in served())
        and "error / bound" in shown
        and "executed on device 0" in shown
    )
    assert "aiter-prebuilt-emulator 0." in shown, "no card has run it"
    assert "frameworks and compilers in this process: none" in shown
    assert "gfx950" not in shown.split("executed on")[1]


def golden(target: str) -> Path:
    """The golden calls of everything that ck-free has for a target, as the build wrote them."""
    return bundles(target, "ck-free")[0].with_suffix(".calls")


def other_calls(
    surroundings: dict[str, str], folder: Path, change: Callable[[bytes], bytes]
) -> dict[str, str]:
    """The surroundings with other golden calls of gfx942, whose only bundle it is."""
    (bundle,) = (
        path for path in surroundings["AITER_PREBUILT_BUNDLES"].split(os.pathsep) if "gfx942-ck-free" in path
    )
    shutil.copy(bundle, folder)
    data = change(golden("gfx942").read_bytes())
    if data:
        (folder / "gfx942-ck-free.calls").write_bytes(data)
    return {"AITER_PREBUILT_BUNDLES": str(folder), "AITER_PREBUILT_EMULATOR": "gfx942"}


def test_a_wrong_kernel_is_wrong(surroundings: dict[str, str], tmp_path: Path) -> None:
    """Another answer stands for a kernel that computes something else."""

    def other(data: bytes) -> bytes:
        calls = list(read(io.BytesIO(data), decompress))
        place = next(place for place, call in enumerate(calls) if call.operator == "softmax")
        (want,) = calls[place].wants
        low, high = want.low[: len(want.low) // 2], want.high[: len(want.high) // 2]
        calls[place] = replace(calls[place], wants=(replace(want, low=low + low, high=high + high),))
        return b"".join(map(pack, calls))

    mine = other_calls(surroundings, tmp_path, other)
    found = document(surroundings, 1, "verify", "--execute", **mine)
    (wrong,) = (row for row in found["executions"] if not row["ok"])
    assert (
        wrong["operator"] == "softmax"
        and "values are not what is wanted" in wrong["problem"]
        and not found["ok"]
    )
    shown = command(surroundings, "verify", "--execute", **mine).stdout
    assert shown.count(" WRONG ") == 1 and f"gfx942 softmax {wrong['label']}: {wrong['problem']}" in shown


@pytest.mark.parametrize("missing", [False, True])
def test_what_has_no_golden_call_was_not_executed(
    surroundings: dict[str, str], tmp_path: Path, missing: bool
) -> None:
    def without(data: bytes) -> bytes:
        calls = [
            call for call in read(io.BytesIO(data), decompress) if call.operator != "softmax" and not missing
        ]
        return b"".join(map(pack, calls))

    found = document(surroundings, 1, "verify", "--execute", **other_calls(surroundings, tmp_path, without))
    wrong = [row for row in found["executions"] if not row["ok"]]
    mine = sum(target == "gfx942" for target, _ in served("ck-free"))
    assert len(wrong) == (mine if missing else 1), wrong
    for row in wrong:
        assert "it was not executed: no golden call of it is installed" in row["problem"]
        assert ("gfx942-ck-free.calls is not there" in row["problem"]) == missing


def test_a_missing_file_of_calls_is_said_though_others_have_calls_of_all_operators(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    """ck-free has calls of most operators of ck-full, which has calls of its own nevertheless."""
    folder = bundles("gfx942", "ck-full")[0].parent
    for path in folder.glob("gfx942-*"):
        if path.name != "gfx942-ck-full.calls":
            shutil.copy(path, tmp_path)
    both = os.pathsep.join(str(tmp_path / f"gfx942-{profile}.apb") for profile in ("ck-free", "ck-full"))
    mine = {"AITER_PREBUILT_BUNDLES": both, "AITER_PREBUILT_EMULATOR": "gfx942"}
    found = document(surroundings, 1, "verify", "--execute", **mine)
    rows = {row["operator"]: row for row in found["executions"] if not row["ok"]}
    only = {name for target, name in served() if target == "gfx942"} - {name for _, name in served("ck-free")}
    # Where every operator has a kernel in ck-free, too, no row of one says what was not executed: one row says it of the bundle.
    assert rows.keys() == (only or {"golden calls"}), "what ck-full alone has"
    said = "no golden call of it is installed" if only else "not all was executed"
    assert all(said in row["problem"] for row in rows.values())
    assert all("gfx942-ck-full.calls is not there" in row["problem"] for row in rows.values())


def _flipped(data: bytes) -> bytes:
    """A bit of the frame's last byte before its checksum, which belongs to a tensor's bytes."""
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


@pytest.mark.parametrize("change", [lambda data: data[:-1], _flipped])
def test_damaged_golden_calls_are_a_damaged_bundle(
    surroundings: dict[str, str], tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    mine = other_calls(surroundings, tmp_path, change)
    for words in (("verify",), ("verify", "--execute")):
        found = document(surroundings, 1, *words, **mine)
        (finding,) = found["bundles"][0]["findings"]
        assert finding["problem"].startswith("gfx942-ck-free.calls: its frame cannot be read: ")
        assert not found["executions"], "nothing of it is launched"


def test_a_file_of_no_golden_call_is_a_damaged_bundle(surroundings: dict[str, str], tmp_path: Path) -> None:
    mine = other_calls(surroundings, tmp_path, lambda data: data)
    (tmp_path / "gfx942-ck-free.calls").write_bytes(b"")
    (finding,) = document(surroundings, 1, "verify", **mine)["bundles"][0]["findings"]
    assert finding["problem"] == "gfx942-ck-free.calls: there is no call in it"


def test_nothing_to_execute_on(surroundings: dict[str, str]) -> None:
    (only,) = (
        path for path in surroundings["AITER_PREBUILT_BUNDLES"].split(os.pathsep) if "gfx942-ck-free" in path
    )
    found = document(
        surroundings, 3, "verify", "--execute", AITER_PREBUILT_BUNDLES=only, AITER_PREBUILT_EMULATOR="gfx950"
    )
    assert found["executions"] == [] and all(row["ok"] for row in found["bundles"])
    assert document(surroundings, 0, "verify")["executions"] is None


def test_preload_loads_everything_and_names_what_fails(surroundings: dict[str, str], tmp_path: Path) -> None:
    found = document(surroundings, 0, "preload")
    assert {row["target"] for row in found["loaded"]} == set(TARGETS) and len(found["loaded"]) == len(
        served()
    )
    for target in TARGETS:
        assert sum(row["code_objects"] for row in found["loaded"] if row["target"] == target) > 200
    broken = tmp_path / "gfx950-ck-free.apb"
    (source,) = (
        path for path in surroundings["AITER_PREBUILT_BUNDLES"].split(os.pathsep) if "gfx950-ck-free" in path
    )
    data = bytearray(Path(source).read_bytes())
    data[-2000:] = bytes(2000)  # code objects lie last
    broken.write_bytes(data)
    one = {"AITER_PREBUILT_BUNDLES": str(broken), "AITER_PREBUILT_EMULATOR": "gfx950"}
    found = document(surroundings, 1, "preload", **one)
    failed = [row for row in found["loaded"] if not row["ok"]]
    assert 0 < len(failed) < len(FUNCTIONS) and all("BundleDamagedError" in row["problem"] for row in failed)
    assert (
        document(surroundings, 3, "preload", AITER_PREBUILT_EMULATOR="gfx942", AITER_PREBUILT_BUNDLES=source)[
            "loaded"
        ]
        == []
    )


def test_capture_is_refused_before_it_is_spoilt_and_works_after_the_preload_it_names(
    surroundings: dict[str, str],
) -> None:
    streams = [f"{target}={golden(target)}" for target in TARGETS]
    argv = [sys.executable, str(Path(__file__).with_name("face_program.py")), *streams]
    done = subprocess.run(argv, env=surroundings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(served("ck-free")) and {line["target"] for line in lines} == set(TARGETS)
    loaded: dict[str, set[str]] = {target: set() for target in TARGETS}
    for line in lines:
        # Of several operators that launch one code object the first loads it; another kernel of it is still asked for.
        fresh = set(line["launches"]) - loaded[line["target"]]
        loaded[line["target"]] |= fresh
        if not fresh and not line["said"]:
            assert not line["problems"] and line["worst"] <= 1, line
            continue
        ordinal = ", ordinal=1)" if line["target"] == TARGETS[1] else "}])"
        assert f"aiter_prebuilt.preload(ops=['{line['operator']}'], shapes=[{{" in line["said"], line
        assert line["said"].endswith(ordinal), line
        assert line["preloaded"] == 1 and line["loaded_by_preload"] == len(fresh), line
        assert line["launched_by_preload"] == 0, line
        assert line["again"] == "" and line["loaded_by_capture"] == 0 and not line["ran_at_capture"], line
        assert not line["problems"] and line["worst"] <= 1, line


def test_doctor_says_what_is_used_and_why(surroundings: dict[str, str], tmp_path: Path) -> None:
    found = document(surroundings, 0, "doctor")
    assert [facts["target"] for facts in found["devices"]] == list(TARGETS)
    assert all(len(facts["bundles"]) == 2 and facts["target"] in facts["why"] for facts in found["devices"])
    amd = next(driver for driver in found["drivers"] if driver["vendor"] == "amd")
    assert amd["why"] == "AITER_PREBUILT_HIP names it" and found["problems"] == []
    assert {row["why"] for row in found["bundles"]} == {"used by amd:0", "used by amd:1"}
    table = tmp_path / "softmax.csv"
    table.write_text("target,cus,M,N,kernel,variant,types\ngfx950,256,3,40,softmax_rows,WIDE1-row,f32\n")
    found = document(surroundings, 0, "doctor", AITER_PREBUILT_TUNED=str(table))
    assert found["tuned_tables"] == [
        {"file": str(table), "operator": "softmax", "rows": 1, "rows_for_installed_targets": 1}
    ]
    table.write_text("target,cus,M,N,kernel,variant,types\ngfx950,x,3,40,softmax_rows,WIDE1-row,f32\n")
    found = document(surroundings, 1, "doctor", AITER_PREBUILT_TUNED=str(table))
    assert any(f"{table}, line 2, column 8" in problem for problem in found["problems"])
    found = document(surroundings, 1, "doctor", AITER_PREBUILT_MISS_LOG=str(tmp_path / "no" / "such" / "log"))
    assert any("AITER_PREBUILT_MISS_LOG" in problem for problem in found["problems"])
    files = surroundings["AITER_PREBUILT_BUNDLES"].split(os.pathsep)
    lacking = os.pathsep.join(path for path in files if "gfx950-ck-free" not in path)
    found = document(surroundings, 1, "doctor", AITER_PREBUILT_BUNDLES=lacking)
    (problem,) = found["problems"]
    assert "not its ck-free bundle" in problem and "pip install 'aiter-prebuilt[gfx950]'" in problem
    assert [bool(facts["bundles"]) for facts in found["devices"]] == [True, False], (
        "a known GPU beside it is served"
    )


def test_a_user_row_decides_explain_and_execution_alike(
    surroundings: dict[str, str],
    with_user_row: tuple[dict[str, str], str],
    executed: tuple[dict[str, Any], str],
) -> None:
    plain = next(row for row in document(surroundings, 0, *SOFTMAX)["decisions"] if row["chosen"])
    mine, other = with_user_row
    table = mine["AITER_PREBUILT_TUNED"]
    found = document(surroundings, 0, *SOFTMAX, **mine)
    chosen = next(row for row in found["decisions"] if row["chosen"])
    assert chosen["variant"] == other != plain["variant"]
    assert chosen["row"] == f"{table}:2" and chosen["tuned"] and found["tables"] == [table]
    document_, errors = executed
    wide = (row for row in document_["executions"] if row["label"].endswith("T=f32"))
    runs = {(row["target"], row["operator"]): row for row in wide}
    assert runs["gfx950", "softmax"]["variant"] == other
    assert runs["gfx942", "softmax"]["variant"] == plain["variant"], "a row of another target is nobody's"
    lines = [line for line in errors.splitlines() if ": softmax on amd:1" in line]
    (line,) = (line for line in lines if f"softmax_rows[{other}]" in line)
    assert f"tuned row of the user, {table}:2" in line


@pytest.mark.parametrize(
    "words",
    [("list",), ("list", "--operator", "softmax"), ("bench", "softmax", "M=3", "N=40", "--counters", "--repeat", "2"),
     ("bench", "gemm_a16w16", "M=5", "N=64", "K=64", "--repeat", "1")],
)  # fmt: skip
def test_other_verbs_keep_their_schema(surroundings: dict[str, str], words: tuple[str, ...]) -> None:
    assert document(surroundings, 0, *words)["verb"] == words[0]


def test_a_refusal_keeps_the_schema_of_explain(surroundings: dict[str, str]) -> None:
    words = ("explain", "gemm_a8w8_bpreshuffle", "M=1", "N=17", "K=33", "KW=33", "--target", "gfx950")
    found = document(surroundings, 1, *words)
    assert not any(row["chosen"] for row in found["decisions"]) and all(
        row["reason"] for row in found["decisions"]
    )
