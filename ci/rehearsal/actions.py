"""Do what each action of the workflow does, here and with files. Each says what of the real one is not seen."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rehearsal.workflow import Step, UnknownWordError


class StepFailedError(Exception):
    """A step of the workflow failed."""


@dataclass
class Machine:
    """One runner: a folder with a home, the checkout and a place for temporary files.

    ``environment``: of every later step. ``unseen``: what of the real runner is not here, for the report.
    """

    folder: Path
    repository: Path
    artifacts: Path
    environment: dict[str, str]
    python: str
    unseen: dict[str, None]
    log: Path
    work: Path = field(init=False)

    def __post_init__(self) -> None:
        self.work = self.folder / "work"
        for path in (self.work, self.folder / "home", self.folder / "temp"):
            path.mkdir(parents=True)

    def run(
        self, words: list[str], environment: dict[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        """Run a program as a runner does.

        Raises:
            StepFailedError: it ends with an error; the tail of what it printed is in the text.
        """
        with self.log.open("ab") as log:
            start = log.tell()
            done = subprocess.run(
                words, env=environment or self.environment, cwd=cwd or self.work, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        if done.returncode:
            told = self.log.read_bytes()[start:].decode(errors="replace").splitlines()
            raise StepFailedError("\n".join([f"exit code {done.returncode}", *told[-25:]]))


def checkout(machine: Machine, step: Step) -> None:
    """Clone the commit that is checked out here, under the ref of the run; what is not committed is not in it."""
    del step
    machine.run(["git", "clone", "-q", "--depth=1", machine.repository.as_uri(), "."])
    if ref := machine.environment.get("GITHUB_REF"):
        machine.run(["git", "update-ref", ref, "HEAD"])


def setup_python(machine: Machine, step: Step) -> None:
    """Make an environment of the Python that the step names, or of ``--python``'s, and put it first on the path."""
    wanted = machine.python or step.given["python-version"]
    if machine.python not in ("", step.given["python-version"]):
        machine.unseen[f"Python {step.given['python-version']}: {machine.python} ran in its place"] = None
    place = machine.folder / "python"
    machine.run([_interpreter(wanted), "-m", "venv", str(place)])
    machine.environment["PATH"] = f"{place / 'bin'}{os.pathsep}{machine.environment['PATH']}"


def upload_artifact(machine: Machine, step: Step) -> None:
    """Copy what the step names to the place of artifacts, without hidden files unless it asks for them.

    Raises:
        StepFailedError: there is no such file, and the step calls that an error.
    """
    target = machine.artifacts / step.given["name"]
    hidden = step.given.get("include-hidden-files") == "true"
    found = _matching(machine.work, step.given["path"], hidden)
    if not found and step.given.get("if-no-files-found") == "error":
        raise StepFailedError(f"no file matches {step.given['path']}")
    for path, name in found:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        link(path, target / name)


def download_artifact(machine: Machine, step: Step) -> None:
    """Copy artifacts of earlier jobs into the step's folder; those of a pattern are laid over each other.

    Raises:
        StepFailedError: there is no such artifact.
    """
    pattern = step.given.get("pattern") or step.given["name"]
    if "pattern" in step.given and step.given.get("merge-multiple") != "true":
        raise UnknownWordError("download-artifact with a pattern is known here with merge-multiple alone")
    found = sorted(path for path in machine.artifacts.glob("*") if fnmatch.fnmatch(path.name, pattern))
    if not found:
        raise StepFailedError(f"no artifact matches {pattern}")
    for artifact in found:
        for path in sorted(each for each in artifact.rglob("*") if each.is_file()):
            target = machine.work / step.given["path"] / path.relative_to(artifact)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                link(path, target)


def attest(machine: Machine, step: Step) -> None:
    """See that there is what would be attested. Sigstore wants the identity of GitHub's own run."""
    if not _matching(machine.work, step.given["subject-path"], hidden=False):
        raise StepFailedError(f"no file matches {step.given['subject-path']}")
    machine.unseen["the attestation: Sigstore signs for a run of GitHub's alone"] = None


def publish(machine: Machine, step: Step) -> None:
    """See that the folder holds wheels and nothing else, which is what PyPI takes."""
    names = sorted(path.name for path in (machine.work / step.given["packages-dir"]).iterdir())
    odd = [name for name in names if not name.endswith(".whl")]
    if odd or not names:
        raise StepFailedError(f"PyPI takes wheels; the folder has {', '.join(odd) or 'none'}")
    machine.unseen["the upload to PyPI: it trusts a run of GitHub's alone"] = None


#: By the action's name. cibuildwheel's is in ``image.py``.
ACTIONS: Final[dict[str, Callable[[Machine, Step], None]]] = {
    "actions/checkout": checkout,
    "actions/setup-python": setup_python,
    "actions/upload-artifact": upload_artifact,
    "actions/download-artifact": download_artifact,
    "actions/attest-build-provenance": attest,
    "pypa/gh-action-pypi-publish": publish,
}


def link(path: Path, target: Path) -> None:
    """Give a file a second name, or copy it where another disk has the target."""
    try:
        os.link(path, target)
    except OSError:
        shutil.copy2(path, target)


def _matching(folder: Path, pattern: str, hidden: bool) -> list[tuple[Path, Path]]:
    """Files that a pattern names, each with its name in the artifact: what is fixed of the pattern is left out."""
    fixed = pattern.split("*", 1)[0].rpartition("/")[0] if "*" in pattern else pattern
    base = folder / fixed
    paths = [base] if base.is_file() else sorted(base.rglob("*"))
    found = []
    for path in paths:
        name = path.relative_to(base.parent if base.is_file() else base)
        shown = hidden or not any(part.startswith(".") for part in name.parts)
        chosen = "*" not in pattern or fnmatch.fnmatch(str(path.relative_to(folder)), pattern)
        if path.is_file() and shown and chosen:
            found.append((path, name))
    return found


def _interpreter(version: str) -> str:
    """Find a Python by its version: on the path, or of pyenv, whose names on the path need the home of who installed it."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return sys.executable
    places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    found = [str(path) for path in places] + [name for name in [shutil.which(f"python{version}")] if name]
    if not found:
        raise StepFailedError(f"Python {version} is not here: name another one with --python")
    return found[0]
