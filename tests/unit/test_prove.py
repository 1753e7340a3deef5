"""Proving: which calls are chosen, what is needed first, what a proof refuses, and lines that another machine wrote."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import repository
from support.bundles import blob, small_operator, small_root

from aiter_prebuilt.contract.calls import Array, Call
from aiter_prebuilt.contract.judging import judging
from build_tools.cases import make
from build_tools.cases.receipt_state import PACKAGE, meanings
from build_tools.cases.table import Cases
from build_tools.errors import ExecutorError, NotReadyError, ProofError, UsageError
from build_tools.judge import receipts
from build_tools.judge.findings import EMBEDDED_CHECKS, Finding
from build_tools.judge.receipts import Provable
from build_tools.manifest.model import Manifest
from build_tools.objects.entries import BuiltEntry, recipes_of
from build_tools.objects.unpack import open_bundle
from build_tools.pack import notes, writer
from build_tools.prove import prove as proving
from build_tools.prove import ready, recorded, workers
from build_tools.prove.call_coverage import Walked
from build_tools.prove.choose import Choice, choose
from build_tools.prove.prove import Proof, Settings
from build_tools.prove.workers import Line, Place
from build_tools.verbs import prove as verb

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return repository.manifest()


@pytest.fixture(scope="module")
def cases(manifest: Manifest) -> Cases:
    return repository.cases()["rms_norm"]


def line(call: Call, *chosen: str, problems: Iterable[str] = ()) -> dict[str, Any]:
    """Each recipe launches a code object whose digest is that of the recipe and a "!"."""
    told = {
        "operator": call.operator,
        "label": call.label,
        "kernel": "row",
        "target": "gfx942",
        "device": "d",
    }
    launched = [f"{digest}!" for digest in chosen]
    words = {"recipes": list(chosen), "launched": launched, "reference": "now", "judge": "it"}
    return {**told, **words, "problems": list(problems), "worst": 0.5}


def chosen(
    cases: Cases, manifest: Manifest, reach: set[str] | None, profiles: tuple[str, ...] = ("ck-free",),
    refusing: tuple[str, ...] = ("ck-free", "ck-full"),
) -> Choice:  # fmt: skip
    """bf16 calls launch "b"; f16 ones "f" and, with more bundles, "g"; calls of 3 rows are refused by ``refusing``."""

    def explain(profile: str, calls: Iterable[Call]) -> Iterator[Line]:
        for call in calls:
            assert all(value.data is None for value in call.arguments.values() if isinstance(value, Array))
            if call.label.startswith("M=3 ") and profile in refusing:
                yield line(call, problems=["NoKernelError"])
            else:
                yield line(call, "b" if call.label.endswith("bf16") else "f" if profile == "ck-free" else "g")

    names = {profile: {"rms_norm"} for profile in profiles}
    wanted = None if reach is None else lambda _: reach
    return choose([cases], "gfx942", manifest.targets["gfx942"], names, explain, wanted, {})


def test_only_calls_that_launch_something_unproved_are_executed(cases: Cases, manifest: Manifest) -> None:
    everything = chosen(cases, manifest, None)
    some = chosen(cases, manifest, {"f", "x"})
    assert {*some.calls[0].recipes} == {"f"}
    assert 2 * len(everything.calls) == 3 * len(some.calls) > 10, "f16 and f32 of three types"
    assert chosen(cases, manifest, set()).calls == []
    assert some.refused and all(row["problems"] for row in some.refused)


def test_with_more_bundles_the_same_launch_is_the_same_call(cases: Cases, manifest: Manifest) -> None:
    both = chosen(cases, manifest, None, ("ck-free", "ck-full"))
    alone = chosen(cases, manifest, None)
    assert [call for call in both.calls if call.profile == "ck-free"] == alone.calls
    more = [call for call in both.calls if call.profile == "ck-full"]
    assert more and {digest for call in more for digest in call.recipes} == {"g"}
    assert len({call.name for call in more}) == len(more)
    assert len(both.refused) == len(alone.refused)


def test_what_more_bundles_serve_is_not_wrong(cases: Cases, manifest: Manifest) -> None:
    both = chosen(cases, manifest, None, ("ck-free", "ck-full"), ("ck-free",))
    assert both.refused == [] and any(" M=3 " in call.name for call in both.calls)


def test_a_chosen_call_brings_inputs_and_answers(cases: Cases, manifest: Manifest) -> None:
    call = chosen(cases, manifest, {"b"}).calls[0]
    made = call.call(1)
    assert (made.operator, made.label) == ("rms_norm", call.bound.label)
    assert made.wants and made == call.call(1) != call.call(2)


def test_a_recipe_of_a_call_that_did_not_end_gets_no_receipt(cases: Cases, manifest: Manifest) -> None:
    choice = chosen(cases, manifest, None)
    entries = tuple(
        BuiltEntry("rms_norm", ("row",), "triton", "gfx942", "ck-free", name, name, (name,), executed=False)
        for name in "bf"
    )
    recipes = {
        name: Provable(
            "norm",
            "rms_norm.row",
            name,
            "gfx942",
            frozenset({f"{name}!"}),
            "now",
            "it",
            {"toolchain": "hermetic"},
        )
        for name in "bf"
    }
    built = ready.Built("gfx942", {}, entries, recipes)
    ran = [line(call.call(1), *call.recipes) for call in choice.calls if "b" in call.recipes]
    book = proving._Book({}, {("norm", "rms_norm", "gfx942"): "now"}, ())
    book.note([*ran, line(next(c for c in choice.calls if "f" in c.recipes).call(1), "f")], choice, built)
    assert book.known.keys() == {"b"}
    assert book.known["b"].calls == len(ran)
    assert book.known["b"].checks == EMBEDDED_CHECKS
    spared = Finding("f", "b!", "_Zb", 4, "races", "", "", served=True)
    marked = proving._Book({}, {("norm", "rms_norm", "gfx942"): "now"}, [spared])
    marked.note(ran, choice, built)
    assert marked.holding()["b"].checks == f"{EMBEDDED_CHECKS}, but for races at _Zb+0x4"
    marked.findings = ()
    assert not marked.holding()
    assert book.wrong == choice.refused
    assert book.row("rms_norm", built, book.holding()) == proving.ProvedRow(
        "rms_norm", "gfx942", 2, 1, len(ran) + 1, 0.5
    )
    assert list(book.unchosen(built, ["rms_norm"])) == ["gfx942 rms_norm.row[f]"]
    assert not list(book.unchosen(built, ["softmax"]))
    labels = {digest: choice.labels[digest] for digest in "bf"}
    assert list(book.outdated(labels)) == ["f"]
    assert list(book.outdated({"b": labels["b"] | {"rms_norm one more"}})) == ["b"]
    assert list(book.outdated({"b": sorted(labels["b"])[1:]})) == ["b"]
    book.in_part = {"rms_norm"}
    assert list(book.outdated({"b": sorted(labels["b"])[1:]})) == []
    before = book.known["b"]
    book.note([{**each, "worst": 0.25} for each in ran], choice, built)
    assert book.known["b"] is before, "a build of fewer instances takes no receipt of another build's away"
    book.in_part = ()
    book.note([{**each, "worst": 0.25} for each in ran], choice, built)
    assert book.known["b"].worst == 0.25
    book.known["b"] = before
    book.states = {("norm", "rms_norm", "gfx942"): "changed"}
    assert list(book.outdated(labels)) == ["b", "f"]
    assert book.row("rms_norm", built, book.holding()).proved == 0 and not book.holding()
    gone = replace(book.known["b"], digest="old")
    book.known["old"] = gone
    book.known["rocm"] = replace(gone, digest="rocm", tools={"toolchain": "rocm"})
    book.known["other"] = replace(gone, digest="other", kernel="softmax.rows")
    book.forget(built, ["rms_norm"])
    assert book.known.keys() == {"b", "rocm", "other"}


def test_a_recipe_whose_calls_leave_a_dim_at_one_gets_no_receipt(cases: Cases, manifest: Manifest) -> None:
    """One row alone is right with any grid and any stride."""
    recipe = Provable("norm", "rms_norm.row", "16384", "gfx942", frozenset({"a!"}), "now", "it", {})
    bounds = {bound.label: bound for bound in make.bounds(cases, "gfx942", manifest.targets["gfx942"])}
    one, several = bounds["M=1 N=8192 T=bf16"], bounds["M=3 N=1 T=bf16"]
    for known, calls, expected in (
        (cases, [one], "rms_norm.row[16384]: M is never more than 1 in a call that chooses it"),
        (cases, [several], "rms_norm.row[16384]: N is never more than 1 in a call that chooses it"),
        (cases, [one, several], None),
        (replace(cases, insensitive={"M": "a reason"}), [one], None),
    ):
        choice = Choice(Walked({"a": recipe, "b": recipe}))
        for bound in calls:
            choice.note(known, bound, "gfx942", ["a"])
        assert choice.walked.narrow() == ({"a": expected} if expected else {})
        book = proving._Book({}, {}, ())
        told = [line(make.outline(bound), "a") for bound in calls]
        book.note(told, choice, ready.Built("gfx942", {}, (), {"a": recipe}))
        assert (book.narrow, list(book.known)) == (([f"gfx942 {expected}"], []) if expected else ([], ["a"]))
    with pytest.raises(ProofError, match=r"row: M is never.*\n.*1 recipes have calls that show too little"):
        verb._refuse(Proof((), (), (), (), ("gfx942 row: M is never more than 1",), ()))


def test_what_is_wrong_and_what_no_call_reaches_is_named() -> None:
    entry = BuiltEntry("rms_norm", ("row",), "triton", "gfx942", "ck-free", "e", "00", (), executed=False)
    verb._refuse(Proof((), (), (), (), (), ()))
    with pytest.raises(ProofError, match="gfx942 row: no call of the cases chooses it") as caught:
        verb._refuse(Proof((), (), (entry,), ("gfx942 row",), (), ()))
    assert caught.value.exit_code == 17
    wrong = {
        "target": "gfx942",
        "operator": "rms_norm",
        "label": "M=1",
        "problems": ["out: nan"],
        "launched": ["00"],
    }
    with pytest.raises(ProofError, match=r"gfx942 rms_norm M=1: out: nan\n") as caught:
        verb._refuse(Proof((), (wrong,), (entry,), (), (), ()))
    assert "no call" not in str(caught.value)
    assert "1 calls are wrong, 1 entries have no receipt" in str(caught.value)


def settings(folder: Path, **words: Any) -> Settings:
    return Settings(ROOT, (folder,), **words)


def test_names_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'rms_norm'"):
        proving.prove(settings(tmp_path, operators=("rms_nrm",)))
    with pytest.raises(UsageError, match=r"gpu_check\.py --record FILE"):
        proving.prove(settings(tmp_path, targets=("sm_90",)))


def test_what_is_not_built_is_named_with_the_command(tmp_path: Path, manifest: Manifest) -> None:
    with pytest.raises(
        NotReadyError, match=r"_native.*libamdhip64\.so is not there\. Run .*build_tools develop"
    ):
        ready.native_parts(tmp_path)
    with pytest.raises(
        NotReadyError, match=r"no gfx942-ck-free\.apb in .*\. Run python -m build_tools build"
    ) as caught:
        ready.open_target(manifest, ROOT, (tmp_path,), "gfx942", ["rms_norm"])
    assert caught.value.exit_code == 15
    path = tmp_path / "gfx942-ck-free.apb"
    path.write_bytes(b"nonsense")
    with pytest.raises(NotReadyError, match="gfx942-ck-free"):
        ready.open_target(manifest, ROOT, (tmp_path,), "gfx942", ["rms_norm"])
    bundle(tmp_path)
    with pytest.raises(NotReadyError, match="json is missing"):
        ready.open_target(manifest, ROOT, (tmp_path,), "gfx942", ["rms_norm"])
    noted(path)
    with pytest.raises(NotReadyError, match="has no softmax"):
        ready.open_target(manifest, ROOT, (tmp_path,), "gfx942", ["rms_norm", "softmax"])
    built = ready.open_target(manifest, ROOT, (tmp_path / "elsewhere", tmp_path), "gfx942", ["rms_norm"])
    assert built.serving("ck-free") == (path,)
    assert [entry.operator for entry in built.entries] == ["rms_norm"]


def bundle(folder: Path) -> str:
    """A bundle with one entry of rms_norm; its code object's SHA-256."""
    frame = writer.Frame(blob(0), 300, hashlib.sha256(blob(0)).digest(), "raw")
    made = writer.encode(small_root("gfx942", "ck-free"), (small_operator("rms_norm"),), (frame,))
    (folder / "gfx942-ck-free.apb").write_bytes(made)
    return hashlib.sha256(blob(0)).hexdigest()


