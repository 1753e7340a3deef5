"""The content of a receipt, and an entry's reference to it.

The unit of a proof is a recipe: which code objects, at which grids, with which arguments, under which conditions. The same code
object behind a changed recipe is another launch, and nobody has seen it. :func:`recipe_digests` names recipes by content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from aiter_prebuilt.contract.records import Entry, Operator, Recipe

#: Stands in a receipt's checks before what the device was told to pass over.
BUT: Final = ", but for "
#: Raised when the same recipe gets another name.
_EDITION: Final = 1


def was_executed(entry: Entry) -> bool:
    """Was it proved before it shipped? A receipt that cannot be read says no."""
    try:
        receipt = json.loads(entry.receipt)
    except (ValueError, RecursionError):
        return False
    return isinstance(receipt, dict) and receipt.get("executed") is True


def passed_over(entry: Entry) -> tuple[str, ...]:
    """List the device findings that the entry's execution passed over."""
    if not was_executed(entry):
        return ()
    checks = json.loads(entry.receipt).get("checks")
    parts = checks.split("; ") if isinstance(checks, str) else ()
    found = (part.partition(BUT)[2] for part in parts)
    return tuple(sorted({words for one in found if one for words in one.split(", ")}))


def recipe_digests(operator: Operator) -> tuple[str, ...]:
    """SHA-256 of each recipe by what it launches, and for which calls: the operator's arguments and their rules, conditions,
    workspace, steps, and the content of the code objects. What only prefers one recipe to another (cost, rank, tuned rows) is
    not in it, nor are places in tables that another kernel's entries move.
    """
    common = repr(
        (
            _EDITION, operator.name, operator.signature, operator.return_count, operator.type_variables,
            operator.tensors, operator.attributes, operator.slots, operator.floats,
        )
    )  # fmt: skip
    return tuple(
        hashlib.sha256("\n".join([common, *_launch(operator, recipe)]).encode()).hexdigest()
        for recipe in operator.recipes
    )


def _launch(operator: Operator, recipe: Recipe) -> Iterator[str]:
    conditions = tuple(condition.code for condition in recipe.conditions)
    kernel = operator.kernels[recipe.kernel]
    yield repr((kernel.name, kernel.backend, recipe.variant, recipe.types, conditions, recipe.workspace))
    for step in recipe.steps:
        entry = operator.entries[step.entry]
        yield repr((entry.symbol, entry.sha256, replace(step, entry=0)))
