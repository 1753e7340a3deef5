"""Do the calls that choose a recipe show what it does with all that it is given? One row alone is right with any stride and with
a grid of 1; one epsilon alone is right with an epsilon that stands in the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from aiter_prebuilt.contract.records import BACKENDS, Operator, Recipe
from build_tools.cases.bind import Bound
from build_tools.cases.make import Question
from build_tools.cases.noticing import Noticing, dropped, given, with_value
from build_tools.cases.table import Cases
from build_tools.judge.receipts import Provable
from build_tools.prove import strides

_GIVEN: Final = "given"
_LEFT_OUT: Final = "left out"


class Walked:
    """The dims and option values that calls of each recipe used.

    Dims that were more than 1 in some call. ``recipes``: those of the bundles, by digest.
    """

    def __init__(self, recipes: Mapping[str, Provable]) -> None:
        self._recipes = recipes
        self._dims: dict[str, dict[str, bool]] = {}
        self._values: dict[str, dict[str, dict[Any, list[Bound]]]] = {}
        self._cases: dict[str, Cases] = {}
        self._bounds: dict[str, list[Bound]] = {}
        self._left_out: dict[str, Collection[str]] = {}

    def note(self, cases: Cases, bound: Bound, recipes: Iterable[str]) -> None:
        """One call, and the recipes that it chooses and launches. What ``insensitive`` names is not asked for."""
        dims = [
            name for name in cases.subject.dims() if name in bound.sizes and name not in cases.insensitive
        ]
        for digest in recipes:
            self._cases[digest] = cases
            self._bounds.setdefault(digest, []).append(bound)
            seen = self._dims.setdefault(digest, {})
            for name in dims:
                seen[name] = seen.get(name, False) or bound.sizes[name] > 1
            values = self._values.setdefault(digest, {})
            for name in self._open_options(cases, digest):
                values.setdefault(name, {}).setdefault(_value(bound, name), []).append(bound)

    def _open_options(self, cases: Cases, digest: str) -> Iterator[str]:
        """Options and optional tensors that do not choose a recipe. A result that no call leaves out is made by the function
        where its caller does: a kernel always has it.
        """
        subject, recipe = cases.subject, self._recipes.get(digest)
        asked = recipe.open | recipe.ranged if recipe else frozenset()
        kernel = recipe.kernel.partition(".")[2] if recipe else ""
        if asked and subject.name not in self._left_out:
            self._left_out[subject.name] = frozenset().union(*(words.absent for words in cases.calls))
        for name in subject.open() if asked else ():
            made = name in subject.written() and name not in self._left_out[subject.name]
            said = name in cases.insensitive or f"{kernel}.{name}" in cases.insensitive
            if name in asked and not said and not made:
                yield name

    def narrow(self) -> dict[str, str]:
        """Recipes whose calls leave a dim at 1, or an option that does not choose them at one value, each in words."""
        found = {}
        for digest, recipe in self._recipes.items():
            left = sorted(
                name
                for name, walked in self._dims.get(digest, {}).items()
                if not walked and not self._held(digest, name)
            )
            told = [f"{', '.join(left)} is never more than 1 in a call that chooses it"] if left else []
            told += [
                f"{name} is {next(iter(values))} in each call that chooses it"
                for name, values in self._values.get(digest, {}).items()
                if len(values) == 1 and not self._fixed(digest, name)
            ]
            told += [
                f"{name} is as sizes give it in each call that chooses it" for name in self._dense(digest)
            ]
            told += [f"{name} is {size} in each call that chooses it" for name, size in self._lone(digest)]
            if told:
                found[digest] = f"{recipe.named}: {'; '.join(told)}"
        return found

    def unshared(self) -> dict[str, str]:
        """Recipes of assembly that lets elements of a tensor share memory in a way that no call of its kernel has, each in words.

        What is only read may be expanded: its stride is 0. Assembly that bounds its loads by a stride reads zeros then. One call
        of a kernel is enough: its variants have the conditions and the arguments in common.
        """
        found = self._unshared()
        return {digest: words for digest, words in found.items() if not self._cases[digest].unshared}

    def _unshared(self) -> dict[str, str]:
        kernels: dict[str, list[str]] = {}
        for digest in self._recipes.keys() & self._cases.keys():
            if self._assembly(digest):
                kernels.setdefault(self._recipes[digest].kernel, []).append(digest)
        found: dict[str, str] = {}
        for digests in kernels.values():
            ways = [strides.shared(bound).items() for digest in digests for bound in self._bounds[digest]]
            seen = {way for each in ways for way in each}
            for digest in digests:
                recipe = self._recipes[digest]
                assert recipe.built is not None  # it is assembly
                left = sorted(strides.admitted(*recipe.built, self._bounds[digest]) - seen)
                if left:
                    told = "; ".join(f"{name} may be {how}" for name, how in left)
                    found[digest] = f"{recipe.named}: {told}, and no call of the kernel has it so"
        return found

    def _assembly(self, digest: str) -> bool:
        """Tell whether a recipe launches AITER's assembly."""
        built = self._recipes[digest].built if digest in self._recipes else None
        return built is not None and _backend(*built) == "asm"

    def _held(self, digest: str, name: str) -> bool:
        """Do conditions refuse every other size, or stride, of this name?"""
        recipe = self._recipes[digest]
        return recipe.built is not None and strides.held(*recipe.built, self._bounds[digest], name)

    def _fixed(self, digest: str, name: str) -> bool:
        """Do conditions leave an option that they read no other value?"""
        recipe = self._recipes[digest]
        if recipe.built is None or name in recipe.open:
            return False
        return strides.fixed(*recipe.built, self._bounds[digest], name)

    def _dense(self, digest: str) -> Iterator[str]:
        """Strides that are never other than sizes give, and that no condition holds there."""
        built, bounds = self._recipes[digest].built, self._bounds.get(digest, [])
        if built is None or not bounds:
            return
        free = dict.fromkeys(name for bound in bounds for name in strides.strides_of(bound))
        shown = {*self._cases[digest].subject.dims()}.union(*map(strides.shown, bounds))
        for name in free:
            if name not in shown and not self._held(digest, name):
                yield name

    def needless(self) -> Iterator[str]:
        """Operators of which two values of sizes, or shared strides, need not be asked, and whose recipes all have them."""
        lone: dict[str, bool] = {}
        for digest in self._recipes.keys() & self._cases.keys():
            cases = self._cases[digest]
            if self._recipes[digest].built and cases.unasked:
                name = cases.subject.name
                lone[name] = lone.get(name, False) or any(True for _ in self._lone(digest, needed=True))
        for name in sorted(lone):
            if not lone[name]:
                yield f"{name}: all its sizes have two values: take it out of manifests/unasked.toml"
        spare = {
            cases.subject.name
            for digest, cases in self._cases.items()
            if cases.unshared and self._assembly(digest)
        }
        spare -= {self._cases[digest].subject.name for digest in self._unshared()} if spare else set()
        for name in sorted(spare):
            yield f"{name}: each stride that may be shared has a call: take it out of manifests/unasked.toml"

    def _lone(self, digest: str, *, needed: bool = False) -> Iterator[tuple[str, int]]:
        """Sizes that a kernel is given, that are the same in all calls, and that no condition holds there. ``needed``: also
        where they are not asked for.
        """
        recipe, bounds = self._recipes[digest], self._bounds.get(digest, [])
        if not recipe.built or not bounds or (self._cases[digest].unasked and not needed):
            return
        for name in sorted(recipe.sized):
            sizes = {bound.sizes[name] for bound in bounds if name in bound.sizes}
            free = len(sizes) == 1 and not self._said(digest, name)
            if free and not self._held(digest, name):
                yield name, sizes.pop()

    def _said(self, digest: str, name: str) -> bool:
        """Is it declared to be no matter, of the operator or of the kernel?"""
        said = self._cases[digest].insensitive
        return name in said or f"{self._recipes[digest].kernel.partition('.')[2]}.{name}" in said

    def unnoticed(self, digests: Collection[str]) -> dict[str, str]:
        """Find options that a kernel could ignore unnoticed.

        Of each of ``digests``: fewer than two calls, of different values of an option, would refuse another of these values, so a
        constant in a kernel in its place would be right in all of them. Draws inputs, and answers them.
        """
        found = {}
        for digest in self._values.keys() & digests & self._recipes.keys():
            cases = self._cases[digest]
            left = [
                name
                for name, calls in self._values.get(digest, {}).items()
                if len(calls) > 1
                and name in self._recipes[digest].open  # another size is another call
                and name not in cases.subject.written()
                and not _told_apart(cases, name, calls)
            ]
            if left:
                words = f"no two calls that choose it notice another value of {', '.join(left)}"
                found[digest] = f"{self._recipes[digest].named}: {words}"
        return found


def _backend(operator: Operator, recipe: Recipe) -> str:
    return BACKENDS[operator.kernels[recipe.kernel].backend]


def _value(bound: Bound, name: str) -> Any:
    """Return a call's value; for a tensor, whether it is given."""
    if name not in bound.tensors:
        return bound.values[name]
    return _GIVEN if bound.tensors[name] is not None else _LEFT_OUT


def _told_apart(cases: Cases, name: str, calls: Mapping[Any, list[Bound]]) -> bool:
    """Do calls of two values of ``name`` each refuse another one of the values?"""
    several = 0
    for value, bounds in calls.items():
        noticing = Noticing(cases, bounds)
        several += any(
            noticing.notices(place, changed)
            for place in range(len(bounds))
            for other in calls
            if other != value
            for changed in _exchanged(cases, noticing.question(place), name, other)
        )
        if several > 1:
            return True
    return False


def _exchanged(cases: Cases, question: Question, name: str, value: Any) -> list[Question]:
    if name not in cases.subject.tensors():
        return [with_value(question, name, value)]
    return (dropped(name) if value == _LEFT_OUT else given(cases, name))(question)
