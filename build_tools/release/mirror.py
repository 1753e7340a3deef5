"""A folder that can be carried to a site without a network, to install from: wheels, an index of files, hashes, signatures, and a
page for the person who carries it. Wheels of earlier releases that are in it stay, so that one folder can serve several. What
lies beside a wheel, its statement of provenance, is the present release's.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from packaging.metadata import parse_email

from aiter_prebuilt.contract.signature import SUFFIX as SIGNATURE
from aiter_prebuilt.contract.targets import TARGETS, products_of
from aiter_prebuilt.contract.version import VERSION
from build_tools.errors import MirrorError
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import write_atomic
from build_tools.pack.archive import RUNTIME
from build_tools.release.index import FILES, LINKS, SIMPLE, listed, write_index, yanked
from build_tools.release.sign import Signer, write_sums

PAGE: Final = "README.md"
_ENGINE: Final = "amd-aiter"
_TEXT: Final = """# aiter-prebuilt, to be installed without a network

Wheels for machines with an AMD GPU, and an index of them; nothing is fetched. Written by aiter-prebuilt {version}.

1. Before you carry it: `sha256sum -c SHA256SUMS` in this folder must say OK for every line{signed}
2. Where it arrives, again the same; copying can go wrong.
3. Install, with FOLDER the absolute path of this folder:

       python3 -m pip --isolated install --no-index --find-links file://FOLDER/{links} 'aiter-prebuilt[{extras}]'

   (`--isolated --no-index`: no setting of this machine names another index. uv: `uv pip install --no-config --no-index
   --find-links file://FOLDER/{links} ...`.) Name the extras of your GPU: {all_extras}.
4. `aiter-prebuilt doctor` says what it found; `aiter-prebuilt verify` checks every code object{keys}.

| GPU | extras here |
|---|---|
{gpus}

{engine}{missing}

| file | bytes | yanked |
|---|---|---|
{rows}
"""
#: Of a folder with AITER, and of one without.
_AITER: Final = """AITER itself is here, for the bridge: `amd-aiter` and what it needs, except torch and Triton, for CPython
{python}. Add it to the line above. torch, Triton and the engine are not in here; they come with your
engine's image."""
_NO_AITER: Final = """AITER (`amd-aiter`), torch and the engine are not in here; they come with your engine's image, and only
the bridge needs them. `mirror deploy --aiter` brings `amd-aiter`."""
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
    reasons, files = yanked(), folder / FILES
    for wheel in wheels:
        listed(wheel, reasons)
    for path in (*wheels, *more):
        _refuse_other(path, files / path.name)
    for path in (*wheels, *more):
        _put(path, files)
    _drop_orphans(files)
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


def _refuse_other(wheel: Path, target: Path) -> None:
    """Refuse other bytes for a wheel that is there: what was released under a name is never replaced by something else."""
    if target.suffix == ".whl" and target.exists() and sha256_file(wheel) != sha256_file(target):
        raise MirrorError(
            f"put {wheel.name} into the mirror",
            "it has a file of that name with other bytes",
            "Release under another version, or begin an empty folder",
        )


def _put(wheel: Path, files: Path) -> None:
    """Copy a wheel that is not there, and what lies beside it now. What lay beside it before goes.

    A file that is no wheel, such as a record, takes the place of the one before.
    """
    beside = {path.name: path for path in wheel.parent.glob(f"{wheel.name}.*")}
    for old in files.glob(f"{wheel.name}.*"):
        if old.name not in beside:
            old.unlink()
    if not (files / wheel.name).exists() or wheel.suffix != ".whl":
        write_atomic(files / wheel.name, wheel.read_bytes())
    for name, path in sorted(beside.items()):
        write_atomic(files / name, path.read_bytes())


def _drop_orphans(files: Path) -> None:
    """Remove what lies beside a wheel that is gone."""
    wheels = {path.name for path in files.glob("*.whl")}
    for path in files.glob("*.whl.*"):
        if path.name[: path.name.rindex(".whl.") + len(".whl")] not in wheels:
            path.unlink()


def _page(folder: Path, rows: Sequence[tuple[str, str | None]], keys: Sequence[Signer]) -> None:
    ours = {name for name in (_project(file) for file, _ in rows) if name.startswith(f"{RUNTIME}-")}
    extras = sorted(name.removeprefix(f"{RUNTIME}-") for name in ours)
    # A bridge or a cache has no code objects of its own: who copies the line is to have some.
    bundled = [name for name in extras if name.startswith("gfx")]
    numbers = " or ".join(signer.number for signer in keys)
    (aiter,) = ([name for name, _ in rows if _project(name) == _ENGINE] or [""])[-1:]
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    text = _TEXT.format(
        version=VERSION,
        links=LINKS,
        signed=_SIGNED.format(numbers=numbers) if keys else _UNSIGNED,
        extras=next(iter(bundled or extras), ""),
        all_extras=", ".join(f"`{name}`" for name in extras),
        gpus="\n".join(_gpus(extras)),
        engine=_AITER.format(python=python) if aiter else _NO_AITER,
        missing=_missing(folder, extras),
        keys="; `--key KEY`, who signed them" if _signed(folder) else "",
        rows="\n".join(
            f"| `{FILES}/{name}` | {(folder / FILES / name).stat().st_size} | {_cell(why or '')} |"
            for name, why in rows
        ),
    )
    write_atomic(folder / PAGE, text.encode())


def _project(file: str) -> str:
    """Return the project of a wheel's file name."""
    return file.partition("-")[0].replace("_", "-")


def _gpus(extras: Sequence[str]) -> list[str]:
    """Return the rows of the table from GPUs to the extras that the folder has for them."""
    rows = []
    for target, facts in TARGETS.items():
        mine = [name for name in extras if facts.extra in name.split("-")]
        if mine:
            rows.append(f"| {', '.join(products_of(target))} | {', '.join(f'`{name}`' for name in mine)} |")
    targets = {facts.extra for facts in TARGETS.values()}
    others = [f"`{name}`" for name in extras if not targets & set(name.split("-"))]
    return [*rows, *([f"| any of them, beside its own | {', '.join(others)} |"] if others else [])]


def _missing(folder: Path, extras: Sequence[str]) -> str:
    """Name the extras that the newest runtime wheel has and the folder has no wheel for, and what builds them."""
    wheels = sorted((folder / FILES).glob(f"{RUNTIME.replace('-', '_')}-*.whl"))
    if not wheels:
        return ""
    with ZipFile(wheels[-1]) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        told, _ = parse_email(archive.read(name))
    absent = sorted(set(told.get("provides_extra", [])) - set(extras))
    if not absent:
        return ""
    return (
        f"\n\nNot in this folder: {', '.join(f'`{each}`' for each in absent)}. In a checkout with torch's CPU build, "
        "`python3 -m nox -s wheels` builds all of them."
    )


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
