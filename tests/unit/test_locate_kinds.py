"""What the search for bundles meets besides files: links, loops, pipes, folders and sockets under a bundle's name. Nothing hangs,
nothing raises what is no error of ours, and a link that leads to a bundle is one."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from support.bundles import small_bundle

from aiter_prebuilt.bundles import files, integrity, locate, opening
from aiter_prebuilt.errors import AiterPrebuiltError, BundleDamagedError, NoBundleError, TunedTableError
from aiter_prebuilt.launch import user_tables

NAME = "gfx942-ck-free.apb"


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """A search that waits for a reader of a pipe is a failure, and ends."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / locate.FOLDER
    folder.mkdir()
    return folder


def both(place: Path) -> list[AiterPrebuiltError]:
    """What a search of the folder raises, installed and by the variable, and with the file itself named."""
    raised = []
    for setting, folders in (("", [str(place.parent)]), (str(place), []), (str(place / NAME), [])):
        with pytest.raises(AiterPrebuiltError) as caught:
            locate.installed(setting, folders)
        raised.append(caught.value)
    return raised


def test_a_link_has_its_own_name(place: Path, tmp_path: Path) -> None:
    """As air-gapped layouts have it: files by their hash, names as links."""
    store = tmp_path / "store"
    store.mkdir()
    (store / "0f3a").write_bytes(small_bundle()[0])
    (store / "0f3a.calls").write_bytes(b"")
    (place / NAME).symlink_to(store / "0f3a")
    for setting, folders in (("", [str(tmp_path)]), (str(place), []), (str(place / NAME), [])):
        (found,) = locate.installed(setting, folders)
        assert (found.target, found.profile, found.path) == ("gfx942", "ck-free", str(place / NAME))
        assert opening.read_bundle(found).root.target == "gfx942"
        assert found.calls == str(store / "0f3a.calls")
    (place / NAME).with_suffix(".calls").write_bytes(b"")
    assert found.calls == str(place / "gfx942-ck-free.calls"), "what lies beside the link goes first"


def test_a_link_under_a_wrong_name_is_refused_by_content(place: Path, tmp_path: Path) -> None:
    (tmp_path / "0f3a").write_bytes(small_bundle()[0])
    (place / "gfx950-ck-free.apb").symlink_to(tmp_path / "0f3a")
    (found,) = locate.installed(str(place))
    with pytest.raises(
        AiterPrebuiltError, match=r"its content is for gfx942 \(ck-free\), its name says gfx950"
    ):
        opening.read_bundle(found)


def test_a_folder_reached_in_two_ways_is_one(place: Path, tmp_path: Path) -> None:
    (place / NAME).write_bytes(small_bundle()[0])
    (tmp_path / "lib64").symlink_to(tmp_path)
    other = tmp_path / "other" / locate.FOLDER
    other.mkdir(parents=True)
    (other / NAME).symlink_to(place / NAME)
    found = locate.installed("", [str(tmp_path), str(tmp_path / "lib64"), str(tmp_path / "other")])
    assert [bundle.path for bundle in found] == [str(place / NAME)]


def test_links_that_lead_nowhere(place: Path) -> None:
    file = place / NAME
    file.symlink_to(file)
    for error in both(place):
        assert type(error) is BundleDamagedError and "it is a link that cannot be followed" in error.found
        assert str(file) in error.asked and f"mv {file}" in error.fix
    file.unlink()
    file.symlink_to("nowhere")
    for error in both(place):
        assert "it is a link to nowhere, which is not there" in error.found


def test_what_is_no_file(place: Path) -> None:
    file = place / NAME
    os.mkfifo(file)
    assert {error.found for error in both(place)} == {"it is a named pipe, not a file"}
    file.unlink()
    file.mkdir()
    assert {error.found for error in both(place)} == {"it is a folder, not a file"}
    file.rmdir()
    file.symlink_to("/dev/zero")
    assert {error.found for error in both(place)} == {"it is a device, not a file"}
    file.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(file))
        assert {error.found for error in both(place)} == {"it is a socket, not a file"}


def test_a_folder_that_cannot_be_listed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(NoBundleError, match="cannot be listed: Permission denied"):
        locate.installed(str(place))


def test_a_file_that_becomes_a_pipe_after_the_search(place: Path) -> None:
    (place / NAME).write_bytes(small_bundle()[0])
    (found,) = locate.installed(str(place))
    (place / NAME).unlink()
    os.mkfifo(place / NAME)
    with pytest.raises(BundleDamagedError, match="it is a named pipe, not a file"):
        opening.read_bundle(found)
    (finding,) = integrity.verify(found).findings
    assert "it is a named pipe, not a file" in finding.problem


def test_golden_calls_that_are_a_pipe(place: Path) -> None:
    (place / NAME).write_bytes(small_bundle()[0])
    (found,) = locate.installed(str(place))
    os.mkfifo(found.calls)
    problems = [finding.problem for finding in integrity.verify(found).findings]
    assert any("gfx942-ck-free.calls" in text and "it is a named pipe" in text for text in problems)


def test_reading_keeps_no_handle(place: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    os.mkfifo(place / NAME)
    for path in (place / NAME, place):
        with pytest.raises(OSError, match="not a file"):
            files.open_file(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_tuned_table_that_is_a_pipe(tmp_path: Path) -> None:
    """Found in a folder that ``AITER_PREBUILT_TUNED`` names."""
    os.mkfifo(tmp_path / "softmax.csv")
    with pytest.raises(TunedTableError, match="it is a named pipe, not a file"):
        user_tables.read(str(tmp_path))
