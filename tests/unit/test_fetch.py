"""Fetching sources: the pin decides, members stay in their folder, the cache never holds half an archive."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from build_tools.errors import FetchError
from build_tools.tools import fetch
from build_tools.tools.pins import SourcePin

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


def test_pip_variables_come_before_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "/a /b")
    settings = fetch.pip_settings()
    assert settings["index-url"] == ["https://index.example/simple"]
    assert settings["find-links"] == ["/a", "/b"]


def test_an_index_that_does_not_have_the_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(fetch.SDISTS_VARIABLE, raising=False)
    index = tmp_path / "index" / "thing"
    index.mkdir(parents=True)
    (index / "index.html").write_text('<a href="thing-0.9.tar.gz">thing-0.9.tar.gz</a>')
    monkeypatch.setattr(
        fetch,
        "pip_settings",
        lambda: {"index-url": [index.parent.as_uri()], "extra-index-url": [], "find-links": []},
    )
    with pytest.raises(FetchError, match=fetch.SDISTS_VARIABLE):
        fetch.source_folder(pin_for(b""), tmp_path / "cache")


@pytest.mark.parametrize("broken", [False, True])
def test_no_error_shows_the_login_of_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    import unearth

    class Finder:
        def __init__(self, **_options: object) -> None:
            self.sources = [{"url": "https://user:secret@index.example/simple", "type": "index"}]

        def find_all_packages(self, _name: str) -> list[object]:
            if broken:
                raise OSError("no route to https://user:sec@ret@index.example/simple/thing")
            return []

    monkeypatch.delenv(fetch.SDISTS_VARIABLE, raising=False)
    monkeypatch.setattr(unearth, "PackageFinder", Finder)
    with pytest.raises(FetchError) as caught:
        fetch.source_folder(pin_for(b""), tmp_path / "cache")
    assert "https://index.example/simple" in str(caught.value)
    assert "sec" not in str(caught.value)


def test_an_index_that_has_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(fetch.SDISTS_VARIABLE, raising=False)
    index = tmp_path / "index" / "thing"
    index.mkdir(parents=True)
    pin = pin_for(archive(index / "thing-1.0.tar.gz", FILES))
    (index / "index.html").write_text('<a href="thing-1.0.tar.gz">thing-1.0.tar.gz</a>')
    monkeypatch.setattr(
        fetch,
        "pip_settings",
        lambda: {"index-url": [index.parent.as_uri()], "extra-index-url": [], "find-links": []},
    )
    assert (fetch.source_folder(pin, tmp_path / "cache") / "LICENSE").read_bytes() == b"free"


def test_the_cache_can_be_put_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "mine"))
    assert fetch.cache_folder() == tmp_path / "mine"
    monkeypatch.delenv(fetch.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert fetch.cache_folder() == tmp_path / "xdg" / "aiter-prebuilt"
