"""Printing for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.bundles import extras

if TYPE_CHECKING:
    from aiter_prebuilt.bundles.installed_bundle import InstalledBundle

JSON_VERSION: Final = 1


def nothing(installed: Sequence[InstalledBundle], target: str | None, operator: str | None) -> str:
    """Why there is nothing to show: nothing installed, or nothing of what was asked for."""
    if not installed:
        return f"nothing is installed here: {extras.nothing_installed()}"
    have = ", ".join(f"{bundle.target} ({bundle.profile})" for bundle in installed)
    if target is not None and all(bundle.target != target for bundle in installed):
        return f"no installed bundle is for {target!r}; installed: {have}"
    return f"no installed bundle has an operator {operator!r}; installed: {have}; see: aiter-prebuilt list"


def not_executed(counts: Mapping[str, int]) -> list[str]:
    """Describe the entries without a receipt.

    ``counts``: target -> how many.
    """
    return [
        f"{count} entries for {target} were not executed on any device before they shipped"
        for target, count in sorted(counts.items())
        if count
    ]


def not_pinned(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Describe bundles with files of unpinned source trees.

    A line for each.
    """
    bundles = {(row["target"], row["profile"]): row["unpinned"] for row in rows if row["unpinned"]}
    return [
        f"the bundle for {target} ({profile}) was made of files of {' and '.join(trees)} that are not the pinned "
        "ones: a checkout took their place when it was built"
        for (target, profile), trees in sorted(bundles.items())
    ]


def passed(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Describe AITER kernels that ran with findings passed over."""
    return [
        f"{row['operator']}.{row['kernel']} on {row['target']}: executed, but for {len(row['passed_over'])} places in AITER's "
        "code where the device found something; list --json names them"
        for row in rows
        if row["passed_over"]
    ]


def print_json(verb: str, value: dict[str, Any]) -> None:
    """One JSON document with a version and the verb that made it."""
    print(
        json.dumps({"version": JSON_VERSION, "verb": verb, **value}, indent=1, sort_keys=False, default=str)
    )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns, readable without colour."""
    table = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(columns))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
