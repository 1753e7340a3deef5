"""The entries of built bundles: what can be launched, by which kernels, from which code object, and whether that was executed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aiter_prebuilt.contract.bundle import Bundle
from aiter_prebuilt.contract.receipt import was_executed
from aiter_prebuilt.contract.records import BACKENDS, Operator


@dataclass(frozen=True, slots=True)
class BuiltEntry:
    """One entry of a bundle. ``kernels``: those of its operator that launch it; ``executed``: what its receipt says."""

    operator: str
    kernels: tuple[str, ...]
    backend: str
    target: str
    profile: str
    name: str
    sha256: str
    executed: bool


def entries_of(bundle: Bundle) -> tuple[BuiltEntry, ...]:
    """All entries, by operator.

    Raises:
        FormatError: a block of the bundle is damaged.
    """
    return tuple(
        _entry(bundle, operator, place)
        for operator in map(bundle.operator, bundle.names)
        for place in range(len(operator.entries))
    )


def _entry(bundle: Bundle, operator: Operator, place: int) -> BuiltEntry:
    using = dict.fromkeys(
        recipe.kernel for recipe in operator.recipes if any(step.entry == place for step in recipe.steps)
    )
    kernels = [operator.kernels[index] for index in using]
    entry = operator.entries[place]
    return BuiltEntry(
        operator=operator.name,
        kernels=tuple(kernel.name for kernel in kernels),
        backend=BACKENDS[kernels[0].backend] if kernels else "",
        target=bundle.root.target,
        profile=bundle.root.profile,
        name=entry.name,
        sha256=entry.sha256.hex(),
        executed=was_executed(entry),
    )


def tools_of(bundle: Bundle) -> dict[str, str]:
    """What the bundle's code objects were compiled with, name to version."""
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
