"""Which Pythons serve: those that the package declares, and the refusal of free-threaded ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True
    )


@pytest.mark.parametrize(("flags", "refused"), [("t", True), ("td", True), ("", False), ("d", False)])
def test_refuses_a_free_threaded_python_by_name(flags: str, refused: bool) -> None:
    done = _python(f"import sys; sys.abiflags = {flags!r}; import aiter_prebuilt")
    assert (done.returncode != 0) is refused
    assert ("FreeThreadedError: Cannot import aiter_prebuilt" in done.stderr) is refused, done.stderr
    if refused:
        assert "stable ABI" in done.stderr and "python3.14, not python3.14t" in done.stderr


def test_the_refusal_is_an_import_error() -> None:
    code = "import sys; sys.abiflags = 't'\ntry: import aiter_prebuilt\nexcept ImportError: print('caught')"
    assert _python(code).stdout == "caught\n"


def test_every_python_from_the_oldest_on_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    start = "Programming Language :: Python :: 3."
    minors = [int(each.removeprefix(start)) for each in project["classifiers"] if each.startswith(start)]
    assert minors == [10, 11, 12, 13, 14]
    assert project["requires-python"] == f">=3.{minors[0]}"
    assert "3.13t, 3.14t" in (ROOT / "docs" / "support.md").read_text()
