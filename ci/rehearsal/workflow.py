"""A workflow file as records, and the few expressions of GitHub's that it may use.

What is not known here is an error that names it: a rehearsal that passes over a word would prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

Context = Mapping[str, Mapping[str, str]]

_EXPRESSION: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_PLACE: Final = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)+")
_STEP: Final = {"uses", "run", "with", "env", "name"}
_JOB: Final = {
    "name", "runs-on", "timeout-minutes", "steps", "needs", "if", "strategy", "environment", "permissions", "env",
}  # fmt: skip


class UnknownWordError(Exception):
    """The workflow says something that a rehearsal does not know."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``run`` is its script, or ``uses`` the action without its commit."""

    run: str
    uses: str
    given: dict[str, str]
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Job:
    """One job. ``rows``: of its matrix, one empty row where it has none; ``minutes``: its limit."""

    name: str
    needs: tuple[str, ...]
    condition: str
    environment: dict[str, str]
    rows: tuple[dict[str, str], ...]
    minutes: float
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Workflow:
    """Jobs in an order in which each stands behind those that it needs."""

    environment: dict[str, str]
    jobs: tuple[Job, ...]


def read(path: Path) -> Workflow:
    """Read a workflow file.

    Raises:
        UnknownWordError: a job or step has a key that is not known here, or needs a job that there is not.
    """
    table = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    jobs = [_job(name, row) for name, row in table["jobs"].items()]
    return Workflow(_words(table.get("env")), tuple(_ordered(jobs)))


def value(text: str, context: Context) -> str:
    """Return ``text`` with its expressions replaced.

    Raises:
        UnknownWordError: an expression is none of those known here, or names something that there is not.
    """
    return _EXPRESSION.sub(lambda found: _operand(found[1], context), text)


def holds(condition: str, context: Context) -> bool:
    """Return whether a job's ``if`` is true: comparisons with ``==``, joined by ``&&``.

    Raises:
        UnknownWordError: as :func:`value`.
    """
    for part in condition.split("&&") if condition else ():
        left, equals, right = (word.strip() for word in part.partition("=="))
        if not equals:
            raise UnknownWordError(f"the condition {part.strip()!r}: only == and && are known here")
        if _operand(left, context) != _operand(right, context):
            return False
    return True


def _operand(text: str, context: Context) -> str:
    if re.fullmatch(r"'[^']*'", text):
        return text[1:-1]
    if not _PLACE.fullmatch(text):
        raise UnknownWordError(
            f"the expression {text!r}: only names with dots and quoted words are known here"
        )
    first, _, rest = text.partition(".")
    found = context.get(first, {}).get(rest)
    if found is None:
        raise UnknownWordError(f"the expression {text!r}: there is no such value here")
    return found


def _job(name: str, row: Mapping[str, Any]) -> Job:
    _known(f"job {name}", row, _JOB)
    needs = row.get("needs", [])
    rows = row.get("strategy", {}).get("matrix", {}).get("include", [{}])
    return Job(
        name,
        (needs,) if isinstance(needs, str) else tuple(needs),
        str(row.get("if", "")),
        _words(row.get("env")),
        tuple(_words(each) for each in rows),
        float(row.get("timeout-minutes", 360)),
        tuple(_step(name, step) for step in row["steps"]),
    )


def _step(job: str, row: Mapping[str, Any]) -> Step:
    _known(f"a step of job {job}", row, _STEP)
    given = _words(row.get("with"))
    return Step(
        str(row.get("run", "")), str(row.get("uses", "")).partition("@")[0], given, _words(row.get("env"))
    )


def _known(what: str, row: Mapping[str, Any], words: set[str]) -> None:
    odd = sorted(row.keys() - words)
    if odd:
        raise UnknownWordError(f"{what} has {', '.join(odd)}, which a rehearsal does not know")


def _words(table: Mapping[str, Any] | None) -> dict[str, str]:
    """YAML's values as GitHub passes them on: words."""
    rows = (table or {}).items()
    return {str(key): str(each).lower() if isinstance(each, bool) else str(each) for key, each in rows}


def _ordered(jobs: list[Job]) -> list[Job]:
    done: list[Job] = []
    left = list(jobs)
    while left:
        names = {job.name for job in done}
        ready = [job for job in left if names.issuperset(job.needs)]
        if not ready:
            raise UnknownWordError(
                f"jobs {', '.join(job.name for job in left)} wait for jobs that there are not"
            )
        done += ready
        left = [job for job in left if job not in ready]
    return done
