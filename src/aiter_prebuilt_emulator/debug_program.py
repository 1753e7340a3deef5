"""The program that is debugged: started in a session of its own, and ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

_PATIENCE: Final = 3.0


class Program:
    """A child whose output goes to ``on_output`` (or to the terminal, when there is none), and whose end to ``on_exit``."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        on_exit: Callable[[int], None],
        on_output: Callable[[str, str], None] | None = None,
        folder: str | None = None,
    ) -> None:
        where = subprocess.PIPE if on_output else None
        try:
            # A session of its own: Ctrl-C in the debugger's terminal is the debugger's.
            self._child = subprocess.Popen(
                list(command), env=dict(environment), stdin=subprocess.DEVNULL, stdout=where, stderr=where,
                start_new_session=True, cwd=folder,
            )  # fmt: skip
        except OSError as error:
            raise OSError(f"cannot run {command[0]}: {error.strerror}") from None
        self.process = self._child.pid
        readers = []
        if on_output:
            for category, stream in (("stdout", self._child.stdout), ("stderr", self._child.stderr)):
                assert stream is not None
                readers.append(
                    threading.Thread(target=self._copy, args=(category, stream, on_output), daemon=True)
                )
        for reader in readers:
            reader.start()
        threading.Thread(target=self._wait, args=(readers, on_exit), daemon=True).start()

    @staticmethod
    def _copy(category: str, stream: IO[bytes], on_output: Callable[[str, str], None]) -> None:
        while part := os.read(stream.fileno(), 65536):
            on_output(category, part.decode(errors="replace"))

    def _wait(self, readers: Sequence[threading.Thread], on_exit: Callable[[int], None]) -> None:
        code = self._child.wait()
        for reader in readers:
            reader.join(_PATIENCE)  # a child of the child may hold the pipe
        on_exit(code)

    def wait(self) -> None:
        """Until it has ended by itself."""
        self._child.wait()

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._signal(signal.SIGINT)

    def end(self) -> None:
        """Terminate it and all of its session; nothing is left when this returns."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_PATIENCE)
                break
        self._signal(signal.SIGKILL)  # what it has started

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process, number)
