"""Operators that the catalogue does not list stand in the row of their family."""

from __future__ import annotations

from support import repository

from build_tools.manifest.catalogue import completed
from build_tools.manifest.model import Catalogue


def titles(catalogue: Catalogue) -> dict[str, list[str]]:
    """Return the titles of the rows that list each operator."""
    found: dict[str, list[str]] = {}
    for entries in catalogue.categories.values():
        for entry in entries:
            for name in entry.operators:
                found.setdefault(name, []).append(entry.title)
    return found


def without(catalogue: Catalogue, name: str) -> Catalogue:
    """Return the catalogue without an operator."""
    categories = {
        category: [
            entry.model_copy(update={"operators": [each for each in entry.operators if each != name]})
            for entry in entries
        ]
        for category, entries in catalogue.categories.items()
    }
    return catalogue.model_copy(update={"categories": categories})


def test_a_complete_catalogue_stays_as_it_is() -> None:
    manifest = repository.manifest()
    assert completed(manifest.catalogue, manifest.families) == manifest.catalogue


def test_an_operator_stands_in_the_row_that_has_most_of_its_family() -> None:
    manifest = repository.manifest()
    for name in ("minimax_qk_norm_rope", "attention_dropout_bwd", "l2norm_fwd", "gelu_and_mul"):
        (family,) = (
            family
            for family in manifest.families.values()
            if name in {each.name for each in family.operators}
        )
        less = without(manifest.catalogue, name)
        assert name not in titles(less)
        found = titles(completed(less, manifest.families))
        others = {
            title
            for each in family.operators
            if each.name != name
            for title in titles(less).get(each.name, ())
        }
        assert set(found.get(name, ())) <= others and len(found.get(name, ())) == (1 if others else 0), name


def test_a_family_that_no_row_lists_is_left_to_the_coverage_table() -> None:
    manifest = repository.manifest()
    less = without(manifest.catalogue, "l2norm_fwd")
    assert "l2norm_fwd" not in titles(completed(less, {"l2norm": manifest.families["l2norm"]}))
