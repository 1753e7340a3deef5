"""Fetching sources: the pin decides, members stay in their folder, the cache never holds half an archive."""

from __future__ import annotations

import hashlib
import io
import os
import runpy
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from build_tools.errors import FetchError
from build_tools.tools import fetch
from build_tools.tools.pins import SourcePin, load

ROOT = Path(__file__).resolve().parents[2]

FILES = {"zstd/zstd.c": b"int x;", "zstd/deep/er.h": b"", "LICENSE": b"free", "setup.py": b"raise SystemExit"}
Add = Callable[[tarfile.TarFile], None]


def archive(path: Path, files: dict[str, bytes], extra: Add | None = None) -> bytes:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"thing-1.0/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        if extra is not None:
            extra(tar)
    return path.read_bytes()


def pin_for(data: bytes, keep: tuple[str, ...] = ("zstd", "LICENSE")) -> SourcePin:
    return SourcePin("thing", "1.0", "a test", "thing-1.0.tar.gz", hashlib.sha256(data).hexdigest(), keep)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(folder))
    return folder


def test_only_what_is_kept_is_unpacked(shelf: Path, tmp_path: Path) -> None:
    pin = pin_for(archive(shelf / "thing-1.0.tar.gz", FILES))
    folder = fetch.source_folder(pin, tmp_path / "cache")
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"zstd/zstd.c", "zstd/deep/er.h", "LICENSE"}
    assert (folder / "zstd/zstd.c").read_bytes() == b"int x;"


def test_a_second_time_nothing_is_read(shelf: Path, tmp_path: Path) -> None:
    path = shelf / "thing-1.0.tar.gz"
    pin = pin_for(archive(path, FILES))
    first = fetch.source_folder(pin, tmp_path / "cache")
    path.unlink()
    assert fetch.source_folder(pin, tmp_path / "cache") == first


def test_other_bytes_than_the_pin_are_refused_and_leave_nothing(shelf: Path, tmp_path: Path) -> None:
    archive(shelf / "thing-1.0.tar.gz", FILES)
    with pytest.raises(FetchError, match="other bytes than the pin"):
        fetch.source_folder(pin_for(b"something else"), tmp_path / "cache")
    assert list((tmp_path / "cache" / "sources").iterdir()) == []


def link(kind: bytes, name: str, target: str) -> Add:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = target
        tar.addfile(info)

    return add


def member(name: str) -> Add:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.size = 3
        tar.addfile(info, io.BytesIO(b"bad"))

    return add


@pytest.mark.parametrize(
    "extra",
    [
        link(tarfile.SYMTYPE, "thing-1.0/zstd/link", "/etc/passwd"),
        link(tarfile.LNKTYPE, "thing-1.0/zstd/link", "thing-1.0/setup.py"),
        link(tarfile.FIFOTYPE, "thing-1.0/zstd/pipe", ""),
        member("thing-1.0/zstd/../../outside"),
    ],
)
def test_links_devices_and_ways_out_are_refused(shelf: Path, tmp_path: Path, extra: Add) -> None:
    pin = pin_for(archive(shelf / "thing-1.0.tar.gz", FILES, extra))
    with pytest.raises(FetchError, match="link, a device or leaves its folder"):
        fetch.source_folder(pin, tmp_path / "cache")
    assert not (tmp_path / "cache" / "sources" / pin.folder).exists()
    assert not list(tmp_path.rglob("outside"))


