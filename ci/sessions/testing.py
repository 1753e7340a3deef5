"""Run the tests: all of them, or what an edit asks for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

from sessions.environment import (
    BUILD,
    build_tools,
    install,
    install_torch,
    locks,
    run,
    shared,
)

TESTED = BUILD / "tested"
#: A file's tests stay in one process, because they share what it made; tests/conftest.py has the order. Each process has its own
#: torch: about 0.5 GB.
PROCESSES = ("--numprocesses=auto", "--maxprocesses=8", "--dist=loadfile", "--no-loadscope-reorder")
#: Where the pipeline keeps what it fetched and zig its compiled C++ library; the tests' own compiles use it too.
CACHE = Path(
    os.environ.get("AITER_PREBUILT_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aiter-prebuilt"
)


@shared
def tests(session: nox.Session) -> None:
    """Compile everything, pack it, and run all tests: unit, native, build, dist, emulator, gpu (skipped without a GPU)."""
    install(session, *locks("test", "clients", "aiter", "lock"))
    install_torch(session)
    # A folder of its own: dist may hold wheels of another time.
    dist = str(TESTED / "dist")
    shutil.rmtree(TESTED, ignore_errors=True)
    build_tools(session, "build", "--host", "--ck", "sample")
    build_tools(session, "wheels", "--output", dist)
    run(session, "python", "-m", "build_tools.pack.runtime_wheel", "--unpack", dist)
    environment = {
        "AITER_PREBUILT_DIST": dist,
        "AITER_PREBUILT_RAN": str(BUILD / "ran.json"),
        "ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig"),
    }
    run(session, "python", "-m", "pytest", "-q", *PROCESSES, *session.posargs, env=environment)


@shared
def quick(session: nox.Session) -> None:
    """Check an edit in about two minutes of one core: ruff, changed test files, and the fastest of the others.

    The first run compiles the native extension and the emulator, too.
    """
    install(session, *locks("lint", "test"))
    install_torch(session)
    build_tools(session, "develop")
    run(session, "ruff", "check", ".")
    changed = str(session.run("git", "diff", "--name-only", "HEAD", external=True, silent=True)).split()
    chosen = str(run(session, "python", "tests/support/seconds.py", *changed, silent=True)).split()
    run(session, "python", "-m", "pytest", "-q", *PROCESSES, *chosen)
