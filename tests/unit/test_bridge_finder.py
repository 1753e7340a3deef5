"""The finder among others, a bridge without its runtime, and a fork during a lookup."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiter_prebuilt_bridge import cache_data, flydsl_cache, triton_cache
from aiter_prebuilt_bridge_hook import VARIABLE

SOURCES = Path(__file__).resolve().parents[2] / "src"

#: Ways in which the finder meets another of its kind, or one that asks all finders, itself included.
MEETINGS = {
    "reloaded": "import importlib; importlib.reload(hook); hook.install()",
    "reloaded, and put there by hand": "import importlib; importlib.reload(hook); sys.meta_path.insert(0, hook.Finder())",
    "purged, and registered": "del sys.modules['aiter_prebuilt_bridge_hook']; "
    "from aiter_prebuilt_bridge import plugin; plugin.register()",
    "another asks all": "sys.meta_path.insert(0, Asking())",
    "another behind asks all": "sys.meta_path.append(Asking()); sys.meta_path.sort(key=lambda each: type(each) is not Asking); "
    "sys.meta_path.insert(0, sys.meta_path.pop(next(i for i, f in enumerate(sys.meta_path) if type(f).__name__ == 'Finder')))",
}
PROGRAM = """
import sys
import aiter_prebuilt_bridge_hook as hook


class Asking:
    def find_spec(self, name, path=None, target=None):
        if getattr(self, "busy", 0) > 20:
            raise RecursionError("it is asked again and again")
        self.busy = getattr(self, "busy", 0) + 1
        try:
            found = (f.find_spec(name, path, target) for f in sys.meta_path if f is not self)
            return next((each for each in found if each is not None), None)
        finally:
            self.busy -= 1


hook.install()
MEETING
import aiter.ops.one
from importlib.machinery import PathFinder
assert aiter.ops.one.value == 1 and hook.installed()
print(type(aiter.__spec__.loader).__name__, type(aiter.__spec__.loader._loader).__name__)
"""


def package(place: Path) -> Path:
    """A package ``aiter`` with a module that the bridge looks at."""
    (place / "aiter" / "ops").mkdir(parents=True)
    for name in ("__init__.py", "ops/__init__.py"):
        (place / "aiter" / name).write_text("")
    (place / "aiter" / "ops" / "one.py").write_text("value = 1\n")
    return place


def run(program: str, *path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": os.pathsep.join(map(str, path)), "PATH": os.environ["PATH"], **settings},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("meeting", MEETINGS)
def test_import_aiter_works_whatever_the_finder_meets(meeting: str, tmp_path: Path) -> None:
    done = run(PROGRAM.replace("MEETING", MEETINGS[meeting]), SOURCES, package(tmp_path))
    # Looked at once: its loader is around AITER's own.
    assert (done.returncode, done.stdout) == (0, "Executed SourceFileLoader\n"), done.stderr[-2000:]


@pytest.fixture
def without_runtime(tmp_path: Path) -> Path:
    """What ``pip uninstall aiter-prebuilt`` leaves."""
    for name in ("aiter_prebuilt_bridge", "aiter_prebuilt_bridge_hook.py"):
        copy = shutil.copytree if (SOURCES / name).is_dir() else shutil.copy
        copy(SOURCES / name, tmp_path / name)
    facts = tmp_path / "aiter_prebuilt_bridge-7.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: aiter-prebuilt-bridge\nVersion: 7.1\n")
    return package(tmp_path)


MEND = "Type: pip install aiter-prebuilt==7.1, or pip uninstall aiter-prebuilt-bridge"
IMPORTS = "import aiter_prebuilt_bridge_hook as hook; hook.install(); import aiter.ops.one; print(aiter.ops.one.value)"


def test_without_its_runtime_aiter_is_left_alone_and_one_line_says_the_mend(without_runtime: Path) -> None:
    done = run(IMPORTS, without_runtime)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert "No module named 'aiter_prebuilt'" in line and MEND in line
    late = "import aiter; from aiter_prebuilt_bridge import plugin; plugin.register(); import aiter.ops.one; print(1)"
    done = run(late, without_runtime)
    assert (done.stdout, done.stderr.count(MEND)) == ("1\n", 1) and len(done.stderr.splitlines()) == 1


def test_strict_is_an_error_that_says_the_mend(without_runtime: Path) -> None:
    done = run(IMPORTS, without_runtime, **{VARIABLE: "strict"})
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(
        "ImportError: Cannot import aiter: "
    )
    assert MEND in done.stderr.splitlines()[-1]


LOOKUPS: dict[str, Callable[[], object]] = {
    "data wheels": cache_data.installed,
    "Triton": triton_cache._entries,
    "FlyDSL": lambda: flydsl_cache._entries(None),
}


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_child_forked_during_a_lookup_looks_up_too(
    lookup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that was looking up is not in the child: it must hold nothing that the child waits for."""
    monkeypatch.setenv(cache_data.VARIABLE, "")
    parent, inside, go = os.getpid(), threading.Event(), threading.Event()
    folders = cache_data.folders

    def slow() -> tuple[Path, ...]:
        if os.getpid() == parent:
            inside.set()
            go.wait(20)
        return folders()

    monkeypatch.setattr(cache_data, "folders", slow)
    for module in (cache_data, triton_cache, flydsl_cache):
        module.forget()
    looking = threading.Thread(target=LOOKUPS[lookup])
    looking.start()
    assert inside.wait(20)
    child = os.fork()
    if not child:
        LOOKUPS[lookup]()
        os._exit(0)
    ended = (0, 0)
    for _ in range(100):
        ended = os.waitpid(child, os.WNOHANG)
        if ended[0]:
            break
        time.sleep(0.1)
    go.set()
    looking.join()
    if not ended[0]:
        os.kill(child, 9)
        os.waitpid(child, 0)
    for module in (cache_data, triton_cache, flydsl_cache):
        module.forget()
    assert ended == (child, 0), "the child waits for a thread that it does not have"
