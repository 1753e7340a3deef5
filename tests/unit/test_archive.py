"""Wheels are the same bytes whatever order their members are found in."""

from __future__ import annotations

import stat
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from build_tools.errors import WheelError
from build_tools.pack import archive as written
from build_tools.pack.archive import PinnedWheel, write_members

MEMBERS = {
    "z/last.py": b"2",
    "demo-1.0.dist-info/METADATA": b"Metadata-Version: 2.4\n",
    "a/lib.so": b"1",
    "demo-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\n",
}


def test_the_order_in_which_members_are_found_does_not_matter(tmp_path: Path) -> None:
    """A folder is listed in the order of its file system; ``.dist-info`` stands last, as PEP 427 asks."""
    orders = [MEMBERS, dict(reversed(MEMBERS.items())), dict(sorted(MEMBERS.items()))]
    written = []
    for place, members in enumerate(orders):
        path = tmp_path / str(place) / "demo-1.0-py3-none-any.whl"
        write_members(path, members, executables=["a/lib.so"])
        written.append(path.read_bytes())
    assert written[0] == written[1] == written[2]
    with ZipFile(path) as archive:
        assert archive.namelist() == [
            "a/lib.so", "z/last.py", "demo-1.0.dist-info/METADATA", "demo-1.0.dist-info/WHEEL", "demo-1.0.dist-info/RECORD",
        ]  # fmt: skip
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    assert [modes[name] for name in ("a/lib.so", "z/last.py")] == [0o755, 0o644]


def test_every_member_is_stored_as_a_file_of_the_pinned_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")  # 2001-09-09 01:46:40
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    write_members(path, MEMBERS)
    with ZipFile(path) as archive:
        for info in archive.infolist():
            assert (info.create_system, info.compress_type) == (3, ZIP_STORED)
            assert info.external_attr >> 16 == stat.S_IFREG | 0o644
            assert info.date_time == (2001, 9, 9, 1, 46, 40)
            assert info.filename.endswith("RECORD") or archive.read(info) == MEMBERS[info.filename]


@pytest.mark.parametrize(
    ("mode", "kept"),
    [(0o755, 0o755), (0o100, 0o755), (0o677, 0o644), (0o777, 0o755), (0, 0o644), (0o044, 0o644)],
)
def test_of_a_mode_only_the_owner_s_right_to_execute_is_kept(tmp_path: Path, mode: int, kept: int) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    info = ZipInfo("a", date_time=(2020, 1, 1, 0, 0, 0))
    info.external_attr = mode << 16 | 0o100
    with PinnedWheel(path) as wheel:
        wheel.writestr(info, b"1" * 100, ZIP_DEFLATED)
        wheel.writestr("b", "text")
    with ZipFile(path) as archive:
        found = {info.filename: info for info in archive.infolist()}
    assert [found[name].external_attr >> 16 & 0o777 for name in "ab"] == [kept, 0o644]
    assert found["a"].compress_size == 100 and found["a"].date_time != info.date_time


def test_a_wheel_has_at_most_the_bytes_that_an_index_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert written.MAX_WHEEL_BYTES == 100_000_000
    path = tmp_path / "a" / "folder" / "demo-1.0-py3-none-any.whl"
    write_members(path, MEMBERS)
    size = path.stat().st_size
    monkeypatch.setattr(written, "MAX_WHEEL_BYTES", size)
    write_members(path, MEMBERS)
    monkeypatch.setattr(written, "MAX_WHEEL_BYTES", size - 1)
    with pytest.raises(WheelError) as caught:
        write_members(path, MEMBERS)
    assert caught.value.asked == f"pack {path.name}"
    assert caught.value.found == f"{size} bytes, {size - 1} is the limit"
    assert caught.value.fix == "Split the bundle by profile"
    assert not path.exists()
