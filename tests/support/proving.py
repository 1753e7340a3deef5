"""Operators, calls and a built target that are made up, for tests of proving that execute nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from aiter_prebuilt.contract.calls import Call
from build_tools.judge.receipts import Provable
from build_tools.objects.entries import BuiltEntry
from build_tools.prove.ready import Built
from build_tools.prove.workers import Line

NOW: Final = "now"
JUDGE: Final = "it"


def cases(name: str, insensitive: Iterable[str] = ()) -> Any:
    """Cases of an operator with the dims M and N."""
    return SimpleNamespace(
        subject=SimpleNamespace(name=name, dims=lambda: ("M", "N")),
        insensitive=set(insensitive),
        unshared="",
    )


def bound(name: str, **sizes: int) -> Any:
    """One call of it."""
    label = " ".join(f"{key}={value}" for key, value in sizes.items())
    return SimpleNamespace(
        subject=SimpleNamespace(name=name), label=label, sizes=sizes, name=f"{name} {label}"
    )


@dataclass
class Making:
    """Stands for ``cases.make``: operator -> its calls; ``seeds``: with which inputs were asked for."""

    calls: Mapping[str, list[Any]]
    seeds: list[int] = field(default_factory=list)

    def bounds(self, made: Any, target: str, facts: object, trees: object = ()) -> Iterator[Any]:
        yield from self.calls[made.subject.name]

    def outline(self, of: Any) -> Call:
        return Call(of.subject.name, of.label, {}, ())

    def question_of(self, made: Any, of: Any, seed: int) -> Any:
        self.seeds.append(seed)
        return of

    def call_of(self, made: Any, of: Any, target: str) -> Call:
        return self.outline(of)


def provable(operator: str, variant: str, *code_objects: str, target: str = "gfx942") -> Provable:
    """A recipe of the family ``made``."""
    return Provable(
        "made",
        f"{operator}.row",
        variant,
        target,
        frozenset(code_objects),
        NOW,
        JUDGE,
        {"toolchain": "hermetic"},
    )


def entry(
    operator: str, name: str, *recipes: str, profile: str = "ck-free", target: str = "gfx942"
) -> BuiltEntry:
    """One entry of a bundle."""
    return BuiltEntry(operator, ("row",), "hip", target, profile, name, name, recipes, executed=False)


def built(entries: Iterable[BuiltEntry], recipes: Mapping[str, Provable], target: str = "gfx942") -> Built:
    """A target with two profiles, of which the second adds to the first."""
    bundles = {name: Path(f"{target}-{name}.apb") for name in ("ck-free", "ck-full")}
    return Built(target, bundles, tuple(entries), recipes)


def line(call: Call, *recipes: str, target: str = "gfx942", **words: Any) -> Line:
    """A right call that launched what ``recipes`` launch: each the code object of its name and a "!"."""
    told = {
        "operator": call.operator, "label": call.label, "kernel": "row", "target": target, "device": "d", "recipes": [*recipes],
        "launched": [f"{digest}!" for digest in recipes], "reference": NOW, "judge": JUDGE, "problems": [], "worst": 0.5,
    }  # fmt: skip
    return told | words
