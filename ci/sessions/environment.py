"""Make the environment that nearly all sessions share, and run programs in it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
DIST = ROOT / "dist"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
#: Not in its lock, which has what it needs: its CPU build comes from an index of its own.
(TORCH,) = nox.project.dependency_groups(PROJECT, "torch")
EXTRAS = "gfx942,gfx950,gfx942-ck,gfx950-ck,emulator"
#: Triton has no wheel for CPython 3.10. What is built serves 3.10; only the machine that builds needs a later one.
OLDEST_BUILD_PYTHON = (3, 11)
LATER_PYTHONS = ("3.14", "3.13", "3.12", "3.11")
#: What Python compiled is kept below ``build``, for every child of a session and away from the sources.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT / "src"),
    "PYTHONPYCACHEPREFIX": str(BUILD / "pycache"),
    "PYTHONDONTWRITEBYTECODE": None,
}
#: The session, and folder, whose environment all others run in: a toolchain of gigabytes is unpacked once. nox adds the version
#: of an interpreter to the folder only where a session has several.
TOOLCHAIN = "toolchain"


def build_python() -> str | None:
    """Find the interpreter of sessions that compile.

    This one, or a later one that is installed. None is this one.
    """
    if sys.version_info >= OLDEST_BUILD_PYTHON:
        return None
    return next((version for version in LATER_PYTHONS if shutil.which(f"python{version}")), None)


def locks(*groups: str) -> list[str]:
    """List pip's words for all packages of dependency groups of ``pyproject.toml``, by the hashes of their locks."""
    files = [word for name in groups for word in ("-r", f"build_tools/locks/{name}.txt")]
    return ["--no-deps", "--require-hashes", *files]


def shared(function: Callable[[nox.Session], None]) -> object:
    """Make a session of the environment of :func:`toolchain`.

    nox makes that before it.
    """
    return nox.session(venv_backend="none", requires=[TOOLCHAIN])(function)


def folder_of(session: nox.Session) -> Path:
    """Return the programs of the shared environment."""
    return Path(session.cache_dir).resolve().parent / TOOLCHAIN / "bin"


def install_for(session: nox.Session) -> None:
    """Install the packages of a build on a farm or shared store."""
    if any(word.startswith(("--farm", "--shared")) for word in session.posargs):
        install(session, *locks("farm", "release"))


def run(session: nox.Session, program: str, *words: str, **options: Any) -> Any:
    """Run a program of the shared environment, with ``src`` to import from unless ``env`` says otherwise.

    Returns:
        What it prints, if ``silent``.
    """
    folder = folder_of(session)
    environment = {
        **ENVIRONMENT,
        **options.pop("env", {}),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }
    return session.run(str(folder / program), *words, env=environment, **options)


def install(session: nox.Session, *words: str) -> None:
    """Install into the shared environment. pip need not compile it: a third of the time, and most is never imported."""
    run(session, "python", "-m", "pip", "install", "-q", "--no-compile", *words)


def install_torch(session: nox.Session, *, needed: bool = True) -> str:
    """Install the CPU build of torch.

    The reference functions of the tests use it; never gigabytes of CUDA libraries.

    Args:
        session: ends with an error if torch is needed and pip has no CPU build.
        needed: False goes on without it.

    Returns:
        Why it is not installed; empty when it is.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = ("-m", "pip", "install", "-q", "--dry-run", "--report", str(report), TORCH)
        run(session, "python", *words, success_codes=[0] if needed else [0, 1], silent=not needed)
        found = json.loads(report.read_text())["install"] if report.is_file() else None
    cuda = sorted(
        name for row in found or () if (name := row["metadata"]["name"]).startswith(("nvidia-", "cuda-"))
    )
    if found is not None and not cuda:
        install(session, *locks("torch"))
        install(session, "--no-deps", TORCH)
        return ""
    offered = (
        f"pip would install the CUDA build of {TORCH} with {', '.join(cuda[:3])}, ..."
        if cuda
        else f"pip finds no {TORCH}"
    )
    why = (
        f"{offered}; the CPU build is needed. Point pip at PyTorch's CPU index (pytorch.org, Get Started, CPU), for example "
        "with PIP_EXTRA_INDEX_URL, or at a folder with the wheel, with PIP_FIND_LINKS"
    )
    if needed:
        session.error(why)
    return why


def build_tools(session: nox.Session, *words: str, **options: Any) -> None:
    """Run one verb of the pipeline; ``options``: as those of :func:`run`."""
    run(session, "python", "-m", "build_tools", *words, **options)


@nox.session(python=build_python(), default=False)
def toolchain(session: nox.Session) -> None:
    """Make the environment of all sessions below.

    The hermetic toolchain (pinned with hashes) and the packages that the pipeline imports.
    """
    if sys.version_info < OLDEST_BUILD_PYTHON and build_python() is None:
        session.error(
            "building needs Python 3.11 or later (Triton has no wheel for 3.10); the wheels made then serve 3.10 too"
        )
    session.install("--no-compile", *locks("build"), "-r", "build_tools/requirements.txt")
