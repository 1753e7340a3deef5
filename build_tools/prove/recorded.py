"""Lines that the executor wrote on another machine, on a card: to receipts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.bundle import SUFFIX, FormatError
from build_tools.errors import UsageError
from build_tools.judge import receipts
from build_tools.manifest.parse import load
from build_tools.objects.entries import entries_of, tools_of
from build_tools.objects.unpack import open_bundle
from build_tools.prove.workers import Line

_NEEDED: Final = {"operator", "label", "device", "target", "kernel", "launched", "worst", "problems"}


@dataclass(frozen=True, slots=True)
class Joined:
    """What lines brought. ``proved``, ``wrong``: code objects of the bundles here; ``strange``: launches of others."""

    lines: int
    devices: tuple[str, ...]
    proved: int
    wrong: int
    strange: int
    changed: tuple[str, ...]


def join(root: Path, bundles: Path, files: Iterable[Path], checks: str) -> Joined:
    """Add what ``files`` say about code objects of ``bundles`` to the receipts below ``root``.

    Raises:
        UsageError: a file has no such lines, or none is about a code object that is built here.
        ManifestError: the receipts that are there cannot be read.
    """
    lines = [line for path in files for line in _lines(path)]
    manifest = load(root / "manifests")
    families = {
        operator.name: family.family for family in manifest.families.values() for operator in family.operators
    }
    tools = _tools(bundles)
    known = [line for line in lines if line["operator"] in families]
    found = receipts.collect(known, checks, families, tools)
    if not found.receipts and not found.wrong:
        raise UsageError(
            "join what was executed elsewhere",
            f"no code object of the {len(lines)} lines is in a bundle of {bundles}",
            "Build the same sources here (python -m build_tools build), or execute what was built here",
        )
    changed = receipts.write(root, receipts.merged(receipts.read(root), found).values())
    launched = [digest for line in lines for digest in line["launched"]]
    return Joined(
        lines=len(lines),
        devices=tuple(sorted({line["device"] for line in known if line["device"]})),
        proved=len(found.receipts),
        wrong=len(found.wrong),
        strange=sum(digest not in tools for digest in launched),
        changed=changed,
    )


def _lines(path: Path) -> Iterator[Line]:
    try:
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            line: Any = json.loads(text)
            if not isinstance(line, dict) or not line.keys() >= _NEEDED:
                raise ValueError(f"line {number} is no line of python -m aiter_prebuilt.execute")
            yield line
    except (OSError, ValueError) as error:
        raise UsageError(
            f"read {path}", str(error), "Name a file that python ci/gpu_check.py --record FILE wrote"
        ) from error


def _tools(folder: Path) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            bundle = open_bundle(path)
            found |= dict.fromkeys((entry.sha256 for entry in entries_of(bundle)), tools_of(bundle))
        except (OSError, FormatError) as error:
            raise UsageError(f"open {path}", str(error), "Run python -m build_tools build") from error
    return found
