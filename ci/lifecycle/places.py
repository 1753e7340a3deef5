"""A folder in which a release lives, and environments that pip and uv fill from it, each in an empty home without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

ROOT: Final = Path(__file__).resolve().parents[2]


class LifecycleError(Exception):
    """Tells of a step that did not end as it must."""


@dataclass(slots=True)
class Life:
    """One release in one folder. ``target``: whose wheel is installed; ``alone``: the words before what needs no network."""

    folder: Path
    target: str
    alone: tuple[str, ...]
    seen: list[str] = field(default_factory=list)

    @property
    def key(self) -> Path:
        """Return the secret key's file."""
        return self.folder / "key" / "aiter-prebuilt.key"

    @property
    def public(self) -> Path:
        """Return the public key's file."""
        return self.folder / "key" / "aiter-prebuilt.pub"

    @property
    def channels(self) -> Path:
        """Return the folder of the channels."""
        return self.folder / "channels"

    @property
    def package(self) -> str:
        """Return what is installed: the runtime, a target's bundle, and the device that executes it."""
        return f"aiter-prebuilt[{self.target},emulator]"

    def see(self, fact: str) -> None:
        """Note what was seen, and print it."""
        self.seen.append(fact)
        click.echo(f"  {fact}")

    def run(
        self, *words: str, fails: bool = False, alone: bool = False, cwd: Path | None = None, **more: str
    ) -> str:
        """Run a command in a home of its own, with none of this process's settings.

        Args:
            words: The command.
            fails: Must it end with an error?
            alone: Without a network.
            cwd: Its folder.
            more: Further variables.

        Returns:
            What it printed, errors too.

        Raises:
            LifecycleError: It ended otherwise.
        """
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        words = (*self.alone, *words) if alone else words
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **more}
        done = subprocess.run(
            words,
            cwd=cwd or self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if (done.returncode != 0) != fails:
            ended = f"ended with {done.returncode}, and must {'fail' if fails else 'pass'}"
            raise LifecycleError(f"{' '.join(words)}\n{ended}:\n{done.stdout[-4000:]}")
        return done.stdout

    def build_tools(self, *words: str, fails: bool = False) -> str:
        """Run a verb of the checkout."""
        return self.run(
            sys.executable, "-m", "build_tools", *words, fails=fails, cwd=ROOT, PYTHONPATH=str(ROOT / "src")
        )


@dataclass(frozen=True, slots=True)
class Place:
    """An environment, filled by one installer from one index."""

    life: Life
    installer: str
    name: str

    @property
    def folder(self) -> Path:
        """Return the environment's folder."""
        return self.life.folder / self.name

    def program(self, name: str) -> str:
        """Return the path of a program of the environment."""
        return str(self.folder / "bin" / name)

    def make(self) -> Place:
        """Make the environment, with pip in it only where pip fills it."""
        without = () if self.installer == "pip" else ("--without-pip",)
        self.life.run(sys.executable, "-m", "venv", *without, str(self.folder))
        return self

    def install(self, index: Path, *words: str, fails: bool = False) -> str:
        """Install from an index of files, without a network."""
        url = ("--index-url", f"file://{index}/simple")
        command: tuple[str, ...]
        if self.installer == "pip":
            command = (self.program("python"), "-m", "pip", "--isolated", "install", *url)
        else:
            command = (uv(), "pip", "install", "--no-config", "--python", self.program("python"), *url)
        return self.life.run(*command, *words, fails=fails, alone=True)

    def uninstall(self) -> None:
        """Uninstall all that is ours and what came with it."""
        names = [path.name.split("-")[0] for path in self.packages() if not path.name.startswith("pip-")]
        if self.installer == "pip":
            self.life.run(self.program("python"), "-m", "pip", "uninstall", "-y", *names)
        else:
            self.life.run(uv(), "pip", "uninstall", "--python", self.program("python"), *names)

    def ours(self, *words: str, fails: bool = False, **more: str) -> str:
        """Run a command of the installed package, without a network; only signed bundles may be opened."""
        variables: dict[str, Any] = {
            "AITER_PREBUILT_KEYS": str(self.life.public),
            "PYTHONDONTWRITEBYTECODE": "1",
            **more,
        }
        return self.life.run(*words, fails=fails, alone=True, **variables)

    def packages(self) -> list[Path]:
        """Return the metadata folders of what is installed."""
        return sorted(self.folder.glob("lib/python3.*/site-packages/*.dist-info"))

    def files(self) -> set[Path]:
        """Return the files of the environment that neither the interpreter nor uv (its lock) wrote for itself."""
        return {path for path in self.folder.rglob("*") if path.is_file() and path.suffix != ".pyc"} - {
            self.folder / ".lock"
        }

    def works(self, version: str) -> None:
        """See that one version is installed, that its signature holds, and that a kernel runs."""
        ours = {path.name for path in self.packages() if path.name.startswith("aiter_prebuilt")}
        if not ours or any(not name.endswith(f"-{version}.dist-info") for name in ours):
            raise LifecycleError(
                f"{self.name}: {version} was asked for, {', '.join(sorted(ours))} is installed"
            )
        self.ours(self.program("aiter-prebuilt"), "verify", "--key", str(self.life.public))
        bench = (self.program("aiter-prebuilt"), "bench", "rms_norm", "M=7", "N=2880")
        self.ours(self.program("aiter-prebuilt-emulator"), "run", "--devices", self.life.target, "--", *bench)


def uv() -> str:
    """Return the path of uv of this interpreter's environment."""
    return str(Path(sys.executable).with_name("uv"))


def flip(path: Path) -> None:
    """Turn one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def named(text: str, name: str) -> None:
    """Demand that an output names a file."""
    if name not in text.replace("\n", ""):
        raise LifecycleError(f"{name} is not named in:\n{text}")
