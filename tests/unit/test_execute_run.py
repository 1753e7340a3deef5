"""One call, judged: what comes of results, of inputs and of memory, and a child that ends in each way that it can."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from aiter_prebuilt.contract import calls
from aiter_prebuilt.contract.calls import Array, Call, ElementType, Want
from aiter_prebuilt.errors import NoDeviceError
from aiter_prebuilt.execute import __main__ as command
from aiter_prebuilt.execute import fork, run
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.execute.record import Chosen
from aiter_prebuilt.execute.run import Execution


class Memory:
    """Device memory that is bytes."""

    device = ("amd", 1)

    def __init__(self) -> None:
        self.held: dict[int, bytearray] = {}

    def upload(self, data: bytes) -> int:
        address = 4096 * (1 + len(self.held))
        self.held[address] = bytearray(data)
        return address

    def download(self, address: int, size: int) -> bytes:
        assert size == len(self.held[address])
        return bytes(self.held[address])


X = Array("u8", (2, 2), (3, 1), 1, bytes(range(6)))
OUT = Array("u8", (2,), (2,), 0, None)
WANT = Want("out", "u8", (2,), b"\x01\x02", b"\x01\x02", None, False)
CALL = Call(
    "copy", "a call", {"out": OUT, "x": X, "kind": ElementType("bf16"), "n": 3}, (WANT,), 0, "formula"
)


def placed(call: Call = CALL) -> tuple[Memory, dict[str, Any]]:
    memory: Any = Memory()
    return memory, {name: run.uploaded(value, memory) for name, value in call.arguments.items()}


def right(arguments: dict[str, Any], memory: Memory) -> None:
    memory.held[arguments["out"].base][0], memory.held[arguments["out"].base][2] = 1, 2


def test_arguments_as_a_function_takes_them() -> None:
    _, arguments = placed()
    x, out = arguments["x"], arguments["out"]
    assert arguments["kind"] == "bf16" and arguments["n"] == 3
    assert tuple(x) == (x.base + 1, "u8", (2, 2), (3, 1), ("amd", 1)) and x.read() == bytes(range(6))
    assert (x.shape, x.dtype, x.device, x.ndim) == ((2, 2), "u8", ("amd", 1), 2) and x.requires_grad is False
    assert out.read() == out.poison() == b"\x7e" * 3 and repr(out) == "DeviceArray(u8[2] on amd:1)"
    fresh = x.new_empty((2, 3), "bf16")
    assert tuple(fresh)[1:4] == ("bf16", (2, 3), (3, 1)) and fresh.read() == b"\xff" * 12
    assert x.new_empty([1]).dtype == "u8"
    with pytest.raises(ValueError, match=r"^5 bytes for a tensor whose memory has 6$"):
        DeviceArray(x.memory, "u8", (2, 3), bytes(5))
    with pytest.raises(TypeError, match="cannot be pickled"):
        x.__reduce__()


def test_a_right_call() -> None:
    memory, arguments = placed()
    right(arguments, memory)
    assert run.judged(CALL, arguments, None) == (0.0, [])


def test_what_a_call_may_not_write() -> None:
    memory, arguments = placed()
    right(arguments, memory)
    memory.held[arguments["x"].base][3] ^= 1  # between the elements, and still an input's
    memory.held[arguments["out"].base][1] ^= 1
    worst, problems = run.judged(CALL, arguments, None)
    assert worst == 0 and problems == [
        "x: an input was written: 1 bytes, the first is byte 3 of 6",
        "out: 1 bytes between its elements were written, the first is byte 1 of 3",
    ]


def test_the_worst_of_all_wants() -> None:
    second = Want("", "u8", (1,), b"\x00", b"\x04", None, True)
    call = replace(CALL, wants=(second, WANT))
    memory, arguments = placed(call)
    right(arguments, memory)
    result = arguments["x"].new_empty((1,))
    memory.held[result.base][0] = 6
    worst, problems = run.judged(call, arguments, result)
    assert worst == 2.0 and len(problems) == 1  # 6 is two half widths from the middle of 0 to 4
    memory.held[result.base][0] = 3
    assert run.judged(call, arguments, (result, None)) == (0.0, [])


def test_results_that_are_none_or_others() -> None:
    returned = Want("y", "u8", (1,), b"\x00", b"\x00", None, True)
    call = replace(CALL, wants=(returned,), arguments={"x": X})
    memory, arguments = placed(call)
    x = arguments["x"]
    zero, other = x.new_empty((1,)), x.new_empty((1,))
    memory.held[zero.base][0] = 0
    assert run.judged(call, arguments, zero) == (0.0, [])
    assert run.judged(call, arguments, None)[1] == ["it returned 0 tensors, 1 are wanted"]
    assert run.judged(call, arguments, [zero, other])[1] == ["it returned 2 tensors, 1 are wanted"]
    assert run.judged(call, arguments, 7)[1] == ["y: int instead of a tensor"]
    assert run.judged(call, arguments, x.new_empty((1,), "i8"))[1] == ["y: i8[1] instead of u8[1]"]
    assert run.judged(call, arguments, x.new_empty((2,)))[1] == ["y: u8[2] instead of u8[1]"]
    assert run.judged(replace(call, wants=()), arguments, None) == (math.inf, ["the call wants nothing"])


def test_a_result_that_is_an_argument_is_judged_as_that() -> None:
    """AITER returns what it wrote; that it is the argument itself counts, not that it looks like it."""
    memory, arguments = placed()
    right(arguments, memory)
    out = arguments["out"]
    for result in (out, [out], (out, None, arguments["x"])):
        assert run.judged(CALL, arguments, result) == (0.0, [])
    _, twins = placed()
    assert run.judged(CALL, arguments, twins["out"])[1] == ["it returned 1 tensors, 0 are wanted"]
    returned = Want("y", "u8", (1,), b"\x00", b"\x00", None, True)
    both = replace(CALL, wants=(WANT, returned))
    fresh = out.new_empty((1,))
    memory.held[fresh.base][0] = 0
    assert run.judged(both, arguments, (out, fresh)) == (0.0, [])
    assert run.judged(both, arguments, out)[1] == ["it returned 0 tensors, 1 are wanted"]


def test_elements_that_must_stay() -> None:
    given = replace(OUT, data=b"\x05\x06\x07")
    want = replace(WANT, kept=b"\x01\x00")
    call = replace(CALL, arguments={"out": given}, wants=(want,))
    memory, arguments = placed(call)
    memory.held[arguments["out"].base][2] = 2
    assert run.judged(call, arguments, None) == (0.0, [])
    memory.held[arguments["out"].base][0] = 1
    assert run.judged(call, arguments, None)[1] == [
        "out: 1 bytes of elements that must stay were written, the first at [0]"
    ]


DONE = Execution("copy", "l", "a card", "gfx942", "k", "v", "hip", ("e",), ("r",), "f", "it", 0.5, 1.0, ())


def test_what_a_line_says() -> None:
    assert DONE.ok and not replace(DONE, worst=None).ok and not replace(DONE, problems=("p",)).ok
    assert replace(DONE, worst=0.0).ok
    assert DONE.line()["version"] == 3 and DONE.line()["launched"] == ("e",)
    assert run.failed(CALL, ("a card", "gfx942"), "p") == Execution(
        "copy",
        "a call",
        "a card",
        "gfx942",
        "",
        "",
        "",
        (),
        (),
        "formula",
        run.own_state(),
        None,
        0.0,
        ("p",),
    )
    facts: Any = SimpleNamespace(target="gfx942", name="MI300X", driver_version="7.1")
    assert run.named(facts, "/nowhere/libnone.so") == "MI300X, driver 7.1"


def _forked(monkeypatch: pytest.MonkeyPatch, child: Any, limit: float = 30.0) -> Execution:
    monkeypatch.setattr(fork, "here", child)
    return fork.forked(replace(CALL, operator="no_such"), "amd", 0, limit)


def test_a_child_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _forked(monkeypatch, lambda call, *_: replace(DONE, label=call.label)) == replace(
        DONE, label="a call"
    )


CHOSEN = {"kernel": "k", "variant": "v", "backend": "hip", "launched": ["e"], "recipes": ["r"]}


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda: os._exit(0), "the process ended with status 0"),
        (lambda: os._exit(7), "the process ended with status 7"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "the process was ended by SIGTERM"),
        (lambda: os.kill(os.getpid(), signal.SIGRTMIN + 3), f"the process was ended by signal {signal.SIGRTMIN + 3}"),
        (lambda: time.sleep(60), "it did not end within 0.5 seconds"),
    ],
)  # fmt: skip
def test_a_child_that_does_not(end: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said before it ended is kept."""

    def child(_call: Call, _vendor: str, _ordinal: int, told: Any) -> None:
        told({"device": "a card", "target": "gfx942"})
        told(CHOSEN)
        end()

    found = _forked(monkeypatch, child, 0.5 if "within" in said else 30.0)
    assert found.problems == (said,) and found.worst is None
    assert (found.device, found.target, found.kernel, found.variant, found.backend) == (
        "a card",
        "gfx942",
        "k",
        "v",
        "hip",
    )
    assert (found.launched, found.recipes) == (("e",), ("r",))


