"""Moves what is pinned."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json


@example("update-pins --behind")
@click.command("update-pins")
@click.argument("packages", nargs=-1)
@click.option("--newest", is_flag=True, help="Every package of pyproject.toml's groups, not only PACKAGES.")
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing and ask no index; fail where a lock is stale."
)
@click.option("--behind", is_flag=True, help="Write nothing; list what has a newer version.")
@options.json
def update_pins(
    packages: tuple[str, ...], newest: bool, only_check: bool, behind: bool, as_json: bool
) -> None:
    """Lock every environment again, by hash. PACKAGES are moved in pyproject.toml first, to their newest versions.

    Compilers and source trees are in manifests/toolchains.toml: --behind lists them too; what they compile is proved again
    before they move (docs/pins.md).
    """
    from build_tools.tools import locks, newer

    if only_check:
        locks.check(options.ROOT)
        click.echo("every lock is what pyproject.toml says")
        return
    if behind:
        found = newer.behind(options.ROOT)
        if as_json:
            print_json({"version": 1, "behind": [row.as_json() for row in found]})
            return
        for row in found:
            click.echo(f"{row.name} {row.pinned} -> {row.newest}, in {row.place}")
        click.echo(f"{len(found)} behind")
        return
    moved = newer.move(options.ROOT, packages, everything=newest)
    changed = locks.write(options.ROOT, locks.compile_all(options.ROOT))
    if as_json:
        rows = [row.as_json() for row in moved]
        print_json({"version": 1, "moved": rows, "written": [path.as_posix() for path in changed]})
        return
    for row in moved:
        click.echo(f"{row.name} {row.pinned} -> {row.newest}")
    for path in changed:
        click.echo(path.as_posix())
