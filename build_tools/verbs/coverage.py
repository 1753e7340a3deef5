"""What is covered, what is missing."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.output import console, print_json


@click.command()
@click.option("--profile", default="ck-free", show_default=True)
@options.targets
@options.json
@options.bundles
def coverage(profile: str, targets: tuple[str, ...], as_json: bool, bundles: Path) -> None:
    """The operator x backend x target table, from manifests and built bundles, with the gaps named."""
    from build_tools.manifest.parse import load
    from build_tools.prove.known import known
    from build_tools.report.coverage import compute
    from build_tools.report.coverage_view import render

    manifest = load(options.ROOT / "manifests")
    proved = known(options.ROOT)
    folder = bundles if bundles.is_dir() else None
    table = compute(manifest, profile, targets or ("gfx942", "gfx950"), folder, proved)
    if as_json:
        print_json(table.as_json())
    else:
        render(table, console())
