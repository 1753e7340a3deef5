"""Where the HIP runtime is looked for before anybody has loaded one: the packages that pip installed, by their folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiter_prebuilt.devices import hip_library

ROOT = Path(__file__).resolve().parents[2]


def _package(site: Path, package: str, *files: str) -> Path:
    folder = site / package
    (folder / "lib").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise SystemExit('it was imported')\n")
    for name in files:
        (folder / "lib" / name).write_bytes(b"")
    return folder / "lib"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delenv("AITER_PREBUILT_HIP", raising=False)
    monkeypatch.setattr(hip_library, "mapped", tuple)
    return tmp_path


def test_finds_the_one_in_torchs_package_without_importing_it(site: Path) -> None:
    library = _package(site, "torch", "libamdhip64.so")
    _package(site, "_rocm_sdk_core", "libamdhip64.so.7")
    assert hip_library.to_open()[0] == str(library / "libamdhip64.so")
    assert "torch" not in sys.modules or sys.modules["torch"].__file__ != str(site / "torch" / "__init__.py")


def test_finds_the_one_of_the_rock_where_torch_has_none(site: Path) -> None:
    _package(site, "torch", "libtorch_cpu.so")
    library = _package(site, "_rocm_sdk_core", "libamdhip64.so.7", "libhsa-runtime64.so.1")
    assert hip_library.to_open() == (str(library / "libamdhip64.so.7"),)


def test_leaves_the_choice_where_one_is_loaded_or_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(site, "torch", "libamdhip64.so")
    monkeypatch.setenv("AITER_PREBUILT_HIP", "/opt/libamdhip64.so")
    assert hip_library.to_open() == ()
    monkeypatch.delenv("AITER_PREBUILT_HIP")
    monkeypatch.setattr(hip_library, "mapped", lambda: ("/x/libamdhip64.so",))
    assert hip_library.to_open() == ()


def test_without_such_a_package_there_is_none(site: Path) -> None:
    assert hip_library.candidates() == () == hip_library.to_open()


def test_importing_the_package_looks_for_nothing() -> None:
    code = "import sys, aiter_prebuilt; sys.exit('aiter_prebuilt.devices.hip_library' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "src")})
