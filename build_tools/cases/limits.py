"""Documented limits, each with a call that is refused: ``refused`` of an operator in ``manifests/<family>/cases.toml``, or of
several operators in ``manifests/limits.toml``.

A limit is a phrase of a summary or of a note that says which calls are served: "K is a multiple of 64", "at most 256 columns".
Each has a condition in the runtime, and the manifests have a call that breaks it. ``tests/native/test_documented_limits.py`` asks
the live choice: the call without the change is served, with it refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.calls import Argument, Array, Call
from build_tools.cases import bind, draw, make, words
from build_tools.cases.receipt_state import CASES
from build_tools.cases.table import Cases
from build_tools.cases.words import Words
from build_tools.errors import ManifestError
from build_tools.manifest.model import Manifest, Operator, Target
from build_tools.manifest.parse import document
from build_tools.manifest.problems import Problems

FILE: Final = "limits.toml"
_KEYS: Final = ("refused", "by_value", "tested", "no_limit")
#: Words by which a note limits calls. What they find and is no limit stands in the file, with the reason.
_LIMIT: Final = re.compile(
    r"\b(?:multiples? of|at most|at least|up to|fewer than|no more than|no less than|less than|more than|and more|or more"
    r"|divisors?|even|odd|contiguous|not served|refused|must|may not be|has to|have to|never|only|alone|one value|powers? of two"
    r"|\d+ to \d+|exactly|cannot|maximum|minimum|divisible|limited to|not supported|unsupported|not larger|not greater"
    r"|smaller than|larger than|greater than|not allowed)\b"
)
#: What stands before a change where the golden call is not the one to change.
_FROM: Final = ";"
#: A tensor of another shape, perhaps with strides, which words of sizes cannot say: ``scale[2,1]``, ``input[3,40]/80,2``.
_SHAPE: Final = re.compile(r"([A-Za-z_]\w*)\[([0-9,]*)\](?:/([0-9,]+))?")


@dataclass(frozen=True, slots=True)
class Limit:
    """A documented limit, and calls that break it.

    Attributes:
        operator: the operator of the note.
        phrase: a part of the note.
        calls: words of each call: what is changed of the golden call, or ``CALL; CHANGE``.
        file: the file that has them.
    """

    operator: str
    phrase: str
    calls: tuple[str, ...]
    file: str


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits.

    Attributes:
        refused: limits with calls that break them.
        by_value: phrase -> why only values on the device tell, which the host does not see.
        tested: phrase -> the test that has the refused call, where words of a call cannot say it.
        no_limit: phrase -> why it refuses no call.
    """

    refused: tuple[Limit, ...]
    by_value: Mapping[str, str]
    tested: Mapping[str, str]
    no_limit: Mapping[str, str]


def read(folder: Path, problems: Problems) -> Limits | None:
    """Read the limits of ``folder``; None without ``limits.toml``, as in a tree of one's own."""
    if not (folder / FILE).is_file():
        return None
    refused: list[Limit] = []
    with problems.file(f"{folder.name}/{FILE}"):
        rows = document(folder / FILE, problems) or {}
        for key in rows.keys() - set(_KEYS):
            problems.add(f"no such key; the keys are {', '.join(_KEYS)}", key)
        for key in _KEYS[1:]:
            for phrase, reason in rows.get(key, {}).items():
                if not isinstance(reason, str) or not reason:
                    problems.add("is not a reason", key, phrase)
        for names, phrases in rows.get("refused", {}).items():
            with problems.at("refused", names):
                refused += _refused(names.split(), phrases, f"{folder.name}/{FILE}", problems)
    for path in sorted(folder.glob(f"*/{CASES}")):
        file = f"{folder.name}/{path.parent.name}/{CASES}"
        with problems.file(file):
            for name, row in (document(path, problems) or {}).items():
                with problems.at(name, "refused"):
                    phrases = row.get("refused", {}) if isinstance(row, dict) else {}
                    refused += _refused([name], phrases, file, problems)
    return Limits(tuple(refused), *(rows.get(key, {}) for key in _KEYS[1:]))


def _refused(names: list[str], phrases: object, file: str, problems: Problems) -> Iterator[Limit]:
    """Yield the limits of one table: phrase -> words of a call, or a list of them."""
    if not isinstance(phrases, dict):
        problems.add("is not a table of phrases and calls")
        return
    for phrase, calls in phrases.items():
        texts = [calls] if isinstance(calls, str) else calls
        if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
            problems.add("is not the words of a call, or a list of them", phrase)
            continue
        for name in names:
            yield Limit(name, phrase, tuple(texts), file)


