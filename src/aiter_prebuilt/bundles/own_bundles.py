"""Own bundles: kernels of a user's own tree beside the product's. One that cannot be used is refused alone, by name."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.version import SUFFIX, TREE_MARK

#: Names of trees whose bundles are left out, separated by commas.
WITHOUT: Final = "AITER_PREBUILT_WITHOUT"


class OwnBundleWarning(UserWarning):
    """An own bundle is not used. The text says which, why, and what to type."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An own bundle that is not used; ``operator`` is empty where it is the whole bundle."""

    path: str
    tree: str
    operator: str
    reason: str

    @property
    def text(self) -> str:
        """The refusal as a sentence with the reason behind it."""
        what = f"the operator {self.operator} of " if self.operator else ""
        return f"{what}the own bundle {self.path} is not used: {self.reason}"


_refused: dict[tuple[str, str], Refusal] = {}


def tree_of(name: str) -> str:
    """Return the tree that a bundle's file name or path names; "" for a bundle of the product.

    Args:
        name: such as ``gfx942-ck-free.acme.apb``.
    """
    return Path(name).name.removesuffix(SUFFIX).partition(TREE_MARK)[2]


def refuse(path: str, reason: object, operator: str = "") -> Refusal:
    """Note that an own bundle is not used, and warn once for each bundle and operator.

    Args:
        path: the bundle's file.
        reason: an error or a text.
        operator: the operator to which it adds nothing; all when empty.
    """
    found = Refusal(path, tree_of(path), operator, str(reason))
    known = _refused.setdefault((path, operator), found)
    if known is found:
        text = f"aiter-prebuilt: {found.text}"
        try:
            warnings.warn(text, OwnBundleWarning, stacklevel=2)
        except OwnBundleWarning:  # warnings are errors here: the product serves on all the same
            sys.stderr.write(f"{text}\n")
    return known


def refuse_operator(path: str, operator: str, error: Exception) -> None:
    """Note that an own bundle adds nothing to an operator. The native side calls it."""
    refuse(path, error, operator)


def refusals() -> tuple[Refusal, ...]:
    """Return the own bundles that this process refused, in that order."""
    return tuple(_refused.values())
