"""What is covered, what is missing."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.output import console, print_json, say_stale


@click.command()
@click.option("--profile", default="ck-free", show_default=True)
@options.targets
@options.json
@options.bundles
def coverage(profile: str, targets: tuple[str, ...], as_json: bool, bundles: Path) -> None:
    """The operator x backend x target table, from manifests and built bundles, with the gaps named; and AITER's tree beside it:
    assembled objects and modules of Composable Kernel, counted there, and how many of them are launched or served.
    """
    from build_tools.errors import FetchError
    from build_tools.manifest.parse import load
    from build_tools.modules.read import read
    from build_tools.pack import notes
    from build_tools.prove.known import known
    from build_tools.report import ledger, module_reasons, modules, upstream, upstream_view
    from build_tools.report.coverage import built_entries, compute, included
    from build_tools.report.coverage_view import render

    manifest = load(options.ROOT / "manifests")
    proved = known(options.ROOT)
    folder = bundles if bundles.is_dir() else None
    table = compute(manifest, profile, targets or ("gfx942", "gfx950"), folder, proved)
    stale = notes.stale_in(options.ROOT, folder) if folder is not None else []
    beside = None
    try:
        reasons = module_reasons.read(options.ROOT)
        served = modules.compute(read(options.ROOT), manifest, ledger.Ledger(()), reasons)
        launched = {
            (entry.target, entry.sha256)
            for entry in built_entries(folder, included(manifest, profile), table.targets)
        }
        beside = upstream.compute(manifest, table, served, options.ROOT, launched)
    except FetchError as error:
        click.echo(f"without AITER's tree: {error}", err=True)
    if as_json:
        print_json({**table.as_json(), "upstream": beside and beside.as_json(), "stale": stale})
        return
    render(table, console())
    if beside is not None:
        upstream_view.render(beside, console())
    say_stale(stale)
