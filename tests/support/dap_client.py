"""A client of the Debug Adapter Protocol, written by hand: what an editor would say, with what it would have to find."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0
Body = dict[str, Any]


class DapError(AssertionError):
    """A request was refused; the text is the adapter's."""


class DapClient:
    """Sends requests, keeps events. ``timeline`` has responses and events in the order in which they came."""

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self._source, self._sink = source, sink
        self._number = 0
        self._arrived: queue.Queue[Body | None] = queue.Queue()
        self.timeline: list[Body] = []
        self._kept: list[Body] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                length = 0
                while line := self._source.readline().strip():
                    name, _, value = line.partition(b": ")
                    assert name == b"Content-Length"
                    length = int(value)
                body = self._source.read(length)
                if length == 0 or len(body) < length:
                    break
                self._arrived.put(json.loads(body))
        except (OSError, ValueError):
            pass
        self._arrived.put(None)

    def close(self) -> None:
        for stream in (self._source, self._sink):
            with contextlib.suppress(OSError, ValueError):
                stream.close()

    def _until(self, wanted: Callable[[Body], bool], what: str) -> Body:
        for index, message in enumerate(self._kept):
            if wanted(message):
                return self._kept.pop(index)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                arrived = self._arrived.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {what} came; there were {self.timeline[-5:]}") from None
            assert arrived is not None, (
                f"the adapter went before {what} came; there were {self.timeline[-5:]}"
            )
            self.timeline.append(arrived)
            if wanted(arrived):
                return arrived
            self._kept.append(arrived)

    def send(self, command: str, **arguments: object) -> int:
        self._number += 1
        message = {"seq": self._number, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self._sink.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._sink.flush()
        return self._number

    def ask(self, command: str, **arguments: object) -> Body:
        number = self.send(command, **arguments)
        reply = self._until(
            lambda m: m["type"] == "response" and m["request_seq"] == number, f"answer to {command}"
        )
        if not reply["success"]:
            raise DapError(reply["message"])
        assert reply["command"] == command
        found: Body = reply["body"]
        return found

    def event(self, name: str) -> Body:
        found: Body = self._until(lambda m: m["type"] == "event" and m["event"] == name, name)["body"]
        return found

    def stopped(self, reason: str) -> int:
        """The thread that stopped."""
        body = self.event("stopped")
        assert body["reason"] == reason and body["allThreadsStopped"] is True, body
        thread: int = body["threadId"]
        return thread

    def top(self, thread: int) -> Body:
        found: Body = self.ask("stackTrace", threadId=thread)["stackFrames"][0]
        return found

    def value(self, expression: str, thread: int | None = None) -> str:
        extra = {} if thread is None else {"frameId": self.top(thread)["id"]}
        found: str = self.ask("evaluate", expression=expression, **extra)["result"]
        return found

    def ends(self) -> None:
        """Nothing more comes."""
        end = time.monotonic() + PATIENCE
        while self._arrived.get(timeout=end - time.monotonic()) is not None:
            pass


class Adapter:
    """The verb as a process, with a client on its port, its socket, or its standard streams."""

    def __init__(self, command: Sequence[str], listen: str = "0", **environment: str) -> None:
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT_EMULATOR")
        }
        words = [sys.executable, "-m", "aiter_prebuilt_emulator", "debug"]
        if listen:
            words += ["--listen", listen]
        self.process = subprocess.Popen(
            [*words, "--", *command] if command else words,
            env=kept | {"PYTHONPATH": str(ROOT / "src")} | environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._socket: socket.socket | None = None
        self.token: dict[str, str] = {}
        if not listen:
            self.client = DapClient(self.process.stdout, self.process.stdin)
            return
        line = self.process.stderr.readline().decode()
        assert line.startswith("waiting for a debugger on "), line
        self.place = line.split()[-1]
        if ":" in self.place:
            said = self.process.stderr.readline().decode()
            self.token = {"token": said.split('"')[3]}
        self._socket = connected(self.place)
        self.client = DapClient(self._socket.makefile("rb"), self._socket.makefile("wb"))

    def __enter__(self) -> Adapter:  # noqa: PYI034  # Self is Python 3.11's
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if self._socket:
            self.drop()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    def begin(self, **arguments: object) -> DapClient:
        """Send the first requests of every client, up to its breakpoints."""
        capabilities = self.client.ask("initialize", adapterID="test")
        assert capabilities["supportsConfigurationDoneRequest"] is True
        if not self.token:
            self.client.event("initialized")
        self.client.ask("launch", **self.token, **arguments)
        if self.token:
            self.client.event("initialized")
        return self.client

    def drop(self) -> None:
        """The editor is gone, without a word."""
        assert self._socket
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.client.close()
        self._socket.close()


def connected(place: str) -> socket.socket:
    if ":" not in place:
        made = socket.socket(socket.AF_UNIX)
        made.connect(place)
        return made
    host, _, port = place.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def alive(process: int) -> bool:
    """Does it run? One that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(process: int, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while alive(process) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(process)
