"""Source archives: found by name in the package index that pip uses, checked against their pin, unpacked into the cache.

Order of places: the folder ``AITER_PREBUILT_SDISTS``, then pip's own configuration (index, extra index, find-links), then the
library's default index. The sha256 decides, not the place. Nothing of an archive is ever run.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Final

from build_tools.errors import FetchError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.tools.pins import SourcePin, load

SDISTS_VARIABLE: Final = "AITER_PREBUILT_SDISTS"
CACHE_VARIABLE: Final = "AITER_PREBUILT_CACHE"


def cache_folder() -> Path:
    """Where unpacked sources and small generated tool files lie: ``AITER_PREBUILT_CACHE``, else below the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "aiter-prebuilt"


def source_folder(pin: SourcePin, cache: Path) -> Path:
    """The unpacked archive of ``pin``, fetched when the cache does not have it.

    Raises:
        FetchError: not found anywhere, other bytes than pinned, or a member that must not be unpacked.
    """
    final = cache / "sources" / pin.folder
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{pin.folder}.", dir=final.parent) as folder:
        archive = _local(pin) or _download(pin, Path(folder))
        _check(pin, archive)
        unpacked = Path(folder) / "unpacked"
        unpack(pin, archive, unpacked)
        try:
            unpacked.rename(final)
        except OSError:
            # Another process was faster: its folder has the same pinned content.
            if not final.is_dir():
                raise
    return final


#: The names that people type, and where below the unpacked archive the sources lie.
SOURCES: Final = {"zstd": ("zstandard", "zstd"), "ck": ("flash-attn", "csrc/composable_kernel/include")}


def fetch(name: str, root: Path) -> Path:
    """The folder of source ``name`` (``zstd`` or ``ck``) with the pins of the repository at ``root``, fetched when need be.

    Raises:
        FetchError: see :func:`source_folder`; or no source has this name.
    """
    if name not in SOURCES:
        raise FetchError(f"fetch {name!r}", "there is no such source", f"Sources: {', '.join(SOURCES)}")
    package, below = SOURCES[name]
    return source_folder(load(root).sources[package], cache_folder()) / below


def _local(pin: SourcePin) -> Path | None:
    folder = os.environ.get(SDISTS_VARIABLE)
    if not folder:
        return None
    path = Path(folder) / pin.file
    return path if path.is_file() else None


def _check(pin: SourcePin, archive: Path) -> None:
    found = sha256_file(archive)
    if found != pin.sha256:
        raise FetchError(
            f"fetch {pin.file} with sha256 {pin.sha256}",
            f"the file found has {found}",
            "The index or folder serves other bytes than the pin in manifests/toolchains.toml: use another one",
        )


def _download(pin: SourcePin, folder: Path) -> Path:
    from unearth import PackageFinder  # here: importing it costs 0.2 s, and it is seldom needed

    settings = pip_settings()
    finder = PackageFinder(
        index_urls=settings["index-url"] + settings["extra-index-url"],
        find_links=settings["find-links"],
        no_binary=[pin.name],
        ignore_compatibility=True,
    )
    if not settings["index-url"] and finder.sources != PackageFinder().sources:
        # pip's extra indexes stand beside the default index, not in its place.
        finder.sources.extend(PackageFinder().sources)
    try:
        found = [
            package.link
            for package in finder.find_all_packages(pin.name)
            if package.link.filename == pin.file
        ]
        if not found:
            raise FetchError(
                f"fetch {pin.file}",
                f"no index has it ({', '.join(without_login(source['url']) for source in finder.sources)})",
                f"Put the file into a folder and set {SDISTS_VARIABLE} to it",
            )
        return finder.download(found[0], folder, hashes={"sha256": [pin.sha256]})
    except FetchError:
        raise
    except Exception as error:
        # The finder's HTTP client has error classes of its own, which change with its releases.
        raise FetchError(
            f"fetch {pin.file}",
            without_login(f"{type(error).__name__}: {error}"),
            f"Check the network and pip's index settings, or put the file into a folder and set {SDISTS_VARIABLE} to it",
        ) from error


def without_login(text: str) -> str:
    """``text`` whose URLs have no ``user:password@``: index URLs are set with it, and logs are read by others."""
    return re.sub(r"(\w+://)[^/\s]*@", r"\1", text)


def pip_settings() -> dict[str, list[str]]:
    """What pip is set to (``index-url``, ``extra-index-url``, ``find-links``): PIP_* variables, else ``pip config list``."""
    names = ("index-url", "extra-index-url", "find-links")
    answer = run([sys.executable, "-m", "pip", "config", "list"], timeout=60)
    lines = (
        dict(line.split("=", 1) for line in answer.output.splitlines() if "=" in line) if answer.ok else {}
    )
    settings = {}
    for name in names:
        variable = os.environ.get("PIP_" + name.upper().replace("-", "_"))
        configured = lines.get(f"install.{name}") or lines.get(f"global.{name}") or ""
        settings[name] = (variable or configured.strip("'\"").replace("\\n", " ")).split()
    return settings


def unpack(pin: SourcePin, archive: Path, target: Path) -> None:
    """Unpack the kept members of a tar archive into ``target``, without the archive's top folder.

    Only regular files and folders are accepted, names must stay below ``target``, and modes and owners are not taken over.

    Raises:
        FetchError: a kept member is anything else, or nothing matches an entry of ``keep``.
    """
    kept = dict.fromkeys(pin.keep, 0)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                relative = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                owner = next((name for name in kept if relative.is_relative_to(name)), None)
                if owner is None or member.isdir():
                    continue
                _extract(pin, tar, member, relative, target)
                kept[owner] += 1
    except tarfile.TarError as error:
        raise FetchError(f"unpack {archive.name}", str(error), "Fetch the archive again") from error
    for name, count in kept.items():
        if not count:
            raise FetchError(
                f"unpack {name} of {archive.name}",
                "the archive has no such file",
                "Correct keep in manifests/toolchains.toml",
            )


def _extract(
    pin: SourcePin, tar: tarfile.TarFile, member: tarfile.TarInfo, relative: PurePosixPath, target: Path
) -> None:
    data = tar.extractfile(member) if member.isreg() else None
    if data is None or ".." in relative.parts or relative.is_absolute():
        raise FetchError(
            f"unpack {pin.file}",
            f"member {member.name!r} is a link, a device or leaves its folder",
            "Do not use this archive: its pin in manifests/toolchains.toml is wrong",
        )
    path = target / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    with data, path.open("wb") as file:
        shutil.copyfileobj(data, file)
