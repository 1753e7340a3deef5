"""Takes what another machine executed."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--checks", default="results", show_default=True, help="What the device checked, in words.")
@options.bundles
def receipts(files: tuple[Path, ...], checks: str, bundles: Path) -> None:
    """Join lines of python -m aiter_prebuilt.execute (ci/gpu_check.py --record FILE) with manifests/<family>/receipts.json."""
    from build_tools.files.lock import alone
    from build_tools.prove.recorded import join

    with alone(options.RECEIPTS_LOCK, "join what was executed elsewhere"):
        joined = join(options.ROOT, bundles, files, checks)
    click.echo(
        f"{joined.lines} lines: {joined.proved} recipes were right on {', '.join(joined.devices)}, "
        f"{joined.wrong} code objects were not; {joined.strange} choices of recipes that are in no bundle here, "
        f"{joined.outdated} answers of a formula that has changed"
    )
    for name in joined.changed:
        click.echo(name)
