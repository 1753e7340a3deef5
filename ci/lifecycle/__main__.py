"""``nox -s lifecycle``: what a release goes through, with the wheels in ``dist`` and a key that is thrown away.

Two versions are signed and promoted. pip and uv, without a network and with an empty home, install the older one, upgrade,
downgrade and uninstall. A flipped byte must be found where it lies, and a withdrawn version must not be chosen. The older
version is the same commit under another number, packed from the same store.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import click

from aiter_prebuilt.contract.version import SUFFIX, VERSION
from lifecycle.places import ROOT, Life, LifecycleError, Place, flip, named

OLDER: Final = "0.0.9"
_REASON: Final = "wrong results of rms_norm"
#: Not even the loopback is up in such a namespace.
_ALONE: Final = ("unshare", "--map-root-user", "--net")
_INSTALLERS: Final = ("pip", "uv")


def packed_as(life: Life, version: str, store: Path) -> Path:
    """Pack the committed tree under another version, from what is compiled already."""
    tree = life.folder / "older"
    life.run("git", "clone", "-q", str(ROOT), str(tree))
    number = tree / "src" / "aiter_prebuilt" / "contract" / "version.py"
    text = number.read_text(encoding="utf-8")
    number.write_text(text.replace(f'"{VERSION}"', f'"{version}"'), encoding="utf-8")
    shutil.copytree(store, tree / "build" / "store", copy_function=os.link)
    tools = (sys.executable, "-m", "build_tools")
    for words in (
        ("build", "--ck", "sample", "--stored-only", "--target", life.target, "--profile", "ck-free"),
        ("wheels", "--output", str(life.folder / "dist" / version)),
    ):
        life.run(*tools, *words, cwd=tree, PYTHONPATH="src")
    return life.folder / "dist" / version


def make_releases(life: Life, dist: Path, store: Path) -> None:
    """Sign two versions, and move the older one up to the channel ``stable``."""
    (life.folder / "key").mkdir()
    life.build_tools("release", "keygen", str(life.folder / "key"))
    packed_as(life, OLDER, store)
    shutil.copytree(dist, life.folder / "dist" / VERSION)
    for version in (OLDER, VERSION):
        life.build_tools("release", "sign", str(life.folder / "dist" / version), "--key", str(life.key))
        life.see(f"{version} is signed")
    promote(life, OLDER)


def promote(life: Life, version: str) -> None:
    """Move a version through the three channels."""
    signing = ("--trust", str(life.public), "--key", str(life.key))
    for channel in ("nightly", "rc", "stable"):
        wheels = ("--wheels", str(life.folder / "dist" / version)) if channel == "nightly" else ()
        life.build_tools(
            "release", "promote", str(life.channels), version, "--to", channel, *wheels, *signing
        )
    life.see(f"{version} went through nightly and rc to stable")


def install_and_upgrade(life: Life, places: Sequence[Place]) -> None:
    """Install the older version, then the newer one over it."""
    stable = life.channels / "stable"
    for place in places:
        place.install(stable, life.package)
        place.works(OLDER)
        life.see(f"{place.installer} installed {OLDER} without a network; it verifies and runs")
    promote(life, VERSION)
    for place in places:
        place.install(stable, "--upgrade", life.package)
        place.works(VERSION)
        life.see(f"{place.installer} upgraded to {VERSION}; it verifies and runs")


def refuse_older_bundle(life: Life, place: Place) -> None:
    """Put the older release's bundle where the newer runtime looks: it is rightly signed, and opened only if asked for."""
    folder = life.folder / "older-bundle"
    folder.mkdir()
    (wheel,) = (life.folder / "dist" / OLDER).glob(f"aiter_prebuilt_{life.target}-*.whl")
    with ZipFile(wheel) as archive:
        for member in archive.namelist():
            if member.startswith("aiter_prebuilt_bundles/"):
                (folder / Path(member).name).write_bytes(archive.read(member))
    asked = (place.program("aiter-prebuilt"), "list")
    told = place.ours(*asked, fails=True, AITER_PREBUILT_BUNDLES=str(folder))
    named(told, f"AITER_PREBUILT_OLDEST={OLDER}")
    place.ours(*asked, AITER_PREBUILT_BUNDLES=str(folder), AITER_PREBUILT_OLDEST=OLDER)
    life.see(f"a signed bundle of {OLDER} is refused by {VERSION}, unless it is asked for")


def mirror(life: Life) -> None:
    """Carry the release over in a folder, check it there, and install from it."""
    folder, sealed = life.folder / "mirror", ("--key", str(life.key))
    life.build_tools(
        "mirror", "deploy", str(folder), "--wheels", str(life.folder / "dist" / VERSION), *sealed
    )
    life.run("sha256sum", "-c", "--quiet", "SHA256SUMS", cwd=folder)
    for installer in _INSTALLERS:
        place = Place(life, installer, f"mirrored-{installer}").make()
        place.install(folder, life.package)
        place.works(VERSION)
        place.ours(
            place.program("aiter-prebuilt"), "verify", "--release", str(folder), "--key", str(life.public)
        )
        life.see(f"{installer} installed {VERSION} from the mirror without a network")


