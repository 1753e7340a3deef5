"""Pinned sources, into the cache."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("fetch zstd dlpack")
@click.command()
@click.argument("names", nargs=-1, required=True)
def fetch(names: tuple[str, ...]) -> None:
    """Fetch pinned sources (zstd, dlpack) and source trees (aiter) into the cache and print where they lie."""
    from build_tools.tools.fetch import SOURCES
    from build_tools.tools.fetch import fetch as fetch_one
    from build_tools.tools.pins import load
    from build_tools.tools.tree import tree_of

    trees = load(options.ROOT).trees
    for name in names:
        if name in trees and name not in SOURCES:
            click.echo(str(tree_of(name, options.ROOT).fetched()))
        else:
            click.echo(str(fetch_one(name, options.ROOT)))
