"""Do the calls that choose a recipe show that it walks every dim? One row alone is right with any stride and with a grid of 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from build_tools.cases.bind import Bound
from build_tools.cases.table import Cases
from build_tools.judge.receipts import Provable


class Walked:
    """Which dims were more than 1 in some call, for each recipe."""

    def __init__(self) -> None:
        self._dims: dict[str, dict[str, bool]] = {}

    def note(self, cases: Cases, bound: Bound, recipes: Iterable[str]) -> None:
        """One call, and the recipes that it chooses and launches. What ``insensitive`` names is not asked for."""
        dims = [
            name for name in cases.subject.dims() if name in bound.sizes and name not in cases.insensitive
        ]
        for digest in recipes:
            seen = self._dims.setdefault(digest, {})
            for name in dims:
                seen[name] = seen.get(name, False) or bound.sizes[name] > 1

    def narrow(self, recipes: Mapping[str, Provable]) -> dict[str, str]:
        """Recipes whose calls leave a dim at 1, each in words."""
        found = {}
        for digest, recipe in recipes.items():
            left = sorted(name for name, walked in self._dims.get(digest, {}).items() if not walked)
            if left:
                found[digest] = (
                    f"{recipe.kernel}[{recipe.variant}]: {', '.join(left)} is never more than 1 in a call that chooses it"
                )
        return found
