"""Keys and signatures as minisign writes them, read and checked with the standard library alone.

A public key: a line that nobody vouches for, then base64 of ``Ed``, 8 bytes that name the key, and 32 bytes of Ed25519. A
signature: such a line, base64 of ``ED`` (of the BLAKE2b of what is signed) or ``Ed`` (of itself), the key's 8 bytes and 64 bytes,
then a comment that is signed too, and base64 of the signature over signature and comment.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiter_prebuilt.bundles.ed25519 import is_right
from aiter_prebuilt.bundles.files import contents
from aiter_prebuilt.errors import KeyFileError, SignatureError, WrongKeyError

_UNTRUSTED: Final = "untrusted comment: "
_TRUSTED: Final = "trusted comment: "
_PLAIN, _HASHED = b"Ed", b"ED"
#: A file of either kind is a few lines; what is larger is none, and is not read as one.
_MOST: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key whose signatures are trusted.

    ``number``: the eight bytes that name it, as minisign prints them.
    """

    number: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Signature:
    """A parsed signature file.

    ``comment`` is true once the signature is.
    """

    number: str
    hashed: bool
    signature: bytes
    comment: str
    over_comment: bytes


def keys_of(path: str | Path) -> tuple[PublicKey, ...]:
    """Return the public keys of a file.

    One, or, while keys change, several one behind the other.

    Raises:
        KeyFileError: it cannot be read, or is no such file.
    """
    asked, fix = f"read the public key {path}", "name a file that minisign -G wrote (minisign.pub)"
    try:
        lines = [line.strip() for line in _text(path).splitlines()]
    except (OSError, ValueError) as error:
        raise KeyFileError(asked, str(error), fix) from error
    words = [line for line in lines if line and not line.startswith(_UNTRUSTED)]
    try:
        rows = [base64.b64decode(word, validate=True) for word in words]
    except ValueError as error:  # binascii's is one; letters outside ASCII raise a plain one
        raise KeyFileError(asked, f"a line is not base64: {error}", fix) from error
    if not rows or any(len(row) != 42 or row[:2] != _PLAIN for row in rows):
        raise KeyFileError(asked, "it holds no Ed25519 key of minisign's, or something else beside it", fix)
    return tuple(PublicKey(_number(row[2:10]), row[10:]) for row in rows)


def read(path: str | Path) -> Signature:
    """Parse a signature file without checking the signature.

    Raises:
        OSError: it cannot be read.
        SignatureError: it is no signature of minisign's.
    """
    try:
        # Not splitlines, which ends a line at characters that a comment may have.
        first, row, comment, last = _text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
        data, over = (base64.b64decode(line, validate=True) for line in (row, last))
    except ValueError as error:  # binascii's errors are some, and a text of other lines
        raise _broken(path, "it is not the four lines of a signature") from error
    right = first.startswith(_UNTRUSTED) and comment.startswith(_TRUSTED)
    if not right or len(data) != 74 or len(over) != 64 or data[:2] not in (_PLAIN, _HASHED):
        raise _broken(path, "it is no Ed25519 signature of minisign's")
    return Signature(_number(data[2:10]), data[:2] == _HASHED, data[10:], comment[len(_TRUSTED) :], over)


def check(path: str | Path, signed: bytes, what: str, keys: tuple[PublicKey, ...]) -> Signature:
    """Check a signature file against ``signed`` and ``keys``.

    Messages call the bytes ``what``.

    Raises:
        OSError: the file cannot be read.
        WrongKeyError: another key made it, as it says itself.
        SignatureError: it is no signature, or not of these bytes, or its comment is not the one that was signed.
    """
    found = read(path)
    mine = [key for key in keys if key.number == found.number]
    if not mine:
        raise WrongKeyError(
            f"trust {what}",
            f"{path} was made with the key {found.number}; trusted: {', '.join(key.number for key in keys)}",
            "name the key of who released it, if you trust them, or get the files again",
        )
    message = hashlib.blake2b(signed).digest() if found.hashed else signed
    # Two keys may share a name, by chance or by somebody's intent: any of them may have signed.
    signer = next((key for key in mine if is_right(found.signature, message, key.key)), None)
    if signer is None:
        raise _broken(path, f"it is not the signature of {what}: one of the two was changed")
    if not is_right(found.over_comment, found.signature + found.comment.encode(), signer.key):
        raise _broken(path, f"its comment {found.comment!r} is not the one that was signed")
    return found


def _broken(path: str | Path, found: str) -> SignatureError:
    return SignatureError(
        f"check the signature {path}", found, "get the file and its signature again from who released them"
    )


def _text(path: str | Path) -> str:
    return contents(path, _MOST).decode("utf-8-sig")  # editors on Windows begin a file with a byte order mark


def _number(data: bytes) -> str:
    return data[::-1].hex().upper()
