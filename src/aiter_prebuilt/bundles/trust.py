"""Is what is here what somebody released? Signatures beside bundles and in a release's folder, by keys that the user names.

A bundle's signature is over its header, whose hashes cover all else of the file: ``<bundle>.minisig`` beside it, or, made with
further keys, ``<bundle>.<number of the key>.minisig``; that of its golden calls is over their file. A release's folder has
``SHA256SUMS`` and signatures of it, named alike.

An old bundle is rightly signed, too: whoever can replace the file could bring back its faults. So the version in the signed
comment must not be older than this package, or than ``AITER_PREBUILT_OLDEST``.

Whoever may replace a bundle in ``site-packages`` may replace this file too. These checks are for what comes from elsewhere: a
folder that was carried in, a mount that many machines share.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiter_prebuilt.bundles import minisign
from aiter_prebuilt.bundles.files import contents, is_folder, open_file
from aiter_prebuilt.bundles.minisign import PublicKey, Signature
from aiter_prebuilt.contract.header import HEADER_SIZE
from aiter_prebuilt.contract.signature import (
    SUMS,
    ListError,
    fields_of,
    is_of_list,
    is_version,
    name_of,
    order_of,
    read_sums,
    release_of,
)
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.errors import (
    AiterPrebuiltError,
    ArgumentError,
    OldBundleError,
    SignatureError,
    UnsignedError,
    WrongKeyError,
)

if TYPE_CHECKING:
    from aiter_prebuilt.bundles.installed_bundle import InstalledBundle

#: The oldest release of a signed bundle that is opened. Unset: this package's own.
OLDEST: Final = "AITER_PREBUILT_OLDEST"
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Seal:
    """The signature state of a bundle or of a release's list.

    It has the key and the signer's comment, or the problem.
    """

    path: str
    key: str
    comment: str
    problem: str = ""

    @property
    def ok(self) -> bool:
        """True when one of the keys vouches for it."""
        return not self.problem


def keys_from(paths: Sequence[str]) -> tuple[PublicKey, ...]:
    """Return the keys of these files.

    Names of nothing, as a setting that is empty has them, are refused. Raises KeyFileError.
    """
    return tuple(key for path in paths for key in minisign.keys_of(path))


def check_header(path: str, header: bytes, keys: tuple[PublicKey, ...], *, own: bool = False) -> Seal:
    """Check the signature of the bundle ``path``.

    Args:
        path: the bundle's file.
        header: the header that was read of it.
        keys: whose signature counts.
        own: it is an own bundle, whose releases have nothing to do with those of this package.

    Raises:
        UnsignedError, WrongKeyError, SignatureError: none of the keys vouches for it.
        OldBundleError: one does, for an older release. ArgumentError: ``AITER_PREBUILT_OLDEST`` is no version.
    """
    found = _signed(Path(path), header, f"the bundle {path}", keys)
    if not own:
        _new_enough(
            path, fields_of(found.comment).get("version", ""), "it was signed as", "its signed comment"
        )
    return Seal(path, found.number, found.comment)


def check_version(path: str, version: str) -> None:
    """Refuse a bundle whose own index names an older release, whatever release its signature names.

    Args:
        path: the bundle's file, whose signature is right.
        version: what its index says. The signed header covers the index.

    Raises:
        OldBundleError: it is older. ArgumentError: ``AITER_PREBUILT_OLDEST`` is no version.
    """
    _new_enough(path, version, "it is of", "its index")


def _new_enough(path: str, signed: str, how: str, where: str) -> None:
    """Refuse a bundle of an older release than this package, or than the one that the user allows."""
    setting = os.environ.get(OLDEST)
    oldest = VERSION if setting is None else setting
    if not is_version(oldest):
        raise ArgumentError(
            f"read {OLDEST}", f"{oldest!r} is no version", f"Set it to one, such as {VERSION}, or unset it"
        )
    named = is_version(signed)
    release = signed if named else "0"  # no version: as old as can be
    if order_of(release) >= order_of(oldest):
        return
    limit = f"this package is {VERSION}" if setting is None else f"{OLDEST} is {oldest}"
    found = f"{how} release {signed}" if named else f"{where} names no release"
    raise OldBundleError(
        f"trust the bundle {path}",
        f"{found}, and {limit}",
        f"Install the bundle of this release. To open the older one: export {OLDEST}={release}",
    )


def seal_of(path: str, keys: tuple[PublicKey, ...], *, own: bool = False) -> Seal:
    """Check the signature of a file that is not yet open.

    As :func:`check_header`; an error becomes the problem of the result.
    """
    try:
        with open_file(path) as stream:
            header = stream.read(HEADER_SIZE)
        return check_header(path, header, keys, own=own)
    except (OSError, AiterPrebuiltError) as error:
        return Seal(path, "", "", str(error))


def seals_of(bundle: InstalledBundle, keys: tuple[PublicKey, ...]) -> list[Seal]:
    """Check the signatures of a bundle and of its golden calls.

    Executed calls are compared with the golden ones.

    The calls name no bundle themselves. Their signed comment does: another target's calls, or those of another release, are as
    wrong as changed ones.
    """
    seals, calls = [seal_of(bundle.path, keys, own=bool(bundle.tree))], Path(bundle.calls)
    if os.path.lexists(calls):
        try:
            what = f"the golden calls {calls}"
            found = _signed(calls, contents(calls), what, keys)
            _same_bundle(what, calls.name, fields_of(found.comment), fields_of(seals[0].comment))
            seals.append(Seal(str(calls), found.number, found.comment))
        except (OSError, AiterPrebuiltError) as error:
            seals.append(Seal(str(calls), "", "", str(error)))
    return seals


def _same_bundle(what: str, name: str, calls: Mapping[str, str], bundle: Mapping[str, str]) -> None:
    """Refuse golden calls that were signed beside another bundle, or with another release of it."""
    found = ""
    if calls.get("file") != name:
        found = f"they were signed as {calls.get('file', 'a file without a name')!r}"
    elif "version" in bundle and calls.get("version") != bundle["version"]:
        found = f"they are of version {calls.get('version', 'unknown')}, the bundle is of {bundle['version']}"
    if found:
        raise SignatureError(f"trust {what}", found, "install the wheel again from who released it")


def check_release(folder: Path, keys: tuple[PublicKey, ...], version: str = "") -> tuple[Seal, list[str]]:
    """Compare a release's folder with its signed list.

    Args:
        folder: what was released, whole.
        keys: whose signature of the list counts.
        version: the release that it must hold; "" is any that is not older than this package. An old release is rightly signed,
            too: whoever can replace the folder could bring back its faults.

    Returns:
        The list's signature, and a line for everything that is wrong.

    Raises:
        UnsignedError, WrongKeyError, SignatureError: none of the keys vouches for the list.
    """
    sums = folder / SUMS
    try:
        with open_file(sums) as stream:
            data = stream.read()
    except OSError as error:
        raise UnsignedError(
            f"check the release in {folder}",
            f"{SUMS} cannot be read: {error}",
            "name the folder that was released, whole",
        ) from error
    found = _signed(sums, data, str(sums), keys)
    seal = Seal(str(sums), found.number, found.comment)
    try:
        wanted = read_sums(data)
    except ListError as error:
        return seal, [str(error)]
    signed = fields_of(found.comment).get("version", "")
    return seal, [*_other_release(wanted, signed, version), *_compared(folder, wanted)]


def _other_release(names: Iterable[str], signed: str, version: str) -> list[str]:
    """Is it another release than the one asked for, or an older one than this package?

    A folder without a runtime wheel is of the version that its list was signed as.
    """
    have = sorted({found for name in names if (found := release_of(name))}, key=order_of)
    have = have or ([signed] if is_version(signed) else [])
    if version:
        missing = order_of(version) not in map(order_of, have)
        return (
            [f"release {version} is not in it: it has {', '.join(have) or 'no runtime wheel'}"]
            if missing
            else []
        )
    if have and order_of(have[-1]) < order_of(VERSION):
        older = f"its newest release is {have[-1]}, and {VERSION} is installed here"
        return [f"{older}: if you want the older one, add --version {have[-1]}"]
    return []


def _compared(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    # A link to a folder is a file here: what it leads to is no part of the release.
    found = (path for path in folder.rglob("*") if path.is_symlink() or not is_folder(path))
    here = {path.relative_to(folder).as_posix() for path in found}
    here = {name for name in here if not is_of_list(name)}
    problems = [f"{name}: it is not in {SUMS}" for name in sorted(here - wanted.keys())]
    for name, digest in sorted(wanted.items()):
        if link := _link_in(folder, name):
            problems.append(f"{name}: {link} is a link, which leads out of what was released")
            continue
        try:
            if _sha256(folder / name) != digest:
                problems.append(f"{name}: its bytes are not those that were released")
        except OSError as error:
            problems.append(f"{name}: it cannot be read: {error.strerror or error}")
    return problems


def _link_in(folder: Path, name: str) -> str:
    """Find the first part of a name that is a link.

    The name is below ``folder``; "" when none is.
    """
    place = folder
    for part in name.split("/"):
        place /= part
        if place.is_symlink():
            return place.relative_to(folder).as_posix()
    return ""


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_file(path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _signed(file: Path, signed: bytes, what: str, keys: tuple[PublicKey, ...]) -> Signature:
    """Find the first signature beside ``file`` by one of ``keys``.

    A problem ends the search only where no signature is right: while keys change, one of two is enough.
    """
    refused: list[AiterPrebuiltError] = []
    for path in (_beside(file, ""), *(_beside(file, key.number) for key in keys)):
        try:
            return minisign.check(path, signed, what, keys)
        except FileNotFoundError:
            continue
        except OSError as error:
            refused.append(SignatureError(f"check the signature {path}", str(error), "make it readable"))
        except (SignatureError, WrongKeyError) as error:
            refused.append(error)
    # What was changed says more than what another key made.
    if refused:
        raise min(refused, key=lambda each: isinstance(each, WrongKeyError))
    raise UnsignedError(
        f"trust {what}",
        f"there is no signature {_beside(file, '')}",
        "install wheels that were signed, or name no key (--key, AITER_PREBUILT_KEYS)",
    )


def _beside(file: Path, number: str) -> Path:
    return file.with_name(name_of(file.name, number))
