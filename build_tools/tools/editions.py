"""Editions: commits of a repository whose files a build reads beside those of a pinned wheel, when somebody asks for them.

A pin says the commit, and the SHA-256 of the list of its files below the roots. Whatever brings them (git, a copy that a
variable names, an archive of a mirror) is compared with that list before a file is read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from build_tools.errors import FetchError, UsageError
from build_tools.files.filehash import FileHashes
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import run
from build_tools.tools.fetch import SDISTS_VARIABLE, without_login
from build_tools.tools.pins import EditionPin

#: Editions that a build reads beside the pinned trees, separated by commas.
VARIABLE: Final = "AITER_PREBUILT_EDITIONS"
_TIMEOUT: Final = 1800.0
#: Folders that Python leaves in a copy; no edition has them.
_MADE: Final = "__pycache__"
#: Bytes of git's answers; a list of AITER's files has 350 KB.
_TAIL: Final = 16 << 20
#: Bytes of an unpacked archive; AITER's of August 2026 has 158 MB.
_MOST: Final = 1 << 30


def requested(pinned: Iterable[EditionPin]) -> tuple[EditionPin, ...]:
    """Return those of the editions that ``AITER_PREBUILT_EDITIONS`` names.

    Raises:
        UsageError: it names one that there is none of.
    """
    by_name = {pin.edition: pin for pin in pinned}
    names = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"read the edition {name!r} ({VARIABLE})",
                "manifests/toolchains.toml has no such edition",
                f"The editions are {', '.join(by_name) or 'none'}",
            )
    return tuple(pin for name, pin in by_name.items() if name in names)


def folder_of(pin: EditionPin, cache: Path, override: str) -> Path:
    """Find an edition's files, compared with its pin.

    ``override``: a copy that takes the place of that in the cache.

    Raises:
        FetchError: there are none, or they are others.
    """
    if not override:
        place = place_of(pin, cache)
        if not place.is_dir():
            raise FetchError(
                f"read the edition {pin.edition}", "it is not in the cache",
                f"Fetch it: python -m build_tools fetch --edition {pin.edition}. Or name a copy: {pin.override}=FOLDER",
            )  # fmt: skip
        _compare(pin, place, cache, f"Remove {place} and fetch it again")
        return place
    place = Path(override).resolve()
    if not place.is_dir():
        raise FetchError(
            f"read the edition {pin.edition} in {override}", "there is no such folder",
            f"Set {pin.override} to a copy of {pin.repository} at {pin.commit}, or unset it to use the fetched one",
        )  # fmt: skip
    remedy = f"Set {pin.override} to a copy of {pin.repository} at {pin.commit}, or unset it to use the fetched one"
    if (place / ".git").exists():
        _refuse_other_commit(pin, place, remedy)
    _compare(pin, place, cache, remedy)
    return place


def place_of(pin: EditionPin, cache: Path) -> Path:
    """Return the folder of the cache in which its files lie, when it was fetched."""
    return cache / "trees" / pin.folder


def list_of(pin: EditionPin, folder: Path, hashes: FileHashes) -> str:
    """Return the lines ``SHA-256  path`` of the files below the roots, sorted by path.

    Of a checkout those that git knows, of another copy all that it has.

    Raises:
        FetchError: a root is missing, or git does not answer.
    """
    rows = []
    for name in _names(pin, folder):
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise FetchError(
                f"read {name} of the edition {pin.edition}",
                "it is no regular file" if path.exists() or path.is_symlink() else "it is missing",
                f"Restore it in {folder}",
            )
        rows.append(f"{hashes.sha256(path)}  {name}\n")
    return "".join(rows)


def _names(pin: EditionPin, folder: Path) -> list[str]:
    roots = sorted(pin.roots.values())
    if (folder / ".git").exists():
        told = _git(pin, ["ls-tree", "-r", "--name-only", "-z", "HEAD", "--", *roots], folder)
        return sorted(name for name in told.split("\0") if name)
    found = [
        path.relative_to(folder).as_posix()
        for root in roots
        for path in (folder / root).rglob("*")
        if _MADE not in path.parts and (path.is_symlink() or not path.is_dir())
    ]
    return sorted(found)


def _compare(pin: EditionPin, folder: Path, cache: Path, remedy: str) -> None:
    hashes = FileHashes(cache / "trees" / f"{pin.folder}.json")
    found = hashlib.sha256(list_of(pin, folder, hashes).encode(errors="surrogateescape")).hexdigest()
    hashes.save()
    if found != pin.sha256:
        raise FetchError(
            f"read the edition {pin.edition} in {folder}",
            f"its files are not those of {pin.repository} at {pin.commit}: their list has the SHA-256 {found}, not {pin.sha256}",
            remedy,
        )


def _refuse_other_commit(pin: EditionPin, folder: Path, remedy: str) -> None:
    """Name the commit or the changed files, which the hash of a list cannot."""
    asked = f"read the edition {pin.edition} in {folder}"
    commit = _git(pin, ["rev-parse", "HEAD"], folder).strip()
    if commit != pin.commit:
        raise FetchError(asked, f"it is a checkout of {commit}", remedy)
    roots = sorted(pin.roots.values())
    told = _git(pin, ["status", "--porcelain", "-z", "--untracked-files=no", "--", *roots], folder)
    changed = [row[3:] for row in told.split("\0") if row]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise FetchError(asked, f"changed since the commit: {', '.join(changed[:3])}{more}", remedy)


def fetch(pin: EditionPin, cache: Path, source: str = "") -> Path:
    """Bring an edition into the cache, where it is not there yet, and return its folder.

    ``source``: an address or folder for git instead of the pin's. An archive in the folder that ``AITER_PREBUILT_SDISTS`` names
    comes before git. What was interrupted leaves nothing that a later call would take for whole.

    Raises:
        FetchError: it is not to be had, or has other files.
    """
    final = place_of(pin, cache)
    if final.is_dir():
        return folder_of(pin, cache, "")
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch.", dir=final.parent) as scratch:
        files = Path(scratch) / "files"
        files.mkdir()
        archive = _archive(pin)
        if archive is not None and not source:
            _unpack(pin, archive, files)
            place = str(archive)
        else:
            place = source or pin.repository
            _check_out(pin, place, Path(scratch) / "git", files)
        _compare(pin, files, cache, f"Do not use {without_login(place)}: it serves other files")
        try:
            files.rename(final)
        except OSError:
            if not final.is_dir():  # another process was faster
                raise
    return final


def pack(pin: EditionPin, folder: Path, target: Path) -> None:
    """Write an edition's files as one archive, which a mirror carries: equal files make equal bytes."""
    with tempfile.TemporaryDirectory(prefix=".pack.", dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for name in _names(pin, folder):
                archive.writestr(zipfile.ZipInfo(name), (folder / name).read_bytes(), zipfile.ZIP_DEFLATED)
        write_atomic(target, made.read_bytes())


def _archive(pin: EditionPin) -> Path | None:
    folder = os.environ.get(SDISTS_VARIABLE)
    path = Path(folder) / f"{pin.folder}.zip" if folder else None
    return path if path is not None and path.is_file() else None


def _unpack(pin: EditionPin, archive: Path, target: Path) -> None:
    """Unpack a mirror's archive; what it unpacks is compared with the pin afterwards."""
    try:
        with zipfile.ZipFile(archive) as members:
            if sum(member.file_size for member in members.infolist()) > _MOST:
                raise FetchError(
                    f"unpack {archive}", f"it has more than {_MOST >> 20} MiB", "Use another mirror"
                )
            members.extractall(target)  # zipfile keeps names below the target, and makes no links
    except FetchError:
        raise
    except Exception as error:  # noqa: BLE001  # zlib, lzma, encryption and unknown methods have one each
        raise FetchError(f"unpack {archive}", str(error), f"Carry {pin.folder}.zip again") from None


def _check_out(pin: EditionPin, place: str, repository: Path, files: Path) -> None:
    """Fetch the commit alone, and write the files of its roots."""
    repository.mkdir()
    here = f"--git-dir={repository}"
    _git(pin, [here, "init", "--quiet", "--bare"], repository)
    _git(pin, [here, "fetch", "--quiet", "--depth", "1", "--", place, pin.commit], repository)
    roots = sorted(pin.roots.values())
    _git(pin, [here, f"--work-tree={files}", "checkout", "--quiet", pin.commit, "--", *roots], files)


def _git(pin: EditionPin, words: Sequence[str], folder: Path) -> str:
    """Ask git, without the user's line endings, and without a question about a login."""
    program = shutil.which("git")
    if program is None:
        raise FetchError(
            f"fetch the edition {pin.edition}", "git is not installed",
            f"Install git, or put {pin.folder}.zip of a mirror into a folder and set {SDISTS_VARIABLE} to it",
        )  # fmt: skip
    # Within a hook git names the caller's repository and index to its children: they are not what is asked about.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env["GIT_TERMINAL_PROMPT"] = "0"
    settings = ["-c", "core.autocrlf=false", "-c", "core.symlinks=true", "-C", str(folder)]
    outcome = run([program, *settings, *words], env=env, timeout=_TIMEOUT, tail=_TAIL)
    if outcome.ok:
        return outcome.output
    raise FetchError(
        f"fetch the edition {pin.edition}, {pin.commit}",
        f"git: {outcome.describe()}\n{without_login(outcome.output.strip())}",
        "Check the network and the address (--from ADDRESS names another one), "
        f"or put {pin.folder}.zip of a mirror into a folder and set {SDISTS_VARIABLE} to it",
    )
