"""Times by the embedded device's model: its constants from measured rows, and tables of tuned rows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from build_tools.verbs import options
from build_tools.verbs.output import print_json, print_table


@click.command()
@click.option(
    "--fit",
    is_flag=True,
    help="Fit the model's constants to AITER's measured rows (AITER_DIR: a checkout's).",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Which half of the rows is held out first."
)
@click.option(
    "--older", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of folders with earlier tables: pairs of variants that were both measured.",
)  # fmt: skip
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Where what was made goes; the usual place when left out.",
)
@options.json
def tune(fit: bool, seed: int, older: Path | None, output: Path | None, as_json: bool) -> None:
    """Times by the embedded device's model, where nobody measured."""
    from build_tools.errors import UsageError

    if not fit:
        raise UsageError("tune", "nothing is asked for", "Say --fit")
    document = _fitted(seed, older, output)
    if as_json:
        print_json(document)
        return
    _print_fit(document)


def _fitted(seed: int, older: Path | None, output: Path | None) -> dict[str, Any]:
    from build_tools.prove import ready
    from build_tools.timing import document as documents
    from build_tools.timing.report import cases_of, compute
    from build_tools.tools.tree import tree_of

    tree = tree_of("aiter", options.ROOT)
    folders = sorted(older.iterdir()) if older is not None else []
    cases = cases_of(tree, ready.native_parts(options.ROOT), folders)
    made = {"rows_of": f"{tree.pin.distribution} {tree.version}", **compute(cases, seed)}
    documents.write(output or options.ROOT / documents.NAME, made)
    return made


def _print_fit(document: dict[str, Any]) -> None:
    columns = [
        "family", "rows", "median %", "p90 %", "winner first %", "in three %", "AITER's rule %", "left out: median %",
        "pairs 5 % apart", "in order %",
    ]  # fmt: skip
    rows = []
    for name, family in document["families"].items():
        pairs = family.get("pairs", {"apart": 0, "right": ""})
        left = family["left_out"]
        rows.append(
            (name, family["rows"], family["held_out"]["median"], family["held_out"]["p90"], family["winner_first"],
             family["winner_in_three"], family["heuristic_first"], left["median"] if left else "", pairs["apart"], pairs["right"])
        )  # fmt: skip
    print_table("predicted times of rows that had no say", columns, rows)
