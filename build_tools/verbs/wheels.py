"""Bundles to wheels."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import click

from build_tools.verbs import options


@click.command()
@options.bundles
@click.option("--output", type=click.Path(path_type=Path), default=options.ROOT / "dist", show_default="dist")
@click.option(
    "--runtime/--no-runtime", default=True, help="Also build the runtime's and the emulator's wheels."
)
@click.option(
    "--unproved",
    multiple=True,
    is_flag=False,
    flag_value="all",
    metavar="TARGET",
    help="Let entries of this target in that were never executed (without a target: of all). The wheel says so.",
)
def wheels(bundles: Path, output: Path, runtime: bool, unproved: tuple[str, ...]) -> None:
    """Pack the bundles of the last build, with their golden calls, the runtime and the emulator into wheels."""
    from build_tools.cases import golden, table
    from build_tools.cases.subject import subjects
    from build_tools.manifest.parse import load
    from build_tools.pack.unproved import ALL
    from build_tools.pack.wheel import write_wheels
    from build_tools.plan.plan import check_filters

    manifest = load(options.ROOT / "manifests")
    check_filters(manifest, (), (name for name in unproved if name != ALL))
    cases = table.load(options.ROOT / "manifests", subjects(manifest), manifest.targets)

    def calls(operators: Collection[str], target: str) -> bytes:
        return golden.stream(cases, operators, target, manifest.targets[target])

    for path in write_wheels(options.ROOT, bundles, output, runtime=runtime, golden=calls, unproved=unproved):
        click.echo(f"{path.name}  {path.stat().st_size / 1024:.0f} KiB")
