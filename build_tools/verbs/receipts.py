"""Show receipts, and import those of another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json, print_table


def compute(operators: tuple[str, ...], targets: tuple[str, ...]) -> dict[str, Any]:
    """Every receipt that holds as things are now, as ``--json`` prints them; of certain operators and targets, if they are named.

    Raises:
        UsageError: an operator that has none.
    """
    from build_tools.errors import UsageError
    from build_tools.prove.known import known

    every = known(options.ROOT).values()
    strange = sorted(set(operators) - {each.operator for each in every})
    if strange:
        raise UsageError(
            f"show the receipts of {', '.join(strange)}",
            "no receipt of such an operator holds",
            "Leave --operator out to see all, or run python -m build_tools prove",
        )
    chosen = [
        each
        for each in every
        if (not operators or each.operator in operators) and (not targets or each.target in targets)
    ]
    return {"receipts": [each.as_json() for each in sorted(chosen, key=lambda each: each.order)]}


@example("receipts --operator rms_norm")
@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--checks", default="results", show_default=True, help="What the device checked, in words.")
@click.option("--operator", "operators", multiple=True, help="Without FILES: only those of this operator.")
@options.targets
@options.json
@options.bundles
def receipts(
    files: tuple[Path, ...],
    checks: str,
    operators: tuple[str, ...],
    targets: tuple[str, ...],
    as_json: bool,
    bundles: Path,
) -> None:
    """Without FILES: the receipts that hold, and the cards that ran them. With: join what was executed elsewhere with
    manifests/<family>/receipts.json: lines of ci/gpu_check.py --record FILE, or certify.json of aiter-prebuilt certify.
    """
    if not files:
        _show(compute(operators, targets), as_json)
        return
    if operators or targets or as_json:
        raise click.UsageError("--operator, --target and --json are for a list of receipts: name no files")
    from build_tools.files.lock import alone
    from build_tools.prove import certified

    certificates = tuple(path for path in files if certified.is_certificate(path))
    lines = tuple(path for path in files if path not in certificates)
    with alone(options.RECEIPTS_LOCK, "join what was executed elsewhere"):
        if certificates:
            _join_certificates(bundles, certificates)
        if lines:
            _join_lines(bundles, lines, checks)


def _join_certificates(bundles: Path, files: tuple[Path, ...]) -> None:
    from build_tools.prove.certified import join

    found = join(options.ROOT, bundles, files)
    click.echo(
        f"{found.proved} receipts name {' and '.join(found.cards)}; {found.wrong} code objects were wrong there; "
        f"{found.unproved} recipes ran and have no receipt: golden calls alone make none"
    )
    for name in found.changed:
        click.echo(name)


def _join_lines(bundles: Path, files: tuple[Path, ...], checks: str) -> None:
    from build_tools.prove.recorded import join

    joined = join(options.ROOT, bundles, files, checks)
    click.echo(
        f"{joined.lines} lines: {joined.proved} recipes were right on {', '.join(joined.devices)}, "
        f"{joined.wrong} code objects were not; {joined.strange} choices of recipes that are in no bundle here, "
        f"{joined.outdated} answers of a formula that has changed"
    )
    for name in joined.changed:
        click.echo(name)


def _show(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    columns = ["kernel", "variant", "target", "device", "calls", "worst", "cards"]
    rows = [
        [*(row[column] for column in columns[:-1]), "; ".join(row["cards"])] for row in document["receipts"]
    ]
    print_table(f"{len(rows)} receipts: worst is the largest share of the allowed error", columns, rows)
