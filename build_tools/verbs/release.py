"""From wheels to a release."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


_RECORD = click.Path(exists=True, path_type=Path)


def record_of(bundles: Path, wheels: list[Path]) -> dict[str, Any]:
    """Return the record of the bundles in a folder."""
    from build_tools.manifest.parse import load
    from build_tools.release.record import record

    places = {
        operator.name: (family.family, sorted({kernel.source for kernel in operator.kernels}))
        for family in load(options.ROOT / "manifests").families.values()
        for operator in family.operators
    }
    return record(options.ROOT, bundles, wheels, places)


@click.group()
def release() -> None:
    """Make a release of wheels: record what it holds, sign it, say where it comes from and what changed, promote or yank it.
    What signs needs pyproject.toml's group release.
    """


@example("release record dist")
@release.command()
@click.argument("folder", type=_FOLDER, default=options.ROOT / "dist")
@options.bundles
def record(folder: Path, bundles: Path) -> None:
    """Write into FOLDER (dist) what its wheels hold, entry by entry: what notes are made of. Before it is signed."""
    from build_tools.files.reproducible import write_atomic
    from build_tools.release.record import NAME, text

    write_atomic(folder / NAME, text(record_of(bundles, sorted(folder.glob("*.whl")))))
    click.echo(folder / NAME)


@example("release notes OLD NEW")
@release.command()
@click.argument("old", type=_RECORD)
@click.argument("new", type=_RECORD, default=None, required=False)
@options.json
@options.bundles
def notes(old: Path, new: Path | None, as_json: bool, bundles: Path) -> None:
    """List the changes from release OLD to release NEW.

    Operators, entries and why, receipts, sizes. Each is a record or a folder that has one; without NEW the bundles here count.
    """
    from build_tools.release import changes, changes_view
    from build_tools.release.record import read

    found = changes.compute(read(old), record_of(bundles, []) if new is None else read(new))
    if as_json:
        print_json(found.as_json())
    else:
        click.echo(changes_view.render(found), nl=False)


@example("release keygen FOLDER")
@release.command()
@click.argument("folder", type=_FOLDER)
@click.option("--name", default="aiter-prebuilt", show_default=True)
def keygen(folder: Path, name: str) -> None:
    """Make a pair of minisign keys in FOLDER; AITER_PREBUILT_KEY_PASSWORD encrypts the secret one."""
    from build_tools.release.sign import new_key

    password = os.environ.get(options.KEY_VARIABLE, "")
    secret, public = new_key(folder, name, password)
    for path in (secret, public):
        click.echo(path)
    click.echo(
        "Publish the public key where nobody who can change the wheels can change it: "
        f"copy the line of {public.name} into SECURITY.md, commit it, and name the commit where you announce releases.",
        err=True,
    )
    if not password:
        click.echo(
            f"{secret} is not encrypted: whoever reads that file can sign; with a password in {options.KEY_VARIABLE} it is",
            err=True,
        )


@example("release sign dist --key KEY.key")
@release.command()
@click.argument("folder", type=_FOLDER, default=options.ROOT / "dist")
@options.signing_keys
@click.option(
    "--builder", default="", metavar="URI",
    help="Who built, for the provenance: a CI service's workflow, .../.github/workflows/wheels.yml@REF. "
    "Default: a machine of one's own.",
)  # fmt: skip
@click.option("--invocation", default="", metavar="URI", help="The address of the run that built.")
@click.option(
    "--source",
    default="",
    metavar="URL@REF",
    help="The repository that was built, and its branch, tag or commit: it must be the commit of every wheel.",
)
def sign(folder: Path, keys: tuple[Path, ...], builder: str, invocation: str, source: str) -> None:
    """Sign the wheels in FOLDER (dist): each bundle inside of its wheel, SHA256SUMS, and a statement of provenance for each."""
    from build_tools.release import built
    from build_tools.release.provenance import OWN_MACHINE, Run, commit_of
    from build_tools.release.sign import sign_folder

    if not keys:
        raise click.UsageError("name a secret key: --key FILE")
    made = Run(builder or OWN_MACHINE, invocation, source)
    with ExitStack() as stack:
        for path in sign_folder(options.ROOT, folder, options.signers_of(stack, keys), made):
            click.echo(path)
    for line in built.differences(sorted(folder.glob("*.whl")), commit_of(options.ROOT)):
        click.echo(line, err=True)


@example("release compatibility")
@release.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.json
def compatibility(files: tuple[Path, ...], as_json: bool) -> None:
    """With what this was run, and what came out. FILES, which tests wrote (AITER_PREBUILT_RAN; build/ran.json of the session
    tests), are joined with docs/compatibility.json, and docs/compatibility.md is written from that.
    """
    from build_tools.release import compatibility as runs

    known = runs.read(options.ROOT / runs.DATA)
    if files:
        known = runs.joined(known, [run for path in files for run in runs.read(path)])
        for written in runs.write(options.ROOT, known):
            click.echo(written, err=as_json)
    if as_json:
        print_json(runs.document(known))
    elif not files:
        click.echo(runs.render(known), nl=False)


@example("release promote CHANNELS VERSION --to nightly --trust KEY.pub --key KEY.key")
@release.command()
@click.argument("channels", type=click.Path(file_okay=False, path_type=Path))
@click.argument("version")
@click.option(
    "--to", type=click.Choice(["nightly", "rc", "stable"]), required=True,
    help="nightly takes from --wheels, rc from nightly, stable from rc.",
)  # fmt: skip
@click.option(
    "--wheels", type=click.Path(file_okay=False, path_type=Path), default=options.ROOT / "dist",
    show_default="dist",
)  # fmt: skip
@click.option(
    "--trust", "trusted", multiple=True, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A public key: one of those must have signed what is promoted.",
)  # fmt: skip
@options.signing_keys
def promote(
    channels: Path, version: str, to: str, wheels: Path, trusted: tuple[Path, ...], keys: tuple[Path, ...]
) -> None:
    """Put the wheels of VERSION, byte for byte, into a channel of the folder CHANNELS, whose index and list are signed anew."""
    from build_tools.release import channels as steps

    if not keys:
        raise click.UsageError("name a secret key for the channel's list: --key FILE")
    with ExitStack() as stack:
        for name in steps.promote(channels, version, to, wheels, trusted, options.signers_of(stack, keys)):
            click.echo(channels / to / "files" / name)


@example("release yank VERSION REASON --folder CHANNELS/stable --key KEY.key")
@release.command()
@click.argument("version")
@click.argument("reason")
@click.option(
    "--folder", "folders", multiple=True, type=_FOLDER,
    help="A channel or mirror whose index is to say it at once; several times.",
)  # fmt: skip
@options.signing_keys
def yank(version: str, reason: str, folders: tuple[Path, ...], keys: tuple[Path, ...]) -> None:
    """Say that nobody should take VERSION any more, and why, in build_tools/release/yanked.toml; its files stay."""
    from build_tools.release import index, mirror

    if folders and not keys:
        raise click.UsageError("name a secret key for the folders' lists: --key FILE")
    index.yank(version, reason, index.YANKED)
    if not index.released(version, options.ROOT, folders):
        click.echo(
            f"{version} is no version of this checkout, its tags or the folders named: see whether it is the one that you mean",
            err=True,
        )
    click.echo(f"{index.YANKED}: commit it")
    with ExitStack() as stack:
        signing = options.signers_of(stack, keys)
        for folder in folders:
            mirror.write(folder, signing)
            click.echo(folder)
