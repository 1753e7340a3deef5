"""Wheels and bundles that are wrong: a named error with what was asked, what was found and what to type; no traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.installed import Environment, data_wheel, make_environment, write_bundle

from build_tools.errors import WheelError
from build_tools.pack import wheel

ROOT = Path(__file__).resolve().parents[2]
FIX = "pip install --no-index --find-links dist --force-reinstall 'aiter-prebuilt[gfx942]'"


@pytest.fixture(scope="module")
def shared(runtime_links: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The runtime alone; each test brings its own bundles through AITER_PREBUILT_BUNDLES."""
    made = make_environment(tmp_path_factory.mktemp("bare"))
    made.install("aiter-prebuilt", places=(runtime_links,))
    return made


def test_without_any_bundle_the_commands_say_what_to_type(shared: Environment) -> None:
    for verb in ("list", "verify", "doctor"):
        done = shared.command(verb)
        assert done.returncode == 1, verb
        assert "pip install --no-index --find-links dist 'aiter-prebuilt[gfx942]'" in done.stdout


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(lambda data: data[:100], "too few", id="cut in the header"),
        pytest.param(lambda data: data[:-64], "bytes", id="cut at the end"),
        pytest.param(lambda data: b"", "too few", id="empty"),
        pytest.param(lambda data: data[:40] + b"\xff" + data[41:], "damaged", id="header flipped"),
        pytest.param(lambda data: data[:140] + b"\xff" + data[141:], "damaged", id="root flipped"),
        pytest.param(lambda data: b"PK\x03\x04" + data[4:], "not those of a bundle", id="another file"),
    ],
)
def test_a_damaged_bundle_is_named_and_nothing_crashes(
    shared: Environment, tmp_path: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    path = write_bundle(tmp_path, "gfx942", "ck-free")
    path.write_bytes(damage(path.read_bytes()))
    # A check finds it; a command that needs the bundle cannot go on.
    for verb, code in (("list", 6), ("verify", 1), ("doctor", 1)):
        done = shared.command(verb, AITER_PREBUILT_BUNDLES=str(tmp_path))
        said_all = done.stdout + done.stderr
        assert done.returncode == code, said_all
        assert said in said_all
        assert FIX in said_all
        assert "Traceback" not in said_all


def test_a_flipped_code_object_is_found_by_verify(shared: Environment, tmp_path: Path) -> None:
    path = write_bundle(tmp_path, "gfx942", "ck-free")
    data = bytearray(path.read_bytes())
    data[-200] ^= 1
    path.write_bytes(data)
    done = shared.command("verify", AITER_PREBUILT_BUNDLES=str(tmp_path))
    assert done.returncode == 1
    assert "SHA-256" in done.stdout


def test_a_bundle_under_the_name_of_another_target_is_refused(shared: Environment, tmp_path: Path) -> None:
    path = write_bundle(tmp_path, "gfx950", "ck-free")
    path.rename(tmp_path / "gfx942-ck-free.apb")
    done = shared.command("doctor", AITER_PREBUILT_BUNDLES=str(tmp_path))
    assert done.returncode == 1
    assert "its content is for gfx950 (ck-free), its name says gfx942 (ck-free)" in done.stdout


def test_two_files_for_one_target_and_profile_are_refused(shared: Environment, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_bundle(tmp_path / name, "gfx942", "ck-free")
    done = shared.command("list", AITER_PREBUILT_BUNDLES=f"{tmp_path / 'one'}:{tmp_path / 'two'}")
    assert done.returncode == 9
    assert "BundleConflictError" in done.stderr
    assert "two files claim it" in done.stderr


def test_a_bundle_of_another_version_is_a_problem_that_doctor_names(
    shared: Environment, tmp_path: Path
) -> None:
    write_bundle(tmp_path, "gfx942", "ck-free", version="0.0.1")
    done = shared.command("doctor", "--json", AITER_PREBUILT_BUNDLES=str(tmp_path))
    assert done.returncode == 1
    assert any("of version 0.0.1" in problem for problem in json.loads(done.stdout)["problems"])


def test_packing_refuses_a_damaged_bundle_and_leaves_nothing(tmp_path: Path) -> None:
    bundles, output = tmp_path / "bundles", tmp_path / "dist"
    bundles.mkdir()
    write_bundle(bundles, "gfx942", "ck-free")
    bad = write_bundle(bundles, "gfx950", "ck-free")
    bad.write_bytes(bad.read_bytes()[:-1])
    with pytest.raises(WheelError, match="gfx950-ck-free"):
        wheel.write_wheels(ROOT, bundles, output, runtime=False, unproved=("all",))
    assert list(output.iterdir()) == []


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"planned": 1, "jobs": [{"id": "gfx942-hip-x", "ok": False}]}, "gfx942-hip-x first"),
        ({"planned": 2, "jobs": [{"id": "gfx942-hip-x", "ok": True}]}, "interrupted after 1 of 2"),
        ({"planned": 1, "jobs": [{"id": "gfx942-hip-x", "ok": True}]}, "refused a code object"),
    ],
)
def test_packing_refuses_after_a_build_that_failed(
    tmp_path: Path, report: dict[str, object], said: str
) -> None:
    bundles = tmp_path / "bundles"
    bundles.mkdir()
    write_bundle(bundles, "gfx942", "ck-free")
    (tmp_path / "compile.json").write_text(json.dumps(report))
    with pytest.raises(WheelError, match=said):
        wheel.write_wheels(ROOT, bundles, tmp_path / "dist", runtime=False)
    assert not (tmp_path / "dist").exists()


def test_packing_refuses_a_bundle_under_another_name(tmp_path: Path) -> None:
    path = write_bundle(tmp_path, "gfx942", "ck-free")
    moved = shutil.move(path, tmp_path / "gfx950-ck-free.apb")
    with pytest.raises(WheelError, match="says that it is gfx942 ck-free"):
        data_wheel(Path(moved), tmp_path)
