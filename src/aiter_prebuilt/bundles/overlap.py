"""Say what own bundles add to the operators of the product, and which of them the runtime refuses, before any call is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aiter_prebuilt.bundles import opening, own_bundles
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract.bundle import Bundle, FormatError
from aiter_prebuilt.contract.records import AFTER_PRODUCT, Operator


@dataclass(frozen=True, slots=True)
class Overlap:
    """An operator of the product to which an own bundle adds kernels.

    ``after``: they stand behind the product's.
    """

    tree: str
    target: str
    operator: str
    kernels: tuple[str, ...]
    after: bool

    @property
    def text(self) -> str:
        """The overlap as a sentence."""
        count = f"{len(self.kernels)} kernel{'s' if len(self.kernels) > 1 else ''}"
        where = "behind" if self.after else "before"
        return (
            f"{self.tree} adds {count} to {self.operator} on {self.target}, {where} those of aiter-prebuilt"
        )


def readable(bundles: Sequence[InstalledBundle]) -> dict[InstalledBundle, Bundle]:
    """Read the index of each bundle. Own bundles that cannot be read are refused and left out.

    Raises:
        BundleDamagedError: a bundle of the product cannot be read.
    """
    return dict(opening.usable(bundles, lambda bundle: (bundle, opening.read_bundle(bundle))))


def overlaps(bundles: Sequence[InstalledBundle]) -> tuple[Overlap, ...]:
    """Compare the operators of own bundles with those of the product, and refuse those that the runtime would refuse.

    Args:
        bundles: installed ones.

    Raises:
        BundleDamagedError: a bundle of the product cannot be read.
    """
    read = readable(bundles)
    product = [(bundle, index) for bundle, index in read.items() if not bundle.tree]
    found = []
    for bundle, index in read.items():
        if not bundle.tree:
            continue
        for name in index.names:
            theirs = [
                other for each, other in product if each.target == bundle.target and name in other.names
            ]
            try:
                mine = index.operator(name)
                others = [other.operator(name) for other in theirs]
            except FormatError as error:
                own_bundles.refuse(bundle.path, error, name)
                continue
            if problem := next(_conflicts(mine, others, bundle.tree), ""):
                own_bundles.refuse(bundle.path, problem, name)
            elif others:
                found.append(_overlap(bundle, mine))
    return tuple(found)


def _overlap(bundle: InstalledBundle, operator: Operator) -> Overlap:
    names = tuple(kernel.name for kernel in operator.kernels)
    after = all(kernel.rank >= AFTER_PRODUCT for kernel in operator.kernels)
    return Overlap(bundle.tree, bundle.target, operator.name, names, after)


def _conflicts(mine: Operator, others: Sequence[Operator], tree: str) -> Iterator[str]:
    """Yield why the runtime refuses an operator of a tree (``csrc/runtime/choice/merge.cpp``)."""
    recipes = _recipes(mine)
    for other in others:
        if mine.signature != other.signature:
            yield (
                f"its signature is '{mine.signature}', that of aiter-prebuilt is '{other.signature}'. "
                f"Install a release of {tree} that is made for this one, or uninstall it"
            )
        for kernel, variant, _ in sorted(recipes & _recipes(other)):
            yield f"aiter-prebuilt has {kernel}[{variant}], too. Give the kernel of {tree} another name"


def _recipes(operator: Operator) -> set[tuple[str, str, tuple[int, ...]]]:
    return {
        (operator.kernels[recipe.kernel].name, recipe.variant, recipe.types) for recipe in operator.recipes
    }
