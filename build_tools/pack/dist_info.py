"""Write a wheel's metadata.

METADATA, WHEEL, licences and the bill of materials.

For the wheels that no build backend makes (bundles, the emulator); the runtime's comes from scikit-build-core. The fields
are checked and written by ``packaging`` (core metadata 2.4, PEP 639), RECORD is added by :mod:`build_tools.pack.archive`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.metadata import Metadata, RawMetadata, RFC822Message
from packaging.tags import parse_tag

from aiter_prebuilt.contract.version import VERSION
from build_tools.pack import licences, sbom
from build_tools.pack.archive import RUNTIME
from build_tools.tools.pins import Pins

GENERATOR: Final = f"{RUNTIME} build_tools {VERSION}"
#: The licence files of every wheel, below ``licenses``.
LICENCE_FILES: Final = ("LICENSE", "THIRD_PARTY.txt")


@dataclass(frozen=True, slots=True)
class About:
    """One distribution, in the words of its metadata. ``pure``: nothing in it is for one platform only."""

    summary: str
    description: str
    requires: tuple[str, ...]
    tag: str
    pure: bool


def stem(bill: sbom.Bill) -> str:
    """``name-version``, as files and folders are called."""
    return f"{bill.distribution.replace('-', '_')}-{bill.version}"


def members(
    about: About,
    bill: sbom.Bill,
    root: Path,
    pinned: Pins,
    texts: Mapping[str, bytes] | None = None,
    licence: str = "",
) -> dict[str, bytes]:
    """Build the files of ``.dist-info`` without RECORD.

    Args:
        about: the distribution.
        bill: its bill of materials.
        root: the repository, which has the licence.
        pinned: the pinned source trees.
        texts: licence files by name; this repository's when None.
        licence: their SPDX expression; that of the bill's backends when empty.
    """
    folder = f"{stem(bill)}.dist-info"
    if texts is None:
        own = ((root / "LICENSE").read_bytes(), licences.notices(bill.backends, bill.upstream).encode())
        texts = dict(zip(LICENCE_FILES, own, strict=True))
    return {
        f"{folder}/METADATA": _text(metadata(about, bill, tuple(texts), licence)),
        f"{folder}/WHEEL": _wheel(about),
        **{f"{folder}/licenses/{name}": text for name, text in texts.items()},
        f"{folder}/sboms/{sbom.FILE_NAME}": sbom.write(bill, pinned),
    }


def metadata(
    about: About, bill: sbom.Bill, files: tuple[str, ...] = LICENCE_FILES, licence: str = ""
) -> Metadata:
    """Return the core metadata, checked field by field; ``files`` and ``licence`` as in :func:`members`."""
    raw: RawMetadata = {
        "metadata_version": "2.4",
        "name": bill.distribution,
        "version": bill.version,
        "summary": about.summary,
        "license_expression": licence or licences.expression(bill.backends),
        "license_files": [*files],
        "requires_python": ">=3.10",
        "requires_dist": [*about.requires],
        "description_content_type": "text/markdown",
        "description": about.description,
    }
    return Metadata.from_raw(raw)


def _text(metadata: Metadata) -> bytes:
    """Return the file.

    ``packaging`` writes field names in small letters, which is valid; here they are as other tools write them.
    """
    written, message = metadata.as_rfc822(), RFC822Message()
    for name, value in written.items():
        message[name.title()] = value
    message.set_payload(written.get_payload())
    return message.as_bytes()


def _wheel(about: About) -> bytes:
    message = RFC822Message()
    message["Wheel-Version"] = "1.0"
    message["Generator"] = GENERATOR
    message["Root-Is-Purelib"] = str(about.pure).lower()
    for tag in sorted(map(str, parse_tag(about.tag))):
        message["Tag"] = tag
    return message.as_bytes()
