"""Channels: a folder with an index for each of nightly, rc and stable, which a release goes through as the same bytes.

What is promoted is what the channel before it holds, or for nightly a signed folder of wheels. Nothing is built again, no wheel
is written again: an index gets one version more. A folder that none of the trusted keys signed, a file that is not the one of its
list, and a version that was yanked go no further.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import InvalidVersion

from aiter_prebuilt.contract.signature import SUFFIX, SUMS, ListError, is_of_list, read_sums
from build_tools.errors import ReleaseError
from build_tools.files.filehash import sha256_file
from build_tools.release import mirror
from build_tools.release.index import FILES, reason_for, yanked
from build_tools.release.sign import Signer

if TYPE_CHECKING:
    from minisign import PublicKey

#: Each after the one that it takes from.
CHANNELS: Final = ("nightly", "rc", "stable")
_WHEEL: Final = re.compile(r"aiter_prebuilt(?:_[a-z0-9_]+)?-(?P<version>[^-/]+)-[^/]+\.whl")
#: What to do with a folder of wheels that has no list.
UNSIGNED: Final = "Sign it: python -m build_tools release sign FOLDER --key FILE"
_RECORD: Final = "aiter_prebuilt-{version}.release.json"


def promote(
    channels: Path, version: str, to: str, dist: Path, trusted: Sequence[Path], keys: Sequence[Signer]
) -> list[str]:
    """Put the wheels of ``version`` into the channel ``to`` of ``channels``; their names. ``dist``: where nightly takes them.

    Raises:
        ReleaseError: the source is not what a trusted key signed, has no such version, or the version was yanked.
        MirrorError: the channel has other bytes under a name.
    """
    asked = f"promote {version} to {to}"
    if why := _yanked(version, asked):
        raise ReleaseError(asked, f"it was yanked: {why}", "Promote the version that mends it")
    place = CHANNELS.index(to)
    source = channels / CHANNELS[place - 1] if place else dist
    unsigned = f"Promote it to {source.name} first" if place else UNSIGNED
    wanted = verified(source, trusted, asked, unsigned)
    chosen = {name: digest for name, digest in wanted.items() if _version_of(name) == version}
    if not any(Path(name).name.startswith(f"aiter_prebuilt-{version}-") for name in chosen):
        have = sorted({found for name in wanted if (found := _version_of(name))})
        raise ReleaseError(
            asked,
            f"{source} has no runtime wheel of it; it has {', '.join(have) or 'no wheel'}",
            f"Name one of them, or promote it to {CHANNELS[place - 1]} first"
            if place
            else "Build and sign it",
        )
    folder = channels / to
    record = next((name for name in wanted if Path(name).name == _RECORD.format(version=version)), None)
    more = [source / record] if record else []
    mirror.deploy([source / name for name in sorted(chosen)], folder, keys, more)
    for name, digest in chosen.items():
        if sha256_file(folder / FILES / Path(name).name) != digest:
            raise ReleaseError(
                asked, f"{name} is not the file that was signed", "Begin with an empty channel"
            )
    return sorted(Path(name).name for name in chosen)


def _yanked(version: str, asked: str) -> str | None:
    try:
        return reason_for(version, yanked())
    except InvalidVersion as error:
        raise ReleaseError(
            asked, "that is no version", "Write it as the wheels' names have it: 0.1.0"
        ) from error


def _version_of(name: str) -> str:
    """Return the version of a wheel's name.

    Nothing of another file's.
    """
    match = _WHEEL.fullmatch(Path(name).name)
    return match["version"] if match else ""


def verified(folder: Path, trusted: Sequence[Path], asked: str, unsigned: str = UNSIGNED) -> dict[str, str]:
    """Name -> SHA-256 of the files in ``folder``, all of which are as its list says, which a trusted key signed.

    Args:
        folder: the release.
        trusted: files of public keys.
        asked: what the caller does, for errors.
        unsigned: what to do where there is no list.

    Raises:
        ReleaseError: there is no list, no trusted key vouches for it, or a file is another one or in no list.
    """
    try:
        data = (folder / SUMS).read_bytes()
    except OSError as error:
        raise ReleaseError(asked, f"{folder} is no signed release: {error}", unsigned) from error
    if not any(_vouches(key, folder, data) for key in _keys(trusted)):
        raise ReleaseError(
            asked,
            f"no key that is trusted signed {folder / SUMS}",
            "Name the public key of who signed it with --trust, or have it signed",
        )
    try:
        wanted = read_sums(data)
    except ListError as error:
        raise ReleaseError(
            asked, f"{folder}: {error}", "Sign the folder again, or copy the list again"
        ) from error
    # A link to a folder is a file here: what it leads to is no part of the release.
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    here = {path.relative_to(folder).as_posix() for path in found}
    wrong = [
        name for name, digest in wanted.items() if name not in here or sha256_file(folder / name) != digest
    ]
    wrong += sorted(name for name in here - wanted.keys() if not is_of_list(name))
    if wrong:
        raise ReleaseError(
            asked,
            f"{wrong[0]} in {folder} is not as its list says, of {len(wrong)} such files",
            "Copy the release again; sign only what you built",
        )
    return wanted


def _keys(paths: Sequence[Path]) -> list[PublicKey]:
    from minisign import Error, PublicKey

    found = []
    for path in paths:
        try:
            found.append(PublicKey.from_file(path))
        except (OSError, ValueError, Error) as error:
            raise ReleaseError(
                f"trust {path}",
                f"it is no public key of minisign's: {error}",
                "Name a file that ends in .pub",
            ) from error
    return found


def _vouches(key: PublicKey, folder: Path, data: bytes) -> bool:
    """Is one of the signatures beside the list this key's, and right?"""
    from minisign import Error, Signature

    for path in sorted(folder.glob(f"{SUMS}*{SUFFIX}")):
        try:
            key.verify(data, Signature.from_file(path))
        except (OSError, ValueError, Error):
            continue
        return True
    return False