def test_a_child_finds_the_state_of_the_judge_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing the judge's code takes longer than most calls."""
    run.own_state.cache_clear()

    def child(call: Call, *_: Any) -> Execution:
        return replace(DONE, label=f"{run.own_state.cache_info().currsize} known before {call.label}")

    assert _forked(monkeypatch, child).label == "1 known before a call"


def test_a_child_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _forked(monkeypatch, lambda *_: os._exit(3))
    assert (found.device, found.target, found.kernel, found.launched) == ("", "", "", ())


def _driver(monkeypatch: pytest.MonkeyPatch, **driver: Any) -> None:
    told = {"devices": (), "error": "", "problems": (), "path": "lib"} | driver
    monkeypatch.setattr("aiter_prebuilt.devices.device.probe", lambda _vendor: SimpleNamespace(**told))


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    card: Any = SimpleNamespace(ordinal=1)
    _driver(monkeypatch, devices=(card,))
    assert fork._find("amd", 1) == (card, "lib")
    for driver, words in (
        ({"devices": ("one", "two"), "error": "e"}, "one, two"), ({"error": "e", "problems": ("p",)}, "e"),
        ({"problems": ("p", "q")}, "p; q"), ({}, "none"),
    ):  # fmt: skip
        named = tuple(
            type("Card", (), {"ordinal": 5, "__str__": lambda _, n=n: n})() for n in driver.get("devices", ())
        )
        _driver(monkeypatch, **{**driver, "devices": named})
        with pytest.raises(NoDeviceError) as refused:
            fork._find("nvidia", 2)
        assert (refused.value.asked, refused.value.found) == (
            "use device 2 of nvidia",
            f"devices here: {words}",
        )
    found = fork.here(CALL, "amd", 2)
    assert found.device == "" and found.problems[0].startswith("NoDeviceError: ")


