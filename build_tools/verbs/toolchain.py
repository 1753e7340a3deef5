"""Show the tools that a build would use."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json, print_table


@example("toolchain")
@click.command()
@options.json
@options.toolchain
def toolchain(as_json: bool, toolchain: str) -> None:
    """Print what was found, from where, which version."""
    from build_tools.tools.toolchain import find

    rows = find(toolchain, options.ROOT).describe()
    if as_json:
        print_json({"toolchain": toolchain, "tools": rows})
    else:
        print_table(
            f"toolchain: {toolchain}", ["tool", "version", "from", "sha256"], (row.values() for row in rows)
        )
