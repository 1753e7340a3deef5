"""What a recorder notes of a native call: what was chosen, said before the launch, for as many compute units as are asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aiter_prebuilt.errors import NoKernelError
from aiter_prebuilt.execute import record
from aiter_prebuilt.execute.record import Chosen, Recorder
from aiter_prebuilt.launch import dispatch

FACTS: Any = SimpleNamespace(arch="gfx942:sramecc+", target="gfx942", compute_units=304)


class Operator:
    """A native operator that explains as it is told."""

    def __init__(self, name: str, *rows: dict[str, Any], log: list[Any]) -> None:
        self.name, self.rows, self.log = name, rows, log

    def explain(self, *asked: Any) -> list[dict[str, Any]]:
        self.log.append(("explain", *asked))
        if not self.rows:
            raise NoKernelError("call it", "nothing fits", "")
        return list(self.rows)

    def __call__(self, *arguments: Any) -> None:
        self.log.append((self.name, *arguments))


def row(kernel: str, chosen: bool, **grids: tuple[int, ...]) -> dict[str, Any]:
    steps = [{"sha256": name, "grid": grid} for name, grid in grids.items()]
    return {
        "kernel": kernel,
        "variant": "v",
        "backend": "hip",
        "types": {"T": "bf16"},
        "chosen": chosen,
        "steps": steps,
    }


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []
    bundles = (
        SimpleNamespace(target="first"),
        SimpleNamespace(target="second"),
        SimpleNamespace(target="third"),
    )
    monkeypatch.setattr(dispatch, "bundles_of", lambda arch, text: bundles if arch == FACTS.arch else ())
    monkeypatch.setattr(dispatch, "tuned_tables", lambda *words: words[:3])
    monkeypatch.setattr(record, "digest_of", lambda *words: "/".join(map(str, words[:4])))
    return made


def test_what_is_chosen_is_noted_and_then_launched(log: list[Any]) -> None:
    operator: Any = Operator(
        "scale", row("no", False, x=(1, 1, 1)), row("k", True, a=(1, 2, 3), b=(4, 0, 1), c=(1, 1, 1)), log=log
    )
    recorder = Recorder(FACTS, told=log.append)
    assert recorder.compute_units == 0 and recorder.chosen == Chosen()
    recorder(operator, ["t"], [3])
    wanted = Chosen("k", "v", "hip", ("a", "c"), ("scale/first/k/v",))
    assert recorder.chosen == wanted
    explained, said, launched = log
    assert explained[2:] == (304, ["t"], [3], ("scale", "gfx942", 304))
    assert said == wanted and launched == ("scale", "t", 3), "said before it is launched"


def test_nobody_needs_to_hear_it(log: list[Any]) -> None:
    recorder = Recorder(FACTS)
    operator: Any = Operator("scale", row("k", True, a=(1, 1, 1)), log=log)
    recorder(operator, [], [])
    assert [entry[0] for entry in log] == ["explain", "scale"]


def test_as_if_the_device_had_so_many_units(log: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    other = Operator("scale", row("k", True, a=(1, 1, 1)), log=log)
    monkeypatch.setattr(
        dispatch,
        "operator_as_if",
        lambda name, units: other if (name, units) == ("scale", 80) else None,
    )
    given: Any = Operator("scale", log=[])
    Recorder(FACTS, 80)(given, [], [])
    assert log[0][2] == 80 and log[0][-1] == ("scale", "gfx942", 80) and given.log == []


def test_what_is_refused_or_not_chosen_is_nothing(log: list[Any]) -> None:
    """The call itself says why, in its own words."""
    for rows in ((), (row("k", False, a=(1, 1, 1)),)):
        recorder = Recorder(FACTS)
        operator: Any = Operator("scale", *rows, log=log)
        recorder(operator, ["t"], [])
        assert recorder.seen == [Chosen()] and log[-1] == ("scale", "t")


def test_of_several_native_calls_the_first_has_the_words() -> None:
    recorder = Recorder(FACTS)
    recorder.seen += [
        Chosen("k", "v", "hip", ("a",), ("r",)),
        Chosen("l", "w", "asm", ("b", "c"), ("s",)),
        Chosen("m"),
    ]
    assert recorder.chosen == Chosen("k", "v", "hip", ("a", "b", "c"), ("r", "s"))
