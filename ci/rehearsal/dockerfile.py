"""Run a Dockerfile without a container engine, in a root of Debian's: ``python -m rehearsal.dockerfile FILE -- COMMAND``.

What stands for the base image is Debian 12 with its Python in ``/usr/local``, where the official images of Python have theirs.
The command, or the file's CMD, then runs as a user id that no file knows, with a root file system that nobody can write.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from rehearsal.settings import pairs

ROOT: Final = Path(__file__).resolve().parents[2]
MIRROR: Final = "http://deb.debian.org/debian"
PACKAGES: Final = "ca-certificates,git,python3-venv"
#: Whoever this is: no file of the image belongs to it, and /etc/passwd has no such line.
STRANGER: Final = "12345:0"
_NETWORK: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
_KNOWN: Final = {"ARG", "CMD", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR"}
_MOUNT: Final = re.compile(r"--mount=type=bind,source=([^,\s]+),target=(\S+)\s+")


class DockerfileError(Exception):
    """A line that is not known here, or that failed."""


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction and its words, continued lines joined."""

    word: str
    rest: str


@dataclass
class Image:
    """State of an image behind the lines so far: its folder, settings, and how its program starts."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    place: str = "/"
    command: tuple[str, ...] = ("/bin/sh",)


def lines_of(text: str) -> list[Line]:
    """Return the instructions of a Dockerfile.

    Raises:
        DockerfileError: an instruction is none of those known here.
    """
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = []
    for line in re.sub(r"\\\n", " ", plain).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word and word not in _KNOWN:
            raise DockerfileError(f"the instruction {word!r} is not known here: {line.strip()}")
        if word:
            found.append(Line(word, rest.strip()))
    return found


def build(lines: Sequence[Line], image: Image, context: Path, given: dict[str, str]) -> None:
    """Run the lines in the image's folder. ``given``: values of ARG.

    Raises:
        DockerfileError: a command fails; its output was printed.
    """
    for line in lines:
        if line.word == "ARG":
            name, _, value = line.rest.partition("=")
            image.arguments[name] = given.get(name, value)
        elif line.word == "ENV":
            for pair in shlex.split(line.rest):
                name, _, value = pair.partition("=")
                image.variables[name] = _filled(value, image)
        elif line.word == "WORKDIR":
            image.place = line.rest
            (image.folder / line.rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif line.word == "COPY":
            _copy(line.rest.split(), image, context)
        elif line.word == "RUN":
            _run(line.rest, image, context)
        elif line.word == "CMD":
            image.command = tuple(json.loads(line.rest))


def start(image: Image, command: Sequence[str], user: str = STRANGER) -> int:
    """Run a command in the image as a user, with a root that is read-only; its exit code."""
    root = shlex.quote(str(image.folder))
    script = [
        *_mounts(image.folder), f"mount --bind {root} {root}", f"mount -o remount,ro,bind {root}",
        f"exec chroot --userspec={user} {root} /bin/sh -c {shlex.quote(f'cd {image.place} && exec {shlex.join(command)}')}",
    ]  # fmt: skip
    words = ["unshare", "--mount", "sh", "-ec", "\n".join(script)]
    return subprocess.run(words, env=_environment(image), check=False).returncode


def _run(rest: str, image: Image, context: Path) -> None:
    script = _mounts(image.folder)
    for source, target in _MOUNT.findall(rest):
        inside = shlex.quote(str(image.folder / target.lstrip("/")))
        script += [f"mkdir -p {inside}", f"mount --bind {shlex.quote(str(context / source))} {inside}"]
    command = f"cd {image.place}\n{_MOUNT.sub('', rest)}"
    script.append(f"exec chroot {shlex.quote(str(image.folder))} /bin/sh -ec {shlex.quote(command)}")
    words = ["unshare", "--mount", "sh", "-ec", "\n".join(script)]
    done = subprocess.run(words, env=_environment(image) | image.arguments, check=False)
    if done.returncode:
        raise DockerfileError(f"exit code {done.returncode}: RUN {rest}")
    for _, target in _MOUNT.findall(rest):
        place = image.folder / target.lstrip("/")
        if place.is_dir():  # gone already below /tmp, which was a file system of its own
            place.rmdir()


def _copy(words: list[str], image: Image, context: Path) -> None:
    *sources, goal = words
    target = image.folder / (goal if goal.startswith("/") else f"{image.place}/{goal}").lstrip("/")
    for source in sources:
        path = context / source
        if path.is_dir():
            skipped = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(path, target, dirs_exist_ok=True, symlinks=True, ignore=skipped)
        else:
            place = target / path.name if goal.endswith("/") else target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


def _filled(value: str, image: Image) -> str:
    known = _environment(image) | image.arguments
    return re.sub(r"\$\{?(\w+)\}?", lambda found: known.get(found[1], ""), value)


def _environment(image: Image) -> dict[str, str]:
    network = {name: os.environ[name] for name in _NETWORK if name in os.environ}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**network, "PIP_CERT": _CERTIFICATES, "PATH": path, "LANG": "C.UTF-8", **image.variables}


def _mounts(folder: Path) -> list[str]:
    """Return the commands that give a root its devices and processes, and a /tmp of its own as containers have."""
    root = shlex.quote(str(folder))
    return [
        f"mount --rbind /dev {root}/dev",
        f"mount --rbind /proc {root}/proc",
        f"mount -t tmpfs tmpfs {root}/tmp",  # noqa: S108  # of the root, and empty
    ]


@contextmanager
def base_image(kept: Path) -> Iterator[Path]:
    """Yield a folder with a copy of the root that stands for the base image; the root itself is made once.

    Raises:
        DockerfileError: this machine cannot make one.
    """
    if shutil.which("debootstrap", path="/usr/sbin:/usr/bin") is None or os.geteuid() != 0:
        raise DockerfileError(
            "a root of Debian's packages needs debootstrap and its rights: run as root, apt install debootstrap"
        )
    if not (kept / "usr" / "local" / "bin" / "pip").exists():
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        words = [
            "/usr/sbin/debootstrap",
            "--variant=minbase",
            f"--include={PACKAGES}",
            "bookworm",
            str(kept),
            MIRROR,
        ]
        subprocess.run(words, check=True)
        subprocess.run(["/usr/sbin/chroot", str(kept), "python3", "-m", "venv", "/usr/local"], check=True)
    with tempfile.TemporaryDirectory(prefix="image-", dir=kept.parent) as folder:
        place = Path(folder) / "root"
        subprocess.run(["/bin/cp", "-a", str(kept), str(place)], check=True)
        for name in ("/etc/resolv.conf", _CERTIFICATES):
            if Path(name).is_file():
                shutil.copyfile(name, place / name[1:])
        yield place


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--arg", "given", multiple=True, metavar="NAME=VALUE", callback=pairs, help="A value for ARG.")
@click.option(
    "--base", type=click.Path(path_type=Path), default=ROOT / "build" / "rehearsal" / "roots" / "python"
)
@click.argument("command", nargs=-1)
def main(file: Path, given: dict[str, str], base: Path, command: tuple[str, ...]) -> None:
    """Run a Dockerfile's lines here, then COMMAND, or its CMD, as a stranger with a read-only root."""
    try:
        lines = lines_of(file.read_text(encoding="utf-8"))
        with base_image(base) as folder:
            image = Image(folder)
            build(lines, image, ROOT, given)
            sys.exit(start(image, command or image.command))
    except DockerfileError as error:
        sys.exit(f"error: {file}: {error}")


if __name__ == "__main__":
    main()
