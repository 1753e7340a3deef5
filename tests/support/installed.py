"""Wheels installed in clean environments: neither the repository nor this process's packages are on their path."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from dataclasses import dataclass, replace
from pathlib import Path

from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract.version import VERSION
from build_tools.pack import bridge_wheel, emulator_wheel, notes, wheel, writer
from build_tools.tools import pins
from support.bundles import blob, small_operator, small_root


def write_bundle(folder: Path, target: str, profile: str, version: str | None = None) -> Path:
    """A made-up bundle of one operator per profile, in the real format and under its right name."""
    root = small_root(target, profile)
    suffix = "-ck" if profile == "ck-full" else ""
    root = replace(root, distribution=root.distribution + suffix, version=version or root.version)
    frame = writer.Frame(blob(0), 300, hashlib.sha256(blob(0)).digest(), "raw")
    path = folder / f"{target}-{profile}{contract.SUFFIX}"
    path.write_bytes(writer.encode(root, (small_operator("once" + suffix.replace("-", "_")),), (frame,)))
    return path


def data_wheel(bundle: Path, output: Path, version: str = VERSION) -> Path:
    """The wheel of one bundle, by what `wheels` calls for each of them; ``version``: the release that packs it."""
    root = Path(__file__).resolve().parents[2]
    return wheel.pack(wheel.read_payload(bundle, version), notes.read(bundle), output, root, pins.load(root))


@dataclass(frozen=True)
class Environment:
    """A virtual environment without pip; this process's pip works on it from outside."""

    folder: Path

    @property
    def site(self) -> Path:
        (path,) = self.folder.glob("lib/python3.*/site-packages")
        return path

    def pip(self, *words: str) -> subprocess.CompletedProcess[str]:
        target = ["--python", str(self.folder / "bin" / "python")]
        return run([sys.executable, "-m", "pip", *target, *words, "-q"], self.folder)

    def install(self, *requirements: str, places: tuple[Path, ...]) -> None:
        links = [word for place in places for word in ("--find-links", str(place))]
        done = self.pip("install", "--no-index", *links, *requirements)
        assert done.returncode == 0, done.stderr

    def python(self, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run([str(self.folder / "bin" / "python"), "-c", code], self.folder, **variables)

    def command(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run([str(self.folder / "bin" / "aiter-prebuilt"), *words], self.folder, **variables)


def data_wheels_of(dist: Path) -> list[Path]:
    """The wheels of ``dist`` that hold bundles: not the runtime, not the emulator, not the bridge."""
    return [
        path
        for path in sorted(dist.glob("aiter_prebuilt_*.whl"))
        if not path.name.startswith((emulator_wheel.PACKAGE, bridge_wheel.PACKAGE))
    ]


def run(argv: list[str], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A child that knows nothing of this repository: no PYTHONPATH, another working directory."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AITER_", "PIP_"))
    }
    return subprocess.run(
        argv, cwd=cwd, env=kept | variables, capture_output=True, text=True, timeout=300, check=False
    )


def make_environment(folder: Path) -> Environment:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    return Environment(folder)


def runtime_only(dist: Path, folder: Path) -> Path:
    """``folder`` with the runtime wheel alone, so that made-up data wheels are never mixed with real ones."""
    for path in dist.glob("aiter_prebuilt-*.whl"):
        if not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    return folder
