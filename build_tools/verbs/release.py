"""From wheels to a release."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import click

from build_tools.verbs import options

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def release() -> None:
    """Make a release of wheels: sign them, say where they come from. Needs what pyproject.toml's group release names."""


@release.command()
@click.argument("folder", type=_FOLDER)
@click.option("--name", default="aiter-prebuilt", show_default=True)
def keygen(folder: Path, name: str) -> None:
    """Make a pair of minisign keys in FOLDER; AITER_PREBUILT_KEY_VARIABLE encrypts the secret one."""
    from build_tools.release.sign import new_key

    for path in new_key(folder, name, os.environ.get(options.KEY_VARIABLE, "")):
        click.echo(path)


@release.command()
@click.argument("folder", type=_FOLDER, default=options.ROOT / "dist")
@options.signing_keys
@click.option(
    "--builder", default="", help="Who builds, for the provenance: the address of a CI service's run."
)
def sign(folder: Path, keys: tuple[Path, ...], builder: str) -> None:
    """Sign the wheels in FOLDER (dist): each bundle inside of its wheel, SHA256SUMS, and a statement of provenance for each."""
    from build_tools.release.sign import sign_folder

    if not keys:
        raise click.UsageError("name a secret key: --key FILE")
    with ExitStack() as stack:
        for path in sign_folder(options.ROOT, folder, options.signers_of(stack, keys), builder):
            click.echo(path)
