"""Is what is here what somebody released? Signatures beside bundles and in a release's folder, by keys that the user names.

A bundle's signature is over its header, whose hashes cover all else of the file: ``<bundle>.minisig`` beside it, or, made with
further keys, ``<bundle>.<number of the key>.minisig``; that of its golden calls is over their file. A release's folder has
``SHA256SUMS`` and signatures of it, named alike.

Whoever may replace a bundle in ``site-packages`` may replace this file too. These checks are for what comes from elsewhere: a
folder that was carried in, a mount that many machines share.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiter_prebuilt import minisign
from aiter_prebuilt.contract.header import HEADER_SIZE
from aiter_prebuilt.contract.signature import SUMS, is_of_list, name_of
from aiter_prebuilt.errors import AiterPrebuiltError, SignatureError, UnsignedError, WrongKeyError
from aiter_prebuilt.files import contents, is_folder, open_file
from aiter_prebuilt.minisign import PublicKey, Signature

if TYPE_CHECKING:
    from aiter_prebuilt.locate import InstalledBundle

_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *]([^\\\0]+)")
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Seal:
    """Of a bundle, or of the list of a release: with which key it is signed and what its signer said of it; or what is wrong."""

    path: str
    key: str
    comment: str
    problem: str = ""

    @property
    def ok(self) -> bool:
        """True when one of the keys vouches for it."""
        return not self.problem


def keys_from(paths: Sequence[str]) -> tuple[PublicKey, ...]:
    """The keys of these files; names of nothing, as a setting that is empty has them, are refused. Raises KeyFileError."""
    return tuple(key for path in paths for key in minisign.keys_of(path))


def check_header(path: str, header: bytes, keys: tuple[PublicKey, ...]) -> Seal:
    """The bundle ``path``, of which ``header`` was read.

    Raises:
        UnsignedError, WrongKeyError, SignatureError: none of the keys vouches for it.
    """
    found = _signed(Path(path), header, f"the bundle {path}", keys)
    return Seal(path, found.number, found.comment)


def seal_of(path: str, keys: tuple[PublicKey, ...]) -> Seal:
    """As :func:`check_header`, of a file that nobody has opened yet; what it raises is the problem of what it returns."""
    try:
        with open_file(path) as stream:
            header = stream.read(HEADER_SIZE)
        return check_header(path, header, keys)
    except (OSError, AiterPrebuiltError) as error:
        return Seal(path, "", "", str(error))


def seals_of(bundle: InstalledBundle, keys: tuple[PublicKey, ...]) -> list[Seal]:
    """Of a bundle, and of its golden calls where they are there: what is executed is compared with them."""
    seals, calls = [seal_of(bundle.path, keys)], Path(bundle.calls)
    if os.path.lexists(calls):
        try:
            found = _signed(calls, contents(calls), f"the golden calls {calls}", keys)
            seals.append(Seal(str(calls), found.number, found.comment))
        except (OSError, AiterPrebuiltError) as error:
            seals.append(Seal(str(calls), "", "", str(error)))
    return seals


def check_release(folder: Path, keys: tuple[PublicKey, ...]) -> tuple[Seal, list[str]]:
    """The list of a release's files, and what of the folder is not as it says, a line each.

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
    return Seal(str(sums), found.number, found.comment), _compared(folder, data)


def _compared(folder: Path, sums: bytes) -> list[str]:
    wanted: dict[str, str] = {}
    for number, line in enumerate(sums.decode("utf-8", "replace").splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in wanted or not {"", ".", ".."}.isdisjoint(match[2].split("/")):
            return [
                f"{SUMS}:{number}: not a SHA-256 and a name below the folder, or a name for the second time"
            ]
        wanted[match[2]] = match[1]
    # A link to a folder is a file here: what it leads to is no part of the release.
    found = (path for path in folder.rglob("*") if path.is_symlink() or not is_folder(path))
    here = {path.relative_to(folder).as_posix() for path in found}
    here = {name for name in here if not is_of_list(name)}
    problems = [f"{name}: it is not in {SUMS}" for name in sorted(here - wanted.keys())]
    for name, digest in sorted(wanted.items()):
        try:
            if _sha256(folder / name) != digest:
                problems.append(f"{name}: its bytes are not those that were released")
        except OSError as error:
            problems.append(f"{name}: it cannot be read: {error.strerror or error}")
    return problems


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_file(path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _signed(file: Path, signed: bytes, what: str, keys: tuple[PublicKey, ...]) -> Signature:
    """The first signature beside ``file`` that one of ``keys`` made. What is wrong ends the search only where nothing is right:
    while keys change, one of two is enough.
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
