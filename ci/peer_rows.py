"""Read which test files of which project ``peers.py`` runs, and find the checkouts that the environment names."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT: Final = Path(__file__).resolve().parents[1]
TARGETS: Final = ("gfx942", "gfx950")


@dataclass(frozen=True)
class Project:
    """A project whose tests are run."""

    #: First part of its rows' names, "" for AITER, whose rows have no such part.
    key: str
    #: Its name on the page.
    name: str
    #: Environment variable that names its checkout. The same with ``_COMMIT`` for ``_DIR`` names the commit.
    variable: str
    #: Folder of the checkout that has the tests and their ``conftest.py``.
    folder: str
    #: The tests call AITER, so that ``AITER_DIR`` is needed as well.
    calls_aiter: bool = True

    def checkout(self) -> Path:
        """Return the folder that its variable names.

        Raises:
            SystemExit: the variable is not set, or the folder has no tests.
        """
        if self.variable not in os.environ:
            raise SystemExit(
                f"peers: set {self.variable} to a checkout of {self.name}, which has {self.folder}"
            )
        tree = Path(os.environ[self.variable]).resolve()
        if not (tree / self.folder).is_dir():
            raise SystemExit(
                f"peers: {tree} has no folder {self.folder}; set {self.variable} to a checkout of {self.name}"
            )
        return tree

    def commit(self) -> str:
        """Name the checkout: the variable of the commit, else git, else the folder's name."""
        named = os.environ.get(self.variable.replace("_DIR", "_COMMIT"))
        if named:
            return named
        tree = self.checkout()
        words = ["git", "-C", str(tree), "rev-parse", "HEAD"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout.strip()[:10] if done.returncode == 0 else tree.name

    def packages(self) -> list[str]:
        """Return the folder of packages that its tests need besides, if the variable with ``_PACKAGES`` names one."""
        return list(filter(None, [os.environ.get(self.variable.replace("_DIR", "_PACKAGES"))]))

    def title(self) -> str:
        """Name the checkout as the table does."""
        return f"{self.name} {self.commit()}" if self.key else self.commit()

    def source(self) -> dict[str, str]:
        """Return which project the table's rows are of, at which commit, and with which AITER."""
        found = {"project": self.name, "commit": self.commit()}
        return found | ({"aiter": AITER.commit()} if self.key and self.calls_aiter else {})


AITER: Final = Project("", "AITER", "AITER_DIR", "op_tests")


def settings() -> dict[str, Any]:
    """Read ``ci/peers.toml``."""
    return tomllib.loads((ROOT / "ci" / "peers.toml").read_text(encoding="utf-8"))


def others() -> dict[str, Any]:
    """Read ``ci/peer_projects.toml``."""
    return tomllib.loads((ROOT / "ci" / "peer_projects.toml").read_text(encoding="utf-8"))


def entries(kind: str) -> list[dict[str, Any]]:
    """Return the ``[[reclassified]]`` or ``[[explained]]`` entries of all projects."""
    return [*settings()[kind], *others().get(kind, [])]


def projects() -> dict[str, Project]:
    """Return all projects by their keys."""
    return {"": AITER} | {
        key: Project(key, each["name"], each["variable"], each["folder"], each["calls_aiter"])
        for key, each in others()["project"].items()
    }


def project_of(row: str) -> Project:
    """Return the project that a row is of."""
    return projects()[row.partition(":")[0] if ":" in row else ""]


def rows() -> dict[str, str]:
    """Read the arguments of each row, ``NAME.TARGET`` or ``PROJECT:NAME.TARGET``."""
    data = settings()
    found = {
        f"{name}.{target}": arguments
        for name, arguments in data["rows"].items()
        for target in data["targets"].get(name, TARGETS)
    }
    for key, each in others()["project"].items():
        found |= {
            f"{key}:{name}.{target}": arguments
            for name, arguments in each["rows"].items()
            for target in each.get("targets", {}).get(name, TARGETS)
        }
    return found


def file_of(row: str, known: dict[str, str]) -> str:
    """Return the file that a row runs, as a path in its checkout."""
    if ":" in row:
        return shlex.split(known[row])[0]
    return f"op_tests/test_{row.rpartition('.')[0].partition('-')[0]}.py"


def most_of(row: str) -> int:
    """Return the largest number of cases of one test function in a row; 0 for all."""
    key, _, name = row.rpartition(".")[0].rpartition(":")
    found: int = others()["project"][key].get("most", {}).get(name, 0) if key else 0
    return found


def arguments_of(row: str, tree: str, known: dict[str, str]) -> list[str]:
    """Return the arguments of a row on a checkout.

    It may name other options than the newest one. Another project's file is run by pytest without the project's own settings of
    pytest, and with the ``conftest.py`` files of its test folder alone.

    Args:
        row: name of the row, with its target.
        tree: commit of AITER's checkout.
        known: arguments of all rows.
    """
    if ":" in row:
        project = project_of(row)
        folder = project.checkout()
        only = ["-c", os.devnull, "--rootdir", str(folder), "--confcutdir", str(folder / project.folder)]
        return ["pytest", *only, *shlex.split(known[row])[1:]]
    own: dict[str, str] = settings()["other-arguments"].get(tree, {})
    return shlex.split(own.get(row.rpartition(".")[0], known[row]))


def chosen(names: list[str], known: dict[str, str]) -> list[str]:
    """Select the rows that a command names; without names all rows of the projects whose checkouts are named.

    Raises:
        SystemExit: there is no such row.
    """
    for name in names:
        if name not in known and f"{name}.gfx942" not in known and f"{name}.gfx950" not in known:
            raise SystemExit(f"peers: there is no row {name!r}; the rows are: {', '.join(known)}")
    if names:
        return [row for row in known if row in names or row.rpartition(".")[0] in names]
    present = {key for key, project in projects().items() if project.variable in os.environ}
    if not present:
        AITER.checkout()  # which says what to set
    return [row for row in known if project_of(row).key in present]
