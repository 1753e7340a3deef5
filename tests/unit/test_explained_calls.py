"""Explaining a call without a device: what is no public function is said, and nothing else is called."""

from __future__ import annotations

import pytest

import aiter_prebuilt
from aiter_prebuilt.contract.calls import Call
from aiter_prebuilt.device import DeviceFacts
from aiter_prebuilt.execute import explain


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
