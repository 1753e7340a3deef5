"""Complete the catalogue: an operator that it does not list stands in the row of its family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from build_tools.manifest.model import Catalogue, Family


def completed(catalogue: Catalogue, families: Mapping[str, Family]) -> Catalogue:
    """Add the operators that no row lists to the row that lists most of their family's operators.

    A family of which no row lists an operator is left out, and the coverage table says so.

    Args:
        catalogue: ``catalogue.toml``.
        families: the families of the manifests by name.

    Returns:
        A copy with longer rows.
    """
    rows = {
        (name, place): entry
        for name, each in catalogue.categories.items()
        for place, entry in enumerate(each)
    }
    listed = {name for entry in rows.values() for name in entry.operators}
    added: dict[tuple[str, int], list[str]] = {}
    for family in families.values():
        names = [operator.name for operator in family.operators]
        held = Counter({row: len({*names}.intersection(entry.operators)) for row, entry in rows.items()})
        missing = [name for name in names if name not in listed]
        if missing and (found := held.most_common(1)) and found[0][1]:
            added.setdefault(found[0][0], []).extend(missing)
    categories = {
        name: [
            entry.model_copy(update={"operators": [*entry.operators, *added.get((name, place), ())]})
            for place, entry in enumerate(each)
        ]
        for name, each in catalogue.categories.items()
    }
    return catalogue.model_copy(update={"categories": categories})
