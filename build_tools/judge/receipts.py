"""Receipts: which code objects were executed and found right, on what. ``manifests/receipts.json`` holds them by SHA-256.

    python -m build_tools receipts LINES.jsonl...      write the file from what the operator tests printed (``nox -s prove``)

Builds are the same bytes everywhere, so a receipt holds wherever the same code object comes out; a kernel that changes in
one byte has none until it is executed again, and its bundle says ``{"executed": false}`` meanwhile.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from build_tools.errors import ManifestError, UsageError
from build_tools.files.reproducible import write_atomic

FILE: Final = "manifests/receipts.json"
EDITION: Final = 1
NOT_EXECUTED: Final = json.dumps({"executed": False})


def load(root: Path) -> dict[str, str]:
    """SHA-256 of each code object with a receipt -> the receipt's JSON text, as an entry carries it.

    Raises:
        ManifestError: the file cannot be read.
    """
    try:
        table = json.loads((root / FILE).read_text(encoding="utf-8"))
        if table["edition"] != EDITION:
            raise ValueError(f"edition {table['edition']!r} is not {EDITION}")
        return {
            digest: json.dumps(
                {"executed": True, "device": row["device"], "checks": row["checks"], "cases": cases}
            )
            for row in table["devices"]
            for digest, cases in row["code_objects"].items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ManifestError([f"{FILE}: {error}; write it again with nox -s prove"]) from None


def collect(lines: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Device -> SHA-256 -> number of right cases that launched it. A code object of one wrong case gets no receipt at all."""
    right: dict[str, Counter[str]] = {}
    wrong: set[str] = set()
    for line in lines:
        if line["problems"]:
            wrong.update(line.get("launched", ()))
            continue
        right.setdefault(line["device"], Counter()).update(set(line["launched"]))
    return {
        device: {digest: cases for digest, cases in sorted(counts.items()) if digest not in wrong}
        for device, counts in sorted(right.items())
    }


def write(root: Path, files: Iterable[Path], checks: str) -> Path:
    """Write the file from lines of the operator tests.

    Raises:
        UsageError: a file has no such lines.
    """
    lines = [json.loads(text) for path in files for text in path.read_text(encoding="utf-8").splitlines()]
    found = collect(lines)
    if not found:
        raise UsageError("write receipts", "no line says that a case was right", "Run nox -s prove")
    devices = [{"device": device, "checks": checks, "code_objects": rows} for device, rows in found.items()]
    path = root / FILE
    write_atomic(path, (json.dumps({"edition": EDITION, "devices": devices}, indent=1) + "\n").encode())
    return path
