"""Choose the calls to execute.

They would choose a recipe without a receipt, or with one for other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aiter_prebuilt.contract.calls import Call
from build_tools.cases import make
from build_tools.cases.bind import Bound
from build_tools.cases.table import Cases
from build_tools.judge.receipts import Provable
from build_tools.manifest.model import Target
from build_tools.prove.call_coverage import Walked
from build_tools.prove.workers import Line

#: Says what calls would launch with the bundles of a profile.
Explain = Callable[[str, Iterable[Call]], Iterable[Line]]


#: Of recipes with the calls that launch each, those that have to be executed.
Wanted = Callable[[Mapping[str, Collection[str]]], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """One call that will be executed on ``target`` with the bundles of ``profile``. ``recipes``: digests of those that it will
    choose.
    """

    cases: Cases
    bound: Bound
    target: str
    profile: str
    recipes: frozenset[str]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.bound.subject.name} {self.bound.label}"

    def call(self, seed: int) -> Call:
        """With inputs and answers.

        Raises:
            ManifestError: they cannot be made.
        """
        return make.call_of(self.cases, make.question_of(self.cases, self.bound, seed), self.target)


@dataclass(slots=True)
class Choice:
    """``calls`` to execute; ``refused``: lines of those that nothing would serve, which is wrong; ``operators``: whose calls
    were asked; ``labels``: recipe -> the names of all calls that launch it, ``walked``: what those show, executed now or not;
    ``names``: (target, operator, words) -> a call's name.
    """

    walked: Walked
    calls: list[Chosen] = field(default_factory=list)
    refused: list[Line] = field(default_factory=list)
    operators: set[str] = field(default_factory=set)
    labels: dict[str, set[str]] = field(default_factory=dict)
    names: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def note(self, cases: Cases, bound: Bound, target: str, recipes: Collection[str]) -> None:
        """Record a call on ``target`` with its chosen recipes."""
        self.walked.note(cases, bound, recipes)
        name = self.names[target, bound.subject.name, bound.label] = bound.name
        for digest in recipes:
            self.labels.setdefault(digest, set()).add(name)


def choose(
    cases: Iterable[Cases],
    target: str,
    facts: Target,
    operators: Mapping[str, Collection[str]],
    explain: Explain,
    wanted: Wanted | None,
    recipes: Mapping[str, Provable],
    trees: Collection[str] = (),
) -> Choice:
    """``operators``: profile -> the operators of its bundle, in the order in which bundles add to each other; ``wanted``:
    chooses the recipes to reach, None for every call once; ``recipes``: what the bundles have; ``trees``: the source
    trees of their files. A call that chooses the same with more bundles installed is the same call, and one that these alone
    serve is right.
    """
    choice = Choice(Walked(recipes))
    seen: set[tuple[str, str, frozenset[str]]] = set()
    known = list(cases)
    refused: list[tuple[tuple[str, str], Line]] = []
    served: set[tuple[str, str]] = set()
    for profile, names in operators.items():
        bounds = [
            (each, bound)
            for each in known
            if each.subject.name in names
            for bound in make.bounds(each, target, facts, trees=trees)
        ]
        lines = explain(profile, (make.outline(bound) for _, bound in bounds))
        for (each, bound), line in zip(bounds, lines, strict=True):
            chosen = frozenset(line["recipes"])
            choice.operators.add(each.subject.name)
            if line["launched"]:
                choice.note(each, bound, target, chosen)
            identity = (each.subject.name, bound.label, chosen)
            if identity in seen:
                continue
            seen.add(identity)
            if line["problems"]:
                refused.append((identity[:2], line))
            else:  # one that launches nothing has a result, too
                served.add(identity[:2])
                choice.calls.append(Chosen(each, bound, target, profile, chosen))
    choice.refused = [line for call, line in refused if call not in served]
    if wanted is not None:
        reach = set(wanted(choice.labels))
        choice.calls = [call for call in choice.calls if call.recipes & reach]
    return choice
