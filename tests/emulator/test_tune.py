"""``tune`` and ``bench --kernel`` on the embedded device: tables, resuming, budgets, refusals, several cards.

Its times say nothing of a card, so no test looks at them.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.emulator import bundles, card_of_few_units

from aiter_prebuilt.contract import tuned_grammar
from aiter_prebuilt.contract.calls import pack, read
from build_tools.objects.unpack import decompress

ROOT = Path(__file__).resolve().parents[2]
CALL = ("rms_norm", "M=3", "N=256", "T=bf16")


@pytest.fixture(scope="module")
def surroundings() -> dict[str, str]:
    """One emulated card and its bundle, in the environment of a child."""
    return card_of_few_units()


def command(surroundings: dict[str, str], *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "aiter_prebuilt", *words]
    return subprocess.run(argv, env=surroundings | more, capture_output=True, text=True, timeout=900)


def tuned(
    surroundings: dict[str, str], folder: Path, *words: str, code: int = 0, **more: str
) -> dict[str, Any]:
    done = command(surroundings, "tune", *words, "--output", str(folder), "--json", **more)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    schema = json.loads((ROOT / "src/aiter_prebuilt/schemas/tune.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    return found


@pytest.fixture(scope="module")
def table(
    surroundings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """A folder with the table of one call, and what the run said."""
    folder = tmp_path_factory.mktemp("tuned")
    return folder, tuned(surroundings, folder, *CALL)


def test_bench_runs_a_named_candidate(surroundings: dict[str, str]) -> None:
    done = command(surroundings, "bench", *CALL, "--repeat", "1", "--variant", "EVEN0-1024", "--json")
    found = json.loads(done.stdout)
    assert (found["kernel"], found["variant"], found["backend"]) == ("rms_norm_loop", "EVEN0-1024", "triton")
    unnamed = json.loads(command(surroundings, "bench", *CALL, "--repeat", "1", "--json").stdout)
    assert (unnamed["kernel"], unnamed["variant"]) == ("rms_norm_row", "512")


def test_bench_refuses_a_wrong_name_and_a_candidate_that_refuses(surroundings: dict[str, str]) -> None:
    done = command(surroundings, "bench", *CALL, "--kernel", "rms_norm_rov")
    assert done.returncode == 2
    assert "rms_norm has no kernel 'rms_norm_rov'. Did you mean 'rms_norm_row'?" in done.stderr
    done = command(surroundings, "bench", *CALL, "--kernel", "rms_norm_row", "--variant", "128")
    assert "Cannot run rms_norm_row[128] of rms_norm: it refuses this call: needs N <= BLOCK" in done.stderr


def test_the_table_says_where_it_was_measured(table: tuple[Path, dict[str, Any]]) -> None:
    folder, said = table
    (row,) = tuned_grammar.read((folder / "rms_norm.csv").read_text()).rows
    assert (row.target, row.cus) == ("gfx942", 8) and float(row.us) > 0 and not row.modelled
    parts = [part.partition(" ")[0] for part in row.source.split("; ")]
    assert parts == ["measured", "device", "driver", "bundle", "clock", "warm", "spread", "default", "call"]
    assert row.source.endswith("; call rms_norm T=bf16 M=3 N=256")
    (call,) = said["calls"]
    assert said["embedded"] and said["cards"] == 1 and said["left"] == 0
    best = call["candidates"][call["best"]]
    assert (best["kernel"], best["variant"], best["types"]) == (row.kernel, row.variant, row.types)
    assert len(call["candidates"]) > 3 and all(
        each["cold_us"] and not each["problem"] for each in call["candidates"]
    )
    assert [each["variant"] for each in call["candidates"] if each["default"]] == ["512"]


def test_the_runtime_reads_the_table(
    surroundings: dict[str, str], table: tuple[Path, dict[str, Any]]
) -> None:
    place = {"AITER_PREBUILT_TUNED": str(table[0])}
    done = command(surroundings, "explain", *CALL, "--target", "gfx942", "--cus", "8", "--json", **place)
    (chosen,) = (each for each in json.loads(done.stdout)["decisions"] if each["chosen"])
    assert chosen["row"].startswith(str(table[0] / "rms_norm.csv")) and chosen["us"]
    assert chosen["source"].startswith("measured; device AMD Instinct MI300X; ")


def test_a_second_run_goes_on_and_measures_nothing_again(
    surroundings: dict[str, str], table: tuple[Path, dict[str, Any]]
) -> None:
    before = (table[0] / "rms_norm.csv").read_bytes()
    again = tuned(surroundings, table[0], *CALL)
    assert (again["before"], again["calls"], again["left"]) == (1, [], 0)
    assert (table[0] / "rms_norm.csv").read_bytes() == before


def test_a_spent_budget_begins_nothing_and_writes_nothing(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    said = tuned(surroundings, tmp_path / "none", *CALL, "--seconds", "0")
    assert (said["left"], said["calls"], said["tables"]) == (1, [], [])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("driver ", "driver 1", "with the driver 1"), ("device AMD", "device XYZ", "with the device XYZ Instinct MI300X"),
        ("; bundle ", "; bundle 9", "with the bundle 9"), ("gfx942,8", "gfx942,304", "for the compute units 304, and here are 8"),
        ("measured; ", "by hand; ", "did not write this row"),
    ],
)  # fmt: skip
def test_a_table_of_another_place_is_refused_by_name(
    surroundings: dict[str, str], table: tuple[Path, dict[str, Any]], tmp_path: Path, old: str, new: str, named: str
) -> None:  # fmt: skip
    text = (table[0] / "rms_norm.csv").read_text()
    (tmp_path / "rms_norm.csv").write_text(text.replace(old, new, 1))
    done = command(surroundings, "tune", *CALL, "--output", str(tmp_path))
    assert done.returncode == 33 and "OtherTableError" in done.stderr and named in done.stderr
    assert f"{tmp_path / 'rms_norm.csv'}, line 3" in done.stderr


def test_cards_share_the_calls_of_a_miss_log(surroundings: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "misses.jsonl"
    for size in (64, 128, 192):
        words = ("rms_norm", "M=2", f"N={size}", "T=f16")
        done = command(surroundings, "bench", *words, "--repeat", "1", AITER_PREBUILT_MISS_LOG=str(log))
        assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["call"]["N"] for line in lines] == ["64", "128", "192"]
    other = json.dumps({**lines[0], "cus": 304})
    log.write_text(log.read_text() + other + "\n")
    said = tuned(
        surroundings,
        tmp_path / "tuned",
        "--misses",
        str(log),
        AITER_PREBUILT_EMULATOR="gfx942:cus=8,gfx942:cus=8",
    )
    assert said["cards"] == 2 and sorted(call["symbols"]["N"] for call in said["calls"]) == [64, 128, 192]
    assert len(tuned_grammar.read((tmp_path / "tuned" / "rms_norm.csv").read_text()).rows) == 3
    (left,) = said["left_out"]
    assert "it was called on gfx942 with 304 compute units" in left["problem"]


def test_ctrl_c_says_what_was_written_and_how_to_go_on(surroundings: dict[str, str], tmp_path: Path) -> None:
    """As a terminal does it: the signal reaches the command and the processes of its cards."""
    log, folder = tmp_path / "misses.jsonl", tmp_path / "tuned"
    made = command(surroundings, "bench", *CALL, "--repeat", "1", AITER_PREBUILT_MISS_LOG=str(log))
    assert made.returncode == 0, made.stderr
    line = json.loads(log.read_text())
    calls = [{**line, "call": {**line["call"], "N": str(64 * size)}} for size in range(1, 41)]
    log.write_text("".join(json.dumps(each) + "\n" for each in calls))
    words = ("tune", "--misses", str(log), "--output", str(folder))
    with subprocess.Popen(
        [sys.executable, "-m", "aiter_prebuilt", *words], env=surroundings, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as run:  # fmt: skip
        assert run.stderr is not None
        before = []
        for line in run.stderr:
            before.append(line)
            if line.startswith("[1/"):
                break
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=300)
    assert run.returncode == 130, (before, out, err)
    assert "Traceback" not in out + err
    said = re.search(
        r"^Interrupted after (\d+) of 40 calls\. What was measured is written\.$", out, re.MULTILINE
    )
    assert said, out
    left = 40 - int(said[1])
    assert f"{left} calls are left. Run the same command again to go on." in out.splitlines()
    assert f"table: {folder / 'rms_norm.csv'}" in out.splitlines()
    again = command(surroundings, *words, "--seconds", "0")
    assert again.returncode == 0 and f"{40 - left} have a row already" in again.stderr, again.stderr


def test_wrong_kernels_are_thrown_out_and_get_no_row(surroundings: dict[str, str], tmp_path: Path) -> None:
    """Other golden answers stand for kernels that compute something else."""
    bundle = bundles("gfx942", "ck-free")[0]
    shutil.copy(bundle, tmp_path)
    calls = list(read(io.BytesIO(bundle.with_suffix(".calls").read_bytes()), decompress))
    changed = []
    for call in calls:
        if call.operator == "rms_norm":
            zeros = [
                replace(want, low=bytes(len(want.low)), high=bytes(len(want.high))) for want in call.wants
            ]
            changed.append(replace(call, wants=tuple(zeros)))
    assert changed
    (tmp_path / bundle.with_suffix(".calls").name).write_bytes(b"".join(map(pack, changed)))
    said = tuned(surroundings, tmp_path / "tuned", *CALL, code=1, AITER_PREBUILT_BUNDLES=str(tmp_path))
    (call_said,) = said["calls"]
    problems = [each["problem"] for each in call_said["candidates"]]
    assert any("wrong at the golden call" in problem for problem in problems)
    rest = "no candidate is right at a golden call, so nothing judges it"
    assert all("wrong at the golden call" in problem or problem == rest for problem in problems)
    assert (
        call_said["best"] is None and said["tables"] == [] and call_said["problem"] == "no candidate is right"
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "none was given"), (("rms_norm", "M=1", "N=8", "--model", "llama3"), 2, "one of a call, --misses and --model"),
        (("--misses", "/no/such/log"), 34, "Cannot read the miss log /no/such/log"),
        (("--model", "llama9"), 2, "Did you mean 'llama3'?"),
        (("--model", "llama3", "--tp", "3"), 2, "llama3 is not shared by 3 GPUs"),
        (("rms_nrom", "M=1"), 10, "No operator 'rms_nrom'"),
        (("rms_norm", "M=1"), 2, "aiter-prebuilt tune rms_norm M=17 N=4096"), ((*CALL, "--device", "7"), 3, "tune on device 7"),
        ((*CALL, "--seconds", "-1"), 2, "tune: --seconds must be 0 or more, not -1. For example: --seconds 600"),
        ((*CALL, "--seconds", "nan"), 2, "--seconds must be 0 or more, not nan"),
        ((*CALL, "--spread", "-5"), 2, "tune: --spread must be 0 or more, not -5. For example: --spread 5"),
        ((*CALL, "--spread", "nan"), 2, "--spread must be 0 or more, not nan"),
    ],
)  # fmt: skip
def test_wrong_words_are_said(
    surroundings: dict[str, str], tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = command(surroundings, "tune", *words, "--output", str(tmp_path / "none"))
    assert done.returncode == code and said in done.stderr and not (tmp_path / "none").exists()
