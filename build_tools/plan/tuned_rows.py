"""Tuned tables of the manifests: CSV rows that say which variant a shape takes, before the order of kernels and the cost rule.

The grammar is that of ``aiter_prebuilt.contract.tuned_grammar``, which a user's own tables have too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aiter_prebuilt.contract import tuned_grammar
from aiter_prebuilt.contract.dtype import BY_NUMBER
from aiter_prebuilt.contract.records import Kernel, Recipe, TunedRow
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan.slots import Slots


def tuned_rows(
    name: str | None, root: Path, slots: Slots, kernels: Sequence[Kernel], recipes: Sequence[Recipe], target: str,
    targets: set[str], problems: Problems,
) -> tuple[tuple[int, ...], tuple[TunedRow, ...]]:  # fmt: skip
    """Read the tuned table that an operator names.

    As :func:`read_tuned`; ``root``: the repository.
    """
    if name is None:
        return (), ()
    path = root / "manifests" / name
    if not path.is_file():
        problems.add(f"{name!r} is not a file of manifests/", "tuned")
        return (), ()
    places = {
        (kernels[recipe.kernel].name, recipe.variant, "_".join(BY_NUMBER[each].name for each in recipe.types)): place
        for place, recipe in enumerate(recipes)
    }  # fmt: skip
    with problems.file(f"manifests/{name}"):
        return read_tuned(path, slots, places, target, targets, problems)


def read_tuned(
    path: Path,
    slots: Slots,
    recipes: Mapping[tuple[str, str, str], int],
    target: str,
    targets: set[str],
    problems: Problems,
) -> tuple[tuple[int, ...], tuple[TunedRow, ...]]:
    """(slots that the rows compare, rows for ``target``), sorted; what is wrong goes to ``problems`` with its line and column.

    ``recipes``: (kernel, variant, types) to the recipe's place. Rows of kernels that are in another bundle are left out.
    """
    table = tuned_grammar.read(path.read_text(encoding="utf-8"))
    found = list(table.problems)
    for name, column in table.symbols:
        if name not in slots.names:
            text = f"column {name!r} is not a dim or integer attribute of {slots.name}{suggestion(name, slots.names)}"
            found.append(tuned_grammar.Problem(table.line, column, text, ""))
    rows: list[TunedRow] = []
    for row in table.rows:
        problem, made = _row(row, recipes, target, targets)
        found += [problem] if problem else []
        rows += [made] if made else []
    for problem in found:
        problems.add(f"{problem.place}: {problem.text}")
    if any(name not in slots.names for name, _ in table.symbols):
        return (), ()
    compared = tuple(slots.names.index(name) for name, _ in table.symbols)
    return compared, tuple(sorted(rows, key=lambda row: (row.cus, row.values, row.recipe)))


def _row(
    row: tuned_grammar.TableRow, recipes: Mapping[tuple[str, str, str], int], target: str, targets: set[str]
) -> tuple[tuned_grammar.Problem | None, TunedRow | None]:
    if row.target not in targets:
        text = f"{row.target!r} is not a known target{suggestion(row.target, targets)}"
        return tuned_grammar.Problem(row.line, row.columns["target"], text, ""), None
    if row.target != target or row.kernel not in {kernel for kernel, _, _ in recipes}:
        return None, None
    place = recipes.get((row.kernel, row.variant, row.types))
    if place is None:
        text = f"kernel {row.kernel!r} has no variant {row.variant!r} for the types {row.types!r} on {target}"
        return tuned_grammar.Problem(row.line, row.columns["variant"], text, ""), None
    return None, TunedRow(row.cus, place, row.values)
