"""The only caller of ``subprocess``: argument lists, a controlled environment, a timeout, captured output. :func:`run` waits
for a child's end, :func:`converse` talks to one; :func:`watched` says what memory and time of a core a thread's children took.

Each child leads a process group of its own, so that ending it ends what it started (a compiler driver starts a
linker). :func:`kill_all` is what Ctrl-C does; until :func:`allow` nothing new starts, so that a thread whose child it ended
does not go on with the next one. :func:`guarded` ends a child for what it does, :func:`tie` those of a process that was killed
itself. Nothing here raises for a failing child: an :class:`Outcome` is a value.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

TAIL_BYTES: Final = 12_000
NOT_STARTED: Final = 127
TIMED_OUT: Final = 124
GUARDED: Final = 125
STOPPED: Final = 130

# What a child may inherit. Everything else could change a compiler's output (CPATH, TRITON_*, LLVM_*, HIPCC_*, ...).
_INHERITED: Final = ("HOME", "PATH", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME")
FIXED: Final = {
    "LC_ALL": "C",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
}

#: Linux counts memory in KiB, macOS in bytes.
_MAXRSS: Final = 1 if sys.platform == "darwin" else 1024
#: Seconds between two looks at a child, where the system cannot tell of its end.
_LOOK: Final = 0.02
#: Seconds between two looks of who guards a child.
_GUARD: Final = 0.1

_lock = threading.Lock()
_thread = threading.local()
_running: set[subprocess.Popen[bytes]] = set()
_stopping = threading.Event()  # set and read under _lock
_before: list[str] = []  # the words before every command: of one program, which starts it


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a child process.

    ``exit_code``: negative for a signal, 124 for the timeout, 125 when its guard ended it, 127 when it could not be started, 130
    when it was not started because of :func:`kill_all`. ``output``: the last bytes of stdout and stderr together, as text.
    """

    argv: tuple[str, ...]
    exit_code: int
    output: str
    seconds: float

    @property
    def ok(self) -> bool:
        """True when the child ended with 0."""
        return self.exit_code == 0

    @property
    def command(self) -> str:
        """The command as it can be typed in a shell."""
        return shlex.join(self.argv)

    def describe(self) -> str:
        """``exit code 1``, ``signal SIGSEGV``, ``still running after its time limit``, ``could not be started``, .."""
        if self.exit_code < 0:
            with suppress(ValueError):
                return f"ended by signal {signal.Signals(-self.exit_code).name}"
        return {
            TIMED_OUT: "was still running after its time limit",
            GUARDED: "was ended by what watches over it",
            NOT_STARTED: "could not be started",
            STOPPED: "was not started, since the build is being interrupted",
        }.get(self.exit_code, f"exit code {self.exit_code}")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Build the environment of a child.

    The few inherited names, the fixed ones, then ``extra``.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # What Python compiles is kept where this process was told to keep it, away from the sources, or nowhere.
    place = sys.pycache_prefix
    kept = {"PYTHONPYCACHEPREFIX": place, "PYTHONDONTWRITEBYTECODE": ""} if place else {}
    return inherited | FIXED | kept | dict(extra or {})


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 900.0,
    tail: int = TAIL_BYTES,
) -> Outcome:
    """Run one child to its end. ``env`` is added to :func:`environment`; ``timeout`` in seconds; ``tail``: bytes of output."""
    words = tuple(str(word) for word in argv)
    if (noted := getattr(_thread, "commands", None)) is not None:
        noted.append(Command(words, cwd, dict(env or {})))
    started = time.monotonic()
    # A file and not a pipe: a grandchild that keeps the pipe open could block the reader for ever.
    with tempfile.TemporaryFile() as log:
        try:
            process = _start(words, cwd, environment(env), log)
        except OSError as error:
            return Outcome(words, NOT_STARTED, str(error), time.monotonic() - started)
        if process is None:
            return Outcome(words, STOPPED, "", time.monotonic() - started)
        exit_code = _wait(process, timeout)
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - tail))
        output = log.read().decode("utf-8", "replace")
    return Outcome(words, exit_code, output, time.monotonic() - started)


@dataclass(slots=True)
class Conversation:
    """A child that answers each message with one line. ``answered`` counts; it ends when its input is closed."""

    _process: subprocess.Popen[bytes] | None
    _log: IO[bytes]
    _trouble: str = ""
    answered: int = 0

    def ask(self, message: bytes) -> str | None:
        """Send a message and return the line that answers.

        None when the child has ended, or was ended: :meth:`last_words` then says more.
        """
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return None
        try:
            self._process.stdin.write(message)
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            return None
        if not line.endswith(b"\n"):
            return None
        self.answered += 1
        return line.decode("utf-8", "replace")

    @property
    def running(self) -> bool:
        """Has the child not ended yet?"""
        if self._process is None or self._process.returncode is not None:
            return False
        # Not taken away: that is for who waits for it.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def last_words(self) -> str:
        """Return the end of the child's standard error.

        Or the reason why it was not started.
        """
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - TAIL_BYTES))
        return (self._log.read().decode("utf-8", "replace").strip() or self._trouble).strip()


