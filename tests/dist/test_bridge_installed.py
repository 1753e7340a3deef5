"""``pip install amd-aiter 'aiter-prebuilt[gfx942,bridge]'`` in a clean environment, as users and servers start Python in it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import zipapp
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
from support.installed import Environment, make_environment, run

from build_tools.tools import pins
from build_tools.tools.fetch import cache_folder
from build_tools.tools.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "src" / "aiter_prebuilt" / "schemas" / "bridge.json"
NEEDS = ("torch", "pandas", "einops", "psutil")
LIBRARY = "import aiter_prebuilt_emulator; print(aiter_prebuilt_emulator.library())"


@pytest.fixture(scope="module")
def user(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """AITER as PyPI has it, and our wheels, read-only. What AITER imports, which no index is asked for, is this process's."""
    wanted = ("aiter_prebuilt_bridge-*.whl", "aiter_prebuilt_emulator-*.whl", "aiter_prebuilt_gfx942-*.whl")
    lacking = [name for name in NEEDS if find_spec(name) is None]
    if lacking or not all(list(dist.glob(name)) for name in wanted):
        pytest.skip(
            f"no {', '.join(lacking) or 'wheels of the bridge, the emulator and gfx942'}: run nox -s tests"
        )
    made = make_environment(tmp_path_factory.mktemp("user"))
    pin = pins.load(ROOT).trees["aiter"]
    wheel = Tree(pin, cache_folder(), None).fetched() / pin.file
    done = made.pip("install", "--no-index", "--no-deps", "--no-compile", str(wheel))
    assert done.returncode == 0, done.stderr
    made.install("aiter-prebuilt[bridge,gfx942,emulator]", places=(dist,))
    (made.site / "needs.pth").write_text("".join(f"{folder}\n" for folder in _folders()))
    _permit(made.site, write=False)
    yield made
    _permit(made.site, write=True)


def _folders() -> list[str]:
    """Where this process has what AITER imports."""
    found = (find_spec(name) for name in NEEDS)
    return sorted(
        {str(Path(each.origin).parents[1]) for each in found if each is not None and each.origin is not None}
    )


def _permit(folder: Path, *, write: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | stat.S_IWUSR if write else mode & ~0o222)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with the program of a user."""
    for path in (Path(__file__).with_name("bridge_user.py"), ROOT / "examples" / "embedded.py"):
        shutil.copy(path, tmp_path)
    return tmp_path / "bridge_user.py"


def _right(user: Environment, place: Path, *words: str, **variables: str) -> None:
    settings = {"OMP_NUM_THREADS": "1", "AITER_PREBUILT_BRIDGE": "strict"} | variables
    done = run([str(user.folder / "bin" / "python"), *words], place, **settings)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "right", (
        done.stdout[-2000:] + done.stderr[-4000:]
    )


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_workers_of_a_server(user: Environment, program: Path, way: str) -> None:
    _right(user, program.parent, str(program), way)


def test_a_folder_for_nothing_may_be_written(user: Environment, program: Path, tmp_path: Path) -> None:
    """Site-packages, the user's home and the working folder are read-only, as another user's are."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o555)
    _right(user, home, str(program), "obeying", HOME=str(home))
    assert not [*home.iterdir()]


def test_without_sites_the_servers_plugins_are_enough(user: Environment, program: Path) -> None:
    """``python -S`` reads no .pth."""
    path = os.pathsep.join([str(user.site), *_folders()])
    _right(user, program.parent, "-S", str(program), "plugins", PYTHONPATH=path)


def test_an_isolated_program_of_one_file(user: Environment, program: Path, tmp_path: Path) -> None:
    """``python -I`` with a zipapp, whose modules are in an archive."""
    source = tmp_path / "source"
    source.mkdir()
    for path in program.parent.glob("*.py"):
        shutil.copy(path, source)
    archive = tmp_path / "user.pyz"
    zipapp.create_archive(source, archive, main="bridge_user:main")
    _right(user, tmp_path, "-I", str(archive), "here")


def test_a_start_of_python_imports_the_hook_alone(user: Environment) -> None:
    done = run([str(user.folder / "bin" / "python"), "-X", "importtime", "-c", "pass"], user.folder)
    told = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    assert [name for name in told if "aiter" in name] == ["aiter_prebuilt_bridge_hook"]


def test_status_and_doctor(user: Environment) -> None:
    """What AITER logs while it is imported goes elsewhere: standard output is one document."""
    library = user.python(LIBRARY).stdout.strip()
    settings = {"AITER_PREBUILT_HIP": library, "AITER_PREBUILT_EMULATOR": "gfx942"}
    done = user.command("bridge", "status", "--json", **settings)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    assert report["active"] and report["aiter"] == "0.1.7.post2.dev18" and not report["problems"]
    assert len(report["replaced"]) > 40 and len(report["stub"]) > 90
    told = json.loads(user.command("doctor", "--json", **settings).stdout)["bridge"]
    assert (told["mode"], told["active"], told["aiter"]) == ("on", True, report["aiter"])
