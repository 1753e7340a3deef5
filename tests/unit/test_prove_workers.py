"""The executor's children, with conversations that are made up: how many, what they get, and how they end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aiter_prebuilt.contract.calls import Call, pack
from build_tools.errors import ExecutorError
from build_tools.prove import workers
from build_tools.prove.workers import Place

PLACE = Place(
    Path("root"),
    (Path("a.apb"), Path("b.apb")),
    "gfx942",
    Path("lib/libamdhip64.so"),
    ("races:0x4:a", "hazards:0x8:b"),
)
AGAIN = "Run python -m build_tools develop; if the message stays, python -m aiter_prebuilt doctor says more"


class Child:
    """A conversation that answers with its number, after a moment; ``dumb``: it has ended, with these words."""

    def __init__(self, number: int, dumb: str | None) -> None:
        self.number, self.dumb = number, dumb
        self.heard: list[bytes] = []

    def ask(self, message: bytes) -> str | None:
        self.heard.append(message)
        time.sleep(0.01)
        return None if self.dumb is not None else f'{{"child": {self.number}}}\n'

    def last_words(self) -> str:
        return self.dumb or ""


class Children:
    """All of them, and what else was done."""

    def __init__(self) -> None:
        self.started: list[Child] = []
        self.asked: list[tuple[list[Any], Any, Mapping[str, str]]] = []
        self.ended = 0
        self.dumb: str | None = None
        self.told: list[str] = []
        self._lock = threading.Lock()

    @contextmanager
    def converse(self, argv: Sequence[Any], *, cwd: Path, env: Mapping[str, str]) -> Iterator[Child]:
        with self._lock:
            child = Child(len(self.started), self.dumb)
            self.started.append(child)
            self.asked.append(([*argv], cwd, env))
        yield child
        with self._lock:
            self.ended += 1


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> Children:
    made = Children()
    monkeypatch.setattr(workers, "converse", made.converse)
    monkeypatch.setattr(workers, "kill_all", lambda: made.told.append("killed"))
    monkeypatch.setattr(workers, "allow", lambda: made.told.append("allowed"))
    return made


def calls(count: int) -> list[Call]:
    return [Call("add", f"M={place}", {}, ()) for place in range(count)]


def makers(count: int) -> list[Callable[[], Call]]:
    return [lambda call=call: call for call in calls(count)]  # type: ignore[misc]


COMMAND = [sys.executable, "-m", "aiter_prebuilt.execute"]
ENVIRONMENT = {
    "PYTHONPATH": "root/src", "AITER_PREBUILT_BUNDLES": f"a.apb{os.pathsep}b.apb", "AITER_PREBUILT_HIP": "lib/libamdhip64.so",
    "AITER_PREBUILT_EMULATOR": "gfx942", "AITER_PREBUILT_EMULATOR_CHECKS": "all",
    "AITER_PREBUILT_EMULATOR_FILL": "0xff", "AITER_PREBUILT_EMULATOR_KNOWN": "races:0x4:a hazards:0x8:b",
    "AITER_PREBUILT_EMULATOR_THREADS": "1",
}  # fmt: skip


def test_what_calls_would_launch_is_asked_of_one_child(children: Children) -> None:
    found = list(workers.explained(PLACE, iter(calls(3))))
    assert found == [{"child": 0}] * 3 and children.ended == 1
    assert children.asked == [([*COMMAND, "--explain", "gfx942"], Path("root"), ENVIRONMENT)]
    assert children.started[0].heard == [pack(call) for call in calls(3)]


@pytest.mark.parametrize(
    ("asked", "calls_", "children_"),
    [(2, 5, 2), (1, 5, 1), (4, 1, 1), (3, 3, 3), (0, 5, 3), (0, 2, 2), (5, 6, 5)],
)
def test_as_many_children_as_asked_for_or_cores_and_no_more_than_calls(
    children: Children, monkeypatch: pytest.MonkeyPatch, asked: int, calls_: int, children_: int
) -> None:
    monkeypatch.setattr(workers, "cores", lambda: 3)
    found = list(workers.executed(PLACE, makers(calls_), asked))
    assert sorted(which for which, _, _ in found) == list(range(calls_))
    assert all(0.005 < seconds < 5 for _, _, seconds in found)
    assert len(children.started) == children.ended == children_
    assert all(words == (COMMAND, Path("root"), ENVIRONMENT) for words in children.asked)
    heard = sorted(message for child in children.started for message in child.heard)
    assert heard == sorted(pack(call) for call in calls(calls_))
    for _which, line, _ in found:
        assert line["child"] in range(children_)
    assert children.told == ["killed", "allowed"]


def test_without_a_number_there_is_a_child_for_each_core(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "cores", lambda: 3)
    assert len(list(workers.executed(PLACE, makers(4)))) == 4 and len(children.started) == 3


def test_without_calls_no_child_is_started(children: Children) -> None:
    assert list(workers.executed(PLACE, [], 3)) == [] and children.started == []
    assert children.told == ["killed", "allowed"]


def test_each_answer_is_about_the_call_that_it_names(children: Children) -> None:
    found = {which: line for which, line, _ in workers.executed(PLACE, makers(4), 1)}
    assert list(found) == [0, 1, 2, 3], "one child takes them in turn"
    assert children.started[0].heard == [pack(call) for call in calls(4)]


@pytest.mark.parametrize(
    ("dumb", "found"),
    [("", "the executor ended without a word"), ("Killed", "the executor ended: Killed")],
)
def test_a_child_that_ended_is_an_error_about_its_call(children: Children, dumb: str, found: str) -> None:
    children.dumb = dumb
    for answers in (workers.explained(PLACE, calls(1)), workers.executed(PLACE, makers(1), 1)):
        with pytest.raises(ExecutorError) as caught:
            list(answers)
        assert caught.value.args == ("execute add 'M=0'", found, AGAIN)


def test_a_call_that_cannot_be_made_ends_everything(children: Children) -> None:
    def broken() -> Call:
        raise KeyboardInterrupt

    answers = workers.executed(PLACE, [*makers(1), broken, *makers(3)], 1)
    assert next(answers)[0] == 0
    with pytest.raises(KeyboardInterrupt):
        next(answers)
    assert children.told == ["killed", "allowed"] and len(children.started[0].heard) == 1
