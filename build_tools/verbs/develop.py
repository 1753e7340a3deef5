"""Makes a checkout usable as it is."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("develop")
@click.command()
def develop() -> None:
    """Compile the native extension and the emulator, and put both beside their packages in src."""
    from build_tools.files.progress import step
    from build_tools.pack.emulator_wheel import compile_emulator
    from build_tools.pack.runtime_wheel import compile_extension

    for name, compiled in (("native extension", compile_extension), ("emulator", compile_emulator)):
        with step(f"compile the {name}"):
            path = compiled(options.ROOT)
        click.echo(path.relative_to(options.ROOT).as_posix())
