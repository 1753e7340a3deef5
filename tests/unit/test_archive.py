"""Wheels are the same bytes whatever order their members are found in."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from build_tools.pack.archive import write_members

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
