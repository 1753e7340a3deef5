"""Folders for sites without a network."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@click.group()
def mirror() -> None:
    """Fill a folder that can be carried to a site without a network."""


@example("mirror deploy FOLDER")
@mirror.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--wheels", type=click.Path(exists=True, file_okay=False, path_type=Path), default=options.ROOT / "dist",
    show_default="dist", help="The folder of wheels to put into it.",
)  # fmt: skip
@options.signing_keys
def deploy(folder: Path, wheels: Path, keys: tuple[Path, ...]) -> None:
    """To install from: wheels, a package index of files, SHA256SUMS, and a page for the person who carries it."""
    from build_tools.release.mirror import deploy as fill

    with ExitStack() as stack:
        names = fill(sorted(wheels.glob("*.whl")), folder, options.signers_of(stack, keys))
    for name in names:
        click.echo(name)


@example("mirror build FOLDER")
@mirror.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--tests", is_flag=True, help="Also what the tests need, torch with it.")
@options.signing_keys
def build(folder: Path, tests: bool, keys: tuple[Path, ...]) -> None:
    """To build from: compilers, packages and sources as pinned, for this Python and kind of machine."""
    from build_tools.release.mirror_build import fill

    with ExitStack() as stack:
        signing = options.signers_of(stack, keys)
        count = fill(options.ROOT, folder, tests, signing, lambda words: click.echo(words, err=True))
    click.echo(f"{count} files in {folder}")
