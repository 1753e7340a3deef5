"""Pinned sources, into the cache."""

from __future__ import annotations

import click

from build_tools.verbs import options


@click.command()
@click.argument("names", nargs=-1, required=True)
def fetch(names: tuple[str, ...]) -> None:
    """Fetch pinned sources (zstd, dlpack, ck) into the cache and print where they lie."""
    from build_tools.tools.fetch import fetch as fetch_one

    for name in names:
        click.echo(str(fetch_one(name, options.ROOT)))
