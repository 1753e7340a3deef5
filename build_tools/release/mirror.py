"""A folder that can be carried to a site without a network, to install from: wheels, an index of files, hashes, signatures, and a
page for the person who carries it. Wheels of earlier releases that are in it stay, so that one folder can serve several.
"""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from aiter_prebuilt.contract.signature import SUFFIX as SIGNATURE
from aiter_prebuilt.contract.version import VERSION
from build_tools.errors import MirrorError
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import write_atomic
from build_tools.pack.archive import RUNTIME
from build_tools.release.index import FILES, SIMPLE, listed, write_index, yanked
from build_tools.release.sign import Signer, write_sums

PAGE: Final = "README.md"
_TEXT: Final = """# aiter-prebuilt, to be installed without a network

Everything that machines with an AMD GPU need is in this folder; nothing is fetched. Written by aiter-prebuilt {version}.

1. Before you carry it: `sha256sum -c SHA256SUMS` in this folder must say OK for every line{signed}
2. Where it arrives, again the same; copying can go wrong.
3. Install, with FOLDER the absolute path of this folder:

       python3 -m pip install --isolated --index-url file://FOLDER/{simple} 'aiter-prebuilt[{extras}]'

   (`--isolated`: no setting of this machine names another index. uv: `uv pip install --no-config --index-url
   file://FOLDER/{simple} ...`.) Name one of the extras: {all_extras}.
   torch and the engine are not in here; nothing of this needs them to be installed.
4. `aiter-prebuilt doctor` says what it found; `aiter-prebuilt verify` checks every code object{keys}.

| file | bytes | yanked |
|---|---|---|
{rows}
"""
_SIGNED: Final = """, and
   `minisign -Vm SHA256SUMS -p KEY` that it is signed with the key {numbers}. For a first installation, take KEY from SECURITY.md
   of the project's repository, and minisign from your system: neither from this folder. Later, the installed
   `aiter-prebuilt verify --release . --key KEY` does the same."""
_UNSIGNED: Final = """.
   **This folder is not signed**: nobody vouches for it. The hashes find errors of copying, and not somebody who changed both."""


def deploy(
    wheels: Sequence[Path], folder: Path, keys: Sequence[Signer], more: Sequence[Path] = ()
) -> list[str]:
    """Put ``wheels``, what lies beside them of their release, and ``more`` into ``folder`` and write its index; the files of its
    wheels.

    Raises:
        MirrorError: there is no wheel; one is none; or the folder has other bytes under the name of one.
    """
    if not wheels:
        raise MirrorError(
            f"fill {folder}", "there is no wheel to put into it", "Run python -m build_tools wheels"
        )
    reasons = yanked()
    for wheel in wheels:
        listed(wheel, reasons)
    for wheel in wheels:
        for path in sorted(wheel.parent.glob(f"{wheel.name}*")):
            _put(path, folder / FILES / path.name)
    for path in more:
        _put(path, folder / FILES / path.name)
    return write(folder, keys)


def write(folder: Path, keys: Sequence[Signer]) -> list[str]:
    """Write the index, page and list of a folder of wheels.

    Yanked wheels are marked; the result lists the files of its wheels.

    Raises:
        MirrorError: a wheel is none.
    """
    reasons = yanked()
    rows = [listed(path, reasons) for path in sorted((folder / FILES).glob("*.whl"))]
    shutil.rmtree(folder / SIMPLE, ignore_errors=True)
    write_index(folder, rows)
    _page(folder, [(row.file, row.yanked) for row in rows], keys)
    write_sums(folder, keys)
    return [row.file for row in rows]


def _put(source: Path, target: Path) -> None:
    """Copy a file that is not there. One that is stays: what was released under a name is never replaced by something else."""
    if not target.exists():
        write_atomic(target, source.read_bytes())
    elif target.suffix == ".whl" and sha256_file(source) != sha256_file(target):
        raise MirrorError(
            f"put {source.name} into the mirror",
            "it has a file of that name with other bytes",
            "Release under another version, or begin an empty folder",
        )


def _page(folder: Path, rows: Sequence[tuple[str, str | None]], keys: Sequence[Signer]) -> None:
    distributions = {name.split("-")[0].replace("_", "-") for name, _ in rows} - {RUNTIME}
    extras = sorted(name.removeprefix(f"{RUNTIME}-") for name in distributions)
    # A bridge or a cache has no code objects of its own: who copies the line is to have some.
    bundled = [name for name in extras if name.startswith("gfx")]
    numbers = " or ".join(signer.number for signer in keys)
    text = _TEXT.format(
        version=VERSION,
        simple=SIMPLE,
        signed=_SIGNED.format(numbers=numbers) if keys else _UNSIGNED,
        extras=next(iter(bundled or extras), ""),
        all_extras=", ".join(f"`{name}`" for name in extras),
        keys="; `--key KEY`, who signed them" if _signed(folder) else "",
        rows="\n".join(
            f"| `{FILES}/{name}` | {(folder / FILES / name).stat().st_size} | {_cell(why or '')} |"
            for name, why in rows
        ),
    )
    write_atomic(folder / PAGE, text.encode())


def _signed(folder: Path) -> bool:
    """Is there a signature inside of a wheel? The key of this folder's list signs nothing that is installed."""
    for path in sorted((folder / FILES).glob("*.whl")):
        with ZipFile(path) as archive:
            if any(name.endswith(SIGNATURE) for name in archive.namelist()):
                return True
    return False


def _cell(words: str) -> str:
    """Words of people in a table: a bar would end the cell, and a tag or a mark would be read as one."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(words, quote=False))
