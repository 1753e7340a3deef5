"""Compile, prove and pack."""

from __future__ import annotations

import os
from pathlib import Path

import nox

from sessions.environment import (
    BUILD,
    DIST,
    build_tools,
    install,
    install_for,
    install_torch,
    locks,
    run,
    shared,
)


@shared
def wheels(session: nox.Session) -> None:
    """Write all wheels, and a record of what they hold, to ``dist`` (``-- --stored-only``: compile nothing).

    With torch AITER's functions are called whose kernels the bridge's data wheels hold.
    """
    install_torch(session)
    install_for(session)
    build_tools(session, "build", "--host", *session.posargs)
    build_tools(session, "wheels", "--output", str(DIST))
    build_tools(session, "release", "record", str(DIST))


@shared
def compile(session: nox.Session) -> None:
    """Compile a part of the jobs into build/store, for CI: ``-- --target T --profile P --shard I/N``."""
    install_for(session)
    build_tools(session, "build", *session.posargs)


@shared
def prove(session: nox.Session) -> None:
    """Execute what was built and has no receipt on the emulator: manifests/<family>/receipts.json (``-- --all``: all)."""
    build_tools(session, "build")
    build_tools(session, "develop")
    build_tools(session, "prove", *session.posargs)
    build_tools(session, "build")


@shared
def edition(session: nox.Session) -> None:
    """Build with AITER of August 2026 as well (``-- 2026-08``), into build/edition, and execute what of it has no receipt.

    git fetches the commit, unless AITER_2026_08_DIR names a copy.
    """
    (name,) = session.posargs or ("2026-08",)
    environment = {"AITER_PREBUILT_EDITIONS": name}
    if not os.environ.get(f"AITER_{name.replace('-', '_')}_DIR"):
        build_tools(session, "fetch", "--edition", name)
    bundles = ("--bundles", str(BUILD / "edition" / "bundles"))
    build_tools(session, "build", "--ck", "sample", *bundles, env=environment)
    build_tools(session, "develop")
    build_tools(session, "prove", *bundles, env=environment)
    for kind in ("adopted", "tuned"):
        build_tools(session, "report", kind, env=environment)


@shared
def reproduce(session: nox.Session) -> None:
    """Compile the runtime's and the emulator's wheels in two folders each, and compare the bytes.

    Then pip builds a wheel of a commit.
    """
    install(session, *locks("test"))
    files = ("tests/dist/test_two_builds.py", "tests/dist/test_source_install.py")
    run(session, "python", "-m", "pytest", "-q", "-m", "reproduce", *files)


@shared
def same_runtime(session: nox.Session) -> None:
    """Compare the runtime wheels of two builders, each in a folder: ``-- dist wheelhouse``."""
    wheels = [sorted(Path(folder).glob("aiter_prebuilt-*.whl")) for folder in session.posargs]
    if len(wheels) != 2 or any(len(each) != 1 for each in wheels):
        session.error("name two folders with one runtime wheel each: -- dist wheelhouse")
    build_tools(session, "same-runtime", *(str(each[0]) for each in wheels))
