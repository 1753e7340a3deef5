"""Source archives: downloaded by pip, checked against their pin, unpacked into the cache.

Order of places: the folder ``AITER_PREBUILT_SDISTS``, then wherever pip looks (its indexes, mirrors, find-links). The sha256
decides, not the place. Nothing of an archive is ever run: pip asks the build backend in ``archive_backend`` in its place.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from build_tools.errors import FetchError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.tools.pins import SourcePin, load

SDISTS_VARIABLE: Final = "AITER_PREBUILT_SDISTS"
CACHE_VARIABLE: Final = "AITER_PREBUILT_CACHE"
_BACKEND: Final = Path(__file__).resolve().with_name("archive_backend")
_TIMEOUT: Final = 1800.0


def cache_folder() -> Path:
    """Return the folder of unpacked sources and generated tool files.

    It is ``AITER_PREBUILT_CACHE``, else below the user's cache.
    """
    names = (CACHE_VARIABLE, "XDG_CACHE_HOME", "HOME")
    return _cache_folder(*(os.environ.get(name) for name in names), Path.cwd())


@lru_cache(maxsize=8)
def _cache_folder(chosen: str | None, base: str | None, home: str | None, here: Path) -> Path:
    del home, here  # what a home and a relative path are; asked for each of thousands of files
    if chosen:
        return Path(chosen).resolve()
    return (Path(base) if base else Path.home() / ".cache") / "aiter-prebuilt"


def source_folder(pin: SourcePin, cache: Path) -> Path:
    """Find the unpacked archive of ``pin``, fetching it if needed.

    Raises:
        FetchError: not found anywhere, other bytes than pinned, or a member that must not be unpacked.
    """
    final = cache / "sources" / pin.folder
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{pin.folder}.", dir=final.parent) as folder:
        archive = archive_of(pin, Path(folder))
        unpacked = Path(folder) / "unpacked"
        unpack(pin, archive, unpacked)
        try:
            unpacked.rename(final)
        except OSError:
            # Another process was faster: its folder has the same pinned content.
            if not final.is_dir():
                raise
    return final


def archive_of(pin: SourcePin, folder: Path) -> Path:
    """Return the archive of ``pin``, checked.

    Downloaded into ``folder`` when no local folder has it.

    Raises:
        FetchError: not found anywhere, or other bytes than pinned.
    """
    archive = _local(pin) or _download(pin, folder)
    _check(pin, archive)
    return archive


#: The names that people type, and where below the unpacked archive the sources lie.
SOURCES: Final = {
    "zstd": ("zstandard", "zstd"),
    "dlpack": ("apache-tvm-ffi", "3rdparty/dlpack/include"),
}
#: What the native extension is compiled with, by the setting of ``CMakeLists.txt`` that names its folder.
NATIVE_SOURCES: Final = {"APB_ZSTD_SOURCE": "zstd", "APB_DLPACK_INCLUDE": "dlpack"}


def fetch(name: str, root: Path) -> Path:
    """Find the folder of source ``name``, fetching it if needed.

    ``name`` is one of :data:`SOURCES`, with the pins of the repository at ``root``.

    Raises:
        FetchError: see :func:`source_folder`; or no source has this name.
    """
    if name not in SOURCES:
        raise FetchError(f"fetch {name!r}", "there is no such source", f"Sources: {', '.join(SOURCES)}")
    package, below = SOURCES[name]
    return source_folder(load(root).sources[package], cache_folder()) / below


def native_sources(root: Path) -> dict[str, Path]:
    """Return the folders of :data:`NATIVE_SOURCES`, by setting, fetched when need be.

    Raises:
        FetchError: see :func:`source_folder`.
    """
    return {setting: fetch(name, root) for setting, name in NATIVE_SOURCES.items()}


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
    """Download a pin with ``pip download``.

    pip alone knows its indexes, mirrors, proxies, certificates and logins.
    """
    if find_spec("pip") is None:
        raise FetchError(
            f"fetch {pin.file}",
            f"this Python ({sys.executable}) has no pip to ask",
            f"Run `python -m ensurepip`, or put the file into a folder and set {SDISTS_VARIABLE} to it",
        )
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n", encoding="utf-8")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-r",
        wanted,
        "-d",
        folder / "found",
    ]
    kind = "--only-binary" if pin.file.endswith(".whl") else "--no-binary"
    command += [f"{kind}={pin.name}", "--no-deps", "--require-hashes", "--ignore-requires-python"]
    command += ["--no-build-isolation", "--progress-bar=off", "--no-input", "--disable-pip-version-check"]
    # All of this environment: proxies, certificates and PIP_* are in it.
    # pip before 25.3 asks the backend of an archive without pyproject.toml only when it is told to; newer ones always do.
    # In the environment that pip makes for a build, PYTHONPATH is where that pip itself is found.
    places = os.pathsep.join([str(_BACKEND), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": places, "PIP_USE_PEP517": "1"}
    outcome = run(command, env=env, timeout=_TIMEOUT)
    path = folder / "found" / pin.file
    if outcome.ok and path.is_file():
        return path
    raise FetchError(
        f"fetch {pin.file} with sha256 {pin.sha256}",
        f"pip download: {outcome.describe()}\n{without_login(_said(outcome.output))}",
        f"Check the network and pip's index settings, or put the file into a folder and set {SDISTS_VARIABLE} to it",
    )


def _said(output: str) -> str:
    """Extract pip's places and errors from its output."""
    lines = output.splitlines()
    places = [line for line in lines if line.startswith("Looking in ")]
    start = next((i for i, line in enumerate(lines) if line.startswith("ERROR:")), max(0, len(lines) - 5))
    return "\n".join([*places, *lines[start : start + 15]])


def without_login(text: str) -> str:
    """``text`` whose URLs have no ``user:password@``: index URLs are set with it, and logs are read by others."""
    return re.sub(r"(\w+://)[^/\s]*@", r"\1", text)


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
