"""The cross product of a kernel: every combination of types and variant axes, with its constants and its name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.bytecode import ExpressionError, constant_value
from aiter_prebuilt.contract.expression import Scope, compile_expression
from build_tools.manifest.model import Kernel
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan.programs import names_of
from build_tools.plan.slots import Slots
from build_tools.records import Constant, TargetFacts

#: Combinations of one kernel on one target: more is a slip in an axis, and would take minutes and gigabytes to refuse one by one.
MOST_VARIANTS: Final = 1 << 14
#: Whether a condition holds, by its text and what its names mean: a kernel asks the same few of hundreds of variants.
_HOLDS: Final[dict[tuple[object, ...], bool]] = {}


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination. ``axes``: name of each axis and its text in the variant's name. ``numbers`` and ``strings``: what
    expressions see, ``words`` both; ``constants``: what the compiler gets (type variables as concrete element type names),
    ``filling`` those and the target's name, for words in braces.
    """

    target: TargetFacts
    types: tuple[str, ...]
    axes: tuple[tuple[str, str], ...]
    keys: dict[str, tuple[str, ...]]
    constants: dict[str, Constant]
    words: dict[str, int | str] = field(init=False, repr=False, compare=False)
    filling: dict[str, Constant] = field(init=False, repr=False, compare=False)
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)
    _strings: dict[str, str] = field(init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """``BLOCK1024-EVEN0``; ``default`` for a kernel without variants."""
        return "-".join(text for _, text in self.axes) or "default"

    def name_of(self, used: set[str] | None) -> str:
        """Name a variant by the axes that set a constant in ``used``.

        All axes when None.
        """
        if used is None:
            return self.name
        return "-".join(text for axis, text in self.axes if used & set(self.keys[axis])) or "default"

    def numbers(self) -> dict[str, int]:
        """Integer constants, target facts and type sizes, for expressions."""
        return self._numbers

    def strings(self) -> dict[str, str]:
        """Return the texts for comparisons in expressions.

        String constants, type variables and the target's name.
        """
        return self._strings

    def __post_init__(self) -> None:
        """Once: what expressions see is asked for again and again."""
        numbers: dict[str, int] = {}
        strings: dict[str, str] = {}
        sizes = {"wave": self.target.wave, "lds_bytes": self.target.lds_bytes}
        for name, value in self.constants.items():
            if isinstance(value, int):
                numbers[name] = int(value)
            elif isinstance(value, str):
                strings[name] = value
                if value in dtype.BY_NAME:
                    sizes[f"sizeof_{name}"] = dtype.BY_NAME[value].itemsize
        strings["target"] = self.target.name
        numbers = {**sizes, **numbers}
        known = numbers, strings, {**strings, **numbers}, {**self.constants, "target": self.target.name}
        for name, each in zip(("_numbers", "_strings", "words", "filling"), known, strict=True):
            object.__setattr__(self, name, each)

    def scope(self, slots: Slots) -> Scope:
        """Return the scope of expressions of this kernel variant."""
        return slots.scope(self._numbers, self._strings, self.words)


def expand(kernel: Kernel, slots: Slots, target: TargetFacts, problems: Problems) -> list[Variant]:
    """All combinations of ``kernel`` on ``target`` that ``except`` leaves in, in the order they are written."""
    _check_types(kernel, slots, problems)
    count = math.prod(len(values) for values in kernel.variants.values())
    count *= math.prod(len(_allowed(kernel, slots, name)) for name in slots.types)
    if count > MOST_VARIANTS:
        problems.add(
            f"{count} combinations of types and variants on {target.name}; at most {MOST_VARIANTS} are planned",
            "variants",
        )
        return []
    result = []
    facts: dict[str, Constant] = {
        "{wave}": target.wave,
        "{lds_bytes}": target.lds_bytes,
        "{fp8}": target.fp8,
        "{target}": target.name,
    }
    common = _filled(kernel.constants, facts)
    combinations = [(axes, keys, _filled(values, facts)) for axes, keys, values in _combinations(kernel)]
    for types in itertools.product(*(_allowed(kernel, slots, name) for name in slots.types)):
        concrete = tuple(dtype.resolve(text, target.fp8).name for text in types)
        for axes, keys, values in combinations:
            constants: dict[str, Constant] = {
                **common, **values, **dict(zip(slots.types, concrete, strict=True))
            }  # fmt: skip
            variant = Variant(target, concrete, axes, keys, constants)
            if not any_holds(kernel.excluded, variant, problems, "except"):
                result.append(variant)
    _check_shadows(kernel, slots, problems)
    return result


def _allowed(kernel: Kernel, slots: Slots, name: str) -> tuple[str, ...]:
    # What the operator does not allow was said by _check_types, and has perhaps no size.
    return tuple(text for text in kernel.types.get(name, slots.types[name]) if text in slots.types[name])


def _check_types(kernel: Kernel, slots: Slots, problems: Problems) -> None:
    for name, allowed in kernel.types.items():
        if name not in slots.types:
            problems.add(
                f"{name!r} is not a type variable of the operator{suggestion(name, slots.types)}",
                "types",
                name,
            )
            continue
        for text in allowed:
            if text not in slots.types[name]:
                problems.add(
                    f"{text!r} is not a type that the operator allows{suggestion(text, slots.types[name])}",
                    "types",
                    name,
                )


def _combinations(
    kernel: Kernel,
) -> Iterator[tuple[tuple[tuple[str, str], ...], dict[str, tuple[str, ...]], dict[str, Constant]]]:
    axes = list(kernel.variants.items())
    for choice in itertools.product(*(values for _, values in axes)):
        texts: list[tuple[str, str]] = []
        keys: dict[str, tuple[str, ...]] = {}
        constants: dict[str, Constant] = {}
        for (axis, _), value in zip(axes, choice, strict=True):
            named: dict[str, Constant] = dict(value) if isinstance(value, dict) else {axis: value}
            label = named.pop("name", None) if isinstance(value, dict) else None
            texts.append((axis, "".join(map(_text, named.items())) if label is None else str(label)))
            keys[axis] = tuple(named)
            constants.update(named)
        yield tuple(texts), keys, constants


def _text(item: tuple[str, Constant]) -> str:
    name, value = item
    return f"{name}{int(value)}" if isinstance(value, bool) else f"{name}{value}"


def _filled(constants: dict[str, Constant], facts: dict[str, Constant]) -> dict[str, Constant]:
    return {
        name: facts.get(value, value) if isinstance(value, str) else value
        for name, value in constants.items()
    }


def any_holds(texts: Sequence[str], variant: Variant, problems: Problems, *key: str) -> bool:
    """Tell whether one of these conditions holds.

    They are on constants, type variables and ``target``. ``key``: their place in the manifest.
    """
    if not texts:
        return False
    known = variant.words.get
    for place, text in enumerate(texts):
        asked = (text, *map(known, names_of(text)))
        try:
            if asked not in _HOLDS:
                code = compile_expression(text, Scope({}, variant.numbers(), None, variant.strings()))
                _HOLDS[asked] = bool(constant_value(code))
            if _HOLDS[asked]:
                return True
        except ExpressionError as error:
            problems.add(str(error), *key, place)
    return False


def _check_shadows(kernel: Kernel, slots: Slots, problems: Problems) -> None:
    names = set(kernel.constants)
    for axis, values in kernel.variants.items():
        for value in values:
            names |= set(value) - {"name"} if isinstance(value, dict) else {axis}
    for name in sorted(names & (set(slots.names) | set(slots.types))):
        problems.add(
            f"constant {name!r} has the name of a dim, stride, attribute or type variable of the operator"
        )
