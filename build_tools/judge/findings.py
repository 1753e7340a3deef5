"""Findings of the emulator in code objects of others.

They are in ``hsa/findings.toml``.

A finding is about one place, or has ``objects``: the places of one pattern in many files, as they are or in a table.

A finding that is ``served`` is passed over where calls are executed for a receipt, at its instruction alone, and the receipt says
so. The others end an execution, so what meets them has no receipt.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.receipt import BUT
from build_tools.errors import ManifestError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE: Final = "hsa/findings.toml"
EDITION: Final = 1
#: What the emulator looks at while it executes for a receipt (``AITER_PREBUILT_EMULATOR_CHECKS=all``).
EMBEDDED_CHECKS: Final = "addresses, lds, races, hazards, alignment"
#: Checks whose findings it can pass over; it cannot go on after an address that is not there.
_PASSABLE: Final = ("lds", "races", "hazards", "alignment")
_KEYS: Final[Mapping[str, type]] = {
    "file": str, "sha256": str, "kernel": str, "offset": int, "check": str, "what": str, "calls": str, "served": bool,
    "last": int,
}  # fmt: skip
_OPTIONAL: Final = ("served", "last")
#: Keys of a row of ``objects``: what is its own. ``at`` stands for ``offset`` and ``last``.
_OBJECT: Final = ("file", "sha256", "kernel", "at")
#: A place or several: "0x6cc", "0x6cc-0x6d8, 0x700".
_PLACE: Final = re.compile(r"0x([0-9a-f]+)(?:-0x([0-9a-f]+))?")
_WORDS: Final = {str: "text", int: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One place in one file. ``file``: as manifests name it; ``sha256``: of its bytes; ``offset``: of the instruction in the code
    of ``kernel``, ``last``: of the last one when there are several; ``what`` and ``calls`` are for people; ``served``: calls that
    meet it are not refused.
    """

    file: str
    sha256: str
    kernel: str
    offset: int
    check: str
    what: str
    calls: str
    served: bool = False
    last: int | None = None

    @property
    def place(self) -> str:
        """Offsets of its instructions."""
        return f"{self.offset:#x}" if self.last is None else f"{self.offset:#x}-{self.last:#x}"

    @property
    def word(self) -> str:
        """The finding as ``AITER_PREBUILT_EMULATOR_KNOWN`` names it."""
        return f"{self.check}:{self.place}:{self.kernel}"


def read(root: Path) -> tuple[Finding, ...]:
    """All findings; none where there is no file.

    Raises:
        ManifestError: a row that is none, or one that is served and cannot be passed over.
    """
    path = root / FILE
    if not path.is_file():
        return ()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ManifestError([f"{FILE}: {error}"]) from None
    if table.get("edition") != EDITION:
        raise ManifestError([f"{FILE}: edition {table.get('edition')!r} is not {EDITION}"])
    problems: list[str] = []
    rows = []
    for number, written in enumerate(table.get("finding", ()), 1):
        told = len(problems)
        for row in _each(written, path.parent, problems):
            problems += _problems(row)
            rows.append(row)
        problems[told:] = [f"{FILE}: finding {number}: {words}" for words in dict.fromkeys(problems[told:])]
    if problems:
        raise ManifestError(problems)
    return tuple(Finding(**row) for row in rows)


def _each(written: Mapping[str, Any], folder: Path, problems: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield a finding, once for each place of its ``objects``."""
    if "objects" not in written:
        yield written
        return
    shared = {key: value for key, value in written.items() if key != "objects"}
    objects = written["objects"]
    if isinstance(objects, str):
        objects = _listed(folder / objects, str(written.get("check")))
    own = [*_OBJECT, "offset", "last"]
    if extra := sorted(shared.keys() & {*own}):
        problems.append(f"{extra[0]} stands beside objects: each of them has its own")
    elif not (isinstance(objects, list) and objects and all(_is_object(each) for each in objects)):
        problems.append(
            f"each of objects has {', '.join(_OBJECT)} and nothing else, all of them text (a table: "
            f"{', '.join(_OBJECT[:-1])} and the check)"
        )
    else:
        for each in objects:
            for place in each["at"].split(", "):
                match = _PLACE.fullmatch(place)
                if match is None:
                    problems.append(f"at is {each['at']!r}, not of the form '0x6cc-0x6d8, 0x700'")
                    break
                last = {} if match[2] is None else {"last": int(match[2], 16)}
                mine = {key: each[key] for key in _OBJECT if key != "at"}
                yield {**shared, **mine, "offset": int(match[1], 16), **last}


def _listed(path: Path, check: str) -> list[dict[str, str]]:
    """Return the rows of a table that have something under ``check``.

    None where there is no such table or column.
    """
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, ValueError):
        return []
    return [
        {**{key: row.get(key) or "" for key in _OBJECT}, "at": row[check]} for row in rows if row.get(check)
    ]


def _is_object(each: object) -> bool:
    return (
        isinstance(each, dict)
        and each.keys() == {*_OBJECT}
        and all(type(value) is str for value in each.values())
    )


def _problems(row: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*_KEYS, *row}):
        if name not in _KEYS:
            yield f"{name!r} is no key of a finding: {', '.join(_KEYS)}"
        elif type(row.get(name, _KEYS[name]())) is not _KEYS[name] or (
            name not in row and name not in _OPTIONAL
        ):
            yield f"{name} is {row.get(name)!r}, not {_WORDS[_KEYS[name]]}"
    first, last = row.get("offset"), row.get("last")
    if type(first) is int and type(last) is int and last < first:
        yield f"last is {last:#x}, before offset {first:#x}"
    if row.get("served") and row.get("check") not in _PASSABLE:
        yield f"{row.get('check')!r} cannot be passed over: one of {', '.join(_PASSABLE)} can"
    if set(" :") & set(str(row.get("kernel", ""))):
        yield f"kernel {row['kernel']!r} has a blank or a colon: give its mangled name"


def served(findings: Iterable[Finding], code_objects: Collection[str]) -> tuple[Finding, ...]:
    """Select the findings that are passed over in these code objects.

    ``code_objects``: SHA-256 of each.
    """
    return tuple(finding for finding in findings if finding.served and finding.sha256 in code_objects)


def checks(findings: Iterable[Finding], code_objects: Collection[str]) -> str:
    """Describe the checks of an execution, as a receipt has them.

    They are those of the emulator, with the findings that it passes over in these code objects.
    """
    passed = sorted(
        {f"{finding.check} at {finding.kernel}+{finding.place}" for finding in served(findings, code_objects)}
    )
    return EMBEDDED_CHECKS + (f"{BUT}{', '.join(passed)}" if passed else "")


def words(findings: Iterable[Finding], kernels: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """List the findings to pass over when these kernels are launched.

    ``kernels``: symbol, SHA-256 of its code object.

    The device knows a place by the kernel's name: another file with a kernel of that name would be spared, too.

    Raises:
        ManifestError: there is such a file.
    """
    known = tuple(findings)
    holders: dict[str, set[str]] = {}
    for symbol, digest in kernels:
        holders.setdefault(symbol, set()).add(digest)
    mine = served(known, {digest for digests in holders.values() for digest in digests})
    problems = sorted(
        {
            f"{FILE}: {finding.kernel} of {finding.file} is passed over, and another code object has a kernel of that name"
            for finding in mine
            if holders.get(finding.kernel, set()) - {finding.sha256}
        }
    )
    if problems:
        raise ManifestError(problems)
    return tuple(dict.fromkeys(finding.word for finding in mine if finding.kernel in holders))
