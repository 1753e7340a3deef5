"""The emulator's side of the debugger: the socket that the library connects to, its commands and its events.

What is said there is in ``csrc/emulator/machine/debug/debug_commands.h``. One process is debugged, the first that
launches a kernel; others that connect (the program may start some) are told to go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

Answer = dict[str, Any]
_LONGEST_FOLDER: Final = 64


class DeviceError(RuntimeError):
    """The emulator answered a command with an error, or is gone."""


def check_word(text: str) -> None:
    """Raise DeviceError where a text cannot be an argument of a command."""
    if any(letter in text for letter in "\t\n\r\0"):
        raise DeviceError(f"found a tab, a zero or the end of a line in {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DeviceError(f"found half of a character in {text!r}, expected text") from None


class Link:
    """A listening Unix socket that only this user reaches, and the process that has connected to it."""

    def __init__(self, on_event: Callable[[Answer], None]) -> None:
        # A folder that is this user's alone; a socket's name may have 107 bytes.
        place = None if len(tempfile.gettempdir()) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108
        self._folder = Path(tempfile.mkdtemp(prefix="aiter-prebuilt-debug-", dir=place))
        self.path = str(self._folder / "socket")
        self._on_event = on_event
        self._answers: dict[int, Answer] = {}
        self._ready = threading.Condition()
        self._number = 0
        self._peer: socket.socket | None = None
        self._listening = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            self._listening.bind(self.path)
        finally:
            os.umask(before)
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def connected(self) -> bool:
        """Does a process that launches kernels listen to commands?"""
        return self._peer is not None

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            if self._peer is None:
                self._peer = peer
                threading.Thread(target=self._read, args=(peer,), daemon=True).start()
            else:
                with contextlib.suppress(OSError):
                    peer.sendall(b"0\tdetach\n0\tgo\n")
                    peer.close()
                self._on_event({"event": "other"})

    def _read(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), peer.makefile("rb") as lines:
            for line in lines:
                found: Answer = json.loads(line)
                if "event" in found:
                    self._on_event(found)
                    continue
                with self._ready:
                    self._answers[found["reply"]] = found
                    self._ready.notify_all()
        with self._ready:
            self._peer = None
            self._ready.notify_all()
        self._on_event({"event": "gone"})

    def ask(self, *fields: object) -> Answer:
        """Send a command and wait for its answer.

        Raises:
            DeviceError: the emulator's words, or that nothing is there to answer.
        """
        with self._ready:
            peer = self._peer
            self._number += 1
            number = self._number
        if peer is None:
            raise DeviceError("no kernel has been launched yet, or the program has ended")
        words = [str(number), *map(str, fields)]
        for word in words:
            check_word(word)
        try:
            peer.sendall("\t".join(words).encode() + b"\n")
        except OSError as error:
            raise DeviceError(f"the program is gone: {error.strerror}") from None
        with self._ready:
            self._ready.wait_for(lambda: number in self._answers or self._peer is not peer, timeout=30)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise DeviceError("the program has ended, or does not answer")
        if "error" in answer:
            raise DeviceError(answer["error"])
        return answer

    def close(self) -> None:
        """Let the program go on without a debugger, and remove the socket."""
        peer, self._peer = self._peer, None
        for each in (peer, self._listening):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        shutil.rmtree(self._folder, ignore_errors=True)
