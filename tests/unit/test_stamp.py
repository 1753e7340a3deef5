"""A build that finds nothing changed says so at once; whatever a build may read or has written makes it build again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from support import repository

from build_tools.__main__ import cli
from build_tools.compile.inputs import inputs_of
from build_tools.pipeline import build, stamp
from build_tools.pipeline.settings import Settings
from build_tools.plan.plan import make_plan
from build_tools.records import LeftOut, in_tree
from build_tools.verbs import options

ROOT = Path(__file__).resolve().parents[2]


class Tools(SimpleNamespace):
    """Stands for a toolchain."""

    kind = "hermetic"
    version, flags = "1", "-O2"
    pins = SimpleNamespace(trees={"thing": SimpleNamespace(override="THING_DIR")}, editions={})

    def provenance(self) -> dict[str, str]:
        return {"zig": self.version}

    def identity_of(self, backend: str) -> str:
        return f"{backend} {self.flags}"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("THING_DIR", raising=False)
    for name in (
        "manifests/a/operators.toml",
        "csrc/kernels/hip/k.hip",
        "csrc/stand_in/torch/all.h",
        "hsa/k.S",
        "build_tools/x.py",
        "src/aiter_prebuilt/y.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    bundles = tmp_path / "build/bundles"
    bundles.mkdir(parents=True)
    for path in (bundles / "t.apb", bundles / "t.calls", bundles / "t.json", bundles.parent / "compile.json"):
        path.write_text("made")
    (bundles.parent / "report.json").write_text(
        '{"version": 4, "ck": "curated", "jobs": [], "bundles": [], "left_out": [], "absent": [], "seconds": 1}'
    )
    return tmp_path


def state(root: Path, **changes: Any) -> str | None:
    tools: Any = Tools(**changes)
    return stamp.state(root, tools)


def edit(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text("other")


@pytest.mark.parametrize(
    "change",
    [
        edit("manifests/a/operators.toml"), edit("manifests/a/tuned.csv"), edit("csrc/kernels/hip/k.hip"),
        edit("csrc/stand_in/torch/all.h"), edit("hsa/k.S"),
        edit("build_tools/x.py"), edit("src/aiter_prebuilt/y.py"), lambda root: (root / "hsa/k.S").unlink(),
        lambda root: (root / "hsa/k.S").rename(root / "hsa/l.S"),
    ],
)  # fmt: skip
def test_every_file_that_is_read_counts(root: Path, change: Callable[[Path], object]) -> None:
    before = state(root)
    assert before == state(root)
    change(root)
    assert state(root) != before


def test_tools_and_the_time_count_and_what_python_makes_does_not(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(root)
    (root / "build_tools/x.pyc").write_text("made")
    (root / "src/aiter_prebuilt/_native.abi3.so").write_text("made")
    (root / "README.md").write_text("no build reads it")
    assert state(root) == before
    assert len({before, state(root, version="2"), state(root, flags="-O3"), state(root, kind="rocm")}) == 4
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert state(root) != before


def test_a_checkout_in_place_of_a_pin_has_no_state(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THING_DIR", "/somewhere")
    assert state(root) is None
    stamp.write(root / "build/bundles", "all", None, ["t.apb"])
    assert not stamp.holds(root / "build/bundles", "all", None)


@pytest.mark.parametrize("name", ["t.apb", "t.calls", "t.json"])
def test_a_bundle_must_be_as_it_was(root: Path, name: str) -> None:
    bundles = root / "build/bundles"
    assert not stamp.holds(bundles, "all", "s")
    stamp.write(bundles, "all", "s", ["t.apb"])
    assert stamp.holds(bundles, "all", "s")
    assert not stamp.holds(bundles, "all", "other") and not stamp.holds(bundles, "few", "s")
    (bundles / name).write_text("touched")
    assert not stamp.holds(bundles, "all", "s")
    stamp.write(bundles, "all", "s", ["t.apb"])
    (bundles / name).unlink()
    assert not stamp.holds(bundles, "all", "s")
    stamp.write(bundles, "all", "s", ["t.apb"])
    (bundles / name).write_text("there again")
    assert not stamp.holds(bundles, "all", "s")


@pytest.mark.parametrize("name", ["report.json", "compile.json"])
def test_choices_take_turns_and_each_has_its_reports(root: Path, name: str) -> None:
    bundles, path = root / "build/bundles", root / "build" / name
    (bundles / "other.apb").write_text("of another target")
    mine = path.read_text()
    stamp.write(bundles, "all", "s", ["t.apb", "other.apb"])
    path.write_text("of a few")
    stamp.write(bundles, "few", "s", ["t.apb"])
    for asked, text in (("all", mine), ("few", "of a few"), ("few", "of a few"), ("all", mine)):
        assert stamp.holds(bundles, asked, "s")
        assert path.read_text() == text
    path.unlink()
    (bundles / "other.apb").write_text("touched")
    assert not stamp.holds(bundles, "all", "s")
    assert stamp.holds(bundles, "few", "s"), "that bundle is not its own"
    assert path.read_text() == "of a few"


def test_a_state_that_is_unknown_takes_the_note_away(root: Path) -> None:
    bundles = root / "build/bundles"
    stamp.write(bundles, "all", "s", ["t.apb"])
    (note,) = (root / "build" / stamp.FOLDER).iterdir()
    stamp.write(bundles, "all", None, ["t.apb"])
    assert not note.exists() and not stamp.holds(bundles, "all", "s")
    stamp.write(bundles, "all", "s", ["t.apb"])
    note.write_text(note.read_text().replace("t.apb", "u.apb"))
    assert not stamp.holds(bundles, "all", "s")


def test_every_file_that_a_job_reads_is_looked_at() -> None:
    made = make_plan(repository.manifest(), ROOT, inputs_of(ROOT), (), ("gfx942",), prove=False, ck="sample")
    read = {name for job in made.jobs for name in job.inputs if not in_tree(name)}
    assert len({name.split("/")[1] for name in read}) > 2
    assert [
        name for name in read if not name.startswith(tuple(f"{folder}/" for folder in stamp.FOLDERS))
    ] == []


def test_a_build_is_known_by_what_it_was_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles = root / "build/bundles"
    monkeypatch.setattr(build, "find", lambda kind, where: Tools())
    (root / "store").mkdir()
    settings = Settings(root, root / "store", bundles)
    choices = [
        settings,
        replace(settings, ck="sample"),
        replace(settings, profiles=("ck-free",)),
        replace(settings, targets=("gfx942",)),
        replace(settings, targets=("gfx942", "gfx950")),
        replace(settings, operators=("gfx942",)),
        replace(settings, operators=("a",), targets=("gfx942",)),
    ]
    told = json.loads((root / "build/report.json").read_text())

    def noted(choice: Settings) -> None:
        made: Any = Tools()
        words = build.plan_request(choice)
        stamp.write(choice.bundles, words, stamp.state(root, made, words), ["t.apb"])

    for choice in choices:
        assert build.unchanged(choice) is None
        noted(choice)
        assert build.unchanged(choice) == told
    assert build.unchanged(replace(choices[4], targets=("gfx950", "gfx942"))) == told
    assert build.unchanged(replace(choices[4], targets=("gfx950", "gfx942", "gfx950"))) == told
    gone = replace(choices[4], store=root / "none")
    assert build.unchanged(gone) is None, "a store was taken away"
    (bundles / "t.apb").write_text("touched")
    assert build.unchanged(choices[4]) is None


def test_a_shard_is_never_known(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves no bundle by which one could tell."""
    monkeypatch.setattr(build, "find", lambda kind, where: Tools())
    (root / "store").mkdir()
    part = Settings(root, root / "store", root / "build/bundles", shard="1/2")
    made: Any = Tools()
    words = build.plan_request(part)
    stamp.write(part.bundles, words, stamp.state(root, made, words), ["t.apb"])
    assert build.unchanged(part) is None


