"""The first request behind ``preload``: no module is loaded, no program started, no file opened or read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from native.conftest import compile_c, native_sources
from support.emulator import bundles

from promises.conftest import ROOT, environment
from promises.first_request import BEGINS, ENDS

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

MODELS = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")
#: What is loaded ahead, by target: all, or what stands behind the names of the functions that the layer calls.
AHEAD = {"gfx942": "names", "gfx950": "all"}
#: What opens, reads or maps a file, starts a program or a process, or talks to another.
CALLS = (
    "open", "openat", "openat2", "creat", "read", "pread64", "readv", "preadv", "preadv2", "mmap", "execve", "execveat", "fork",
    "vfork", "clone", "clone3", "socket", "connect", "getdents64", "io_uring_setup", "memfd_create",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """What the program said, and the system calls between its marks."""

    said: dict[str, int]
    calls: list[str]


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Torch's tensors on the processor as those of a GPU."""
    folder = tmp_path_factory.mktemp("exchange")
    include = f"-I{native_sources()['APB_DLPACK_INCLUDE']}"
    return compile_c("../../benchmarks/rebadge.c", folder / "librebadge.so", include)


def request(stub: Path, exchange: Path, folder: Path, model: str, target: str, what: str) -> Ended:
    """A prefill and a decode of one layer behind ``preload`` of ``what``, traced with all its threads."""
    log = folder / "trace"
    files = [*bundles(target, "ck-free"), *bundles(target, "ck-full")]
    variables = environment(
        ROOT / "src", AITER_PREBUILT_HIP=str(stub),
        AITER_PREBUILT_BUNDLES=os.pathsep.join(dict.fromkeys(map(str, files))),
    )  # fmt: skip
    traced = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(log),
        "-e",
        f"trace={','.join((*CALLS, 'access', 'faccessat'))}",
    ]
    words = [sys.executable, "-m", "promises.first_request", str(stub), str(exchange), model, target, what]
    done = subprocess.run(
        [*traced, *words], env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    if "ptrace" in done.stderr and not (log.exists() and log.read_text()):
        pytest.skip(f"this machine lets nobody trace: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return Ended(json.loads(done.stdout.splitlines()[-1]), between_marks(log.read_text(errors="replace")))


def between_marks(trace: str) -> list[str]:
    """The calls between the marks, which must be there, but for memory that belongs to no file."""
    lines = trace.splitlines()
    begin, end = (next(place for place, line in enumerate(lines) if mark in line) for mark in (BEGINS, ENDS))
    return [line for line in lines[begin + 1 : end] if not ("mmap(" in line and "MAP_ANONYMOUS" in line)]


@pytest.mark.parametrize("target", AHEAD)
@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_loaded_or_read_behind_preload(
    stub_path: Path, exchange: Path, tmp_path: Path, model: str, target: str
) -> None:
    """A prefill and a decode: not one call of the list, and no module."""
    ended = request(stub_path, exchange, tmp_path, model, target, AHEAD[target])
    assert ended.said["launches"] >= 10 and ended.said["before"] > 0
    assert ended.said["loads"] == 0 and not ended.calls, ended.calls[:5]


@pytest.mark.parametrize("model", MODELS)
def test_without_preload_the_trace_shows_it(
    stub_path: Path, exchange: Path, tmp_path: Path, model: str
) -> None:
    """What the test above relies on: the same request loads modules, opens the bundle and reads it."""
    ended = request(stub_path, exchange, tmp_path, model, "gfx950", "nothing")
    assert ended.said["loads"] > 0 and ended.said["before"] == 0
    assert any(".apb" in call for call in ended.calls) and any("read(" in call for call in ended.calls)
    assert any("operators" in call or ".py" in call for call in ended.calls), (
        "a function is imported at its first use"
    )