def noted(path: Path) -> None:
    sources = notes.hashes(ROOT, notes.manifest_files(ROOT))
    notes.write(path, {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "sources": sources})


def test_receipts_and_cases_do_not_make_a_bundle_too_old_to_prove(tmp_path: Path, manifest: Manifest) -> None:
    bundle(tmp_path)
    path = tmp_path / "gfx942-ck-free.apb"
    noted(path)
    note = notes.read(path)
    note["sources"]["manifests/norm/cases.toml"] = "other"
    notes.write(path, note)
    assert "cases.toml changed" in notes.stale(ROOT, path)
    ready.open_target(manifest, ROOT, (tmp_path,), "gfx942", ["rms_norm"])
    note["sources"]["manifests/norm/operators.toml"] = "other"
    notes.write(path, note)
    with pytest.raises(NotReadyError, match=r"operators\.toml changed since"):
        ready.open_target(manifest, ROOT, (tmp_path,), "gfx942", ["rms_norm"])


def test_an_executor_that_ends_is_an_error_with_its_last_words(cases: Cases, manifest: Manifest) -> None:
    place = Place(ROOT, (Path("/no/bundle"),), "gfx942", Path("/no/library"))
    calls = [chosen(cases, manifest, None).calls[0].call(1)]
    with pytest.raises(
        ExecutorError, match=r"execute rms_norm .*the executor ended.*build_tools develop"
    ) as caught:
        list(workers.explained(place, calls))
    assert caught.value.exit_code == 16


