"""What was executed, as a file of the repository."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options


@click.command()
@click.argument("lines", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--checks", required=True, help="What the device checked while it executed, in words.")
def receipts(lines: tuple[Path, ...], checks: str) -> None:
    """Write manifests/receipts.json from the lines of the operator tests (nox -s prove)."""
    from build_tools.judge.receipts import load, write

    path = write(options.ROOT, lines, checks)
    click.echo(
        f"{path.relative_to(options.ROOT).as_posix()}: {len(load(options.ROOT))} code objects were executed and found right"
    )
