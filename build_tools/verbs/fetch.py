"""Pinned sources, into the cache."""

from __future__ import annotations

import click

from build_tools.errors import UsageError
from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("fetch zstd dlpack")
@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--edition", "editions", multiple=True, metavar="NAME", help="An edition of AITER by its commit, such as 2026-08."
)  # fmt: skip
@click.option(
    "--from", "source", default="", metavar="ADDRESS", help="Ask this repository for the edition instead of the pin's."
)  # fmt: skip
def fetch(names: tuple[str, ...], editions: tuple[str, ...], source: str) -> None:
    """Fetch pinned sources (zstd, dlpack), source trees (aiter) and editions into the cache and print where they lie."""
    from build_tools.tools.fetch import SOURCES
    from build_tools.tools.fetch import fetch as fetch_one
    from build_tools.tools.pins import load
    from build_tools.tools.tree import tree_of

    if not names and not editions:
        raise UsageError(
            "fetch nothing",
            "no source and no edition is named",
            "Name one: python -m build_tools fetch zstd, or --edition 2026-08",
        )
    trees = load(options.ROOT).trees
    for name in names:
        if name in trees and name not in SOURCES:
            click.echo(str(tree_of(name, options.ROOT).fetched()))
        else:
            click.echo(str(fetch_one(name, options.ROOT)))
    for name in editions:
        click.echo(_edition(name, source))


def _edition(name: str, source: str) -> str:
    from build_tools.tools import editions
    from build_tools.tools.fetch import cache_folder
    from build_tools.tools.pins import load

    known = {pin.edition: pin for pin in load(options.ROOT).editions.values()}
    if name not in known:
        raise UsageError(
            f"fetch the edition {name!r}",
            "manifests/toolchains.toml has no such edition",
            f"The editions are {', '.join(known) or 'none'}",
        )
    return str(editions.fetch(known[name], cache_folder(), source))
