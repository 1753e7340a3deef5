"""What opening a bundle costs is bounded by its root, however large the file is."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from native import synthetic
from native.conftest import Run
from native.synthetic import Op, R, T


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def mapped_in(path: Path) -> int:
    """Bytes of a mapping of the file that are in this process, or -1 when it is not mapped."""
    total, inside = -1, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            inside = line.endswith(str(path))
        elif inside and name == "Rss:":
            total = max(total, 0) + int(rest.split()[0]) * 1024
    return total


def test_opening_reads_the_header_and_the_root_and_maps_nothing(
    native: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "code_object", lambda name: b"\x7fELF" + name.encode() * 500_000)
    ops = [Op(f"op{i}", [T("x", "f32", ["N"])], recipes=[R(blob=f"blob{i}")]) for i in range(8)]
    path = tmp_path / "large.apb"
    path.write_bytes(synthetic.bundle_bytes(ops))
    assert path.stat().st_size > 16 << 20
    handles = len(list(Path("/proc/self/fd").iterdir()))
    before = bytes_read()
    bundle = native.Bundle(str(path))
    read = bytes_read() - before
    assert bundle.entry_count == 8
    assert 128 < read < 16384
    assert mapped_in(path) == -1, "the pages of a file that is cut are SIGBUS"
    assert len(list(Path("/proc/self/fd").iterdir())) == handles + 1, "blocks and code objects are read later"
    del bundle
    assert len(list(Path("/proc/self/fd").iterdir())) == handles


def test_a_file_that_cannot_be_opened_keeps_no_handle(native: ModuleType, tmp_path: Path, run: Run) -> None:
    handles = len(list(Path("/proc/self/fd").iterdir()))
    for data in (b"", b"short", bytes(4096)):
        assert run(data) is not None
    assert len(list(Path("/proc/self/fd").iterdir())) == handles
