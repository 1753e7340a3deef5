"""The ledger of modules: what AITER's JIT would compile, and which of it a wheel of ours serves instead.

A module is served when every function of it has an operator here, partly served when some have. An operator serves the function
that has its name, or that AITER's Python function of its name stands for; ``through``: the one that AITER's function of its name
calls. A module is replaced when a class or functions of ours stand for it as a whole (``instead`` in ``manifests/modules.toml``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from build_tools.manifest.model import Manifest, Operator
from build_tools.modules.classes import CLASSES
from build_tools.modules.read import Function, Module, Modules
from build_tools.report.ledger import STATES, Ledger
from build_tools.report.module_reasons import Reasons

JSON_VERSION: Final = 1
SERVED, PARTLY, REPLACED, NOT = "served", "partly served", "replaced", "not served"
STATUSES: Final = (SERVED, PARTLY, REPLACED, NOT)


@dataclass(frozen=True, slots=True)
class Served:
    """An operator that serves a function. ``lacks``: parameters that AITER's function has in this tree and ours has not;
    ``limited``: those of which ours takes certain values alone (docs/operators.md has them), and refuses the others.
    """

    operator: str
    through: bool
    lacks: tuple[str, ...]
    limited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionLine:
    """A function of a module. ``exported``: its C++ has it; ``python``: its names there; ``by``: who serves it; ``reason``: why
    nobody does, if somebody says.
    """

    name: str
    exported: bool
    python: tuple[str, ...]
    by: tuple[Served, ...]
    reason: str | None


@dataclass(frozen=True, slots=True)
class PlaceLine:
    """An operator's counts for one backend and target.

    Kernels by state (:data:`build_tools.report.ledger.STATES`), entries in built bundles, those with a receipt.
    """

    operator: str
    backend: str
    target: str
    kernels: dict[str, int]
    entries: int
    proved: int

    @property
    def state(self) -> str:
        """The worst of its kernels that are built; ``source only`` when none is."""
        built = [state for state in STATES[:-1] if self.kernels[state]]
        return built[-1] if built else STATES[-1]


@dataclass(frozen=True, slots=True)
class ModuleLine:
    """One module. ``reason``: why it is not served; ``instead``: public names of ours that replace it."""

    name: str
    first: str
    kinds: tuple[str, ...]
    functions: tuple[FunctionLine, ...]
    types: tuple[str, ...]
    third_party: tuple[str, ...]
    places: tuple[PlaceLine, ...]
    reason: str | None
    instead: tuple[str, ...] = ()

    @property
    def served(self) -> int:
        """The number of its functions that are served."""
        return sum(bool(function.by) for function in self.functions)

    @property
    def status(self) -> str:
        """One of :data:`STATUSES`."""
        if not self.served:
            return REPLACED if self.instead else NOT
        return SERVED if self.served == len(self.functions) else PARTLY

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "name": self.name,
            "class": self.first,
            "kinds": list(self.kinds),
            "status": self.status,
            "reason": self.reason,
            "instead": list(self.instead),
            "third_party": list(self.third_party),
            "types": list(self.types),
            "functions": [asdict(function) for function in self.functions],
            "served_by": [{**asdict(place), "state": place.state} for place in self.places],
        }


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An operator of a Python module of AITER: the JIT modules that its function there may load."""

    operator: str
    module: str
    loads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModuleLedger:
    """All of one tree, in the order of its list."""

    version: str
    pinned: bool
    lines: tuple[ModuleLine, ...]
    elsewhere: tuple[Elsewhere, ...]

    def counts(self) -> dict[str, dict[str, int]]:
        """Class -> status -> modules, of classes that there are."""
        found = {}
        for first in CLASSES:
            mine = [line.status for line in self.lines if line.first == first]
            if mine:
                found[first] = {status: mine.count(status) for status in STATUSES}
        return found

    def unexplained(self) -> tuple[str, ...]:
        """Modules that are not served, of which nobody says why."""
        return tuple(line.name for line in self.lines if line.status == NOT and line.reason is None)

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        counts = self.counts()
        functions = [function for line in self.lines for function in line.functions]
        return {
            "version": JSON_VERSION,
            "tree": {"name": "aiter", "version": self.version, "pinned": self.pinned},
            "total": {status: sum(each[status] for each in counts.values()) for status in STATUSES},
            "functions": {"all": len(functions), "served": sum(bool(each.by) for each in functions)},
            "classes": counts,
            "unexplained": list(self.unexplained()),
            "modules": [line.as_json() for line in self.lines],
            "operators_of_python_modules": [asdict(each) for each in self.elsewhere],
        }


