"""Workers of ``tune``: calls are shared, a candidate that ends its process is left out, silence is an end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.errors import WorkerError
from aiter_prebuilt.tuning import workers
from aiter_prebuilt.tuning.calls import TuneCall
from aiter_prebuilt.tuning.outcome import Limits, Measured
from aiter_prebuilt.tuning.workers import Done, Worker, measured

FACTS = DeviceFacts("amd", 0, "X", "gfx942", "gfx942", frozenset(), 8, 1, 1)
CALLS = [TuneCall("op", (("M", str(size)),)) for size in range(6)]
Serve = Callable[[dict[str, Any], Callable[[dict[str, Any]], None]], None]


def serving(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    """Let ``serve`` stand for what a worker does with a call."""

    def loop(_facts: Any, _path: str, _limits: Limits, asked: int, answers: int) -> None:
        with os.fdopen(asked, "rb") as stream:
            for line in stream:
                row = json.loads(line)
                if not row:
                    return
                serve(row, lambda said: workers._send(answers, said))

    monkeypatch.setattr(workers, "_serve", loop)


def done_line(row: dict[str, Any], problem: str = "") -> dict[str, Any]:
    words = f"op M={row['settings'][0][1]} by {os.getpid()}"
    found = Measured(words, "op", {"M": 1}, problem=problem or json.dumps(row["lost"]))
    return {"done": asdict(found), "state": {"clock_mhz": 5, "notes": ["n"]}, "late": False}


def run(count: int, over: Callable[[], bool] = lambda: False, silence: float = 60.0) -> list[Done]:
    made = [Worker(FACTS, "lib", Limits(1.0, None)) for _ in range(count)]
    return list(measured(CALLS, made, over, silence))


def test_workers_share_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(row: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        time.sleep(0.05)
        say(done_line(row))

    serving(monkeypatch, serve)
    found = run(2)
    assert sorted(each.call.words for each in found) == [call.words for call in CALLS]
    assert len({each.found.words.rpartition(" ")[2] for each in found}) == 2
    assert found[0].state.clock_mhz == 5 and found[0].state.notes == ("n",)


def test_a_candidate_that_ends_its_process_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(row: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        for name in ("good[1]", "bad[1]"):
            if name in row["lost"]:
                continue
            say({"at": name})
            if name == "bad[1]" and row["settings"][0][1] == "2":
                os.kill(os.getpid(), 9)
        say(done_line(row))

    serving(monkeypatch, serve)
    found = {each.call.words: each.found.problem for each in run(1)}
    assert found["op M=2"] == '{"bad[1]": "it ended the process by signal 9"}'
    assert [problem for words, problem in found.items() if words != "op M=2"] == ["{}"] * 5


def test_a_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(_row: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        say({"failed": "Cannot call hipMalloc: the driver answered 2."})
        os._exit(1)

    serving(monkeypatch, serve)
    first = next(iter(measured(CALLS[:1], [Worker(FACTS, "lib", Limits(1.0, None))], lambda: False)))
    assert first.found.problem == "Cannot call hipMalloc: the driver answered 2. before any candidate ran"


def test_a_candidate_that_never_ends_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(row: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        if "slow[1]" not in row["lost"]:
            say({"at": "slow[1]"})
            time.sleep(600)
        say(done_line(row))

    serving(monkeypatch, serve)
    (found,) = measured(CALLS[:1], [Worker(FACTS, "lib", Limits(1.0, None))], lambda: False, 1.0)
    assert found.found.problem == '{"slow[1]": "it never ended"}'


def test_no_call_is_begun_when_the_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    serving(monkeypatch, lambda row, say: say(done_line(row)))
    spent: list[int] = []

    def over() -> bool:
        spent.append(1)
        return len(spent) > 3

    assert [each.call.words for each in run(1, over)] == ["op M=0", "op M=1", "op M=2"]
    assert run(1, lambda: True) == []


def test_the_devices_are_asked_for_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimpleNamespace(devices=(FACTS,), path="lib")
    monkeypatch.setattr("aiter_prebuilt.devices.device.probe", lambda _vendor: driver)
    assert workers.probe() == ([FACTS], "lib")
    monkeypatch.setattr(
        "aiter_prebuilt.devices.device.probe", lambda _vendor: SimpleNamespace(devices=(), path="")
    )
    assert workers.probe() == ([], "")


def test_a_child_that_ends_while_it_asks_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiter_prebuilt.devices.device.probe", lambda _vendor: os._exit(3))
    with pytest.raises(WorkerError, match="Cannot look for devices: the process that asked the driver ended"):
        workers.probe()