def problems_of(manifest: Manifest, folder: Path) -> list[str]:
    """List notes with a limit that no refused call shows, and entries of the file that fit no note."""
    problems = Problems()
    limits = read(folder, problems)
    if limits is None:
        return problems.lines
    operators = {each.name: each for family in manifest.families.values() for each in family.operators}
    reviewed = {phrase: key for key in _KEYS[1:] for phrase in getattr(limits, key)}
    needed: set[str] = set()
    for limit in limits.refused:
        texts = _texts(operators[limit.operator]) if limit.operator in operators else {}
        if not any(limit.phrase in text for text in texts.values()):
            with problems.file(limit.file):
                problems.add("no note of this operator says so", "refused", limit.operator, limit.phrase)
    for operator in operators.values():
        own = [each.phrase for each in limits.refused if each.operator == operator.name]
        with problems.file(f"{folder.name}/{operator.family}/{CASES}"):
            for place, text in _texts(operator).items():
                for found, phrases in _found(text, [*own, *reviewed]):
                    needed.update(phrases)
                    if not phrases:
                        told = f"{found!r} of {place} may be a limit: give a call that it refuses, or the reason why none is"
                        problems.add(f"{told} in {folder.name}/{FILE}", operator.name, "refused")
    with problems.file(f"{folder.name}/{FILE}"):
        for phrase, key in reviewed.items():
            if phrase not in needed:
                problems.add("no note needs this entry", key, phrase)
        # Manifests of a tree without tests of its own are read, too: a copy of them.
        tests = limits.tested.items() if (folder.parent / "tests").is_dir() else ()
        for phrase, test in tests:
            path, _, name = test.partition("::")
            file = folder.parent / path
            if not file.is_file() or f"def {name}(" not in file.read_text(encoding="utf-8"):
                problems.add(f"there is no test {test}", "tested", phrase)
    return problems.lines


def _texts(operator: Operator) -> dict[str, str]:
    """Summary and notes of an operator, by name."""
    return {"summary": operator.summary, **operator.notes}


def _found(text: str, phrases: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each clause with words of a limit, and those of ``phrases`` that hold them."""
    places = [
        (match.start(), match.end(), phrase)
        for phrase in phrases
        for match in re.finditer(re.escape(phrase), text)
    ]
    for match in _LIMIT.finditer(text):
        first, end = text.rfind(";", 0, match.start()) + 1, text.find(";", match.end())
        holding = [each for start, stop, each in places if start <= match.start() and match.end() <= stop]
        yield text[first : end if end >= 0 else len(text)].strip(), holding


def pairs(
    cases: Cases, limit: Limit, target: str, targets: Mapping[str, Target]
) -> Iterator[tuple[Call, Call]]:
    """Yield (a call that is served, the same with a change that breaks the limit) on ``target``, without data.

    Raises:
        ManifestError: the words make no call.
    """
    for text in limit.calls:
        said, _, change = text.rpartition(_FROM)
        layouts = [found for word in change.split() if (found := _SHAPE.fullmatch(word))]
        rest = " ".join(word for word in change.split() if not _SHAPE.fullmatch(word))
        base = _words(cases, said, limit, targets).over(cases.golden or Words())
        changed = _words(cases, rest, limit, targets).over(base)
        if changed.targets and target not in changed.targets:
            continue
        fp8 = targets[target].fp8
        try:
            good = next(bind.bind(cases.subject, base, fp8))
            bad = next(bind.bind(cases.subject, replace(changed, text=text), fp8))
        except bind.BindError as error:
            raise ManifestError([f"{limit.file}: {limit.operator}: {text!r}: {error}"]) from None
        outline = make.outline(bad)
        yield make.outline(good), replace(outline, arguments=_laid_out(outline, layouts, limit))


def _words(cases: Cases, text: str, limit: Limit, targets: Mapping[str, Target]) -> Words:
    """Read words of a call. Values that the manifest does not cover are read, too: their refusal is asked for."""
    problems = Problems()
    draws = [*draw.BUILT_IN, *cases.reference.draws]
    with problems.file(limit.file), problems.at(limit.operator, limit.phrase):
        made = words.read(text, replace(cases.subject, covered={}), draws, targets, problems)
    if problems.lines:
        raise ManifestError(problems.lines)
    return made


def _laid_out(call: Call, layouts: list[re.Match[str]], limit: Limit) -> dict[str, Argument]:
    """Give tensors of a call other shapes, and the strides that stand beside them; contiguous without any."""
    found = dict(call.arguments)
    for name, sizes, steps in (each.groups() for each in layouts):
        array = found.get(name)
        if not isinstance(array, Array):
            raise ManifestError(
                [f"{limit.file}: {limit.operator}: {limit.phrase}: no tensor {name!r} is given"]
            )
        shape = tuple(map(int, filter(None, sizes.split(","))))
        dense = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
        strides = tuple(map(int, steps.split(","))) if steps else tuple(dense)
        found[name] = replace(array, shape=shape, strides=strides, data=None)
    return found
