"""Install, upgrade, downgrade and uninstall, by pip and uv: nothing stays in site-packages, programs, home or temporary files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.installed import Environment, data_wheel, write_bundle

from aiter_prebuilt.contract.version import VERSION
from build_tools.pack.archive import write_members

#: Names that a release has beside the runtime, where ``dist`` has them: each puts files elsewhere in site-packages.
HOST = ("aiter_prebuilt_emulator", "aiter_prebuilt_bridge")
OLDER, NEWER = "0.0.7", VERSION


def reversioned(path: Path, version: str, folder: Path) -> None:
    """Write a wheel again as another release: its names, metadata and the version that the runtime reads."""
    folder.mkdir(parents=True, exist_ok=True)
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    stem, _, rest = path.name.partition(f"-{VERSION}-")
    old, new = f"{stem}-{VERSION}.dist-info/", f"{stem}-{version}.dist-info/"
    made = {name.replace(old, new, 1): data for name, data in members.items() if name != f"{old}RECORD"}
    told = made[f"{new}METADATA"].decode()
    told = re.sub(rf"(?m)^Version: {re.escape(VERSION)}$", f"Version: {version}", told)
    made[f"{new}METADATA"] = told.replace(f"=={VERSION}", f"=={version}").encode()
    source = "aiter_prebuilt/contract/version.py"
    if source in made:
        made[source] = made[source].replace(VERSION.encode(), version.encode())
    write_members(folder / f"{stem}-{version}-{rest}", made)


@pytest.fixture(scope="module")
def releases(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two releases: the runtime, a small bundle, and what else of the host ``dist`` has."""
    folder = tmp_path_factory.mktemp("releases")
    for version in (OLDER, NEWER):
        bundle = write_bundle(tmp_path_factory.mktemp("bundle"), "gfx942", "ck-free", version)
        data_wheel(bundle, folder, version)
    for name in ("aiter_prebuilt", *HOST):
        for path in dist.glob(f"{name}-{VERSION}-*.whl"):
            shutil.copy(path, folder)
            reversioned(path, OLDER, folder)
    return folder


def _extras(releases: Path) -> str:
    there = [name.removeprefix("aiter_prebuilt_") for name in HOST if list(releases.glob(f"{name}-*.whl"))]
    return ",".join(["gfx942", *there])


def _run(words: list[str], environment: Environment) -> subprocess.CompletedProcess[str]:
    """Run a program with a home and temporary folder of its own, and none of this machine's pip settings.

    A short PATH: pip asks for rustc's version, and a rustc of rustup writes into the home.
    """
    base = environment.folder.parent
    for name in ("home", "temp"):
        (base / name).mkdir(exist_ok=True)
    variables = {
        "HOME": str(base / "home"), "TMPDIR": str(base / "temp"), "PATH": "/usr/bin:/bin", "LC_ALL": "C",
        "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_CACHE_DIR": str(base / "uv"), "UV_NO_CONFIG": "1",
    }  # fmt: skip
    return subprocess.run(
        words, cwd=base, env=variables, capture_output=True, text=True, timeout=300, check=False
    )


def _installer(name: str, environment: Environment) -> tuple[list[str], list[str]]:
    """The words that install into an environment, and those that uninstall, by pip or by uv."""
    python = str(environment.folder / "bin" / "python")
    if name == "pip":
        pip = [sys.executable, "-m", "pip", "--python", python]
        return [*pip, "install"], [*pip, "uninstall", "-y"]
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("uv is not here: pip install -r build_tools/locks/lock.txt")
    return [found, "pip", "install", "--python", python], [found, "pip", "uninstall", "--python", python]


def _installed(environment: Environment) -> set[str]:
    base = environment.folder
    return {str(path.relative_to(base)) for path in base.rglob("*")}


@pytest.mark.parametrize("name", ["pip", "uv"])
def test_a_life_of_installs_leaves_nothing(name: str, environment: Environment, releases: Path) -> None:
    install, uninstall = _installer(name, environment)
    before = _installed(environment)
    links = ["--no-index", "--find-links", str(releases)]
    command = str(environment.folder / "bin" / "aiter-prebuilt")
    for version in (OLDER, NEWER, OLDER):
        done = _run([*install, *links, f"aiter-prebuilt[{_extras(releases)}]=={version}"], environment)
        assert done.returncode == 0, done.stderr
        assert _run([command, "--version"], environment).stdout.split()[:2] == ["aiter-prebuilt", version]
        listed = _run([command, "list", "--json"], environment)
        assert listed.returncode == 0, listed.stdout + listed.stderr
        there = {path.stem.rpartition("-")[2] for path in environment.site.glob("aiter*.dist-info")}
        assert there == {version}
    names = [path.name.split("-")[0] for path in environment.site.glob("aiter*.dist-info")]
    done = _run([*uninstall, *names], environment)
    assert done.returncode == 0, done.stderr
    # uv's own lock of an environment stays.
    assert _installed(environment) - before <= {".lock"}
    base = environment.folder.parent
    assert not list((base / "home").rglob("*")) and not list((base / "temp").rglob("*"))


def test_an_extra_that_the_folder_lacks_is_named(environment: Environment, releases: Path) -> None:
    """pip and uv name the distribution that is missing: docs/quickstart.md says what builds it."""
    install, _ = _installer("pip", environment)
    words = ["--no-index", "--find-links", str(releases), f"aiter-prebuilt[sm90]=={NEWER}"]
    done = _run([*install, *words], environment)
    assert done.returncode != 0 and f"aiter-prebuilt-sm90=={NEWER}" in done.stderr
