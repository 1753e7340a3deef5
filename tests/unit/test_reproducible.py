"""One time for everything, and files that are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_tools.errors import UsageError
from build_tools.files import reproducible


def test_epoch_is_fixed_unless_the_environment_says_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert reproducible.timestamp() == "2026-01-01T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert reproducible.timestamp() == "2023-11-14T22:13:20Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "5")
    assert reproducible.timestamp() == "1980-01-01T00:00:00Z"  # a zip has no earlier time
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(UsageError, match="'yesterday', not a number"):
        reproducible.epoch()


def test_write_atomic_makes_the_folder_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    reproducible.write_atomic(path, b"one")
    reproducible.write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [found.name for found in path.parent.iterdir()] == ["file"]


def test_an_interrupted_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    reproducible.write_atomic(path, b"old")

    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproducible.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
