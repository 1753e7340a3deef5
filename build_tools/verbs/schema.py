"""Writes the generated files."""

from __future__ import annotations

import click

from build_tools.verbs import options


@click.command()
def schema() -> None:
    """Write the generated files: manifest schema, C++ layout header, CI matrix and workflow."""
    from build_tools.generate import layout, matrix, signatures
    from build_tools.manifest import schema as manifest_schema

    for path in (
        manifest_schema.write(options.ROOT),
        layout.write(options.ROOT),
        signatures.write(options.ROOT),
        *matrix.write(options.ROOT),
    ):
        click.echo(path.relative_to(options.ROOT).as_posix())
