"""Report code that an unpinned source tree left out.

For a build's report, its bundles and people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from build_tools.records import LeftOut, Plan

_OBJECTS: Final = (".co", ".hsaco")
#: More operators than these are counted in a line, and not named.
_FEW: Final = 4


def as_json(plan: Plan) -> dict[str, Any]:
    """``left_out``: a row for each entry of each operator, and for each table; ``absent``: operators of which a target has no
    kernel left.
    """
    there = {
        (planned.operator.name, bundle.target.name) for bundle in plan.bundles for planned in bundle.operators
    }
    lost = {(each.operator, each.target) for each in plan.left_out} if plan.bundles else set()
    return {
        "left_out": [each._asdict() for each in plan.left_out],
        "absent": [{"operator": name, "target": target} for name, target in sorted(lost - there)],
    }


def lost(left_out: Iterable[LeftOut], target: str, profile: str) -> dict[str, int]:
    """Operator -> entries that the bundle of ``target`` and ``profile`` has not; 0 where only a table is not there."""
    found: dict[str, set[str]] = {}
    for each in left_out:
        if (each.target, each.profile) == (target, profile):
            found.setdefault(each.operator, set()).update({each.entry} - {""})
    return {name: len(entries) for name, entries in sorted(found.items())}


def summary(told: Mapping[str, Any]) -> str:
    """One sentence about the report of a build; "" when nothing was left out."""
    rows = told["left_out"]
    if not rows:
        return ""
    entries = {(row["profile"], row["operator"], row["entry"]) for row in rows if row["entry"]}
    operators = {row["operator"] for row in rows}
    return (
        f"left out: {_counted(entries, 'entry', 'entries')} of {_counted(operators, 'operator')}, "
        "whose files are of a source tree that is not pinned"
    )


def lines(told: Mapping[str, Any]) -> list[str]:
    """Describe left-out files and operators.

    A line for each file, or for the objects of a folder that are left out for one reason: how many entries of which operators,
    and why; then the operators of which nothing is left.
    """
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in told["left_out"]:
        alike.setdefault(_alike(row), []).append(row)
    targets: dict[str, list[str]] = {}
    for row in told["absent"]:
        targets.setdefault(row["operator"], []).append(row["target"])
    return [
        *(_line(rows) for _, rows in sorted(alike.items())),
        *(f"{name}: no kernel is left for {', '.join(of)}" for name, of in targets.items()),
    ]


def _alike(row: Mapping[str, Any]) -> tuple[str, str]:
    """Rows of one line: of a source, whose kernels have their reasons, or of objects that a folder has by the dozen."""
    source = row["source"]
    return (source.rpartition("/")[0], row["reason"]) if source.endswith(_OBJECTS) else (source, "")


def _line(rows: Sequence[Mapping[str, Any]]) -> str:
    files = list(dict.fromkeys(row["source"] for row in rows))
    where = f"{files[0]} and {_counted(files[1:], 'file')} beside it" if files[1:] else files[0]
    entries = {(row["profile"], row["operator"], row["entry"]) for row in rows if row["entry"]}
    operators = sorted({row["operator"] for row in rows})
    named = ", ".join(operators[:_FEW]) + (f" and {len(operators) - _FEW} more" if operators[_FEW:] else "")
    reasons = list(dict.fromkeys(row["reason"] for row in rows))
    more = f" (the first of {len(reasons)} reasons)" if reasons[1:] else ""
    what = f"{_counted(entries, 'entry', 'entries')} of {named}" if entries else f"a table of {named}"
    return f"{where}: {what}: {reasons[0]}{more}"


def _counted(found: Iterable[object], one: str, many: str = "") -> str:
    number = len(set(found))
    return f"{number} {one if number == 1 else many or one + 's'}"
