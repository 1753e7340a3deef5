"""Report covered and missing operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import REPORT, console, print_json, say_stale

if TYPE_CHECKING:
    from build_tools.manifest.model import Operator
    from build_tools.report.coverage import Coverage
    from build_tools.report.upstream import Beside


def compute(
    profile: str, targets: tuple[str, ...], bundles: Path
) -> tuple[Coverage, Beside | None, dict[str, Any]]:
    """Compute the coverage table, AITER's tree, and the JSON.

    AITER's tree is there where it can be had.
    """
    from build_tools.errors import FetchError
    from build_tools.manifest.parse import load
    from build_tools.modules.read import read
    from build_tools.pack import notes
    from build_tools.prove.known import known
    from build_tools.report import coverage, ledger, module_reasons, modules, upstream

    manifest = load(options.ROOT / "manifests")
    proved = known(options.ROOT)
    folder = bundles if bundles.is_dir() else None
    table = coverage.compute(manifest, profile, targets or tuple(manifest.amd), folder, proved)
    stale = notes.stale_in(options.ROOT, folder) if folder is not None else []
    beside = None
    try:
        reasons = module_reasons.read(options.ROOT)
        served = modules.compute(read(options.ROOT), manifest, ledger.Ledger(()), reasons)
        launched = {
            (entry.target, entry.sha256)
            for entry in coverage.built_entries(folder, coverage.included(manifest, profile), table.targets)
        }
        beside = upstream.compute(manifest, table, served, options.ROOT, launched)
    except FetchError as error:
        click.echo(f"without AITER's tree: {error}", err=True)
    document = {**table.as_json(), "upstream": beside and beside.as_json(), "stale": stale}
    document["rows"] = [
        {**row, **_explained(line.told)} for row, line in zip(document["rows"], table.rows, strict=True)
    ]
    return table, beside, document


def _explained(operator: Operator | None) -> dict[str, Any]:
    """Describe an operator's arguments and results, as its docstring does, and name the sources of its kernels."""
    from build_tools.generate import docstring

    if operator is None:
        return {"arguments": [], "results": [], "sources": []}
    described = docstring.arguments(operator)
    return {
        "arguments": [
            [name, parameter.text.replace("torch.", ""), text]
            for parameter, (name, text) in zip(operator.python.parameters, described, strict=True)
        ],
        "results": docstring.results(operator),
        "sources": list(dict.fromkeys(kernel.source for kernel in operator.kernels)),
    }


@example("report coverage --target gfx942")
@click.command()
@click.option("--profile", default="ck-free", show_default=True, help="ck-free or ck-full.")
@options.targets
@options.json
@options.bundles
def coverage(profile: str, targets: tuple[str, ...], as_json: bool, bundles: Path) -> None:
    """Show coverage by operator, backend and target.

    It is computed from manifests and built bundles, with the gaps named. AITER's tree stands beside it: assembled objects and
    modules of Composable Kernel, counted there, and how many of them are launched or served.
    """
    from build_tools.report import upstream_view
    from build_tools.report.coverage_view import render

    table, beside, document = compute(profile, targets, bundles)
    if as_json:
        print_json(document)
        return
    render(table, console(REPORT))
    if beside is not None:
        upstream_view.render(beside, console(REPORT))
    say_stale(document["stale"])
