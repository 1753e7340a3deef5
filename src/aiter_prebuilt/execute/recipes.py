"""Map a decision to its recipe's digest, which a receipt names.

See ``contract/receipt.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.contract.dtype import BY_NUMBER
from aiter_prebuilt.contract.receipt import recipe_digests

#: Target of the bundle, kernel, variant, element type of each type variable: together they are one recipe of an operator.
_Key: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...]]


def digest_of(operator: str, target: str, kernel: str, variant: str, types: Mapping[str, str]) -> str:
    """Return the digest of the recipe of a native decision.

    Raises:
        BundleDamagedError: a bundle cannot be read.
    """
    return read(operator)[target, kernel, variant, tuple(sorted(types.items()))]


@cache
def read(operator: str) -> Mapping[_Key, str]:
    """Return the recipes of an operator in all installed bundles.

    A process that forks for each call asks before, so that no child reads them again.

    Raises:
        BundleDamagedError: a bundle cannot be read.
    """
    found: dict[_Key, str] = {}
    for installed in locate.installed():
        bundle = opening.read_bundle(installed)
        if operator not in bundle.names:
            continue
        block = bundle.operator(operator)
        names = [variable.name for variable in block.type_variables]
        for recipe, digest in zip(block.recipes, recipe_digests(block), strict=True):
            types = tuple(
                sorted(zip(names, (BY_NUMBER[number].name for number in recipe.types), strict=True))
            )
            found[installed.target, block.kernels[recipe.kernel].name, recipe.variant, types] = digest
    return found
