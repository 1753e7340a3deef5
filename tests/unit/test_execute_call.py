"""One call from its upload to its line, with a function and a memory that are made up: each way in which it may end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import aiter_prebuilt
from aiter_prebuilt.contract.calls import Array, Call, Want
from aiter_prebuilt.errors import DriverError
from aiter_prebuilt.execute import run
from aiter_prebuilt.execute.record import Chosen
from aiter_prebuilt.execute.run import Execution

X = Array("u8", (2,), (1,), 0, b"\x01\x02")
OUT = Array("u8", (2,), (1,), 0, None)
CALL = Call(
    "copy",
    "a call",
    {"out": OUT, "x": X, "n": 3},
    (Want("out", "u8", (2,), b"\x01\x02", b"\x01\x02", None, False),),
    0,
    "formula",
)
CHOSEN = Chosen("k", "v", "hip", ("e",), ("r",))
FACTS: Any = SimpleNamespace(target="gfx942", name="a card", driver_version="7")


class Memory:
    """What is written shows when everything that was launched has ended."""

    device = ("amd", 0)
    made: ClassVar[list[Memory]] = []
    broken = False

    def __init__(self, facts: Any, path: str) -> None:
        assert (facts, path) == (FACTS, "lib")
        self.held: dict[int, bytearray] = {}
        self.steps: list[str] = []
        self.made.append(self)

    def upload(self, data: bytes) -> int:
        address = 4096 * (1 + len(self.held))
        self.held[address] = bytearray(data)
        return address

    def download(self, address: int, size: int) -> bytes:
        assert self.steps == ["synchronized"]
        return bytes(self.held[address][:size])

    def synchronize(self) -> None:
        self.steps.append("synchronized")

    def close(self) -> None:
        self.steps.append("closed")
        if self.broken:
            raise DriverError("free", "the device is lost", "")


class Seen:
    """A recorder that has seen one native call, or none."""

    def __init__(self, facts: Any, units: int, told: Any) -> None:
        assert (facts, units, told) == (FACTS, 0, None)
        self.seen: list[Chosen] = []

    @property
    def chosen(self) -> Chosen:
        return self.seen[0] if self.seen else Chosen()


@contextmanager
def noted(_function: Callable[..., Any], recorder: Seen) -> Iterator[None]:
    recorder.seen.append(CHOSEN)
    yield


@contextmanager
def unnoted(_function: Callable[..., Any], _recorder: Seen) -> Iterator[None]:
    yield


def copied(out: Any, x: Any, n: int) -> None:
    """Takes its time, so that there is something to measure."""
    assert n == 3
    time.sleep(0.02)
    out.memory.held[out.base][:] = out.memory.held[x.base]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Execution]:
    """Executes the call with another function."""
    Memory.made = []
    monkeypatch.setattr(run, "DeviceMemory", Memory)
    monkeypatch.setattr(run, "Recorder", Seen)
    monkeypatch.setattr(aiter_prebuilt, "__all__", [*aiter_prebuilt.__all__, "copy"])

    def execute(function: Any, context: Any = noted) -> Execution:
        monkeypatch.setattr(run, "instead", context)
        monkeypatch.setattr(aiter_prebuilt, "copy", function, raising=False)
        return run.run(CALL, FACTS, "lib")

    return execute


def test_a_right_call(made: Callable[..., Execution]) -> None:
    line = made(copied)
    assert line.ok and (line.worst, line.problems) == (0.0, ())
    assert (line.operator, line.label, line.device, line.target) == (
        "copy",
        "a call",
        "a card, driver 7",
        "gfx942",
    )
    assert (line.kernel, line.variant, line.backend, line.launched, line.recipes) == (
        "k",
        "v",
        "hip",
        ("e",),
        ("r",),
    )
    assert (line.reference, line.judge) == ("formula", run.own_state()) and 0.02 <= line.seconds < 5
    assert Memory.made[0].steps == ["synchronized", "closed"]


def test_a_wrong_call(made: Callable[..., Execution]) -> None:
    line = made(lambda out, x, n: None)
    assert line.problems and not line.ok and line.kernel == "k"
    assert line.worst is None, "poison is infinitely far"


def test_a_function_that_asks_nobody(made: Callable[..., Execution]) -> None:
    line = made(copied, unnoted)
    assert (line.worst, line.problems, line.kernel) == (0.0, ("the function never called its operator",), "")


def test_nothing_to_compare_is_no_number(
    made: Callable[..., Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "judged", lambda *_: (float("inf"), ["the call wants nothing"]))
    line = made(copied)
    assert line.worst is None and line.problems == ("the call wants nothing",) and line.seconds >= 0.02


@pytest.mark.parametrize("broken", [False, True])
def test_an_error_is_what_the_line_says(
    made: Callable[..., Execution], broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut where it is endless; after a fault nothing can be freed, and that is not said beside it."""
    monkeypatch.setattr(Memory, "broken", broken)

    def fails(**_arguments: Any) -> None:
        time.sleep(0.02)
        raise ZeroDivisionError("x" * 5000)

    line = made(fails)
    assert line.problems == (("ZeroDivisionError: " + "x" * 5000)[:4000],) and line.worst is None
    assert line.kernel == "k" and 0.02 <= line.seconds < 5 and Memory.made[0].steps == ["closed"]


def test_a_device_that_gives_no_memory(
    made: Callable[..., Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_facts: Any, _path: str) -> Memory:
        raise DriverError("open the device", "it is lost", "see to it")

    monkeypatch.setattr(run, "DeviceMemory", lost)
    line = made(copied)
    (problem,) = line.problems
    assert problem.startswith("DriverError: Cannot open the device: it is lost") and 0 <= line.seconds < 5


@pytest.mark.parametrize("name", ["no_such", "errors"])
def test_what_is_no_function_of_the_package(name: str) -> None:
    call = Call(name, "a call", {}, ())
    line = run.run(call, FACTS, "lib")
    assert line.problems == (f"aiter_prebuilt has no function {name!r}",)
    assert (line.device, line.target, line.seconds) == ("a card, driver 7", "gfx942", 0.0)
