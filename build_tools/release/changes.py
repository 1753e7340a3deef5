"""Compare the records of two releases.

Operators, entries and why, receipts, sizes, wheels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

EDITION: Final = 1
#: Tools that are about one backend; every other one is about all.
_OWN: Final = {"triton": "triton", "flydsl": "flydsl", "composable-kernel": "ck"}
#: Where a backend's sources lie, for files that an operator's manifest does not name: headers, what they import.
_FOLDERS: Final = ("csrc/kernels/{backend}/", "csrc/stand_in/", "hsa/")
#: Files of a family that decide about kernels; receipts, cases and references do not.
_MANIFEST: Final = "operators.toml"
#: So many names are told of a list; the JSON has all.
MOST: Final = 5
RECIPE: Final = "its arguments, conditions or grids; its code is the same"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry that is another one. ``why``: what made it so, as far as the records know."""

    operator: str
    target: str
    profile: str
    entry: str
    backend: str
    code: bool
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """One bundle; nothing is None where a release has it not. ``proved``: entries with a receipt."""

    target: str
    profile: str
    bytes: tuple[int | None, int | None]
    entries: tuple[int | None, int | None]
    proved: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Changes:
    """All of it. ``added``, ``removed``: operator -> targets; ``more``, ``fewer``: (operator, target, profile) -> entries."""

    old: str
    new: str
    added: Mapping[str, tuple[str, ...]]
    removed: Mapping[str, tuple[str, ...]]
    more: Mapping[tuple[str, str, str], tuple[str, ...]]
    fewer: Mapping[tuple[str, str, str], tuple[str, ...]]
    changed: tuple[Entry, ...]
    signatures: Mapping[str, tuple[str, str]]
    tools: Mapping[str, tuple[str, str]]
    lost: tuple[str, ...]
    sizes: tuple[Size, ...]
    wheels: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "edition": EDITION,
            "old": self.old,
            "new": self.new,
            "operators": {
                "added": {name: list(targets) for name, targets in self.added.items()},
                "removed": {name: list(targets) for name, targets in self.removed.items()},
                "signatures": {
                    name: {"old": old, "new": new} for name, (old, new) in self.signatures.items()
                },
            },
            "entries": {
                "added": _listed(self.more),
                "removed": _listed(self.fewer),
                "changed": [{**asdict(entry), "why": list(entry.why)} for entry in self.changed],
            },
            "receipts_lost": list(self.lost),
            "tools": {name: {"old": old, "new": new} for name, (old, new) in self.tools.items()},
            "sizes": [
                {
                    "target": each.target,
                    "profile": each.profile,
                    **{
                        name: {"old": getattr(each, name)[0], "new": getattr(each, name)[1]}
                        for name in ("bytes", "entries", "proved")
                    },
                }
                for each in self.sizes
            ],
            "wheels": [dict(wheel) for wheel in self.wheels],
        }


def _listed(rows: Mapping[tuple[str, str, str], tuple[str, ...]]) -> list[dict[str, Any]]:
    return [
        {"operator": operator, "target": target, "profile": profile, "entries": list(names)}
        for (operator, target, profile), names in rows.items()
    ]


Rows = Mapping[tuple[str, str, str], Mapping[str, Any]]


