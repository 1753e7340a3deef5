"""Explaining a call without a device: what is no public function is said; why what is chosen is chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import aiter_prebuilt
from aiter_prebuilt.contract.calls import Call
from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.execute import explain
from aiter_prebuilt.execute.record import Chosen
from aiter_prebuilt.execute.run import Execution

SCHEMA = json.loads((Path(aiter_prebuilt.__file__).parent / "schemas" / "execute.json").read_text())


@pytest.fixture(autouse=True)
def a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = DeviceFacts("amd", 0, "made up", "gfx942", "gfx942", frozenset(), 304, 0, 0)
    monkeypatch.setattr(explain, "facts_of", lambda target: facts)


def test_a_function_that_does_nothing_is_not_taken_for_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiter_prebuilt, "silu", lambda **_: None)
    told = explain.explain(Call("silu", "a", {}, ()), "gfx942")
    assert told.problems == ("the function never called its operator",)


@pytest.mark.parametrize("name", ["no_such_operator", "locate", "__name__"])
def test_what_is_no_public_function_is_not_called(name: str) -> None:
    told = explain.explain(Call(name, "a", {}, ()), "gfx942")
    assert told.problems == (f"aiter_prebuilt has no function {name!r}",)


def row(kernel: str, chosen: bool, reason: str, near: int = 0) -> dict[str, Any]:
    return {
        "kernel": kernel, "variant": "v", "backend": "hip", "chosen": chosen, "accepted": chosen, "reason": reason, "near": near,
        "cost": 7 if chosen else None,
    }  # fmt: skip


def explained(monkeypatch: pytest.MonkeyPatch, *said: list[dict[str, Any]]) -> Execution:
    """A function of as many native calls, each decided as is said."""

    class Native:
        def __init__(self, place: int) -> None:
            self.name, self.place = f"native{place}", place

        def explain(self) -> list[dict[str, Any]]:
            return said[self.place]

    def decide(self: Any, operator: Any, tensors: Any, attributes: Any) -> Chosen:
        chosen = [each["kernel"] for each in operator.explain() if each["chosen"]]
        return Chosen(chosen[0] if chosen else "")

    @contextmanager
    def instead(function: Any, deed: Any) -> Iterator[None]:
        for place in range(len(said)):
            deed(Native(place), [], [])
        yield

    monkeypatch.setattr(aiter_prebuilt, "silu", lambda **_: None)
    monkeypatch.setattr(explain._Explainer, "_explained", decide)
    monkeypatch.setattr(explain, "instead", instead)
    return explain.explain(Call("silu", "a", {}, ()), "gfx942")


def test_why_it_was_chosen_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    told = explained(monkeypatch, [row("other", False, "no"), row("one", True, "lowest cost 7")])
    assert isinstance(told, explain.Explained)
    assert (told.problems, told.kernel, told.reason, told.cost) == ((), "one", "lowest cost 7", 7)
    jsonschema.validate(json.loads(json.dumps(told.line())), SCHEMA)
    told = explained(monkeypatch, [row("one", True, "first")], [row("two", True, "second")])
    assert told.line()["reason"] == "one: first; two: second"


def test_why_nothing_takes_it_is_said_nearest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate of each reason, the nearest ones."""
    rows = [
        row("f", False, "other types", 9), row("near", False, "needs M > 1", 1), row("next", False, "needs M > 1", 2),
        row("third", False, "needs N > 1", 3), row("last", False, "needs K > 1", 10),
    ]  # fmt: skip
    told = explained(monkeypatch, [row("one", True, "first")], rows)
    assert told.problems == (
        "NoKernelError: no kernel takes the call of native1; near[v]: needs M > 1; third[v]: needs N > 1; f[v]: other types",
    )
    jsonschema.validate(json.loads(json.dumps(told.line())), SCHEMA)
