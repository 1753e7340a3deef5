"""Write a package index of files alone (PEP 503, PEP 592's yanks, PEP 658's metadata).

pip and uv install from it with ``file://`` and from any web server. Names, hashes and Pythons are read from the wheels; what was
yanked, and why, stands in ``yanked.toml`` beside this file.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote
from zipfile import BadZipFile, ZipFile

from packaging.metadata import parse_email
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from aiter_prebuilt.contract.version import VERSION
from build_tools.errors import MirrorError
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The folder that an installer is told of, and the one of the files.
SIMPLE: Final = "simple"
FILES: Final = "files"
#: One page with a link to every file, for ``pip install --no-index --find-links``: it has the hashes, as the index has.
LINKS: Final = "links.html"
#: Whose versions ``yanked.toml`` names; other projects' wheels may lie beside them.
OURS: Final = "aiter-prebuilt"
#: What the name of a wheel's metadata ends with, behind the wheel's own.
METADATA: Final = ".metadata"
YANKED: Final = Path(__file__).with_name("yanked.toml")
#: What no text of one line has, beside what stands before a space.
_DELETE: Final = 0x7F
_FILE: Final = re.compile(r"[A-Za-z0-9._+!-]+\.whl")
_VERSION: Final = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")


@dataclass(frozen=True, slots=True)
class Listed:
    """One wheel, as the index tells of it. ``requires``: the Pythons that it is for; ``yanked``: why nobody should take it;
    ``metadata``: its METADATA file, which installers resolve from without a download of the wheel.
    """

    project: str
    file: str
    sha256: str
    requires: str
    yanked: str | None
    metadata: bytes


def yanked(path: Path = YANKED) -> dict[str, str]:
    """Version to reason.

    Raises:
        MirrorError: the file is not ``[yanked]`` with a version and a reason in each line.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = table.pop("yanked", {})
        if table or not all(
            _VERSION.fullmatch(version) and isinstance(reason, str) and reason.strip()
            for version, reason in rows.items()
        ):
            raise ValueError("only [yanked] with lines of VERSION = REASON may stand in it")
    except (OSError, ValueError, AttributeError) as error:
        raise MirrorError(f"read {path}", str(error), "Mend it") from error
    return dict(rows)


def reason_for(version: str, reasons: Mapping[str, str]) -> str | None:
    """Return why ``version`` was yanked; None when it was not.

    Versions are compared as PEP 440 does: 1.0 is 1.0.0. A yank of a public version covers its local builds (1.0+cu1) too.
    """
    asked = Version(version)
    for each, reason in reasons.items():
        yanked_version = Version(each)
        if yanked_version in (asked, Version(asked.public)):
            return reason
    return None


def yank(version: str, reason: str, path: Path = YANKED) -> None:
    """Write a version and why nobody should take it behind those that are there.

    Raises:
        MirrorError: that is no version, no reason, or it is yanked for another one.
    """
    asked, known = f"yank {version}", yanked(path)
    if not _VERSION.fullmatch(version):
        raise MirrorError(
            asked, "that is no version", "Write it as the wheels' names have it: 0.1.0, 0.2.0rc1"
        )
    if not reason.strip() or any(ord(letter) < ord(" ") or ord(letter) == _DELETE for letter in reason):
        raise MirrorError(
            asked, "the reason is not one line of text", "Say what is wrong with it, for who has pinned it"
        )
    before = reason_for(version, known)
    if before not in (None, reason):
        raise MirrorError(asked, f"it was yanked: {before}", f"Change the line in {path}")
    if before is None:
        line = f'"{version}" = {json.dumps(reason, ensure_ascii=False)}\n'
        write_atomic(path, f"{path.read_text(encoding='utf-8').rstrip()}\n{line}".encode())


def released(version: str, root: Path, folders: Iterable[Path]) -> bool:
    """Tell whether anything here knows ``version``.

    The checkout at ``root``, a tag of it, or a wheel in one of ``folders``.
    """
    tags = run(["git", "-C", str(root), "tag", "--list", version, f"v{version}"], timeout=60)
    return (
        version == VERSION
        or (tags.ok and bool(tags.output.strip()))
        or any(True for folder in folders for _ in (folder / FILES).glob(f"*-{version}-*.whl"))
    )


def listed(wheel: Path, reasons: Mapping[str, str]) -> Listed:
    """Read a wheel's row of the index.

    Raises:
        MirrorError: it is no wheel, or its name says another distribution or version than it does.
    """
    asked, fix = f"list {wheel}", "Run python -m build_tools wheels, or copy the file again"
    if not _FILE.fullmatch(wheel.name):
        # The page and the links have names as they are.
        raise MirrorError(asked, "its name has letters that no wheel of a release has", fix)
    try:
        name, version, _, _ = parse_wheel_filename(wheel.name)
        with ZipFile(wheel) as archive:
            (info,) = (member for member in archive.namelist() if member.endswith(".dist-info/METADATA"))
            metadata = archive.read(info)
        told, _ = parse_email(metadata)
        if (canonicalize_name(told["name"]), told["version"]) != (name, str(version)):
            raise ValueError(f"it holds {told['name']} {told['version']}")
    except (OSError, BadZipFile, InvalidWheelFilename, ValueError, KeyError) as error:
        raise MirrorError(asked, f"it is no wheel of what its name says: {error}", fix) from error
    return Listed(
        name,
        wheel.name,
        sha256_file(wheel),
        told.get("requires_python", ""),
        reason_for(str(version), reasons) if name.startswith(OURS) else None,
        metadata,
    )


def write_index(folder: Path, wheels: Iterable[Listed]) -> None:
    """Write the pages of an index in ``folder / simple``, and one page with all links.

    Its files lie in ``folder / files``, where each wheel gets its metadata beside it (PEP 658).
    """
    projects: dict[str, list[Listed]] = defaultdict(list)
    for wheel in wheels:
        projects[wheel.project].append(wheel)
        write_atomic(folder / FILES / f"{wheel.file}{METADATA}", wheel.metadata)
    simple = folder / SIMPLE
    names = sorted(projects)
    write_atomic(
        simple / "index.html", _page("Simple index", (f'<a href="{name}/">{name}</a>' for name in names))
    )
    for name in names:
        rows = (_link(wheel) for wheel in sorted(projects[name], key=lambda each: each.file))
        write_atomic(simple / name / "index.html", _page(f"Links for {name}", rows))
    every = (
        _link(wheel, FILES) for name in names for wheel in sorted(projects[name], key=lambda each: each.file)
    )
    write_atomic(folder / LINKS, _page("All files", every))


def _link(wheel: Listed, files: str = f"../../{FILES}") -> str:
    more = f' data-requires-python="{html.escape(wheel.requires)}"' if wheel.requires else ""
    if wheel.yanked is not None:
        more += f' data-yanked="{html.escape(wheel.yanked)}"'
    digest = hashlib.sha256(wheel.metadata).hexdigest()
    # PEP 714's name, and the one that pip before 23.3 looks for.
    more += f' data-core-metadata="sha256={digest}" data-dist-info-metadata="sha256={digest}"'
    address = f"{files}/{quote(wheel.file)}#sha256={wheel.sha256}"
    return f'<a href="{address}"{more}>{html.escape(wheel.file)}</a>'


def _page(title: str, rows: Iterable[str]) -> bytes:
    head = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="pypi:repository-version" content="1.0">\n'
    body = "".join(f"{row}<br>\n" for row in rows)
    return f"{head}<title>{title}</title></head><body>\n<h1>{title}</h1>\n{body}</body></html>\n".encode()