def compute(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """``old`` and ``new``: records (``record.py``)."""
    before, after = _rows(old), _rows(new)
    names = ({key[0] for key in before}, {key[0] for key in after})
    more, fewer = _only(after, before), _only(before, after)
    bundles = {(row["target"], row["profile"]): row for row in old["bundles"]}
    changed = [
        entry
        for key in sorted(before.keys() & after.keys())
        for entry in _changed(key, before[key], after[key], bundles, new)
    ]
    lost = sorted(
        f"{key[0]} on {key[1]}: {name}"
        for key in before.keys() & after.keys()
        for name, row in after[key]["entries"].items()
        if not row[3] and before[key]["entries"].get(name, (0, 0, 0, False))[3]
    )
    return Changes(
        old["release"],
        new["release"],
        _targets(after, names[1] - names[0]),
        _targets(before, names[0] - names[1]),
        {key: rows for key, rows in more.items() if key[0] in names[0]},
        {key: rows for key, rows in fewer.items() if key[0] in names[1]},
        tuple(changed),
        _signatures(before, after),
        _tools(old["bundles"], new["bundles"]),
        tuple(lost),
        tuple(_sizes(old["bundles"], new["bundles"])),
        tuple(new["wheels"]),
    )


def _rows(told: Mapping[str, Any]) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    return {(row["operator"], row["target"], row["profile"]): row for row in told["operators"]}


def _targets(rows: Rows, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted({key[1] for key in rows if key[0] == name})) for name in sorted(names)}


def _only(these: Rows, those: Rows) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Entries that only ``these`` have."""
    found = {}
    for key, row in sorted(these.items()):
        others = those[key]["entries"] if key in those else {}
        names = tuple(name for name in row["entries"] if name not in others)
        if names:
            found[key] = names
    return found


def _signatures(before: Rows, after: Rows) -> dict[str, tuple[str, str]]:
    """Operators whose native signature is another one."""
    found: dict[str, tuple[str, str]] = {}
    for key in sorted(before.keys() & after.keys()):
        one, other = before[key]["signature"], after[key]["signature"]
        if one != other:
            found.setdefault(key[0], (one, other))
    return found


def _tools(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """List the tools whose version changed; "" for none."""
    one = {name: version for row in old for name, version in row["tools"].items()}
    other = {name: version for row in new for name, version in row["tools"].items()}
    return {
        name: (one.get(name, ""), other.get(name, ""))
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    }


def _changed(
    key: tuple[str, str, str],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    bundles: Mapping[tuple[str, str], Mapping[str, Any]],
    new: Mapping[str, Any],
) -> Iterator[Entry]:
    one = bundles[key[1], key[2]]
    other = next(row for row in new["bundles"] if (row["target"], row["profile"]) == key[1:])
    for name, (backend, code, recipes, _) in after["entries"].items():
        known = before["entries"].get(name)
        if known is None or tuple(known[1:3]) == (code, recipes):
            continue
        same = known[1] == code
        why = (RECIPE,) if same else tuple(_why(backend, after.get("sources", ()), one, other))
        yield Entry(*key, name, backend, not same, why)


def _why(
    backend: str, sources: Iterable[str], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the reasons why an entry changed.

    Its compiler or its sources are other ones now.
    """
    for name, (one, other) in _tools([old], [new]).items():
        if _OWN.get(name, backend) == backend:
            yield f"{name} {one or 'none'} -> {other or 'none'}"
    files = sorted(
        name
        for name in old["sources"].keys() | new["sources"].keys()
        if old["sources"].get(name) != new["sources"].get(name)
    )
    mine = [name for name in files if any(name.startswith(part.partition("{")[0]) for part in sources)]
    places = [part.format(backend=backend) for part in _FOLDERS]
    shared = [name for name in files if name.startswith(tuple(places))]
    found = mine or shared
    yield from found[:MOST]
    if len(found) > MOST:
        yield f"and {len(found) - MOST} files more"


def _sizes(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> Iterator[Size]:
    one, other = ({(row["target"], row["profile"]): row for row in rows} for rows in (old, new))
    for key in sorted(one.keys() | other.keys()):
        facts = [
            (one.get(key, {}).get(name), other.get(key, {}).get(name))
            for name in ("bytes", "entries", "proved")
        ]
        yield Size(*key, *facts)


def sources_of(family: str, kernels: Iterable[str]) -> list[str]:
    """List an operator's files for a record.

    :func:`compute` finds them again by these names.
    """
    return sorted({f"manifests/{family}/{_MANIFEST}", *kernels})
