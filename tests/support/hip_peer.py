"""Processes that make HIP calls as a test tells them, several at once: sharing memory needs more than one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from support.emulator import library_path

if TYPE_CHECKING:
    from typing_extensions import Self

_PROGRAM: Final = Path(__file__).with_name("hip_peer_program.py")


class HipPeer:
    """A process with the embedded device. ``ask`` is a call and its answer; ``tell`` and ``answer`` are the halves."""

    def __init__(self, devices: str = "gfx942", **environment: str) -> None:
        settings = {"LOG": "error", "CHECKS": "none"} | {
            key.upper(): value for key, value in environment.items()
        }
        variables = {f"AITER_PREBUILT_EMULATOR_{key}": value for key, value in settings.items()}
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT_EMULATOR")
        }
        self._log = tempfile.TemporaryFile(mode="w+", encoding="utf-8")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(library_path())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env=kept | variables | {"AITER_PREBUILT_EMULATOR": devices},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def number(self) -> int:
        """The number of the process."""
        return self._process.pid

    def tell(self, name: str, *arguments: Any) -> None:
        """Begins a call."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Return the answer of the call in flight.

        It fails when the process is gone.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"exit {self._process.wait()}\n{self.log()}"
        return json.loads(line)

    def ask(self, name: str, *arguments: Any) -> Any:
        """A call and its answer."""
        self.tell(name, *arguments)
        return self.answer()

    def memory(self, contents: bytes) -> int:
        """Device memory with these bytes."""
        status, address = self.ask("make", "hipMalloc", len(contents))
        assert status == 0 and self.ask("write", address, contents.hex()) == 0
        return int(address)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of device memory."""
        status, text = self.ask("read", address, size)
        assert status == 0, self.log()
        return bytes.fromhex(text)

    def export(self, address: int) -> str:
        """The handle of memory, as hexadecimal digits."""
        status, text = self.ask("handle", "hipIpcGetMemHandle", address)
        assert status == 0, self.log()
        return str(text)

    def open(self, handle: str, flags: int = 1) -> tuple[int, int]:
        """HIP's code and the address."""
        status, address = self.ask("open", "hipIpcOpenMemHandle", handle, flags)
        return int(status), int(address)

    def map(self, handle: str) -> int:
        """The address of memory that must open."""
        status, address = self.open(handle)
        assert status == 0, self.log()
        return address

    def log(self) -> str:
        """Return the process's standard error so far."""
        self._log.seek(0)
        return self._log.read()

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._log.close()