def find_flipped_bytes(life: Life, places: Sequence[Place]) -> None:
    """Flip a byte of an installed bundle and of a wheel in the channel: both must be found, by name."""
    stable = life.channels / "stable"
    for place in places:
        (bundle,) = place.folder.glob(f"lib/python3.*/site-packages/**/*{SUFFIX}")
        flip(bundle)
        told = place.ours(place.program("aiter-prebuilt"), "verify", "--key", str(life.public), fails=True)
        named(told, bundle.name)
        again = "--force-reinstall" if place.installer == "pip" else "--reinstall --no-cache"
        named(told, again)
        place.install(stable, *again.split(), life.package)
        place.works(VERSION)
    life.see("a flipped byte of an installed bundle is found by verify; installing again mends it")
    (wheel,) = stable.rglob(f"aiter_prebuilt_{life.target}-{VERSION}-*.whl")
    content = wheel.read_bytes()
    flip(wheel)
    place = places[0]
    checked = ("verify", "--release", str(stable), "--key", str(life.public))
    named(place.ours(place.program("aiter-prebuilt"), *checked, fails=True), wheel.name)
    for installer in _INSTALLERS:
        clean = Place(life, installer, f"refused-{installer}").make()
        clean.install(
            stable, "--no-cache-dir" if installer == "pip" else "--no-cache", life.package, fails=True
        )
    wheel.write_bytes(content)
    place.ours(place.program("aiter-prebuilt"), *checked)
    life.see("a flipped byte of a wheel is found by verify --release; pip and uv refuse the wheel")


def asked_for_yanked(place: Place, index: Path) -> str:
    """Ask for the withdrawn version by number, and return what the installer says of it.

    pip takes a withdrawn version wherever it is pinned; uv only where the user pins it himself, so each of our packages is named.
    """
    life = place.life
    asked = f"{life.package}=={VERSION}"
    if place.installer == "pip":
        return place.install(index, "--upgrade", asked)
    named(place.install(index, "--upgrade", asked, fails=True), _REASON)
    parts = (f"aiter-prebuilt-{part}=={VERSION}" for part in (life.target, "emulator"))
    return place.install(index, "--upgrade", asked, *parts)


def yank(life: Life, places: Sequence[Place]) -> None:
    """Withdraw the newer version: it is not chosen any more, and who asks for it by number reads why."""
    stable, table = life.channels / "stable", ROOT / "build_tools" / "release" / "yanked.toml"
    kept = table.read_bytes()
    try:
        life.build_tools("release", "yank", VERSION, _REASON, "--folder", str(stable), "--key", str(life.key))
    finally:
        table.write_bytes(kept)  # the checkout withdraws nothing
    for installer in _INSTALLERS:
        place = Place(life, installer, f"yanked-{installer}").make()
        place.install(stable, life.package)
        place.works(OLDER)
        named(asked_for_yanked(place, stable), _REASON)
        place.works(VERSION)
        life.see(f"{installer} takes {OLDER} once {VERSION} is yanked, and says why when asked for {VERSION}")
    for place in places:
        place.install(stable, f"{life.package}=={OLDER}")
        place.works(OLDER)
        life.see(f"{place.installer} downgraded to {OLDER}; it verifies and runs")


@click.command()
@click.option("--dist", type=click.Path(exists=True, file_okay=False, path_type=Path), default=ROOT / "dist")
@click.option(
    "--store", type=click.Path(exists=True, file_okay=False, path_type=Path), default=ROOT / "build" / "store"
)
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "lifecycle")
@click.option("--target", default="gfx942", help="Whose wheel is installed and runs.")
def main(dist: Path, store: Path, folder: Path, target: str) -> None:
    """Make, sign, mirror, install, upgrade, damage, withdraw and remove a release."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    may = subprocess.run([*_ALONE, "true"], capture_output=True, check=False).returncode == 0
    life = Life(folder.resolve(), target, _ALONE if may else ())
    if not may:
        life.see("NOT SEEN: no namespace without a network is to be had here; the network stayed")
    try:
        make_releases(life, dist, store.resolve())
        places = [Place(life, each, each).make() for each in _INSTALLERS]
        before = {place.name: place.files() for place in places}
        install_and_upgrade(life, places)
        refuse_older_bundle(life, places[0])
        mirror(life)
        find_flipped_bytes(life, places)
        yank(life, places)
        for place in places:
            place.uninstall()
            if left := place.files() - before[place.name]:
                raise LifecycleError(f"{place.installer} left {', '.join(sorted(map(str, left)))}")
        life.see("uninstalled: no file is left")
    except LifecycleError as error:
        raise click.ClickException(f"{error}\nThe folder stays: {folder}") from None
    click.echo(f"{len(life.seen)} steps seen")


if __name__ == "__main__":
    main()
