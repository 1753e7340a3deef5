"""Lines that the executor wrote on another machine, on a card: to receipts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.bundle import SUFFIX, FormatError
from build_tools.cases import make, table
from build_tools.cases.receipt_state import State, meanings
from build_tools.cases.subject import subjects
from build_tools.errors import UsageError
from build_tools.judge import findings, receipts
from build_tools.judge.receipts import Provable, Receipt
from build_tools.manifest.model import Manifest
from build_tools.manifest.parse import load
from build_tools.objects.unpack import open_bundle
from build_tools.prove.ready import provable
from build_tools.prove.workers import Line

_NEEDED: Final = {
    "operator", "label", "device", "target", "launched", "recipes", "reference", "judge", "worst", "problems",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Joined:
    """The outcome of joining recorded lines.

    ``proved``: recipes of the bundles here; ``wrong``: code objects of them; ``strange``: how often others were chosen;
    ``outdated``: one whose answer came from another state of the formula.
    """

    lines: int
    devices: tuple[str, ...]
    proved: int
    wrong: int
    strange: int
    outdated: int
    changed: tuple[str, ...]


def join(root: Path, bundles: Path, files: Iterable[Path], checks: str) -> Joined:
    """Add what ``files`` say about recipes of ``bundles`` to the receipts below ``root``.

    Raises:
        UsageError: a file has no such lines, or none is about a code object that is built here.
        ManifestError: the receipts that are there cannot be read.
    """
    lines = [line for path in files for line in _lines(path)]
    manifest = load(root / "manifests")
    known = built(bundles, manifest, meanings(root / "manifests"))
    found = receipts.collect(lines, checks, known, names(root, manifest, lines))
    choices = [(known.get(digest), line) for line in lines for digest in line["recipes"]]
    outdated = sum(
        recipe is not None and (recipe.reference, recipe.judge) != (line["reference"], line["judge"])
        for recipe, line in choices
    )
    if not found.receipts and not found.wrong:
        why = (
            f"{outdated} answers come from another state of their formulas, their cases or what judges them"
            if outdated
            else "no recipe that they chose is in a bundle"
        )
        raise UsageError(
            "join what was executed elsewhere",
            f"{len(lines)} lines, and none counts for {bundles}: {why}",
            "Build the same sources here (python -m build_tools build), or execute what was built here",
        )
    every = receipts.merged(receipts.read(root), found)
    changed = receipts.write(root, _alive(root, every, known, {line["target"] for line in lines}).values())
    return Joined(
        lines=len(lines),
        devices=tuple(sorted({line["device"] for line in lines if line["device"]})),
        proved=len(found.receipts),
        wrong=len(found.wrong),
        strange=sum(recipe is None for recipe, _ in choices),
        outdated=outdated,
        changed=changed,
    )


def _alive(
    root: Path, every: Mapping[str, Receipt], known: Mapping[str, Provable], targets: Collection[str]
) -> dict[str, Receipt]:
    """Receipts but those of ``targets`` that hold no longer and whose recipe is not built: nothing can use them again."""
    holding = receipts.holding(every, meanings(root / "manifests"), findings.read(root))
    return {
        digest: receipt
        for digest, receipt in every.items()
        if receipt.target not in targets or digest in known or digest in holding
    }


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


def names(
    root: Path, manifest: Manifest, lines: Collection[Line], *, golden: bool = False
) -> dict[tuple[str, str, str], str]:
    """Return the names of all calls that are made on the lines' targets, of the families of the lines' operators.

    Other families are not read: binding the calls of all operators takes seconds. ``golden``: of the golden calls instead.
    """
    targets, operators = ({line[key] for line in lines} for key in ("target", "operator"))
    every = subjects(manifest)
    families = {each.family for each in every if each.name in operators}
    known = table.load(
        root / "manifests", [each for each in every if each.family in families], manifest.targets
    )
    return {
        (target, name, bound.label): bound.name
        for target in manifest.targets.keys() & targets
        for name, cases in known.items()
        for bound in make.bounds(cases, target, manifest.targets[target], golden=golden)
    }


def built(folder: Path, manifest: Manifest, states: Mapping[State, str]) -> dict[str, Provable]:
    """Return the recipes of all bundles in a folder, by digest.

    Raises:
        UsageError: a bundle cannot be read.
    """
    found: dict[str, Provable] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            found |= provable(open_bundle(path), manifest, states)
        except (OSError, FormatError) as error:
            raise UsageError(f"open {path}", str(error), "Run python -m build_tools build") from error
    return found