def test_what_is_told_before_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    card: Any = SimpleNamespace(ordinal=0, target="gfx942", name="MI300X", driver_version="7.1")
    _driver(monkeypatch, devices=(card,), path="/nowhere/lib.so")
    heard: list[dict[str, Any]] = []

    def ran(_call: Call, facts: Any, path: str, told: Any = None) -> Execution:
        assert facts is card and path == "/nowhere/lib.so"
        if told is not None:
            told(Chosen("k", "v", "hip", ("e",), ("r",)))
        return DONE

    monkeypatch.setattr(fork, "run", ran)
    assert fork.here(CALL, "amd", 0) is DONE and fork.here(CALL, "amd", 0, heard.append) is DONE
    assert heard[0] == {"device": "MI300X, driver 7.1", "target": "gfx942"} and heard[1]["launched"] == ("e",)


@pytest.mark.parametrize(
    ("arguments", "worst", "problems", "status"),
    [
        ([], 0.5, (), 0), ([], None, (), 1), ([], 0.5, ("p",), 1), (["--no-fork"], 0.5, (), 0), (["--no-fork"], 0.5, ("p",), 1),
        (["--explain", "gfx942"], None, (), 0), (["--explain", "gfx942"], None, ("p",), 1),
    ],
)  # fmt: skip
def test_the_command(
    arguments: list[str], worst: float | None, problems: tuple[str, ...], status: int,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any,
) -> None:  # fmt: skip
    seen: list[Any] = []

    def answers(*given: Any) -> Execution:
        seen.append(given[1:])
        return replace(DONE, worst=worst, problems=problems)

    for name in ("forked", "here", "explain"):
        monkeypatch.setattr(command, name, answers)
    (tmp_path / "calls").write_bytes(calls.pack(CALL) * 2)
    assert command.main([*arguments, "--vendor", "amd", "--device", "3", str(tmp_path / "calls")]) == status
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["problems"] for line in lines] == [list(problems)] * 2
    wanted = {"--no-fork": ("amd", 3), "--explain": ("gfx942",)}.get(
        "".join(arguments[:1]), ("amd", 3, 600.0)
    )
    assert seen == [wanted, wanted]


def test_a_stream_that_ends_early(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "forked", lambda *_: DONE)
    for data, words in (
        (b"", "error: no call came: nothing was executed\n"),
        (calls.pack(CALL) + b"abc", "error: after 1 calls: CallsError: it ends inside a record's lengths\n"),
    ):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert command.main([]) == 2
        assert capsys.readouterr().err == words
