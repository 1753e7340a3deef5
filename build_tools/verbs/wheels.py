"""Bundles to wheels."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options


@click.command()
@options.bundles
@click.option("--output", type=click.Path(path_type=Path), default=options.ROOT / "dist", show_default="dist")
@click.option(
    "--runtime/--no-runtime",
    default=True,
    help="Also build the wheels of the runtime, the emulator and the bridge.",
)
@click.option(
    "--unproved",
    multiple=True,
    metavar="TARGET",
    help="Let entries for this target in that no device has executed (all: for every one). Their wheel says so.",
)
def wheels(bundles: Path, output: Path, runtime: bool, unproved: tuple[str, ...]) -> None:
    """Pack the bundles of the last build, the runtime, the emulator and the bridge. Only what was executed goes in."""
    from build_tools.manifest.parse import load
    from build_tools.pack.unproved import ALL
    from build_tools.pack.wheel import write_wheels
    from build_tools.plan.plan import check_filters

    check_filters(load(options.ROOT / "manifests"), (), (name for name in unproved if name != ALL))
    for path in write_wheels(options.ROOT, bundles, output, runtime=runtime, unproved=unproved):
        click.echo(f"{path.name}  {path.stat().st_size / 1024:.0f} KiB")
