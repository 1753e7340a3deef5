"""Is every part of every operator there? What ``table`` cannot see: references by operator, and calls where there are kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from build_tools.cases import make, table
from build_tools.cases import reference as references
from build_tools.cases.receipt_state import REFERENCE
from build_tools.cases.subject import Subject
from build_tools.cases.table import Cases
from build_tools.errors import ManifestError
from build_tools.manifest.model import Target
from build_tools.manifest.problems import Problems, suggestion


def unreferenced(subjects: Iterable[Subject], folder: Path) -> Iterator[str]:
    """Operators without a reference function; ``folder`` is ``manifests``. A file that cannot be imported is another problem."""
    loaded: dict[str, references.Reference | None] = {}
    for subject in subjects:
        path, file = folder / subject.family / REFERENCE, f"{folder.name}/{subject.family}/{REFERENCE}"
        if subject.family not in loaded:
            try:
                loaded[subject.family] = references.load(path, file)
            except ManifestError:
                loaded[subject.family] = None
        known = loaded[subject.family]
        if not path.is_file() or (known is not None and subject.name not in known.functions):
            yield f"{file}: {subject.name}: no reference: write def {subject.name}(...) in float64"


def unknown(subjects: Iterable[Subject], folder: Path) -> Iterator[str]:
    """Names of the list of operators whose sizes are not asked that are no operator's; ``subjects``: all."""
    names = [subject.name for subject in subjects]
    for name in sorted(table.unasked(folder, Problems()).keys() - {*names}):
        yield f"{folder.name}/unasked.toml: sizes.{name}: no operator has this name{suggestion(name, names)}"


def uncalled(known: Mapping[str, Cases], targets: Mapping[str, Target]) -> Iterator[str]:
    """Operators that have kernels for a target on which no call, or no golden call, of theirs is made."""
    for name, cases in known.items():
        for target in sorted(cases.subject.targets):
            for golden, what in ((False, "call"), (True, "golden call")):
                if next(make.bounds(cases, target, targets[target], golden=golden), None) is None:
                    yield f"{cases.file}: {name}: no {what} on {target}, where it has kernels"
