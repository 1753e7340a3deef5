"""Folders for sites without a network."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from build_tools.errors import MirrorError
from build_tools.verbs import options
from build_tools.verbs.examples import example


@click.group()
def mirror() -> None:
    """Fill a folder that can be carried to a site without a network."""


@example("mirror deploy FOLDER")
@mirror.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--wheels", type=click.Path(file_okay=False, path_type=Path), default=options.ROOT / "dist",
    show_default="dist", help="The folder of wheels to put into it.",
)  # fmt: skip
@click.option(
    "--aiter", is_flag=True, help="Also AITER's pinned wheel and what it needs, except torch and Triton."
)
@options.signing_keys
def deploy(folder: Path, wheels: Path, aiter: bool, keys: tuple[Path, ...]) -> None:
    """To install from: wheels, a package index of files, SHA256SUMS, and a page for the person who carries it."""
    from build_tools.release import mirror_build
    from build_tools.release.mirror import deploy as fill

    if not any(wheels.glob("*.whl")):
        raise MirrorError(
            f"fill {folder}",
            f"{wheels} has no wheels",
            "Name their folder with --wheels, or build them: python -m nox -s demo",
        )
    with ExitStack() as stack:
        signing = options.signers_of(stack, keys)
        found = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mirror-")))
        more = mirror_build.aiter(options.ROOT, found, _say) if aiter else []
        names = fill(sorted(wheels.glob("*.whl")), folder, signing, more)
    for name in names:
        click.echo(name)
    if not keys:
        _say(
            f"{folder} is not signed: nobody vouches for it. Name a key with --key, which `release keygen` makes"
        )


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
        count = fill(options.ROOT, folder, tests, signing, _say)
    click.echo(f"{count} files in {folder}")


def _say(words: str) -> None:
    click.echo(words, err=True)
