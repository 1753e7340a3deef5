"""A proof from end to end with an executor that is made up: what runs, in which order, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.proving import NOW, Making, bound, built, cases, entry, line, provable

from aiter_prebuilt.contract.calls import Call
from build_tools.errors import UsageError
from build_tools.files.progress import Done
from build_tools.judge import receipts
from build_tools.judge.receipts import Receipt
from build_tools.prove import choose as choosing
from build_tools.prove import prove as proving
from build_tools.prove.prove import ProvedRow, Settings
from build_tools.prove.workers import Line, Place

ROOT = Path("root")
#: (operator, label) -> the recipes that a call launches.
CHOSEN = {
    ("add", "M=1 N=4"): ["a"],
    ("add", "M=8 N=1"): ["a", "b"],
    ("add", "M=3 N=3"): ["b"],
    ("mul", "M=2 N=2"): ["m"],
}


class World:
    """Everything around a proof. ``known``: the receipts; ``words``: (operator, label) -> what its line says besides when
    it is executed; ``refused``: calls that nothing would serve; ``ends_at``: the call at which something ends the executor.
    """

    def __init__(self) -> None:
        recipes = {
            name: provable("mul" if name == "m" else "add", name, f"{name}!") for name in ("a", "b", "c", "m")
        }
        entries = [
            entry("add", "e", "a", "b"),
            entry("mul", "f", "m", profile="ck-full"),
            entry("add", "g", "c"),
        ]
        self.built = built(entries, recipes)
        self.known: dict[str, Receipt] = {}
        self.states = {("made", "add", "gfx942"): NOW, ("made", "mul", "gfx942"): NOW}
        self.words: dict[tuple[str, str], dict[str, Any]] = {}
        self.refused: set[tuple[str, str]] = set()
        self.ends_at = -1
        self.executed: list[tuple[str, list[str], int]] = []
        self.asked: list[Place] = []
        self.targets: list[tuple[str, list[str]]] = []
        self.told: list[Done] = []
        self.totals: list[int] = []
        self.making = Making(
            {
                "add": [bound("add", M=1, N=4), bound("add", M=8, N=1), bound("add", M=3, N=3)],
                "mul": [bound("mul", M=2, N=2)],
            }
        )

    def explained(self, place: Place, calls: Iterable[Call]) -> Iterator[Line]:
        self.asked.append(place)
        for call in calls:
            key = (call.operator, call.label)
            if key in self.refused:
                yield line(call, problems=["NoKernelError"])
            else:
                yield line(call, *CHOSEN[key])

    def execute(
        self, place: Place, makers: Sequence[Callable[[], Call]], workers: int
    ) -> Iterator[tuple[int, Line, float]]:
        calls = [make() for make in makers]
        profile = "ck-full" if len(place.bundles) == 2 else "ck-free"
        self.executed.append((profile, [call.label for call in calls], workers))
        for which in reversed(range(len(calls))):
            if which == self.ends_at:
                raise KeyboardInterrupt
            key = (calls[which].operator, calls[which].label)
            yield which, line(calls[which], *CHOSEN[key], **self.words.get(key, {})), 0.5 + which

    def open_target(self, manifest: Any, root: Path, folders: Any, target: str, operators: Any) -> Any:
        self.targets.append((target, [*operators]))
        return self.built

    @contextmanager
    def show(self, total: int) -> Iterator[World]:
        self.totals.append(total)
        yield self

    def done(self, what: Done) -> None:
        self.told.append(what)

    def write(self, root: Path, found: Iterable[Receipt]) -> tuple[str, ...]:
        self.known = {receipt.digest: receipt for receipt in found}
        return ("changed",)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    vendors = {"gfx942": "amd", "gfx950": "amd", "sm_90": "nvidia"}
    targets = {name: SimpleNamespace(vendor=vendor) for name, vendor in vendors.items()}
    amd = {name: target for name, target in targets.items() if target.vendor == "amd"}
    manifest = SimpleNamespace(targets=targets, amd=amd, of_other_trees=lambda trees: frozenset())
    known = {name: cases(name) for name in ("add", "mul")}
    monkeypatch.setattr(proving, "load", lambda folder: manifest)
    monkeypatch.setattr(
        proving, "subjects", lambda manifest: [SimpleNamespace(name=name, family="made") for name in known]
    )
    monkeypatch.setattr(proving, "table", SimpleNamespace(load=lambda *words: known))
    monkeypatch.setattr(proving, "meanings", lambda folder: made.states)
    native = SimpleNamespace(native_parts=lambda root: Path("library"), open_target=made.open_target)
    monkeypatch.setattr(proving, "ready", native)
    monkeypatch.setattr(proving, "workers", SimpleNamespace(explained=made.explained, executed=made.execute))
    monkeypatch.setattr(proving, "progress", SimpleNamespace(show=made.show))
    monkeypatch.setattr(choosing, "make", made.making)
    monkeypatch.setattr(receipts, "read", lambda root: dict(made.known))
    monkeypatch.setattr(receipts, "write", made.write)
    return made


def prove(**words: Any) -> proving.Proof:
    return proving.prove(Settings(ROOT, (Path("bundles"),), targets=("gfx942",), **words))


def test_everything_that_has_no_receipt_is_executed_once(world: World) -> None:
    found = prove(seed=7, workers=3)
    assert world.targets == [("gfx942", ["add", "mul"])]
    assert [(place.bundles, place.target, place.library, place.root) for place in world.asked] == [
        (world.built.serving("ck-free"), "gfx942", Path("library"), ROOT),
        (world.built.serving("ck-full"), "gfx942", Path("library"), ROOT),
    ]
    assert world.executed == [("ck-free", ["M=1 N=4", "M=8 N=1", "M=3 N=3"], 3), ("ck-full", ["M=2 N=2"], 3)]
    assert world.making.seeds == [7] * 4
    assert world.totals == [4] and world.told == [
        Done("gfx942 add M=3 N=3", True, 2.5), Done("gfx942 add M=8 N=1", True, 1.5), Done("gfx942 add M=1 N=4", True, 0.5),
        Done("gfx942 mul M=2 N=2", True, 0.5),
    ]  # fmt: skip
    assert found.rows == (ProvedRow("add", "gfx942", 2, 1, 3, 0.5), ProvedRow("mul", "gfx942", 1, 1, 1, 0.5))
    assert [each.name for each in found.unproved] == ["g"] and found.unchosen == ("gfx942 add.row[c]",)
    assert (found.wrong, found.narrow, found.changed) == ((), (), ("changed",))
    assert {digest: receipt.calls for digest, receipt in world.known.items()} == {"a": 2, "b": 2, "m": 1}
    assert world.known["a"].cases == receipts.named(["add M=1 N=4", "add M=8 N=1"])
    assert world.known["m"].tools == {"toolchain": "hermetic"} and world.known["m"].target == "gfx942"


def test_what_has_a_receipt_is_executed_again_only_when_everything_is_asked_for(world: World) -> None:
    prove()
    before = dict(world.known)
    world.executed.clear()
    again = prove()
    assert world.executed == [("ck-free", [], 0), ("ck-full", [], 0)] and world.known == before
    assert again.rows == (ProvedRow("add", "gfx942", 2, 1, 0, 0.5), ProvedRow("mul", "gfx942", 1, 1, 0, 0.5))
    world.executed.clear()
    prove(everything=True)
    assert [labels for _, labels, _ in world.executed] == [["M=1 N=4", "M=8 N=1", "M=3 N=3"], ["M=2 N=2"]]
    world.executed.clear()
    world.states["made", "mul", "gfx942"] = "other"
    prove()
    assert [labels for _, labels, _ in world.executed] == [[], ["M=2 N=2"]]
    world.executed.clear()
    del world.known["b"]
    prove(operators=("add",))
    assert [labels for _, labels, _ in world.executed] == [["M=8 N=1", "M=3 N=3"], []]
    assert world.targets[-1] == ("gfx942", ["add"]) and "m" in world.known


def test_a_wrong_call_takes_receipts_of_what_it_launched(world: World) -> None:
    prove()
    world.words["add", "M=8 N=1"] = {"problems": ["out: nan"]}
    found = prove(everything=True)
    assert [each["label"] for each in found.wrong] == ["M=8 N=1"] and world.known.keys() == {"m"}
    assert found.unchosen == ("gfx942 add.row[c]",), "a and b were chosen by a wrong call"
    assert found.rows[0] == ProvedRow("add", "gfx942", 2, 0, 3, None)
    assert [done.ok for done in world.told[4:]] == [True, False, True, True]


def test_a_call_that_nothing_would_serve_is_wrong_and_not_executed(world: World) -> None:
    world.refused = {("add", "M=3 N=3")}
    found = prove()
    assert world.executed[0][1] == ["M=1 N=4", "M=8 N=1"]
    assert [(each["label"], each["problems"]) for each in found.wrong] == [("M=3 N=3", ["NoKernelError"])]
    assert found.rows[0] == ProvedRow("add", "gfx942", 2, 0, 2, 0.5) and world.known.keys() == {"a", "m"}
    assert "gfx942 add.row[b]: N is never more than 1 in a call that chooses it" in found.narrow


def test_what_was_finished_when_something_ends_it_is_kept(world: World) -> None:
    world.ends_at = 0
    with pytest.raises(KeyboardInterrupt):
        prove()
    assert world.known.keys() == {"b"}, "one call of a did not come to its end"


def test_a_dim_that_is_never_more_than_one_is_said_with_its_target(world: World) -> None:
    world.making.calls = {"add": [bound("add", M=1, N=4)], "mul": []}
    found = prove()
    assert found.narrow == ("gfx942 add.row[a]: M is never more than 1 in a call that chooses it",)
    assert world.known == {} and found.unchosen == (
        "gfx942 add.row[a]",
        "gfx942 add.row[b]",
        "gfx942 add.row[c]",
        "gfx942 mul.row[m]",
    )


def test_receipts_of_what_is_no_longer_chosen_or_made_go(world: World) -> None:
    prove()
    kept = world.known["a"]
    world.known["c"] = replace(kept, digest="c", code_objects=frozenset({"c!"}))
    world.known["old"] = replace(kept, digest="old")
    world.known["far"] = replace(kept, digest="far", target="gfx950")
    world.known["rocm"] = replace(kept, digest="rocm", tools={"toolchain": "rocm"})
    world.known["mine"] = replace(kept, digest="mine", kernel="mul.row")
    prove(operators=("add",))
    assert world.known.keys() == {"a", "b", "m", "far", "rocm", "mine"}


def test_all_targets_that_the_embedded_device_can_be(world: World) -> None:
    proving.prove(Settings(ROOT, (Path("bundles"),)))
    assert [name for name, _ in world.targets] == ["gfx942", "gfx950"]
    with pytest.raises(UsageError) as caught:
        proving.prove(Settings(ROOT, (), targets=("gfx950", "sm_90")))
    assert caught.value.asked == "prove what was built for sm_90"
    assert caught.value.found.startswith("the emulator is one of gfx942, gfx950 (")
    with pytest.raises(UsageError) as refused:
        proving.prove(Settings(ROOT, (), operators=("add", "mull")))
    assert refused.value.args == (
        "prove operators", "no operator is called 'mull' (did you mean 'mul'?)", "Name an operator of manifests/*/operators.toml"
    )  # fmt: skip
    assert (Settings(ROOT, ()).seed, Settings(ROOT, ()).workers, Settings(ROOT, ()).everything) == (
        1,
        0,
        False,
    )
