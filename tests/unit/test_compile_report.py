"""The report of a compile, and what is left when something ends it early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.compiling import TOOLS, Backend, job

from build_tools.compile import compile as stage
from build_tools.compile.compile import as_report
from build_tools.records import CompileResult


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = Backend()
    monkeypatch.setattr(stage, "BACKENDS", {"hip": made})
    return made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the children."""
    made: list[str] = []
    monkeypatch.setattr(stage, "kill_all", lambda: made.append("killed"))
    monkeypatch.setattr(stage, "allow", lambda: made.append("allowed"))
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "k.hip").write_text("kernel")
    return tmp_path


def result(name: str, **words: Any) -> CompileResult:
    return replace(CompileResult(job=job(name), key=f"key of {name}", ok=True), **words)


def test_a_report_has_a_row_for_each_job_sorted(tmp_path: Path) -> None:
    path = tmp_path / "00ff"
    path.write_bytes(b"twelve bytes")
    results = [
        result("b", path=path, symbol="k.kd", threads=64, seconds=1.23456, extra={"lds": "16"}, cached=True),
        result("a", ok=False, seconds=0.0004, command="cc", exit_code=3, log="no"),
        result("d", path=path, ok=False, log="gone"),
        result("c", log="ok, and nowhere"),
    ]
    usual = {"cached": False, "seconds": 0.0}
    assert as_report(results, TOOLS, 7) == {
        "version": 1, "toolchain": {"toolchain": "made up"}, "planned": 7, "failed": 2, "cached": 1,
        "jobs": [
            {"id": "a", "key": "key of a", "ok": False, **usual, "command": "cc", "exit_status": 3, "log": "no"},
            {"id": "b", "key": "key of b", "ok": True, "cached": True, "seconds": 1.235, "symbol": "k.kd", "threads": 64,
             "size": 12, "sha256": "00ff", "extra": {"lds": "16"}},
            {"id": "c", "key": "key of c", "ok": True, **usual, "command": "", "exit_status": 0,
             "log": "ok, and nowhere"},
            {"id": "d", "key": "key of d", "ok": False, **usual, "command": "", "exit_status": 0, "log": "gone"},
        ],
    }  # fmt: skip
