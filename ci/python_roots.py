"""Run the wheels of a folder with the Pythons of other distributions: ``nox -s pythons``.

Each Python's packages are unpacked, with all that they need, into a folder of their own. Nothing is installed: ``chroot`` runs
the Python there. That needs root, ``dpkg-deb`` and a network. Nothing of these packages gets into a wheel.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zipfile import ZipFile

_DEBIAN: Final = "http://deb.debian.org/debian"
_UBUNTU: Final = "http://archive.ubuntu.com/ubuntu"
#: Python -> archive, suite and sections.
PLACES: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "3.10": (_UBUNTU, "jammy", ("main",)),
    "3.11": (_DEBIAN, "bookworm", ("main",)),
    "3.12": (_UBUNTU, "noble", ("main",)),
    "3.13": (_DEBIAN, "trixie", ("main",)),
    "3.14": (_DEBIAN, "sid", ("main",)),
    "3.15": (_DEBIAN, "sid", ("main",)),
}
#: A C library, a shell and ``env``: no package of Python asks for them by name.
_BASE: Final = ("libc6", "libc-bin", "dash", "coreutils", "libstdc++6")
#: What only scripts of an installation need.
_UNUSED: Final = frozenset({"debconf", "perl-base", "dpkg", "media-types", "mime-support", "install-info"})
_FIELD: Final = re.compile(r"^([A-Za-z0-9-]+): (.*)$", re.MULTILINE)
_TIMEOUT: Final = 300
_SITE: Final = "opt/site"
#: Loads the extension, and runs a kernel on the emulator.
_LOAD: Final = "import sys; from aiter_prebuilt.devices import native; print(sys.version.split()[0], native.module().abi())"
_BENCH: Final = "-m aiter_prebuilt bench rms_norm M=7 N=2880 --repeat 1"


class RootError(Exception):
    """A package that is not what its archive says, or a command that failed."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package of an archive: what it needs, and its file with its SHA-256."""

    needs: tuple[str, ...]
    file: str
    sha256: str


def read_index(text: str) -> tuple[dict[str, Package], dict[str, str]]:
    """Return the packages of an archive's index by name, and who provides each virtual name.

    Args:
        text: the index, ``Packages``. Of alternatives the first counts.
    """
    packages: dict[str, Package] = {}
    provided: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        fields = dict(_FIELD.findall(paragraph))
        name = fields.get("Package")
        if name is None or name in packages:
            continue
        needs = ",".join(fields.get(key, "") for key in ("Pre-Depends", "Depends"))
        packages[name] = Package(tuple(_names(needs)), fields["Filename"], fields["SHA256"])
        for other in _names(fields.get("Provides", "")):
            provided.setdefault(other, name)
    return packages, provided


def closure(wanted: Iterable[str], packages: Mapping[str, Package], provided: Mapping[str, str]) -> list[str]:
    """Return the packages that ``wanted`` need, themselves too, sorted. A name that the archive lacks is passed over."""
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        asked = waiting.pop()
        name = asked if asked in packages else provided.get(asked, "")
        if name and name not in found and name not in _UNUSED:
            found.add(name)
            waiting += packages[name].needs
    return sorted(found)


def _names(text: str) -> Iterable[str]:
    return (re.split(r"[ (|:]", each.strip(), maxsplit=1)[0] for each in text.split(",") if each.strip())


def _fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=_TIMEOUT) as answer:  # noqa: S310  # http, of the table above
        return bytes(answer.read())


def make(version: str, root: Path, kept: Path) -> None:
    """Unpack a Python into ``root``; packages are kept in ``kept``.

    Raises:
        RootError: the archive has no such Python, or other bytes than it says.
    """
    base, suite, sections = PLACES[version]
    texts = [
        lzma.decompress(_fetch(f"{base}/dists/{suite}/{each}/binary-amd64/Packages.xz")) for each in sections
    ]
    packages, provided = read_index(b"\n\n".join(texts).decode())
    names = closure((f"python{version}", *_BASE), packages, provided)
    if f"python{version}" not in names:
        raise RootError(f"{suite} of {base} has no python{version}")
    for folder in ("bin", "sbin", "lib", "lib64"):  # links, as all of these distributions have them
        (root / "usr" / folder).mkdir(parents=True, exist_ok=True)
        (root / folder).symlink_to(f"usr/{folder}")
    for name in names:
        place = kept / Path(packages[name].file).name
        if not place.is_file():
            data = _fetch(f"{base}/{packages[name].file}")
            if hashlib.sha256(data).hexdigest() != packages[name].sha256:
                raise RootError(f"{packages[name].file} is not what the index of {suite} says")
            place.write_bytes(data)
        pack = ["dpkg-deb", "--fsys-tarfile", str(place)]
        unpack = ["tar", "-x", "--keep-directory-symlink", "-C", str(root)]
        members = subprocess.run(pack, capture_output=True, check=True).stdout
        subprocess.run(unpack, input=members, check=True)
    for folder in ("tmp", "proc", "dev"):
        (root / folder).mkdir(exist_ok=True)


def check(version: str, root: Path, wheels: Iterable[Path]) -> str:
    """Load the extension and run a kernel on the emulator with a root's Python. Returns what it printed first.

    Raises:
        RootError: a command failed; its output is in the text.
    """
    shutil.rmtree(root / _SITE, ignore_errors=True)
    for wheel in wheels:
        with ZipFile(wheel) as archive:
            archive.extractall(root / _SITE)
    python = f"python{version}"
    told = _run(root, f"{python} -c '{_LOAD}'")
    _run(root, f"{python} -m aiter_prebuilt_emulator run --devices gfx942 -- {python} {_BENCH}")
    return told


def _run(root: Path, command: str) -> str:
    words = (
        f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && exec chroot {root} /bin/sh -c "
    )
    environment = {"PYTHONPATH": f"/{_SITE}", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp"}  # noqa: S108
    inside = ["unshare", "--mount", "sh", "-c", f'{words} "$0"', command]
    done = subprocess.run(
        inside, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RootError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main(words: list[str]) -> int:
    """Run the Pythons; 1 if the wheels fail with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", type=Path, help="the folder of the wheels")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/pythons"), help="where the Pythons are kept"
    )
    parser.add_argument("--python", action="append", choices=PLACES, help="one of them; several times")
    asked = parser.parse_args(words)
    names = ("aiter_prebuilt", "aiter_prebuilt_gfx942", "aiter_prebuilt_emulator", "aiter_prebuilt_bridge")
    wheels = [path for name in names for path in asked.wheels.glob(f"{name}-*.whl")]
    if len(wheels) != len(names):
        sys.exit(
            f"error: {asked.wheels} does not have one wheel each of {', '.join(names)}. Run nox -s wheels"
        )
    failed = 0
    for version in asked.python or PLACES:
        root, kept = (asked.folder / version / name for name in ("root", "packages"))
        try:
            if not (root / "tmp").is_dir():
                shutil.rmtree(root, ignore_errors=True)
                kept.mkdir(parents=True, exist_ok=True)
                make(version, root, kept)
            sys.stdout.write(
                f"{version}: {check(version, root.resolve(), wheels)}, rms_norm runs on the emulator\n"
            )
        except (RootError, OSError, subprocess.SubprocessError) as error:
            failed = 1
            sys.stdout.write(f"{version}: {error}\n")
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
