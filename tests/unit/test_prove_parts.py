"""What a proof is made of: which calls are chosen, what has to be built, lines that another machine wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.bundles import small_bundle
from support.proving import NOW, Making, bound, built, cases, line, provable

from aiter_prebuilt.contract.bundle import FormatError
from aiter_prebuilt.contract.calls import Call
from build_tools.errors import NotReadyError, UsageError
from build_tools.objects.entries import recipes_of, tools_of
from build_tools.objects.unpack import open_bundle
from build_tools.pack import notes
from build_tools.pack.emulator_wheel import LIBRARY
from build_tools.pack.runtime_wheel import EXTENSION
from build_tools.prove import choose as choosing
from build_tools.prove import ready, recorded
from build_tools.prove.call_coverage import Walked
from build_tools.prove.choose import Choice, choose
from build_tools.prove.workers import Line

CALLS = [bound("add", M=1, N=1), bound("add", M=2, N=1), bound("add", M=3, N=1), bound("add", M=4, N=1)]
#: What each launches: the third nothing, though recipes are chosen; the fourth is refused.
RECIPES = {"M=1 N=1": ["a"], "M=2 N=1": ["a", "b"], "M=3 N=1": ["c"], "M=4 N=1": ["d"]}

WORDS: dict[str, dict[str, Any]] = {
    "M=3 N=1": {"launched": []},
    "M=4 N=1": {"problems": ["no"], "launched": []},
}


@pytest.fixture(autouse=True)
def making(monkeypatch: pytest.MonkeyPatch) -> Making:
    made = Making({"add": CALLS, "mul": [bound("mul", M=1, N=1)]})
    monkeypatch.setattr(choosing, "make", made)
    return made


def explain(profile: str, calls: Iterable[Call]) -> Iterator[Line]:
    for call in calls:
        assert call.operator == "add"
        words = WORDS.get(call.label, {})
        more = ["new"] if profile == "ck-full" and call.label == "M=2 N=1" else RECIPES[call.label]
        yield line(call, *more, **words)


def chosen(wanted: Any = None, profiles: tuple[str, ...] = ("ck-free",)) -> Choice:
    names = {profile: {"add"} for profile in profiles}
    return choose(iter([cases("add"), cases("mul")]), "gfx942", None, names, explain, wanted, {})  # type: ignore[arg-type]


def test_every_call_once_when_nothing_is_wanted_in_particular() -> None:
    found = chosen()
    assert [(call.name, call.profile, sorted(call.recipes)) for call in found.calls] == [
        ("add M=1 N=1", "ck-free", ["a"]), ("add M=2 N=1", "ck-free", ["a", "b"]), ("add M=3 N=1", "ck-free", ["c"])
    ]  # fmt: skip
    assert [each["label"] for each in found.refused] == ["M=4 N=1"] and found.operators == {"add"}
    assert found.labels == {"a": {"add M=1 N=1", "add M=2 N=1"}, "b": {"add M=2 N=1"}}
    assert found.walked._dims == {"a": {"M": True, "N": False}, "b": {"M": True, "N": False}}


def test_with_more_bundles_only_what_launches_something_else_is_another_call() -> None:
    found = chosen(profiles=("ck-free", "ck-full"))
    assert [(call.name, call.profile) for call in found.calls[3:]] == [("add M=2 N=1", "ck-full")]
    assert len(found.refused) == 1 and found.labels["new"] == {"add M=2 N=1"}


def test_only_calls_that_launch_a_wanted_recipe() -> None:
    asked: list[Mapping[str, Any]] = []

    def wanted(labels: Mapping[str, Any]) -> list[str]:
        asked.append(labels)
        return ["b", "c", "d"]

    found = chosen(wanted)
    assert [call.name for call in found.calls] == ["add M=2 N=1", "add M=3 N=1"], "the third launches nothing"
    assert asked == [found.labels] and len(found.refused) == 1
    assert chosen(lambda labels: []).calls == []


def test_an_answer_for_each_call_or_it_is_an_error() -> None:
    def short(profile: str, calls: Iterable[Call]) -> Iterator[Line]:
        yield from list(explain(profile, calls))[:-1]

    with pytest.raises(ValueError, match="shorter"):
        choose([cases("add")], "gfx942", None, {"ck-free": {"add"}}, short, None, {})  # type: ignore[arg-type]


def test_a_dim_of_two_is_walked() -> None:
    recipes = {"a": provable("add", "v", "a!"), "none": provable("add", "w", "n!")}
    for sizes, expected in (
        ([(1, 2), (2, 1)], ""), ([(2, 1), (1, 1)], "N is"), ([(1, 1)], "M, N is"), ([(2, 2), (1, 1)], ""), ([(0, 2)], "M is"),
    ):  # fmt: skip
        walked = Walked(recipes)
        for m, n in sizes:
            walked.note(cases("add"), bound("add", M=m, N=n), ["a"])
        words = f"add.row[v]: {expected} never more than 1 in a call that chooses it"
        assert walked.narrow() == ({"a": words} if expected else {})
    walked = Walked(recipes)
    walked.note(cases("add", ["M"]), bound("add", M=1, N=2), ["a"])
    walked.note(cases("add"), bound("add", N=2), ["none"])
    assert walked.narrow() == {}, "not asked for, or not a dim of the call"


def test_bundles_that_are_installed_together() -> None:
    made = built([], {})
    assert made.serving("ck-free") == (Path("gfx942-ck-free.apb"),)
    assert made.serving("ck-full") == (Path("gfx942-ck-free.apb"), Path("gfx942-ck-full.apb"))


def manifest(**kernels: list[tuple[str, str]]) -> Any:
    """operator -> (profile, target) of each of its kernels."""
    operators = [
        SimpleNamespace(
            name=name,
            kernels=[SimpleNamespace(profile=profile, targets=[target]) for profile, target in rows],
        )
        for name, rows in kernels.items()
    ]
    profiles = {"more": SimpleNamespace(includes="base"), "base": SimpleNamespace(includes=None)}
    return SimpleNamespace(
        families={"made": SimpleNamespace(family="made", operators=operators)}, profiles=profiles
    )


def test_bundles_that_a_proof_needs() -> None:
    made = manifest(
        add=[("base", "x"), ("more", "y")], mul=[("more", "x")], other=[("base", "x"), ("more", "x")]
    )
    for target, operators, expected in (
        ("x", ["add", "mul"], {"base": {"add"}, "more": {"mul"}}), ("x", ["add"], {"base": {"add"}}),
        ("x", ["mul"], {"base": set(), "more": {"mul"}}), ("y", ["add", "mul"], {"base": set(), "more": {"add"}}),
        ("z", ["add"], {"base": set()}),
    ):  # fmt: skip
        found = ready._needed(made, target, operators)
        assert found == expected and list(found) == list(expected)


def test_the_first_folder_that_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def opened(manifest: Any, root: Path, folder: Path, target: str, operators: Any) -> str:
        tried.append(folder.name)
        if folder.name.startswith("bad"):
            raise NotReadyError("a", folder.name, "c")
        return folder.name

    monkeypatch.setattr(ready, "_open", opened)

    def first(*folders: str) -> Any:
        tried.clear()
        return ready.open_target(manifest(), Path("root"), [Path(folder) for folder in folders], "x", [])

    assert (first("good", "bad", "other"), tried) == ("good", ["good"])
    assert (first("bad", "good", "other"), tried) == ("good", ["bad", "good"])
    assert (first("bad1", "bad2", "last"), tried) == ("last", ["bad1", "bad2", "last"])
    with pytest.raises(NotReadyError, match="bad3"):
        first("bad1", "bad2", "bad3")
    assert tried == ["bad1", "bad2", "bad3"]


def test_native_parts_are_named_when_they_are_missing(tmp_path: Path) -> None:
    for name, missing in ((LIBRARY, f"src/{EXTENSION}"), (EXTENSION, "")):
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        if missing:
            with pytest.raises(NotReadyError) as caught:
                ready.native_parts(tmp_path)
            assert caught.value.found == f"{missing} is not there"
    assert ready.native_parts(tmp_path) == tmp_path / "src" / LIBRARY
    (tmp_path / "src" / EXTENSION).unlink()
    (tmp_path / "src" / LIBRARY).unlink()
    with pytest.raises(NotReadyError) as caught:
        ready.native_parts(tmp_path)
    assert caught.value.found == f"src/{EXTENSION}, src/{LIBRARY} is not there"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle of the operators twice and once, in ``bundles``."""
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "gfx942-ck-free.apb").write_bytes(small_bundle()[0])
    return tmp_path