def compute(tree: Modules, manifest: Manifest, ledger: Ledger, reasons: Reasons) -> ModuleLedger:
    """``ledger``: what is built and proved of each operator."""
    operators = [each for family in manifest.families.values() for each in family.operators]
    places = _places(ledger)
    lines = tuple(_line(module, tree, operators, places, reasons) for module in tree.modules)
    elsewhere = tuple(
        Elsewhere(
            each.name,
            each.module,
            tuple(sorted({name for name, _ in tree.python.functions_reached_by(each.name)})),
        )
        for each in operators
        if not each.module.startswith("module_")
    )
    return ModuleLedger(tree.version, tree.pinned, lines, elsewhere)


def _line(
    module: Module, tree: Modules, operators: list[Operator],
    places: dict[str, tuple[PlaceLine, ...]], reasons: Reasons,
) -> ModuleLine:  # fmt: skip
    functions = []
    for function in module.functions:
        by = tuple(sorted(_serving(module, function, tree, operators), key=lambda each: each.through))
        functions.append(
            FunctionLine(
                function.name,
                function.exported,
                tuple(dict.fromkeys(f"{place.file}.{place.name}" for place in function.places)),
                by,
                None if by else reasons.of(module.name, function.name),
            )
        )
    serving = dict.fromkeys(each.operator for function in functions for each in function.by)
    instead = () if serving else reasons.instead_of(module.name)
    # operators under a class that replaces the module name it, and serve no function of it
    under = dict.fromkeys(each.name for each in operators if instead and each.module == module.name)
    return ModuleLine(
        name=module.name,
        first=reasons.named(module.name, module.first),
        kinds=module.kinds,
        functions=tuple(functions),
        types=module.types,
        third_party=module.third_party,
        places=tuple(place for name in serving | under for place in places.get(name, ())),
        reason=None if serving else _reason(module.name, functions, reasons),
        instead=instead,
    )


def _reason(module: str, functions: list[FunctionLine], reasons: Reasons) -> str | None:
    """Return the reason of a module, or of all its functions.

    None unless each of them has a reason.
    """
    said = [each.reason for each in functions if each.reason is not None]
    whole = "; ".join(dict.fromkeys(said)) if functions and len(said) == len(functions) else None
    return reasons.of(module) or whole


def _serving(
    module: Module, function: Function, tree: Modules, operators: list[Operator]
) -> Iterable[Served]:
    """Operators that serve a function: by its name, or the name of a Python function of it; or through AITER's function that
    calls it, for the module that the operator names.
    """
    own, here = {function.name, *(place.name for place in function.places)}, (module.name, function.name)
    for operator in operators:
        if operator.name in own:
            # another module's function of the same name is another one, unless the function has moved there
            if operator.module == module.name or not _has(operator, tree):
                yield Served(operator.name, False, _lacking(operator, tree), tuple(operator.covered))
        elif operator.module == module.name and here in tree.python.functions_reached_by(operator.name):
            yield Served(operator.name, True, _lacking(operator, tree), tuple(operator.covered))


def _has(operator: Operator, tree: Modules) -> bool:
    """Tell whether the operator's module has a function of its name."""
    return any(
        operator.name in {function.name, *(place.name for place in function.places)}
        for module in tree.modules
        if module.name == operator.module
        for function in module.functions
    )


def _lacking(operator: Operator, tree: Modules) -> tuple[str, ...]:
    ours = {parameter.name for parameter in operator.python.parameters}
    every = [place.parameters for place in tree.python.named(operator.name)]
    if not every:
        return ()
    closest = min(every, key=lambda names: len(set(names) ^ ours))
    return tuple(name for name in closest if name not in ours)


def _places(ledger: Ledger) -> dict[str, tuple[PlaceLine, ...]]:
    """Operator -> what it has, by backend and target."""
    found: dict[str, list[PlaceLine]] = {}
    for operator, backend, target in dict.fromkeys(
        (line.operator, line.backend, line.target) for line in ledger.lines
    ):
        mine = [
            line
            for line in ledger.lines
            if (line.operator, line.backend, line.target) == (operator, backend, target)
        ]
        found.setdefault(operator, []).append(
            PlaceLine(
                operator, backend, target, ledger.counts(mine),
                sum(line.entries for line in mine), sum(line.proved for line in mine),
            )
        )  # fmt: skip
    return {operator: tuple(places) for operator, places in found.items()}
