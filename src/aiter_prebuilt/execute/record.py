"""Record native calls of a public function, and their choices.

The same code chooses and explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.devices import native
from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.execute.recipes import digest_of
from aiter_prebuilt.launch import dispatch

if TYPE_CHECKING:
    from aiter_prebuilt._native import DecisionInfo, Operator

#: Takes the native operator, its tensors and attributes, and does what is to be done with them.
Deed = Callable[["Operator", list[Any], list[Any]], None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The kernels that serve a call.

    ``launched``: SHA-256 of the code object of each step whose grid is not empty; ``recipes``: digest of the chosen recipe, one
    for each native call.
    """

    kernel: str = ""
    variant: str = ""
    backend: str = ""
    launched: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()


@dataclass(slots=True)
class Recorder:
    """A :data:`Deed`: notes what will be chosen, says it (``told``: before the launch, for who may not survive it), and calls.

    ``compute_units``: as if the device had so many; 0: as many as it has.
    """

    facts: DeviceFacts
    compute_units: int = 0
    told: Callable[[Chosen], None] | None = None
    seen: list[Chosen] = field(default_factory=list)

    def __call__(self, operator: Operator, tensors: list[Any], attributes: list[Any]) -> None:
        """Note, say, and launch."""
        if self.compute_units:
            operator = dispatch.operator_as_if(operator.name, self.compute_units)
        try:
            self.seen.append(self._explained(operator, tensors, attributes))
        except AiterPrebuiltError:
            self.seen.append(Chosen())  # the call below says it, in its own words
        if self.told is not None:
            self.told(self.chosen)
        operator(*tensors, *attributes)

    def _explained(self, operator: Operator, tensors: list[Any], attributes: list[Any]) -> Chosen:
        facts = self.facts
        units = self.compute_units or facts.compute_units
        bundles = dispatch.bundles_of(facts.arch, str(facts))
        mine = dispatch.tuned_tables(operator.name, facts.target, units, bundles)
        decisions: list[DecisionInfo] = operator.explain(bundles, units, tensors, attributes, mine)
        row = next((row for row in decisions if row["chosen"]), None)
        if row is None:
            return Chosen()
        launched = tuple(step["sha256"] for step in row["steps"] if 0 not in step["grid"])
        recipe = digest_of(operator.name, bundles[0].target, row["kernel"], row["variant"], row["types"])
        return Chosen(row["kernel"], row["variant"], row["backend"], launched, (recipe,))

    @property
    def chosen(self) -> Chosen:
        """Combine all native calls: the first one's words, all launches."""
        if not self.seen:
            return Chosen()
        first = self.seen[0]
        launched = tuple(digest for each in self.seen for digest in each.launched)
        recipes = tuple(digest for each in self.seen for digest in each.recipes)
        return Chosen(first.kernel, first.variant, first.backend, launched, recipes)


class _Stand:
    """In a module's global, in the place of an operator's native object."""

    def __init__(self, operator: Operator, deed: Deed) -> None:
        self._operator, self._deed = operator, deed

    def __call__(self, *arguments: Any) -> None:
        # Tensors come first, absent ones as None; attributes are plain values.
        places = (
            place for place, value in enumerate(arguments) if isinstance(value, (bool, int, float, str))
        )
        count = next(places, len(arguments))
        self._deed(self._operator, list(arguments[:count]), list(arguments[count:]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)


@contextmanager
def instead(function: Callable[..., Any], deed: Deed) -> Iterator[None]:
    """While it lasts, ``deed`` gets what ``function`` hands to native operators."""
    names: dict[str, Any] = function.__globals__
    kind = native.module().Operator
    before = {name: value for name, value in names.items() if isinstance(value, kind)}
    names.update({name: _Stand(value, deed) for name, value in before.items()})
    try:
        yield
    finally:
        names.update(before)
