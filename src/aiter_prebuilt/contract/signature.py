"""The names of signatures, as those who sign write them and those who check them look for them.

Of a bundle, and of a release's list: ``NAME.minisig``, which minisign looks for, and of each further key
``NAME.<its number>.minisig``.
"""

from __future__ import annotations

import math
import re
from typing import Final

#: How the name of a signature ends.
SUFFIX: Final = ".minisig"
#: The list of a release's files.
SUMS: Final = "SHA256SUMS"
_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *]([^\\\0\r]+)")
_RUNTIME: Final = re.compile(r"aiter_prebuilt-([^-/]+)-[^/]+\.whl")
_VERSION: Final = re.compile(
    r"(?P<release>[0-9]{1,9}(?:\.[0-9]{1,9})*)(?:(?P<pre>a|b|rc)(?P<number>[0-9]{1,9}))?"
    r"(?:\.post(?P<post>[0-9]{1,9}))?(?:\.dev(?P<dev>[0-9]{1,9}))?(?:\+[a-z0-9.]+)?"
)
_OF_LIST: Final = re.compile(rf"{SUMS}(\.[0-9A-F]{{16}})?({re.escape(SUFFIX)})?")


class ListError(ValueError):
    """A list of a release's files cannot be read."""


def read_sums(data: bytes) -> dict[str, str]:
    """Parse a ``SHA256SUMS`` file.

    Args:
        data: its bytes.

    Returns:
        Name relative to the folder -> SHA-256 in hexadecimal digits.

    Raises:
        ListError: it is not UTF-8, or a line is no digest and name, leaves the folder or repeats a name. Nothing is skipped: a
            line that is passed over is a file that nobody compares.
    """
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ListError(f"{SUMS} is not UTF-8: {error}") from error
    found: dict[str, str] = {}
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ListError(f"{SUMS}:{number}: not a SHA-256, two spaces and a name")
        digest, name = match[1], match[2]
        if not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise ListError(f"{SUMS}:{number}: {name!r} is not a name below the folder")
        if name in found:
            raise ListError(f"{SUMS}:{number}: {name!r} is listed for the second time")
        found[name] = digest
    return found


def fields_of(comment: str) -> dict[str, str]:
    """Split a signed comment, ``timestamp:1<tab>file:NAME<tab>version:0.1.0``, into its fields."""
    return {name: value for name, _, value in (part.partition(":") for part in comment.split("\t"))}


def release_of(name: str) -> str:
    """Return the version that the name of a runtime wheel has; "" for any other file."""
    match = _RUNTIME.fullmatch(name.rpartition("/")[2])
    return match[1] if match else ""


def is_version(text: str) -> bool:
    """Is it a version as releases of this project have them?"""
    return _VERSION.fullmatch(text) is not None


def order_of(version: str) -> tuple[object, ...]:
    """Return a key that sorts versions of this project as PEP 440 does: 0.2.dev1 < 0.2a1 < 0.2rc1 < 0.2 < 0.2.post1."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return ((), -1, 0, -1, 0)
    release = tuple(int(part) for part in match["release"].split("."))
    while release[-1:] == (0,):
        release = release[:-1]
    dev = int(match["dev"]) if match["dev"] else None
    stage = {"a": 0, "b": 1, "rc": 2}[match["pre"]] if match["pre"] else 3
    if not match["pre"] and not match["post"] and dev is not None:
        stage = -1  # a development release comes before every stage of its release
    post = int(match["post"]) if match["post"] else -1
    return (release, stage, int(match["number"] or 0), post, math.inf if dev is None else dev)


def name_of(file: str, number: str = "") -> str:
    """Return the name of a file's signature.

    ``number`` is that of a further key.
    """
    return f"{file}{f'.{number}' if number else ''}{SUFFIX}"


def is_of_list(name: str) -> bool:
    """Is it the list itself, or a signature of it?"""
    return _OF_LIST.fullmatch(name) is not None
