"""The entries of built bundles: what can be launched, by which recipes, from which code object, and whether that was executed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiter_prebuilt.contract import bytecode, real
from aiter_prebuilt.contract.bundle import Bundle
from aiter_prebuilt.contract.dtype import BY_NUMBER
from aiter_prebuilt.contract.receipt import recipe_digests, was_executed
from aiter_prebuilt.contract.records import (
    ARG_INT,
    ARG_REAL,
    ARG_WORKSPACE,
    ATTRIBUTE_KINDS,
    BACKENDS,
    DIM_BIND,
    Kernel,
    Operator,
    Recipe,
)
from aiter_prebuilt.contract.version import TREE_MARK

#: Attributes of this kind live in float slots, which no condition reads.
_FLOATING: Final = ATTRIBUTE_KINDS.index("float")


@dataclass(frozen=True, slots=True)
class BuiltRecipe:
    """One recipe of a bundle. ``variant``: with its element types, as people tell it from others (``128 T=bf16``);
    ``code_objects``: SHA-256 of those that it launches; ``open``: attributes and optional tensors that no condition reads, so
    that its calls may have them as they like; ``ranged``: attributes that a condition reads and a step is given, too;
    ``sized``: dims that a step is given as arguments;
    ``built``: the records.
    """

    operator: str
    kernel: str
    variant: str
    code_objects: frozenset[str]
    open: frozenset[str]
    ranged: frozenset[str] = frozenset()
    sized: frozenset[str] = frozenset()
    built: tuple[Operator, Recipe] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class BuiltEntry:
    """One entry of a bundle. ``kernels``: those of its operator that launch it; ``recipes``: digests of the recipes that do;
    ``executed``: what its receipt says; ``symbol``: the kernel's name in its code object, whose hash is ``sha256``.
    """

    operator: str
    kernels: tuple[str, ...]
    backend: str
    target: str
    profile: str
    name: str
    sha256: str
    recipes: tuple[str, ...]
    executed: bool
    symbol: str = ""

    def proved(self, known: Collection[str]) -> bool:
        """Has every recipe that launches it a receipt? ``known``: digests of recipes that have one."""
        return bool(self.recipes) and all(digest in known for digest in self.recipes)


def entries_of(bundle: Bundle) -> tuple[BuiltEntry, ...]:
    """All entries, by operator.

    Raises:
        FormatError: a block of the bundle is damaged.
    """
    return tuple(entry for name in bundle.names for entry in _entries(bundle.operator(name), bundle))


def _entries(operator: Operator, bundle: Bundle) -> Iterable[BuiltEntry]:
    digests = recipe_digests(operator)
    for place, entry in enumerate(operator.entries):
        using = [
            (recipe, digest)
            for recipe, digest in zip(operator.recipes, digests, strict=True)
            if any(step.entry == place for step in recipe.steps)
        ]
        kernels = [operator.kernels[index] for index in dict.fromkeys(recipe.kernel for recipe, _ in using)]
        yield BuiltEntry(
            operator=operator.name,
            kernels=tuple(kernel.name for kernel in kernels),
            backend=_backend(entry.name, kernels, [recipe for recipe, _ in using]),
            target=bundle.root.target,
            profile=bundle.root.profile.partition(TREE_MARK)[0],
            name=entry.name,
            sha256=entry.sha256.hex(),
            recipes=tuple(digest for _, digest in using),
            executed=was_executed(entry),
            symbol=entry.symbol,
        )


def _backend(name: str, kernels: Sequence[Kernel], recipes: Sequence[Recipe]) -> str:
    """Find the backend that compiled an entry.

    It is its kernel's. A step of several may have another one, which the job's name says.
    """
    said = name.split("-")[1:2]
    if said and said[0] in BACKENDS and any(len(recipe.steps) > 1 for recipe in recipes):
        return said[0]
    return BACKENDS[kernels[0].backend] if kernels else ""


def recipes_of(bundle: Bundle) -> dict[str, BuiltRecipe]:
    """All recipes by digest.

    Raises:
        FormatError: a block of the bundle is damaged.
    """
    return {
        digest: BuiltRecipe(
            operator.name,
            operator.kernels[recipe.kernel].name,
            _recipe_text(operator, recipe),
            frozenset(operator.entries[step.entry].sha256.hex() for step in recipe.steps),
            _open(operator, recipe),
            _ranged(operator, recipe),
            _sized(operator, recipe),
            (operator, recipe),
        )
        for operator in map(bundle.operator, bundle.names)
        for recipe, digest in zip(operator.recipes, recipe_digests(operator), strict=True)
    }


def _read(recipe: Recipe) -> set[int]:
    return {slot for condition in recipe.conditions for slot in bytecode.slots_of(condition.code)}


def _ranged(operator: Operator, recipe: Recipe) -> frozenset[str]:
    args = [arg for step in recipe.steps for arg in step.args]
    programs = [code for step in recipe.steps for code in (step.grid_x, step.grid_y, step.grid_z, step.lds)]
    programs += [arg.code for arg in args if arg.kind in (ARG_INT, ARG_WORKSPACE)]
    given = {slot for code in programs if code for slot in bytecode.slots_of(code)}
    given |= {slot for arg in args if arg.kind == ARG_REAL for slot in real.slots_of(arg.code)}
    both = _read(recipe) & given
    return frozenset(
        each.name for each in operator.attributes if each.kind != _FLOATING and each.slot in both
    )


def _sized(operator: Operator, recipe: Recipe) -> frozenset[str]:
    args = [arg for step in recipe.steps for arg in step.args]
    given = {slot for arg in args if arg.kind == ARG_INT for slot in bytecode.slots_of(arg.code)}
    given |= {slot for arg in args if arg.kind == ARG_REAL for slot in real.slots_of(arg.code)}
    dims = {dim.slot for tensor in operator.tensors for dim in tensor.dims if dim.kind == DIM_BIND}
    return frozenset(operator.slots[slot] for slot in given & dims)


def _open(operator: Operator, recipe: Recipe) -> frozenset[str]:
    read = _read(recipe)
    attributes = {
        each.name for each in operator.attributes if each.kind == _FLOATING or each.slot not in read
    }
    tensors = {each.name for each in operator.tensors if each.optional and each.given_slot not in read}
    return frozenset(attributes | tensors)


def _recipe_text(operator: Operator, recipe: Recipe) -> str:
    types = zip(operator.type_variables, recipe.types, strict=True)
    return " ".join(
        [recipe.variant, *(f"{variable.name}={BY_NUMBER[number].name}" for variable, number in types)]
    ).strip()


def tools_of(bundle: Bundle) -> dict[str, str]:
    """Return the tools of the bundle's code objects, name to version."""
    tools: dict[str, str] = json.loads(bundle.root.provenance)["tools"]
    return tools


def counted(entries: Iterable[BuiltEntry]) -> Mapping[tuple[str, str, str], int]:
    """(target, operator, kernel) -> entries, sorted."""
    counts: dict[tuple[str, str, str], int] = {}
    for entry in entries:
        for kernel in entry.kernels or ("",):
            key = (entry.target, entry.operator, kernel)
            counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items()))
