"""Receipts: which code objects were executed and found right, on what, how far off. ``manifests/<family>/receipts.json``.

A file per family, sorted, a line per code object, so that two changes do not collide; a code object that operators of two
families share stands with the operator that proved it, and readers join all files. Builds are the same bytes everywhere, so a
receipt holds wherever the same code object comes out; a kernel that changes in one byte has none until it is executed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from build_tools.errors import ManifestError
from build_tools.files.reproducible import write_atomic

FOLDER: Final = "manifests"
NAME: Final = "receipts.json"
EDITION: Final = 2
NOT_EXECUTED: Final = json.dumps({"executed": False})
#: What the embedded device looks at while it executes for a receipt (``AITER_PREBUILT_EMULATOR_CHECKS=all``).
EMBEDDED_CHECKS: Final = "addresses, lds, races, hazards, alignment"
_AGAIN: Final = "write it again: python -m build_tools prove --all"


@dataclass(frozen=True, slots=True)
class Receipt:
    """One code object was right in every call that launched it. ``kernel``: ``operator.kernel`` that the first of them chose;
    ``worst``: the largest error in units of its bound, at most 1; ``tools``: what compiled it, name to version.
    """

    digest: str
    family: str
    kernel: str
    target: str
    device: str
    checks: str
    calls: int
    worst: float
    tools: Mapping[str, str]

    def text(self) -> str:
        """What an entry of a bundle carries."""
        return json.dumps(
            {
                "executed": True, "device": self.device, "checks": self.checks, "cases": self.calls,
                "worst": self.worst,
            }
        )  # fmt: skip


def load(root: Path) -> dict[str, str]:
    """SHA-256 of each code object with a receipt -> the receipt's JSON text, as an entry carries it.

    Raises:
        ManifestError: a file cannot be read.
    """
    return {digest: receipt.text() for digest, receipt in read(root).items()}


def files(root: Path) -> tuple[str, ...]:
    """The files that there are, below ``root``."""
    found = sorted((root / FOLDER).glob(f"*/{NAME}"))
    return tuple(path.relative_to(root).as_posix() for path in found)


def read(root: Path) -> dict[str, Receipt]:
    """All receipts by SHA-256, those of all families.

    Raises:
        ManifestError: a file cannot be read.
    """
    found: dict[str, Receipt] = {}
    problems = []
    for name in files(root):
        try:
            for receipt in _receipts(
                json.loads((root / name).read_text(encoding="utf-8")), Path(name).parent.name
            ):
                found.setdefault(receipt.digest, receipt)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problems.append(f"{name}: {type(error).__name__}: {error}; {_AGAIN}")
    if problems:
        raise ManifestError(problems)
    return found


def _receipts(table: Any, family: str) -> Iterator[Receipt]:
    if table["edition"] != EDITION:
        raise ValueError(f"edition {table['edition']!r} is not {EDITION}")
    for place in table["devices"]:
        for digest, row in place["code_objects"].items():
            yield Receipt(
                digest, family, row["kernel"], place["target"], place["device"], place["checks"], int(row["calls"]),
                float(row["worst"]), dict(table["tools"][row["tools"]]),
            )  # fmt: skip


def write(root: Path, receipts: Iterable[Receipt]) -> tuple[str, ...]:
    """Write every family's file, and take away those of families that have none; the names of files whose bytes changed."""
    families: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        families.setdefault(receipt.family, []).append(receipt)
    changed = []
    for name in files(root):
        if Path(name).parent.name not in families:
            (root / name).unlink()
            changed.append(name)
    for family, mine in families.items():
        path = root / FOLDER / family / NAME
        data = _text(mine).encode()
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
            changed.append(path.relative_to(root).as_posix())
    return tuple(sorted(changed))


def _text(receipts: Iterable[Receipt]) -> str:
    """A family's file: plain JSON, but a line for each set of tools and each code object."""
    tools: dict[str, Mapping[str, str]] = {}
    places: dict[tuple[str, str, str], dict[str, str]] = {}
    for receipt in receipts:
        name = _name_of(receipt.tools)
        tools[name] = receipt.tools
        row = {"kernel": receipt.kernel, "calls": receipt.calls, "worst": receipt.worst, "tools": name}
        rows = places.setdefault((receipt.target, receipt.device, receipt.checks), {})
        rows[receipt.digest] = json.dumps(row)
    told = {name: json.dumps(dict(sorted(row.items()))) for name, row in tools.items()}
    devices = []
    for (target, device, checks), rows in sorted(places.items()):
        words = json.dumps({"target": target, "device": device, "checks": checks})
        devices.append(f'{words.removesuffix("}")}, "code_objects": {_lines(rows)}}}')
    return (
        f'{{\n"edition": {EDITION},\n"tools": {_lines(told)},\n"devices": [\n'
        + ",\n".join(devices)
        + "\n]\n}\n"
    )


def _lines(rows: Mapping[str, str]) -> str:
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {text}" for name, text in sorted(rows.items())) + "\n}"


def _name_of(tools: Mapping[str, str]) -> str:
    """A set of tools by its content: two changes that use the same tools write the same name."""
    digest = hashlib.sha256(json.dumps(sorted(tools.items())).encode()).hexdigest()
    return f"{tools.get('toolchain', 'unknown')}-{digest[:8]}"


@dataclass(frozen=True, slots=True)
class Found:
    """What lines of the executor say: receipts by SHA-256, and code objects that were launched by a wrong call."""

    receipts: Mapping[str, Receipt]
    wrong: frozenset[str]


def collect(
    lines: Iterable[Mapping[str, Any]],
    checks: str,
    families: Mapping[str, str],
    tools: Mapping[str, Mapping[str, str]],
) -> Found:
    """Receipts from lines of ``python -m aiter_prebuilt.execute``. A code object of one wrong call gets none at all.

    ``families``: operator -> its family; ``tools``: SHA-256 -> what compiled it; what it lacks is no code object of this build.
    """
    made: dict[str, Receipt] = {}
    wrong: set[str] = set()
    for line in lines:
        launched = {digest for digest in line["launched"] if digest in tools}
        if line["problems"] or line["worst"] is None:
            wrong |= launched
            continue
        for digest in launched:
            known = made.get(digest)
            if known is None:
                made[digest] = Receipt(
                    digest, families[line["operator"]], f"{line['operator']}.{line['kernel']}", line["target"],
                    line["device"], checks, 1, _rounded(line["worst"]), tools[digest],
                )  # fmt: skip
            else:
                made[digest] = _again(known, _rounded(line["worst"]))
    return Found(
        {digest: receipt for digest, receipt in made.items() if digest not in wrong}, frozenset(wrong)
    )


def _again(known: Receipt, worst: float) -> Receipt:
    return replace(known, calls=known.calls + 1, worst=max(known.worst, worst))


def _rounded(worst: float) -> float:
    """Four digits tell how near a kernel is to its bound."""
    return float(f"{worst:.4g}")


def merged(known: Mapping[str, Receipt], found: Found) -> dict[str, Receipt]:
    """``known`` with what was found; a wrong call takes a receipt away."""
    return {
        digest: receipt
        for digest, receipt in {**known, **found.receipts}.items()
        if digest not in found.wrong
    }
