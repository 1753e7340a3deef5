"""Tests that the whole suite leaves out have a session, and it runs every file that has one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support import sessions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = re.findall(
    r"not (\w+)",
    tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"][-1],
)


def test_there_are_markers_to_look_for() -> None:
    assert sorted(LEFT_OUT) == ["airgap", "reproduce"]


@pytest.mark.parametrize("marker", LEFT_OUT)
def test_a_session_runs_every_file_of_a_marker_that_the_suite_leaves_out(marker: str) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(rf"^(@|pytestmark.*)pytest\.mark\.{marker}\b", path.read_text(), re.MULTILINE)
    }
    (session,) = re.findall(rf"\ndef {marker}\(.*?(?=\n\n\n)", sessions.text(), re.DOTALL)
    assert files and set(re.findall(r"tests/\w+/test_\w+\.py", session)) == files
    assert f'"-m", "{marker}"' in session
