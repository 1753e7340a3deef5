"""The bridge's wheel: the same bytes each time, the line for ``site``, the entry points, and nothing called aiter."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

import pytest

from aiter_prebuilt.contract.version import VERSION
from build_tools.pack import bridge_wheel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bridge_wheel.build_bridge_wheel(ROOT, tmp_path_factory.mktemp("dist"))


def members(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_two_builds_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    assert wheel.name == f"aiter_prebuilt_bridge-{VERSION}-py3-none-any.whl"
    assert bridge_wheel.build_bridge_wheel(ROOT, tmp_path).read_bytes() == wheel.read_bytes()


def test_it_holds_the_package_the_hook_and_the_folder_that_is_never_written(wheel: Path) -> None:
    found = members(wheel)
    tops = {name.split("/")[0] for name in found}
    info = f"aiter_prebuilt_bridge-{VERSION}.dist-info"
    assert tops == {
        "aiter_prebuilt_bridge",
        "aiter_prebuilt_bridge.pth",
        "aiter_prebuilt_bridge.start",
        "aiter_prebuilt_bridge_hook",
        info,
    }
    assert "aiter_prebuilt_bridge/jit/build/README.txt" in found
    packed = {name for name in found if not name.startswith(info) and not name.endswith((".pth", ".start"))}
    # The hook is one file in the sources and a folder in the wheel.
    hook = "aiter_prebuilt_bridge_hook"
    places = {name: name.removeprefix("src/") for name in bridge_wheel.source_files(ROOT)}
    places[f"src/{hook}.py"] = f"{hook}/__init__.py"
    assert packed == {*places.values()}
    for name, place in places.items():
        assert found[place] == (ROOT / name).read_bytes()


def test_the_line_for_site_is_one_import_of_one_file(wheel: Path) -> None:
    (line,) = members(wheel)["aiter_prebuilt_bridge.pth"].decode().splitlines()
    assert line == "import aiter_prebuilt_bridge_hook; aiter_prebuilt_bridge_hook.install()"


def test_python_without_import_lines_starts_the_same_function(wheel: Path) -> None:
    """PEP 829: ``pkg.mod:callable`` on a line, resolved by ``pkgutil`` and called without an argument."""
    import pkgutil

    import aiter_prebuilt_bridge_hook as hook

    (line,) = members(wheel)["aiter_prebuilt_bridge.start"].decode("ascii").splitlines()
    assert pkgutil.resolve_name(line) is hook.install


def test_both_servers_find_their_plugin(wheel: Path) -> None:
    written = members(wheel)[f"aiter_prebuilt_bridge-{VERSION}.dist-info/entry_points.txt"].decode()
    parser = ConfigParser()
    parser.read_string(written)
    groups = {group: dict(parser[group]) for group in parser.sections()}
    plugin = {"aiter_prebuilt_bridge": "aiter_prebuilt_bridge.plugin:register"}
    assert groups == {"vllm.general_plugins": plugin, "sglang.srt.plugins": plugin}
