"""From wheels to a release."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from build_tools.verbs import options

#: The password of secret keys: of no option, since all users of a machine may see those.
VARIABLE: Final = "AITER_PREBUILT_KEY_PASSWORD"
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def release() -> None:
    """Make a release of wheels: sign them, say where they come from. What the group release of pyproject.toml installs."""


@release.command()
@click.argument("folder", type=_FOLDER)
@click.option("--name", default="aiter-prebuilt", show_default=True)
def keygen(folder: Path, name: str) -> None:
    """Make a pair of minisign keys in FOLDER; AITER_PREBUILT_KEY_PASSWORD encrypts the secret one."""
    from build_tools.release.sign import new_key

    for path in new_key(folder, name, os.environ.get(VARIABLE, "")):
        click.echo(path)


@release.command()
@click.argument("folder", type=_FOLDER, default=options.ROOT / "dist")
@click.option(
    "--key",
    "keys",
    multiple=True,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A secret minisign key; twice, while keys change: users may trust either.",
)
@click.option(
    "--builder", default="", help="Who builds, for the provenance: the address of a CI service's run."
)
def sign(folder: Path, keys: tuple[Path, ...], builder: str) -> None:
    """Sign the wheels in FOLDER (dist): each bundle inside of its wheel, SHA256SUMS, and a statement of provenance for each."""
    from build_tools.release.sign import sign_folder, signers

    with ExitStack() as stack:
        signing = signers(stack, keys, os.environ.get(VARIABLE, ""))
        for path in sign_folder(options.ROOT, folder, signing, builder):
            click.echo(path)