def printed(*words: str) -> str:
    found = CliRunner().invoke(cli, ["plan", *words], catch_exceptions=False)
    assert found.exit_code == 0
    return found.output


def test_a_plan_is_made_once_for_each_choice_and_state(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []

    def plan_anew(*words: object) -> dict[str, Any]:
        made.append(words)
        return {"ck": words[2], "jobs": [{"id": f"job-{len(made)}"}], "bundles": [], "missing": []}

    shutil.copy(ROOT / "manifests/toolchains.toml", root / "manifests")
    monkeypatch.setattr(options, "ROOT", root)
    monkeypatch.setattr("build_tools.verbs.plan._made", plan_anew)
    monkeypatch.delenv("AITER_DIR", raising=False)
    monkeypatch.delenv("CK_DIR", raising=False)
    choices = (
        (), ("--target", "gfx942"), ("--target", "gfx950"), ("--profile", "ck-free"), ("--ck", "sample"), ("--shard", "1/2"),
    )  # fmt: skip
    assert [printed(*words) for words in (*choices, *choices)] == [
        f"job-{n}\n" for n in (1, 2, 3, 4, 5, 6)
    ] * 2
    assert json.loads(printed("--json"))["jobs"] == [{"id": "job-1"}]
    (root / "manifests/a/operators.toml").write_text("other")
    assert (printed(), printed()) == ("job-7\n", "job-7\n")
    for damage in (lambda text: text[:-3], lambda text: text.replace("job-", "jab-"), lambda text: ""):
        for path in (root / "build/plans").iterdir():
            path.write_text(damage(path.read_text()))
        anew = f"job-{len(made) + 1}\n"
        assert (printed(), printed()) == (anew, anew)
    monkeypatch.setenv("AITER_DIR", str(root))
    assert printed() != printed(), "the files of a checkout may be any"


def test_the_verb_says_that_nothing_has_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "file": "t.apb",
        "sha256": "0" * 64,
        "profile": "ck-full",
        "entries": 2,
        "code_objects": 1,
        "raw_bytes": 2048,
        "size": 1024,
        "ratio": 2.0,
        "compile_seconds": 12.6,
        "peak_bytes": 3 << 30,
        "unproved": 1,
    }
    told = {
        "version": 4,
        "ck": "sample",
        "jobs": [{"id": "job", "cached": True, "peak_bytes": 3 << 30}],
        "bundles": [row],
        "left_out": [LeftOut("t:k.co", "there is no such file", "op", "gfx942", "ck-free", "job")._asdict()],
        "absent": [{"operator": "op", "target": "gfx942"}],
        "seconds": 1.0,
    }
    monkeypatch.setattr(build, "unchanged", lambda settings: told)
    words = ["build", "--bundles", str(root / "bundles")]
    found = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert list(json.loads((root / "bundles" / "commits.json").read_text())) == ["t.apb"]
    assert "1 jobs: nothing has changed since the last build" in found.output
    assert "Composable Kernel: the sample set of instances; --ck tuned compiles all" in found.output
    assert (
        "│ t " in found.output
        and all(word in found.output for word in ("core s", "13 ", "peak MiB", "3072"))
        and "job needed 3.0 GiB of memory to compile" in found.output
        and "left out: 1 entry of 1 operator, whose files are of a source tree that is not pinned"
        in found.output
        and "t:k.co: 1 entry of op: there is no such file" in found.output
        and "op: no kernel is left for gfx942" in found.output
        and "1 entries have no receipt" in found.output
    )
    assert json.loads(CliRunner().invoke(cli, ["build", "--json"], catch_exceptions=False).output)[
        "bundles"
    ] == [row]
