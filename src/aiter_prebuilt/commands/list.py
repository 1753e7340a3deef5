"""``aiter-prebuilt list``: the operators of the installed bundles, with their kernels."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from aiter_prebuilt.bundles import locate, opening, overlap, own_bundles
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.commands.output import (
    not_executed,
    not_pinned,
    nothing,
    passed,
    print_json,
    print_table,
    styled,
    wrapped,
)
from aiter_prebuilt.contract.bundle import Bundle, FormatError
from aiter_prebuilt.contract.provenance import unpinned
from aiter_prebuilt.contract.receipt import passed_over, was_executed
from aiter_prebuilt.contract.records import AFTER_PRODUCT, BACKENDS, PROFILES

HELP = "list operators and kernels of the installed bundles"
EXAMPLE = "aiter-prebuilt list --operator rms_norm"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("--target", help="only this target")
    parser.add_argument("--operator", help="only this operator, with every variant")


def execute(options: argparse.Namespace) -> int:
    """Print the list; 0, or 1 when nothing is installed.

    Raises:
        NoOperatorError: there are bundles of the target, and none has the operator.
    """
    installed = locate.installed()
    left: Counter[str] = Counter()
    with own_bundles.quiet():
        rows = [row for bundle in installed for row in _rows(bundle, options, left)]
        rows.sort(key=_place)
        shared = [each for each in overlap.overlaps(installed) if options.target in (None, each.target)]
    shared = [each for each in shared if options.operator in (None, each.operator)]
    refused = [each for each in own_bundles.refusals() if options.operator in (None, "", each.operator)]
    if options.operator and not rows:
        _refuse_absent(options.operator, options.target, installed)
    if options.json:
        print_json("list", {"kernels": rows, "overlaps": [asdict(each) for each in shared],
                            "refused": [each.facts for each in refused]})  # fmt: skip
    elif rows:
        if options.operator:
            _print_kernels(rows)
        else:
            _print_sums(rows)  # first too: hundreds of lines follow
            print()
            _print_operators(rows)
        print()
        for text in (*not_pinned(rows), *not_executed(left), *passed(rows, every=bool(options.operator))):
            print("\n".join(wrapped(text)))
        for text in (*(each.text for each in shared), *(f"Refused: {each.text}" for each in refused)):
            print("\n".join(wrapped(text)))
        _print_sums(rows)
    else:
        print(nothing(installed, options.target, options.operator))
    return 0 if rows else 1


def _refuse_absent(operator: str, target: str | None, installed: Sequence[InstalledBundle]) -> None:
    """Say why bundles of a target lack an operator.

    Raises:
        NoOperatorError: there are such bundles.
    """
    from aiter_prebuilt.inspection import decisions  # late: only an error needs it
    from aiter_prebuilt.launch import dispatch

    have = [each for each in installed if target in (None, each.target)]
    if not have:
        return
    decisions.refuse_unknown(operator, installed)
    for one in dict.fromkeys(each.target for each in have):
        profiles = {each.profile for each in have if each.target == one}
        missing = dispatch.absent(f"list {operator}", operator, one, profiles)
        if missing is not None:
            raise missing


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the place of a kernel: operators as the bundles have them, kernels in the order in which they are tried."""
    side = {"": 1, "before": 0, "after": 2}[row["stands"]]
    return row["target"], row["operator"], side, row["tree"], row["order"]


def _print_operators(rows: Sequence[dict[str, Any]]) -> None:
    """Print a line for each operator. ``--operator`` has its kernels."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["operator"], []).append(row)
    lines = []
    for name, mine in sorted(by_name.items()):
        executed, entries = (sum(row[column] for row in mine) for column in ("executed", "entries"))
        lines.append(
            (
                name,
                " ".join(dict.fromkeys(row["target"] for row in mine)),
                " ".join([*sorted({row["backend"] for row in mine}), *_trees(mine)]),
                f"{executed} of {entries}",
            )
        )
    print_table(["operator", "targets", "kernels by", "executed"], lines)


def _trees(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Name the trees that have some of the kernels."""
    return [f"({tree})" for tree in sorted({row["tree"] for row in rows if row["tree"]})]


def _print_kernels(rows: Sequence[dict[str, Any]]) -> None:
    """Print the kernels of one operator, in the order in which they are tried, and what they are called with."""
    for target in dict.fromkeys(row["target"] for row in rows):
        mine = [row for row in rows if row["target"] == target]
        print(styled(f"{mine[0]['operator']} on {target}", "bold"))
        print("\n".join(wrapped(mine[0]["signature"])))
        columns = ["order", "kernel", "backend", "profile", "variants", "executed"]
        if _trees(mine):
            columns.insert(1, "tree")
        lines = [
            [*(row[column] for column in columns[:-1]), f"{row['executed']} of {row['entries']}"]
            for row in mine
        ]
        print_table(columns, lines)
        for row in mine:
            print("\n".join(wrapped(f"Variants of {row['kernel']}: {' '.join(row['variant_names'])}")))


def _print_sums(rows: Sequence[dict[str, Any]]) -> None:
    for target in dict.fromkeys(row["target"] for row in rows):
        mine = [row for row in rows if row["target"] == target]
        executed, entries = (sum(row[column] for row in mine) for column in ("executed", "entries"))
        names = {row["operator"] for row in mine}
        print(
            f"{target}: {len(names)} operator{'s' if len(names) > 1 else ''}, {len(mine)} kernel{'s' if len(mine) > 1 else ''}, "
            f"{executed} of {entries} entries executed"
        )


def _rows(
    installed: InstalledBundle, options: argparse.Namespace, left: Counter[str]
) -> list[dict[str, Any]]:
    """List the rows of one bundle.

    Entries that were not executed are added to ``left`` by target.
    """
    if options.target not in (None, installed.target):
        return []
    rows: list[dict[str, Any]] = []
    try:
        for bundle in opening.usable([installed], opening.read_bundle):
            rows += _rows_of(bundle, installed, options, left)
    except FormatError as error:
        if not installed.tree:
            raise opening.damaged(installed, error) from error
        own_bundles.refuse(installed.path, error)
    return rows


def _rows_of(
    bundle: Bundle, installed: InstalledBundle, options: argparse.Namespace, left: Counter[str]
) -> Iterator[dict[str, Any]]:
    trees = list(unpinned(bundle.root.provenance))
    for name in bundle.names:
        if options.operator not in (None, name):
            continue
        operator = bundle.operator(name)
        left[installed.target] += sum(not was_executed(entry) for entry in operator.entries)
        for place, kernel in enumerate(operator.kernels):
            recipes = [recipe for recipe in operator.recipes if recipe.kernel == place]
            used = {step.entry for recipe in recipes for step in recipe.steps}
            yield (
                {
                    "operator": name,
                    "target": installed.target,
                    "order": kernel.rank % AFTER_PRODUCT,
                    "tree": installed.tree,
                    "stands": (
                        ("after" if kernel.rank >= AFTER_PRODUCT else "before") if installed.tree else ""
                    ),
                    "kernel": kernel.name,
                    "backend": BACKENDS[kernel.backend],
                    "profile": PROFILES[kernel.profile],
                    "variants": len(recipes),
                    "entries": len(used),
                    "executed": sum(was_executed(operator.entries[index]) for index in used),
                    "passed_over": sorted(
                        {words for index in used for words in passed_over(operator.entries[index])}
                    ),
                    "unpinned": trees,
                    "signature": operator.signature,
                    "variant_names": sorted({recipe.variant for recipe in recipes}),
                }
            )
