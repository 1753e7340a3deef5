"""``pip install .`` in a checkout: a wheel, or one sentence that says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from build_tools.errors import WheelError
from build_tools.pack import source_build
from build_tools.tools import fetch, pins

ROOT = Path(__file__).resolve().parents[2]
#: What a build of the runtime wheel reads.
READ = (
    "pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "THIRD_PARTY.txt", "build_tools", "csrc/runtime",
    "src/aiter_prebuilt", "manifests/toolchains.toml",
)  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that a build reads, in a folder of their own."""
    place = tmp_path / "checkout"
    for name in READ:
        source, target = ROOT / name, place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(source, target)
    return place


def _pip(checkout: Path, verb: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pip in a checkout, with this environment's build packages, and no index."""
    home = checkout.parent / "home"
    home.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    environment = {
        **kept, "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TMPDIR": str(checkout.parent),
        "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_CACHE_DIR": str(checkout.parent / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables,
    }  # fmt: skip
    command = [sys.executable, "-m", "pip", verb, "--no-deps", "--no-build-isolation", *words]
    return subprocess.run(
        command, cwd=checkout.parent, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def _left(checkout: Path) -> set[str]:
    """Files and folders that a build left beside the checkout, in the home, or in the checkout."""
    found = {path.name for path in checkout.parent.iterdir()} - {"checkout", "out"}
    found |= {path.name for path in (checkout.parent / "home").rglob("*")}
    return found | {path.name for path in checkout.iterdir()} - {name.partition("/")[0] for name in READ}


@pytest.mark.parametrize("words", [("wheel", "-w", "out"), ("install", "--target", "out")])
def test_a_compiler_that_fails_ends_in_a_sentence(checkout: Path, words: tuple[str, ...]) -> None:
    sources = {setting: str(place) for setting, place in fetch.native_sources(ROOT).items()}
    verb, *more = words
    done = _pip(checkout, verb, *more, str(checkout), CC="/bin/false", CXX="/bin/false", **sources)
    told = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in told
    assert "error: Cannot build aiter-prebuilt from source: its native extension does not compile here" in told
    assert "python3 -m nox -s wheels" in told
    assert _left(checkout) <= {"home", "pip"}


def test_sources_that_nothing_serves_end_in_a_sentence(checkout: Path) -> None:
    done = _pip(checkout, "wheel", "-w", "out", str(checkout))
    told = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in told
    assert "error: Cannot fetch zstandard-" in told and "put the file into a folder and set" in told
    assert _left(checkout) <= {"home", "pip"}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (("darwin", "arm64", "cpython", ""), "this machine is darwin arm64"),
        (("linux", "aarch64", "cpython", ""), "this machine is linux aarch64"),
        (("linux", "x86_64", "pypy", ""), "this Python is pypy"),
        (("linux", "x86_64", "cpython", "t"), "this Python is a free-threaded Python"),
    ],
)
def test_a_machine_that_cannot_load_the_wheel_is_refused(found: tuple[str, str, str, str], why: str) -> None:
    source_build.refuse_foreign("linux", "x86_64", "cpython", "")
    with pytest.raises(WheelError, match=why):
        source_build.refuse_foreign(*found)


def test_asks_for_pip_and_a_compiler_only_where_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "g++")
    for setting in fetch.NATIVE_SOURCES:
        monkeypatch.delenv(setting, raising=False)
    tomli = "tomli; python_version < '3.11'"
    assert source_build.requirements(None) == [tomli, "pip>=23.1"]
    given = {f"cmake.define.{setting}": "/somewhere" for setting in fetch.NATIVE_SOURCES}
    assert source_build.requirements(given) == []
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    zig = pins.load(ROOT).tools["ziglang"].version
    assert source_build.requirements(given) == [tomli, f"ziglang=={zig}"]


@pytest.mark.reproduce
def test_pip_builds_a_wheel_of_a_commit_and_leaves_nothing(checkout: Path) -> None:
    """As ``pip install git+https://...`` does: the commit is cloned by pip."""
    for line in ("init -q", "add .", "-c user.name=a -c user.email=b commit -qm first"):
        subprocess.run(["git", *line.split()], cwd=checkout, check=True)
    sources = {setting: str(place) for setting, place in fetch.native_sources(ROOT).items()}
    done = _pip(checkout, "wheel", "-w", "out", f"git+{checkout.as_uri()}", **sources)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (checkout.parent / "out").iterdir()
    assert wheel.name.endswith("-cp310-abi3-linux_x86_64.whl")
    assert _left(checkout) <= {"home", "pip", ".git"}
