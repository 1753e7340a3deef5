"""The bridge's data wheels: what is packed is read again, and nothing is handed on that is not what the index says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from aiter_prebuilt.contract import kernel_cache
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt_bridge import cache_data
from aiter_prebuilt_bridge.errors import CacheDamagedError
from build_tools.pack.cache_wheel import Seed, Seeds, contents, distribution, extra, write_cache_wheel

ROOT = Path(__file__).resolve().parents[2]
TARGET = "gfx942"
SEED = Seed(
    "KEY",
    "aiter.x._kernel",
    {"_kernel.json": b'{"a": 1}', "_kernel.hsaco": b"\x7fELF1"},
    {"triton": "t"},
    ("K2",),
)
OTHER = Seed("FKEY", "aiter.y", {"y.bin": b"abc"}, {"flydsl": "f"})


def seeds(
    tool: str, *found: Seed, builds: tuple[dict[str, str], ...] = ({"version": "3.9.0", "key": "t"},)
) -> Seeds:
    return Seeds(
        tool,
        TARGET,
        builds,
        ("amd-aiter 1",),
        found,
        ("triton", "aiter"),
        {"triton": "3.9.0"},
        ("pyproject.toml",),
    )


def unpacked(folder: Path, *filled: Seeds) -> Path:
    """The folder of a wheel with these."""
    for name, data in contents(TARGET, filled).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder / kernel_cache.folder_of(TARGET)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = unpacked(
        tmp_path, seeds("triton", SEED), seeds("flydsl", OTHER, builds=({"version": "1", "key": "f"},))
    )
    monkeypatch.setenv(cache_data.VARIABLE, str(folder))
    cache_data.forget()
    yield folder
    cache_data.forget()


def test_what_was_packed_is_found_by_each_of_its_keys(place: Path) -> None:
    found = cache_data.entries("triton")
    assert set(found) == {"KEY", "K2"} and set(cache_data.entries("flydsl")) == {"FKEY"}
    data, entry = found["K2"]
    files = data.files(entry)
    assert {name: Path(path).read_bytes() for name, path in files.items()} == dict(SEED.files)
    assert all(path.startswith(f"{place}/triton/") for path in files.values())
    assert files["_kernel.json"].endswith(".json") and files["_kernel.hsaco"].endswith(".hsaco")


@pytest.mark.parametrize("name", ["_kernel.json", "_kernel.hsaco"])
def test_a_flipped_bit_is_an_error_with_the_files_name(place: Path, name: str) -> None:
    data, entry = cache_data.entries("triton")["KEY"]
    path = place / entry.files[name].path
    content = bytearray(path.read_bytes())
    content[2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CacheDamagedError, match="another SHA-256") as error:
        data.files(entry)
    assert str(path) in str(error.value) and "pip install --force-reinstall" in str(error.value)


def test_a_file_that_is_missing_longer_or_a_link_is_an_error(place: Path, tmp_path: Path) -> None:
    data, entry = cache_data.entries("flydsl")["FKEY"]
    (wanted,) = entry.files.values()
    path = place / wanted.path
    for content, says in ((b"abcd", "of 4 bytes"), (None, "not readable")):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(CacheDamagedError, match=says):
            data.file(wanted)
        if content is None:
            path.touch()
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(b"abc")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CacheDamagedError, match="a link"):
        data.file(wanted)


def test_a_file_is_checked_once(place: Path) -> None:
    """As Triton reads it: after that nobody may change what is installed."""
    data, entry = cache_data.entries("triton")["KEY"]
    first = data.files(entry)
    for path in first.values():
        Path(path).write_bytes(b"")
    assert data.files(entry) == first


@pytest.mark.parametrize("opened", ["triton", "file", "wheel"])
def test_a_file_that_others_may_swap_after_its_check_is_handed_on_as_it_was_checked(
    opened: str, place: Path
) -> None:
    """The file, its folder, or the folder of both is not safe."""
    data, entry = cache_data.entries("triton")["KEY"]
    named = place / entry.files["_kernel.hsaco"].path
    {"triton": place / "triton", "file": named, "wheel": place}[opened].chmod(0o777)
    files = data.files(entry)
    named.unlink()
    named.write_bytes(b"swapped")
    handed = Path(files["_kernel.hsaco"])
    assert handed.read_bytes() == dict(SEED.files)["_kernel.hsaco"] and handed.suffix == ".hsaco"
    assert handed != named and handed.parent.stat().st_mode & 0o777 == 0o700
    assert Path(files["_kernel.json"]).read_bytes() == dict(SEED.files)["_kernel.json"]
    assert data.files(entry) == files  # made once


@pytest.mark.parametrize(
    "path",
    ["../x", "triton/../../x", "/etc/passwd", "triton//x", "flydsl/x", "triton", "triton/", "triton/.x", "triton/a b",
     "triton/x\x00", "other/x", ""],
)  # fmt: skip
def test_an_index_that_names_a_file_elsewhere_is_refused(path: str) -> None:
    document = document_of()
    document["entries"][0]["files"]["_kernel.json"]["path"] = path
    with pytest.raises(kernel_cache.CacheIndexError, match="it names the file"):
        kernel_cache.read(document)


def document_of() -> dict[str, Any]:
    found = contents(TARGET, [seeds("triton", SEED)])
    document: dict[str, Any] = json.loads(found[f"{kernel_cache.folder_of(TARGET)}/index.json"])
    return document


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "of version 2"),
        ({"target": "../gfx942"}, "target"),
        ({"entries": [{}]}, "missing"),
        ({"compilers": None}, "missing"),
        (
            {"entries": [{"tool": "pickle", "key": "", "name": "", "files": {}, "parts": {}}]},
            "of the tool 'pickle'",
        ),
    ],
)
def test_an_index_of_another_form_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(kernel_cache.CacheIndexError, match=says):
        kernel_cache.read(document_of() | change)


@pytest.mark.parametrize("document", [None, [], 1, "x"])
def test_what_is_no_index_is_refused(document: Any) -> None:
    with pytest.raises(kernel_cache.CacheIndexError):
        kernel_cache.read(document)


@pytest.mark.parametrize("text", ["", "{", '{"version": 9}', "\x00"])
def test_a_damaged_index_is_an_error_with_its_name(place: Path, text: str) -> None:
    (place / "index.json").write_text(text)
    cache_data.forget()
    with pytest.raises(CacheDamagedError, match=r"index\.json"):
        cache_data.installed()
    (row,) = cache_data.summary()
    assert row["problem"] and row["entries"] == 0


def test_an_index_of_another_target_is_an_error(place: Path) -> None:
    moved = place.with_name(kernel_cache.folder_of("gfx950"))
    place.rename(moved)
    with pytest.raises(CacheDamagedError, match="it is for gfx942"):
        cache_data.open_folder(moved)


def test_the_summary_counts_by_tool_and_build(place: Path) -> None:
    (row,) = cache_data.summary()
    assert (row["target"], row["trees"], row["entries"], row["problem"]) == (TARGET, ["amd-aiter 1"], 2, "")
    assert [(each["tool"], each["version"], each["entries"]) for each in row["compilers"]] == [
        ("flydsl", "1", 1),
        ("triton", "3.9.0", 1),
    ]


def test_a_named_folder_comes_before_one_beside_the_package(
    place: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    beside = unpacked(tmp_path / "site", seeds("triton"))
    monkeypatch.setattr(
        cache_data, "__file__", str(tmp_path / "site" / "aiter_prebuilt_bridge" / "cache_data.py")
    )
    assert cache_data.folders() == (place,)
    monkeypatch.delenv(cache_data.VARIABLE)
    assert cache_data.folders() == (beside,)


def test_the_wheel_is_the_same_bytes_twice_and_holds_no_python(tmp_path: Path) -> None:
    filled = [seeds("triton", SEED)]
    first = write_cache_wheel(ROOT, tmp_path / "a", TARGET, filled)
    assert first.name == f"aiter_prebuilt_bridge_gfx942-{VERSION}-py3-none-any.whl"
    assert write_cache_wheel(ROOT, tmp_path / "b", TARGET, filled).read_bytes() == first.read_bytes()
    with ZipFile(first) as archive:
        names = archive.namelist()
        about = archive.read(f"aiter_prebuilt_bridge_gfx942-{VERSION}.dist-info/METADATA").decode()
    assert {name.split("/")[0] for name in names} == {
        kernel_cache.folder_of(TARGET),
        f"aiter_prebuilt_bridge_gfx942-{VERSION}.dist-info",
    }
    assert not [name for name in names if name.endswith((".py", ".pth", ".so", ".pyc"))]
    assert f"Requires-Dist: aiter-prebuilt-bridge=={VERSION}\n" in about and "NCSA" in about


def test_each_extra_brings_the_wheel_of_its_name() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for target in ("gfx942", "gfx950"):
        assert f'{extra(target)} = ["{distribution(target)}=={{project[version]}}"]' in text


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_data.VARIABLE, os.fspath(tmp_path / kernel_cache.folder_of("gfx950")))
    cache_data.forget()
    with pytest.raises(CacheDamagedError, match="aiter-prebuilt-bridge-gfx950"):
        cache_data.installed()
