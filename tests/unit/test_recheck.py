"""Some of what a store had is compiled again: an entry that leads to another job's object is found by its bytes."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.compiling import TOOLS, Backend, separate_job, write

from build_tools.compile import compile as stage
from build_tools.compile.backends.built import Built
from build_tools.compile.compile import compile_jobs
from build_tools.compile.place import place_at
from build_tools.compile.recheck import Recheck, part_of
from build_tools.compile.shared import SharedStore
from build_tools.compile.store import Store
from build_tools.errors import CompileFailedError, JobFailedError, RecheckError, UsageError
from build_tools.records import CompileJob, CompileResult
from build_tools.verbs.build import build

JOBS = [separate_job(f"job{number:02}") for number in range(30)]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = Backend()
    monkeypatch.setattr(stage, "BACKENDS", {"hip": made})
    return made


@pytest.fixture
def root(tmp_path: Path, backend: Backend) -> Path:
    """A checkout, and a store in which all jobs are."""
    (tmp_path / "k.hip").write_text("text")
    compile_jobs(JOBS, TOOLS, Store(tmp_path / "store"), root=tmp_path)
    backend.asked.clear()
    return tmp_path


def taken(root: Path) -> tuple[CompileResult, ...]:
    return compile_jobs(JOBS, TOOLS, Store(root / "store"), root=root)


def again(root: Path, part: str = "1", seed: int = 0) -> dict[str, Any]:
    return Recheck(part_of(part), seed)(taken(root), TOOLS, root / "store", root)


def swap(root: Path, victim: int, other: int) -> None:
    """The attack: the entry of one job says the object of another, which is whole and has its own hash."""
    store = Store(root / "store")
    results = taken(root)
    path, donor = (store.entry_path(results[number].key) for number in (victim, other))
    row, said = (json.loads(each.read_text()) for each in (path, donor))
    path.write_text(json.dumps({**row, "sha256": said["sha256"], "size": said["size"]}))


def test_a_tenth_by_chance_that_a_seed_repeats(root: Path, backend: Backend) -> None:
    told = again(root, "1/10", 5)
    assert told["seed"] == 5 and told["part"] == "1/10" and len(told["jobs"]) == 3
    assert sorted(backend.asked) == told["jobs"] and again(root, "0.1", 5)["jobs"] == told["jobs"]
    chosen = {name for seed in range(40) for name in again(root, "1/10", seed)["jobs"]}
    assert len(chosen) > 25, "every job may be asked for"
    assert len(again(root, "1/1000")["jobs"]) == 1 and len(again(root, "1")["jobs"]) == 30
    assert len(taken(root)) == 30 and not (root / "store" / "x").exists()


def test_what_was_compiled_just_now_is_not_compiled_twice(root: Path, backend: Backend) -> None:
    fresh = compile_jobs(JOBS, TOOLS, Store(root / "empty"), root=root)
    backend.asked.clear()
    assert Recheck(Fraction(1), 0)(fresh, TOOLS, root / "empty", root)["jobs"] == []
    assert backend.asked == []


def test_an_entry_that_leads_to_another_jobs_object_is_found(root: Path) -> None:
    swap(root, 3, 4)
    results = taken(root)
    assert results[3].path == results[4].path and results[3].ok, "the store itself sees nothing wrong"
    with pytest.raises(
        RecheckError, match=r"job03 \(key \w+\): the store has .*compiled again it is"
    ) as refused:
        again(root, seed=9)
    assert len(refused.value.lines) == 1 and "--seed 9" in str(refused.value)
    assert str(root / "store") in str(refused.value)
    found = 0
    for seed in range(60):
        try:
            again(root, "1/10", seed)
        except RecheckError:
            found += 1
    assert 1 <= found <= 20, "a tenth finds one of thirty now and then, and not always"


def test_a_shared_store_without_signatures_is_found_out_too(root: Path) -> None:
    """What was taken from a mount lies in the folder here, under the key that it was taken for."""
    swap(root, 3, 4)
    shared = SharedStore(Store(root / "mine"), place_at(f"file://{root}/store"))
    results = compile_jobs(JOBS, TOOLS, shared, root=root)
    assert all(result.cached for result in results) and shared.counts.taken == 30
    with pytest.raises(RecheckError, match="job03"):
        Recheck(Fraction(1), 0)(results, TOOLS, shared.path, root)


@pytest.mark.parametrize("said", [{"symbol": "other.kd"}, {"threads": 64}, {"extra": {"lds": "17"}}])
def test_how_a_kernel_is_launched_is_compared_too(root: Path, said: dict[str, Any]) -> None:
    path = Store(root / "store").entry_path(taken(root)[7].key)
    path.write_text(json.dumps({**json.loads(path.read_text()), **said}))
    with pytest.raises(RecheckError, match="job07"):
        again(root)


def test_one_that_does_not_compile_any_more(root: Path, backend: Backend) -> None:
    def work(job: CompileJob, folder: Path) -> Built:
        if job.id == "job11":
            raise JobFailedError("compile job11", "no", "Mend it")
        return write(job, folder)

    backend.work = work
    with pytest.raises(CompileFailedError, match="job11"):
        again(root)


@pytest.mark.parametrize(("text", "part"), [("1/10", 0.1), ("0.25", 0.25), ("1", 1.0)])
def test_parts(text: str, part: float) -> None:
    assert math.isclose(part_of(text), part)


@pytest.mark.parametrize("text", ["", "0", "-1/2", "1/0", "2", "x", "nan", "inf"])
def test_what_is_no_part(text: str) -> None:
    with pytest.raises(UsageError, match="it is no number above 0, up to 1"):
        part_of(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--recheck", "2"], "compile the part '2' again"),
        (["--trust", __file__], "Name one with --shared URL"),
        (["--farm", "tcp://192.0.2.1:8786"], "whoever can send work there can run any program"),
        (["--farm", "tcp://127.0.0.1:8786"], "its workers cannot see the folder of this build"),
        (["--farm", "here"], "it is no address"),
        (["--farm", ""], "it is no address"),
        (
            ["--farm", "local:1", "--shared", f"file://{__file__}/below"],
            "there is no such folder, and this build only reads",
        ),
        (["--shared", f"file://{__file__}/below"], "there is no such folder, and this build only reads"),
        (["--shared", "/mnt"], "it is no such address"),
    ],
)
def test_options_that_make_no_sense(words: list[str], said: str) -> None:
    done = CliRunner().invoke(build, [*words, "--operator", "silu_and_mul"])
    assert said in str(done.exception)
