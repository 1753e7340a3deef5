"""The emulator, into the checkout."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("emulator")
@click.command()
def emulator() -> None:
    """Compile the emulator and put it beside its package in src."""
    from build_tools.pack.emulator_wheel import compile_emulator

    click.echo(compile_emulator(options.ROOT).relative_to(options.ROOT).as_posix())