def test_a_folder_that_is_not_in_the_archive_is_an_error(shelf: Path, tmp_path: Path) -> None:
    pin = pin_for(archive(shelf / "thing-1.0.tar.gz", FILES), keep=("zstd", "include"))
    with pytest.raises(FetchError, match="unpack include"):
        fetch.source_folder(pin, tmp_path / "cache")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of files; this machine's settings of pip do not count."""
    for name in os.environ:
        if name.startswith("PIP_") or name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.delenv(fetch.SDISTS_VARIABLE, raising=False)
    folder = tmp_path / "index" / "thing"
    folder.mkdir(parents=True)
    settings = {
        "CONFIG_FILE": os.devnull,
        "INDEX_URL": folder.parent.as_uri(),
        "RETRIES": "0",
        "TIMEOUT": "5",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


def serve(index: Path, name: str) -> None:
    (index / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')


#: What every source archive has; its setup.py must not be run, or pip fails.
PACKAGE = {**FILES, "PKG-INFO": b"Metadata-Version: 2.1\nName: thing\nVersion: 1.0\nRequires-Dist: nowhere\n"}


@pytest.mark.parametrize(
    "backend",
    [
        None,
        b'[build-system]\nrequires = ["setuptools>=99"]\nbuild-backend = "setuptools.build_meta"\n',
        b'[build-system]\nrequires = ["scikit-build-core>=99"]\nbuild-backend = "scikit_build_core.build"\n',
    ],
)
def test_an_index_that_has_the_file(index: Path, tmp_path: Path, backend: bytes | None) -> None:
    files = PACKAGE if backend is None else {**PACKAGE, "pyproject.toml": backend}
    pin = pin_for(archive(index / "thing-1.0.tar.gz", files))
    serve(index, "thing-1.0.tar.gz")
    assert (fetch.source_folder(pin, tmp_path / "cache") / "LICENSE").read_bytes() == b"free"


def test_metadata_is_named_after_the_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip 23 takes the name of what an archive holds from the folder of its metadata."""
    (tmp_path / "PKG-INFO").write_bytes(PACKAGE["PKG-INFO"].replace(b"thing", b"some-thing"))
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(
        str(fetch._BACKEND / "setuptools" / "build_meta.py"), run_name="build_meta_of_archives"
    )
    assert found["prepare_metadata_for_build_wheel"](str(tmp_path)) == "some_thing-1.0.dist-info"
    assert (tmp_path / "some_thing-1.0.dist-info" / "METADATA").is_file()


def test_a_folder_of_find_links_is_enough(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = pin_for(archive(index / "thing-1.0.tar.gz", PACKAGE))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert (fetch.source_folder(pin, tmp_path / "cache") / "LICENSE").read_bytes() == b"free"


def test_an_index_with_other_bytes_is_refused(index: Path, tmp_path: Path) -> None:
    archive(index / "thing-1.0.tar.gz", PACKAGE)
    serve(index, "thing-1.0.tar.gz")
    with pytest.raises(FetchError, match="DO NOT MATCH THE HASHES"):
        fetch.source_folder(pin_for(b"something else"), tmp_path / "cache")
    assert list((tmp_path / "cache" / "sources").iterdir()) == []


def test_an_index_that_does_not_have_the_file_is_an_error(index: Path, tmp_path: Path) -> None:
    serve(index, "thing-0.9.tar.gz")
    with pytest.raises(FetchError, match=rf"(?s)No matching distribution.*{fetch.SDISTS_VARIABLE}"):
        fetch.source_folder(pin_for(b""), tmp_path / "cache")


def test_no_error_shows_the_login_of_an_index(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:sec%40ret@localhost:1/simple")
    with pytest.raises(FetchError) as caught:
        fetch.source_folder(pin_for(b""), tmp_path / "cache")
    assert "http://localhost:1/simple" in str(caught.value)
    assert "user" not in str(caught.value) and "sec" not in str(caught.value)
    assert fetch.without_login("no route to https://u:a@b@c.example/x") == "no route to https://c.example/x"


def test_a_python_without_pip_says_what_to_do(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "find_spec", lambda name: None)
    with pytest.raises(FetchError, match=rf"no pip.*ensurepip.*{fetch.SDISTS_VARIABLE}"):
        fetch.source_folder(pin_for(b""), tmp_path / "cache")


def test_the_cache_can_be_put_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "mine"))
    assert fetch.cache_folder() == tmp_path / "mine"
    monkeypatch.delenv(fetch.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert fetch.cache_folder() == tmp_path / "xdg" / "aiter-prebuilt"


def test_every_build_of_the_extension_is_given_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetched(name: str, root: Path) -> Path:
        asked.append(name)
        return Path(name)

    monkeypatch.setattr(fetch, "fetch", fetched)
    places = fetch.native_sources(ROOT)
    assert places == {"APB_ZSTD_SOURCE": Path("zstd"), "APB_DLPACK_INCLUDE": Path("dlpack")}
    assert asked == ["zstd", "dlpack"] == list(fetch.SOURCES)
    cmake, project = ((ROOT / name).read_text() for name in ("CMakeLists.txt", "pyproject.toml"))
    copied = (ROOT / "ci" / "prepare_runtime.sh").read_text()
    for setting, name in fetch.NATIVE_SOURCES.items():
        assert (
            f"build_tools fetch {name}'" in cmake and f'set({setting} "$ENV{{{setting}}}" CACHE PATH' in cmake
        )
        assert f'"cmake.define.{setting}" = "/project/build/sources/{name}"' in project
    assert "build_tools.tools.native_sources build/sources" in copied


def test_every_source_lies_in_an_archive_that_is_pinned() -> None:
    pinned = load(ROOT).sources
    for package, below in fetch.SOURCES.values():
        assert any(Path(below).is_relative_to(kept) for kept in pinned[package].keep)