def test_recipes_of_a_bundle_with_the_state_of_their_formula(folder: Path) -> None:
    bundle = open_bundle(folder / "bundles" / "gfx942-ck-free.apb")
    found = ready.provable(bundle, manifest(once=[], other=[]), {("made", "once", "gfx942"): NOW})
    mine = {digest: recipe for digest, recipe in recipes_of(bundle).items() if recipe.operator == "once"}
    assert found.keys() == mine.keys() and len(found) == 2
    for digest, recipe in found.items():
        assert (recipe.family, recipe.kernel, recipe.variant) == ("made", "once.kernel", mine[digest].variant)
        assert (recipe.target, recipe.reference, recipe.tools) == ("gfx942", NOW, tools_of(bundle))
        assert recipe.code_objects == mine[digest].code_objects
    assert {recipe.reference for recipe in ready.provable(bundle, manifest(once=[]), {}).values()} == {""}


@pytest.mark.parametrize("error", [OSError("gone"), FormatError("damaged")])
def test_a_bundle_that_cannot_be_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(recorded, "provable", fails)
    path = folder / "bundles" / "gfx942-ck-free.apb"
    with pytest.raises(UsageError) as caught:
        recorded.built(folder / "bundles", manifest(), {})
    assert caught.value.args == (f"open {path}", str(error), "Run python -m build_tools build")
    path.rename(path.with_name("gfx942-base.apb"))
    made = manifest(once=[("base", "gfx942")])

    def refused() -> str:
        with pytest.raises(NotReadyError) as caught:
            ready._open(made, folder, path.parent, "gfx942", ["once"])
        return caught.value.found

    # No notes are beside it: that it cannot be opened is said first.
    assert refused().startswith("gfx942-base.apb: gfx942-base.json is missing")
    for step in ("open_bundle", "entries_of"):
        with monkeypatch.context() as patch:
            patch.setattr(ready, step, fails)
            assert refused() == f"gfx942-base.apb: {error}"
    # Its recipes are read once all bundles are known to be current, which they need not be to be damaged.
    made.profiles["base"].backends = ()
    monkeypatch.setattr(notes, "stale", lambda *_, **__: "")
    monkeypatch.setattr(ready, "provable", fails)
    monkeypatch.setattr(ready, "meanings", lambda folder: {})
    assert refused() == f"gfx942-base.apb: {error}"


def test_lines_are_read_and_a_wrong_one_is_counted_from_one(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    good = line(Call("add", "M=1", {}, ()), "a")
    path.write_text(json.dumps(good) + "\n" + json.dumps({**good, "more": 1}) + "\n")
    assert list(recorded._lines(path)) == [good, {**good, "more": 1}]
    least = {key: good[key] for key in sorted(recorded._NEEDED)}
    path.write_text(json.dumps(least))
    assert list(recorded._lines(path)) == [least], "nothing else is needed"
    for place, text in (
        (1, "[]"),
        (3, "{}"),
        (2, json.dumps({key: good[key] for key in good if key != "worst"})),
    ):
        rows = [json.dumps(good)] * 3
        rows[place - 1] = text
        path.write_text("\n".join(rows))
        with pytest.raises(UsageError) as caught:
            list(recorded._lines(path))
        assert caught.value.args == (
            f"read {path}", f"line {place} is no line of python -m aiter_prebuilt.execute",
            "Name a file that python ci/gpu_check.py --record FILE wrote",
        )  # fmt: skip
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="utf-8"):
        list(recorded._lines(path))
