"""What a client of the debugger asks wrongly is said where it was asked, and the program runs to its end all the same."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.dap_client import Adapter
from support.debugged import FILE, WITH, finish, image, source, words

from aiter_prebuilt_emulator.debug_link import DeviceError, Link
from aiter_prebuilt_emulator.debug_places import Places
from aiter_prebuilt_emulator.debug_protocol import Message, Messages
from aiter_prebuilt_emulator.debug_scopes import Scopes
from aiter_prebuilt_emulator.debug_session import Session

__all__ = ["image"]


def test_a_breakpoint_at_no_line_lets_the_program_run(image: Path) -> None:
    with Adapter(words(image)) as adapter:
        client = adapter.begin()
        (one,) = client.ask("setBreakpoints", **source(-3))["breakpoints"]
        assert (
            not one["verified"] and one["message"] == "found the number -3, expected one from 1 to 4294967295"
        )
        client.ask("configurationDone")
        assert "status 0" in finish(adapter)


def test_a_bad_condition_refuses_its_breakpoint_alone(image: Path) -> None:
    with Adapter(words(image)) as adapter:
        client = adapter.begin()
        asked = [{"line": 209, "condition": "wvae=2"}, {"line": 211, "condition": "workgroup=1:0:0,wave=1"}]
        bad, good = client.ask("setBreakpoints", source={"path": "debugged.hip"}, breakpoints=asked)[
            "breakpoints"
        ]
        assert not bad["verified"] and "condition wvae=2: found 'wvae'" in bad["message"]
        assert good["message"] == "no kernel with it has been launched yet"
        client.ask("configurationDone")
        thread = client.stopped("breakpoint")
        assert client.top(thread)["line"] == 211
        client.ask("continue", threadId=thread)
        assert "status 0" in finish(adapter)


class _Written(Messages):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), io.BytesIO())
        self.all: list[Message] = []

    def write(self, message: Message) -> None:
        self.all.append(message)


@pytest.mark.parametrize("error", [DeviceError("not so"), ValueError("not so")])
def test_what_the_device_refuses_is_said_and_the_process_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    asked: list[object] = []

    def ask(self: Link, *fields: object) -> dict[str, Any]:
        del self
        asked.append(fields[0])
        if fields[0] == "breakpoints":
            raise error
        return {}

    monkeypatch.setattr(Link, "ask", ask)
    written = _Written()
    session = Session(written, ["true"], {}, own_command=False, output=False)
    try:
        session._event_hello({"event": "hello", "process": 1})
    finally:
        session.close()
    assert asked == ["breakpoints", "faults", "go"]
    (text,) = [one["body"]["output"] for one in written.all if one["event"] == "output"]
    assert text == "the device refuses breakpoints: not so\n"


def test_numbers_and_names_that_no_command_can_have() -> None:
    places = Places()
    lines = [0, 1, 2**32 - 1, 2**32, 2**33 + 211]
    assert [not one.problem for one in places.set_lines("x.hip", [{"line": n} for n in lines])] == [
        False, True, True, False, False
    ]  # fmt: skip
    addresses = ["0x0", "-1", hex(2**64 - 1), hex(2**64)]
    found = places.set_addresses([{"instructionReference": one} for one in addresses])
    assert [not one.problem for one in found] == [True, False, True, False]
    found = places.set_kernels(
        [{"name": one} for one in ("k+010", "k\tx", "k\n", "\ud800", "k+0x1" + "0" * 16)]
    )
    assert [(one.number, not one.problem) for one in found[:4]] == [
        (10, True),
        (0, False),
        (0, False),
        (0, False),
    ]
    assert found[4].problem
    assert all(one.problem for one in places.set_lines("a\tb.hip", [{"line": 3}]))
    told = places.fields()
    assert len(told) == 5 * (2 + 2 + 1) and {told[i + 3] for i in range(0, len(told), 5)} == {
        1, 2**32 - 1, 0, 2**64 - 1, 10
    }  # fmt: skip
    assert places.described(found[3])["reason"] == "failed"


def test_brackets_without_an_end_end_the_session() -> None:
    body = b"[" * 200_000
    assert Messages(io.BytesIO(b"Content-Length: %d\r\n\r\n" % len(body) + body), io.BytesIO()).read() is None


def test_relative_paths_are_those_of_the_programs_folder(tmp_path: Path) -> None:
    (tmp_path / "here.hip").touch()
    frames = [
        {"function": "f", "file": name, "line": 3, "column": 0} for name in ("here.hip", "gone.hip", FILE)
    ]
    answer = {"kernel": "k", "address": 0, "offset": 0, "instruction": "s_nop 0", "frames": frames}
    scopes = Scopes(lambda *_: answer)
    scopes.folder = tmp_path
    found = [frame["source"]["path"] for frame in scopes.stack(0, 0)["stackFrames"]]
    assert found == [str(tmp_path / "here.hip"), "gone.hip", FILE]


def _debug(*arguments: str, given: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt_emulator", "debug", *arguments],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")},
        input=given, capture_output=True, text=True, check=False, timeout=120, cwd=folder,
    )  # fmt: skip


@pytest.mark.parametrize("where", ["-1", "0x10", "65536", "47_11"])
def test_what_is_neither_a_port_nor_a_path(where: str, tmp_path: Path) -> None:
    done = _debug("--listen", where, "--", "true", folder=tmp_path)
    assert done.returncode == 1 and done.stderr.startswith(f"error: --listen {where}: "), done.stderr
    assert not list(tmp_path.iterdir())


def test_a_path_that_no_socket_can_have() -> None:
    done = _debug("--listen", "/tmp/" + "x" * 200, "--", "true")
    assert done.returncode == 1 and "too long; write another path, or a port" in done.stderr, done.stderr


def test_the_console_says_what_is_wrong_with_a_breakpoint(image: Path) -> None:
    script = "break debugged.hip:211 if wvae=2\nbreak debugged.hip:0\nbreak debugged.hip:211 if workgroup=2:0:0,wave=1\nrun\nc\n"
    done = _debug("--console", "--", *words(image, number=WITH), given=script)
    assert done.returncode == 0, done.stderr
    assert "error: condition wvae=2: found 'wvae'" in done.stdout
    assert "error: found the number 0, expected one from 1" in done.stdout
    assert done.stdout.count("breakpoint: kernel") == 1 and "status 0" in done.stdout
