"""``manifests/<family>/cases.toml``: text to records, everything wrong in it said at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.dtype import TARGET_FP8
from build_tools.cases import bind, draw, words
from build_tools.cases import reference as references
from build_tools.cases.receipt_state import CASES, REFERENCE, meanings
from build_tools.cases.subject import Subject
from build_tools.cases.words import Words
from build_tools.errors import ManifestError
from build_tools.manifest.model import Target
from build_tools.manifest.parse import document
from build_tools.manifest.problems import Problems, suggestion

_KEYS: Final = ("default", "golden", "calls", "insensitive", "except", "refused")
_UNASKED: Final = "unasked.toml"


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of one operator.

    ``calls`` and ``golden`` have the words of ``default`` in them already; ``insensitive``: inputs that the cases need not
    notice, with the reason, of the operator or of one kernel (``kernel.name``); ``states``: target -> a name for all that is
    asked there (``receipt_state.py``); ``unasked``: why sizes need not have two values yet, nothing where they must;
    ``unshared``: why strides need not let elements share places.
    """

    subject: Subject
    reference: references.Reference
    calls: tuple[Words, ...]
    golden: Words | None
    insensitive: Mapping[str, str]
    file: str
    states: Mapping[str, str] = field(default_factory=dict)
    unasked: str = ""
    unshared: str = ""


def load(
    folder: Path, subjects: Iterable[Subject], targets: Mapping[str, Target], *, checked: bool = True
) -> dict[str, Cases]:
    """Read the cases of all ``subjects``.

    Args:
        folder: ``manifests``.
        subjects: the operators.
        targets: all targets.
        checked: bind every call, and find the states of receipts. Without it only words are read, in less than half the time.

    Raises:
        ManifestError: with every problem found in every file.
    """
    problems = Problems()
    families: dict[str, list[Subject]] = {}
    for subject in subjects:
        families.setdefault(subject.family, []).append(subject)
    found: dict[str, Cases] = {}
    states = meanings(folder) if checked else {}
    why = unasked(folder, problems)
    alone = unasked(folder, problems, "shared")
    for family, members in families.items():
        place = folder / family
        name = f"{folder.name}/{family}"
        try:
            reference = references.load(place / REFERENCE, f"{name}/{REFERENCE}")
        except ManifestError as error:
            for line in error.problems:
                problems.add(line)
            continue
        with problems.file(f"{name}/{CASES}"):
            table = document(place / CASES, problems) or {}
            for strange in table.keys() - {member.name for member in members}:
                problems.add(
                    f"no operator of the family has this name{suggestion(strange, [m.name for m in members])}",
                    strange,
                )
            for member in members:
                with problems.at(member.name):
                    cases = _cases(
                        table.get(member.name),
                        member,
                        reference,
                        targets,
                        problems,
                        f"{name}/{CASES}",
                        checked,
                    )
                    if cases is not None:
                        mine = {target: states.get((family, member.name, target), "") for target in targets}
                        found[member.name] = replace(
                            cases,
                            states=mine,
                            unasked=why.get(member.name, ""),
                            unshared=alone.get(member.name, ""),
                        )
    if problems.lines:
        raise ManifestError(problems.lines)
    return found


def unasked(folder: Path, problems: Problems, what: str = "sizes") -> dict[str, str]:
    """Operator -> why ``what`` is not asked of its calls yet: two values of each size (``sizes``), or a call with each stride
    that lets elements share memory (``shared``).
    """
    if not (folder / _UNASKED).is_file():
        return {}
    with problems.file(f"{folder.name}/{_UNASKED}"):
        rows = (document(folder / _UNASKED, problems) or {}).get(what, {})
        for name, reason in rows.items():
            if not isinstance(reason, str) or not reason:
                problems.add("is not a reason", what, name)
        return {name: str(reason) for name, reason in rows.items()}