def test_a_worker_that_fails_ends_the_proof_and_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, cases: Cases, manifest: Manifest
) -> None:
    call = chosen(cases, manifest, None).calls[0].call(1)

    def broken() -> Call:
        raise ValueError("no such input")

    program = (
        "import sys; [print('{}', flush=True) for _ in iter(lambda: sys.stdin.buffer.read1(1 << 20), b'')]"
    )
    monkeypatch.setattr(workers, "_COMMAND", (sys.executable, "-c", program))
    place = Place(ROOT, (), "gfx942", Path("x"))
    assert sorted(which for which, _, _ in workers.executed(place, [lambda: call] * 5, 2)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="no such input"):
        list(workers.executed(place, [lambda: call, broken], 2))
    answers = workers.executed(place, [lambda: call] * 50, 2)
    next(answers)
    answers.close()  # as when Ctrl-C ends the reader
    assert list(workers.executed(place, [lambda: call], 1))  # children may start again


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the manifests of this one, and no receipts."""
    for name in ("manifests", "csrc/kernels", "hsa"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns(receipts.NAME, "__pycache__")
        )
    return tmp_path


def test_lines_of_another_machine_are_joined(root: Path) -> None:
    sha = bundle(root)
    digest, other = recipes_of(open_bundle(root / "gfx942-ck-free.apb"))
    now = meanings(root / "manifests")["norm", "rms_norm", "gfx942"]
    told = {
        "operator": "rms_norm",
        "label": "M=1 N=8192 T=bf16",
        "kernel": "row",
        "target": "gfx942",
        "device": "MI300X, driver 7",
        "reference": now,
        "judge": judging(PACKAGE),
    }
    lines: list[dict[str, Any]] = [
        {**told, "launched": [sha], "recipes": [digest], "problems": [], "worst": 0.25},
        {**told, "launched": [sha, "ff"], "recipes": [digest, "ee"], "problems": [], "worst": 0.5},
        {**told, "launched": [sha], "recipes": [other], "problems": [], "worst": 0.5, "reference": "old"},
        {**told, "launched": [sha], "recipes": [other], "problems": [], "worst": 0.5, "judge": "older"},
        {**told, "operator": "unheard_of", "launched": [], "recipes": [], "problems": ["?"], "worst": None},
    ]
    path = root / "lines.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    joined = recorded.join(root, root, [path], "results")
    assert (joined.lines, joined.proved, joined.wrong, joined.strange, joined.outdated) == (5, 1, 0, 1, 2)
    assert (joined.devices, joined.changed) == (("MI300X, driver 7",), ("manifests/norm/receipts.json",))
    (found,) = receipts.read(root).values()
    assert found.digest == digest and found.code_objects == {sha} and found.reference == now
    assert (found.family, found.device, found.calls, found.worst) == ("norm", "MI300X, driver 7", 2, 0.5)
    path.write_text(json.dumps(lines[2]) + "\n")
    with pytest.raises(UsageError, match="another state of their formulas, their cases or what judges them"):
        recorded.join(root, root, [path], "results")
    path.write_text(json.dumps({**lines[0], "problems": ["out: nan"]}) + "\n")
    assert recorded.join(root, root, [path], "results").wrong == 1
    assert receipts.read(root) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"operator": "rms_norm"}'])
def test_files_without_such_lines_are_refused(root: Path, text: str) -> None:
    bundle(root)
    path = root / "lines.jsonl"
    path.write_text(text + "\n" if text else "")
    with pytest.raises(UsageError, match=r"gpu_check\.py|is in a bundle"):
        recorded.join(root, root, [path], "results")
    with pytest.raises(UsageError, match="No such file"):
        recorded.join(root, root, [root / "none"], "results")
