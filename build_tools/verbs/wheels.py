"""Bundles to wheels."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options


@click.command()
@options.bundles
@click.option("--output", type=click.Path(path_type=Path), default=options.ROOT / "dist", show_default="dist")
@click.option(
    "--runtime/--no-runtime", default=True, help="Also build the runtime's and the emulator's wheels."
)
def wheels(bundles: Path, output: Path, runtime: bool) -> None:
    """Pack the bundles of the last build, the runtime and the emulator into wheels."""
    from build_tools.pack.wheel import write_wheels

    for path in write_wheels(options.ROOT, bundles, output, runtime=runtime):
        click.echo(f"{path.name}  {path.stat().st_size / 1024:.0f} KiB")