def _cases(
    row: Any, subject: Subject, reference: references.Reference, targets: Mapping[str, Target], problems: Problems,
    file: str, checked: bool,
) -> Cases | None:  # fmt: skip
    if not isinstance(row, dict):
        problems.add("the operator has no table of cases" if row is None else "is not a table")
        return None
    for key in row.keys() - set(_KEYS):
        problems.add(f"no such key{suggestion(key, _KEYS)}", key)
    words.check_names(subject, problems)
    draws = [*draw.BUILT_IN, *reference.draws]

    def read(text: Any, *path: str | int) -> Words | None:
        with problems.at(*path):
            if not isinstance(text, str):
                problems.add("is not a text of words")
                return None
            before = len(problems.lines)
            made = words.read(text, subject, draws, targets, problems)
            return made if len(problems.lines) == before else None

    default = read(row.get("default", ""), "default") or Words()
    texts = row.get("calls", [])
    if not isinstance(texts, list) or not texts:
        problems.add("no calls", "calls")
        texts = []
    calls = [read(text, "calls", place) for place, text in enumerate(texts)]
    golden = read(row["golden"], "golden") if "golden" in row else None
    if "golden" not in row:
        problems.add("no golden call: the small one that travels in the wheels", "golden")
    whole = [made.over(default) for made in calls if made is not None]
    small = golden.over(default) if golden is not None else None
    if checked and len(whole) == len(texts):
        _check_bound(subject, whole, targets, problems, "calls")
        _check_bound(subject, [small] if small else [], targets, problems, "golden")
    left_out = _left_out(row, texts, targets, problems)
    if len(whole) == len(texts):
        placed = (_placed(made, text, left_out, targets) for made, text in zip(whole, texts, strict=True))
        whole = [made for made in placed if made is not None]
    insensitive = row.get("insensitive", {})
    if not isinstance(insensitive, dict) or not all(
        isinstance(reason, str) for reason in insensitive.values()
    ):
        problems.add("is not a table of reasons", "insensitive")
        insensitive = {}
    return Cases(subject, reference, tuple(whole), small, insensitive, file)


def _left_out(
    row: Mapping[str, Any], texts: Sequence[object], targets: Mapping[str, Target], problems: Problems
) -> dict[str, list[str]]:
    """Target -> the words whose calls are not made there."""
    found = row.get("except", {})
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        problems.add("is not a table of lists of words", "except")
        return {}
    said = {word for text in texts if isinstance(text, str) for word in text.split()}
    for target, listed in found.items():
        if target not in targets:
            problems.add(f"is no target{suggestion(target, targets)}", "except", target)
        for word in listed:
            if word not in said:
                problems.add(f"{word!r} stands in no call", "except", target)
    return found


def _placed(
    made: Words, text: str, left_out: Mapping[str, Collection[str]], targets: Collection[str]
) -> Words | None:
    """Restrict a call to targets that have all its words.

    None where there is no such target.
    """
    without = {target for target, listed in left_out.items() if not set(text.split()).isdisjoint(listed)}
    if not without:
        return made
    left = tuple(name for name in made.targets or targets if name not in without)
    return replace(made, targets=left) if left else None


def _check_bound(
    subject: Subject, calls: Sequence[Words], targets: Mapping[str, Target], problems: Problems, key: str
) -> None:
    """Every call binds wherever it is made, and no two calls have the same label."""
    labels: set[str] = set()
    kinds = {kind for values in subject.types.values() for kind in values}
    kinds |= {spec.type for spec in subject.tensors().values()}
    for place, made in enumerate(calls):
        flavours = sorted(
            {target.fp8 for name, target in targets.items() if name in (made.targets or targets)}
        )
        if TARGET_FP8 not in kinds:
            flavours = flavours[:1]  # what binds on one of them binds on all
        with problems.at(key, *([place] if key == "calls" else [])):
            try:
                found = {bound.label for fp8 in flavours for bound in bind.bind(subject, made, fp8)}
            except bind.BindError as error:
                problems.add(str(error))
                continue
            for label in sorted(labels & found):
                problems.add(f"a call with the words {label!r} stands above")
            labels |= found
