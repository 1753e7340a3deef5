"""What a CI service runs."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.output import print_json, print_table


@click.command()
@options.json
def matrix(as_json: bool) -> None:
    """Print the matrix that a CI service runs: targets x profiles, with shards."""
    from build_tools.generate.matrix import rows

    made = rows(options.ROOT)
    if as_json:
        print_json({"matrix": made})
    else:
        print_table("matrix", list(made[0]), (row.values() for row in made))
