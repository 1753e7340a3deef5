"""A fork while another thread makes the first access to a part of the package: the child works or is told, and never waits for
a module's lock that is held by a thread it does not have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"

#: `slow(name, seconds)`: the import of that module takes so long, with the locks of the modules around it held.
START = """
import importlib.abc, importlib.machinery, json, os, select, signal, sys, threading, time
import aiter_prebuilt
began = threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    '''While the module is executed: around a finder CPython holds its global lock, and a fork waits for that by itself.'''
    def __init__(self, name, wait):
        self.name, self.wait = name, wait
    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def slowly(module):
            began.set()
            self.wait()
            execute(module)
        spec.loader.exec_module = slowly
        return spec

def slow(name, seconds):
    sys.meta_path.insert(0, Slow(name, lambda: time.sleep(seconds)))

def in_child(work, seconds=8):
    '''What `work` gave in a fork, or how that failed; "hangs" when it does not end.'''
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = work()
        except BaseException as error:
            said = [type(error).__name__, str(error)]
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    if not select.select([reader], [], [], seconds)[0]:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return json.loads(os.read(reader, 4096) or b'"hangs"')
"""


def said(code: str, seconds: float = 60) -> list[Any]:
    """The lines of a process of its own, which is killed when it takes too long."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AITER_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        env=kept | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "module",
    ["aiter_prebuilt.ops.generated.softmax", "aiter_prebuilt.launch.dispatch", "aiter_prebuilt._native"],
)
def test_a_fork_lets_another_threads_first_access_finish(extension_path: Path, module: str) -> None:
    (child, parent) = said(
        f"""
        slow({module!r}, 0.5)
        thread = threading.Thread(target=lambda: aiter_prebuilt.softmax)
        thread.start()
        began.wait()
        print(json.dumps(in_child(lambda: aiter_prebuilt.softmax.__name__)))
        thread.join()
        print(json.dumps(aiter_prebuilt.softmax.__name__))
        """
    )
    assert (child, parent) == ("softmax", "softmax")


def test_many_forks_beside_first_accesses(extension_path: Path) -> None:
    """Four threads that access everything, one after the other, and a fork every few milliseconds."""
    answers = said(
        """
        names = [name for name in aiter_prebuilt.__all__ if name not in ("__version__", "tgemm")]  # these have no __name__
        def use(names):
            for name in names:
                getattr(aiter_prebuilt, name)
        threads = [threading.Thread(target=use, args=(names[place:] + names[:place],)) for place in range(0, 16, 4)]
        for thread in threads:
            thread.start()
        for place in range(24):
            print(json.dumps(in_child(lambda: [getattr(aiter_prebuilt, name).__name__ for name in names] == names)))
            time.sleep(0.002)
        for thread in threads:
            thread.join()
        """,
        120,
    )
    assert answers == [True] * 24


def test_a_fork_that_cannot_wait_longer_tells_the_child(extension_path: Path) -> None:
    """What the other thread imports waits for the one that forks: nobody can finish, and nobody hangs."""
    (forked, child, again, parent) = said(
        """
        from aiter_prebuilt import forks
        forks.PATIENCE = 0.3
        release = threading.Event()
        sys.meta_path.insert(0, Slow("aiter_prebuilt.ops.generated.softmax", release.wait))
        thread = threading.Thread(target=lambda: aiter_prebuilt.softmax)
        thread.start()
        began.wait()
        before = time.monotonic()
        answer = in_child(lambda: aiter_prebuilt.softmax.__name__)
        print(json.dumps(time.monotonic() - before < 5))
        print(json.dumps(answer))
        print(json.dumps(in_child(lambda: in_child(lambda: aiter_prebuilt.rms_norm.__name__))))
        release.set()
        thread.join()
        print(json.dumps(in_child(lambda: aiter_prebuilt.softmax.__name__)))
        """
    )
    assert forked is True and parent == "softmax"
    for kind, text in (child, again):
        assert kind == "ForkError" and "another thread of its parent was importing" in text
        assert "'spawn'" in text


def test_a_signals_handler_and_an_import_may_fork(extension_path: Path) -> None:
    """In the thread that is inside: it does not wait for itself."""
    answers = said(
        """
        from aiter_prebuilt import forks
        with forks.importing:
            print(json.dumps(in_child(lambda: aiter_prebuilt.softmax.__name__)))
        with forks.importing._lock:
            print(json.dumps(in_child(lambda: aiter_prebuilt.softmax.__name__)))
        def fork(number, frame):
            print(json.dumps(in_child(lambda: aiter_prebuilt.silu.__name__)))
        signal.signal(signal.SIGALRM, fork)
        slow("aiter_prebuilt.ops.generated.softmax", 0.4)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        aiter_prebuilt.softmax
        """
    )
    # The handler's child forks inside its own import of softmax: CPython knows the thread and lets it go on.
    assert answers == ["softmax", "softmax", "silu"]


def test_two_threads_fork_at_once(extension_path: Path) -> None:
    answers = said(
        """
        slow("aiter_prebuilt.ops.generated.softmax", 0.3)
        found = []
        def fork():
            found.append(in_child(lambda: aiter_prebuilt.softmax.__name__))
        threads = [threading.Thread(target=lambda: aiter_prebuilt.softmax)]
        threads += [threading.Thread(target=fork) for _ in range(3)]
        threads[0].start()
        began.wait()
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps(found))
        """
    )
    assert answers == [["softmax"] * 3]
