"""Where AITER's import merges its tables of tuned rows: all users of a machine have one place, and the second may not write."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from aiter_prebuilt_bridge import machine, probe_overrides

#: As both trees have it: a function, and a method.
SOURCE = """
def update_config_files(files, name):
    return f"/tmp/{name}.csv"
class Configs:
    def update_config_files(self, files, name):
        return str("/tmp/aiter_configs/") + name
def elsewhere():
    return "/tmp/"
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files is the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


def test_a_place_that_is_free_stays(tmp_path: Path) -> None:
    own = f"{tmp_path}/"
    assert machine.tables_folder(own) == own
    (tmp_path / "a8w8_tuned_gemm.csv").write_text("ours")
    assert machine.tables_folder(own) == own
    assert machine.tables_folder(f"{tmp_path}/not/there/") == f"{tmp_path}/not/there/"


def test_a_place_that_nobody_may_write(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = machine.tables_folder(f"{tmp_path}/")
    assert found == f"{temporary}/aiter-prebuilt-{os.geteuid()}/"
    assert stat.S_IMODE(Path(found).stat().st_mode) == 0o700
    assert machine.tables_folder(f"{tmp_path}/") == found


def test_another_users_table_is_in_the_way(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a folder of our name that is another user's is not taken."""
    (tmp_path / "a8w8_tuned_gemm.csv").write_text("theirs")
    (temporary / "aiter-prebuilt-54321").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    found = Path(machine.tables_folder(f"{tmp_path}/"))
    assert found.parent == temporary and found.is_dir() and found.name != "aiter-prebuilt-54321"


def test_without_any_place_it_is_aiters_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert machine.tables_folder(f"{tmp_path}/") == f"{tmp_path}/"


def test_the_code_of_both_trees_is_told_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "tables_folder", lambda own: f"/mine{own}")
    names: dict[str, object] = {}
    exec(probe_overrides.placed(compile(SOURCE, "core.py", "exec"), "aiter.jit.core"), names)
    function, configs, elsewhere = (names[name] for name in ("update_config_files", "Configs", "elsewhere"))
    assert callable(function) and callable(configs) and callable(elsewhere)
    assert function("", "x") == "/mine/tmp/x.csv"
    assert configs().update_config_files("", "x") == "/mine/tmp/aiter_configs/x"
    assert elsewhere() == "/tmp/"
    other = compile(SOURCE, "core.py", "exec")
    assert probe_overrides.placed(other, "aiter.ops.norm") is other