@contextmanager
def converse(
    argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Conversation]:
    """Start a child to talk to while the context lasts.

    It ends with the context, whatever it is doing.
    """
    words = tuple(str(word) for word in argv)
    with tempfile.TemporaryFile() as log:
        try:
            process = _start(words, cwd, environment(env), log, talks=True)
        except OSError as error:
            yield Conversation(None, log, str(error))
            return
        if process is None:
            yield Conversation(None, log, "it was not started, since everything is being interrupted")
            return
        try:
            yield Conversation(process, log)
        finally:
            _kill(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what could not be written any more
                        pipe.close()
            _wait(process, None)


@dataclass(slots=True)
class Watch:
    """Resources of all children that ended, and of their children.

    ``peak``: bytes of memory of the largest process; ``cpu``: seconds that a core was busy. No child is smaller than its parent
    at the fork: the system counts a process's memory from there.
    """

    peak: int = 0
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Command:
    """One call of :func:`run`: its words, folder and added variables."""

    argv: tuple[str, ...]
    cwd: Path | None
    env: Mapping[str, str]


@contextmanager
def commands() -> Iterator[list[Command]]:
    """Note the commands that this thread runs while the context lasts."""
    before = getattr(_thread, "commands", None)
    noted: list[Command] = []
    _thread.commands = noted
    try:
        yield noted
    finally:
        _thread.commands = before


@contextmanager
def watched() -> Iterator[Watch]:
    """Watches the children that this thread runs, for as long as the context lasts."""
    before, watch = getattr(_thread, "watch", None), Watch()
    _thread.watch = watch
    try:
        yield watch
    finally:
        _thread.watch = before
        if before is not None:
            before.peak = max(before.peak, watch.peak)
            before.cpu += watch.cpu


@contextmanager
def guarded(look: Callable[[int], bool]) -> Iterator[None]:
    """While the context lasts, ``look`` is asked again and again of the process group of each child that this thread runs; True
    ends all of it.
    """
    before = getattr(_thread, "look", None)
    _thread.look = look
    try:
        yield
    finally:
        _thread.look = before


def tie(program: Path | None) -> None:
    """From now on ``program`` starts every child of this process and ends with it, its whole group, too, when this process is
    killed (``farm/leash.c``); None: no program does.
    """
    _before[:] = [] if program is None else [str(program), str(os.getpid())]


def kill_all() -> None:
    """End every child that is still running, with all that it started, and start no other one until :func:`allow`."""
    with _lock:
        _stopping.set()
        for process in _running:
            _kill(process)


def stopping() -> bool:
    """Has :func:`kill_all` ended what ran? What a thread found since then says nothing of its work."""
    return _stopping.is_set()


def allow() -> None:
    """Let children start again, once the threads that :func:`kill_all` was meant for have ended."""
    with _lock:
        _stopping.clear()


def _start(
    words: tuple[str, ...], cwd: Path | None, env: Mapping[str, str], log: IO[bytes], *, talks: bool = False
) -> subprocess.Popen[bytes] | None:
    # Started and registered under one lock: kill_all sees the child, or the child is not started.
    with _lock:
        if _stopping.is_set():
            return None
        process = subprocess.Popen(
            (*_before, *words), cwd=cwd, env=env, stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else log, stderr=log, start_new_session=True,
        )  # fmt: skip
        _running.add(process)
        return process


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> int:
    look: Callable[[int], bool] | None = getattr(_thread, "look", None)
    try:
        ended = _ended(process, timeout, look)
        if ended is not None:
            _kill(process)
            _ended(process, None, None)
    except BaseException:
        _kill(process)
        _ended(process, None, None)
        raise
    else:
        return process.returncode if ended is None else ended
    finally:
        with _lock:
            _running.discard(process)


def _ended(
    process: subprocess.Popen[bytes], timeout: float | None, look: Callable[[int], bool] | None
) -> int | None:
    """Wait for a process and collect its resources.

    ``Popen.wait`` does not report these. When time is up, or its guard wants it ended, the result is :class:`Outcome`'s code for
    that.
    """
    if process.returncode is not None:
        return None
    pause = 1.0 if look is None else _GUARD
    until = None if timeout is None else time.monotonic() + timeout
    with _told_of(process.pid) as tell:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            left = pause if until is None else min(pause, until - time.monotonic())
            if left <= 0:
                return TIMED_OUT
            tell(left)
            if look is not None and look(process.pid):
                return GUARDED
    process.returncode = os.waitstatus_to_exitcode(status)
    watch: Watch | None = getattr(_thread, "watch", None)
    if watch is not None:
        watch.peak = max(watch.peak, usage.ru_maxrss * _MAXRSS)
        watch.cpu += usage.ru_utime + usage.ru_stime
    return None


@contextmanager
def _told_of(pid: int) -> Iterator[Callable[[float], object]]:
    """Yield a function that waits for the process or a time.

    It returns at once when the process ends where it has a descriptor (Linux).
    """
    try:
        place = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield lambda left: time.sleep(min(left, _LOOK))
        return
    try:
        poll = select.poll()
        poll.register(place, select.POLLIN)
        yield lambda left: poll.poll(left * 1000)
    finally:
        os.close(place)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
