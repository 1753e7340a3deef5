"""`aiter-prebuilt doctor` says who besides root and the user may change what is launched, and what to type against it."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from aiter_prebuilt.bundles import ownership
from aiter_prebuilt.commands import doctor
from native import synthetic
from native.test_damage import ops

ROOT_NEEDED = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "bundles"
    folder.mkdir(mode=0o755)
    path = folder / "gfx942-ck-free.apb"
    path.write_bytes(synthetic.bundle_bytes(ops("owners")))
    path.chmod(0o644)
    return path


def problems(path: Path) -> tuple[str, ...]:
    """What anybody may change: doctor counts it as a problem."""
    return tuple(found.text for found in ownership.findings(str(path)) if found.anybody)


def warnings(path: Path) -> tuple[str, ...]:
    """What certain users may change: doctor says it, and calls work."""
    return tuple(found.text for found in ownership.findings(str(path)) if not found.anybody)


def test_what_only_its_owner_may_write_is_no_problem(file: Path) -> None:
    assert ownership.findings(str(file)) == ()


@pytest.mark.parametrize(
    ("mode", "words"), [(0o646, "everybody (mode 646). Run: chmod o-w"), (0o666, "Run: chmod go-w")]
)
def test_a_bundle_that_everybody_may_write(file: Path, mode: int, words: str) -> None:
    file.chmod(mode)
    (problem,) = problems(file)
    assert (
        f"the bundle {file} may be written by" in problem and f"{words} {file}".split(". Run")[-1] in problem
    )
    file.chmod(0o644)
    assert ownership.findings(str(file)) == ()


def test_its_folder(file: Path) -> None:
    file.parent.chmod(0o1777)
    (problem,) = problems(file)
    assert f"the folder {file.parent} may be written by its group and everybody (mode 1777)" in problem
    assert problem.endswith(f"Run: chmod go-w {file.parent}")


def test_where_a_link_leads(file: Path, tmp_path: Path) -> None:
    named = tmp_path / "names" / file.name
    named.parent.mkdir()
    named.symlink_to(file)
    file.chmod(0o646)
    named.parent.chmod(0o757)
    said = problems(named)
    assert len(said) == 2 and str(file) in said[0] and f"the folder {named.parent}" in said[1]


@ROOT_NEEDED
def test_a_group_and_another_owner(file: Path) -> None:
    file.chmod(0o664)
    os.chown(file, 0, 54321)
    (warning,) = warnings(file)
    assert "may be written by its group (mode 664). Run: chmod g-w" in warning and problems(file) == ()
    file.chmod(0o644)
    os.chown(file, 54321, 0)
    (warning,) = warnings(file)
    assert "its owner user 54321, neither root nor you" in warning and f"sudo chown root {file}" in warning


@ROOT_NEEDED
def test_an_image_that_gives_its_files_to_the_group_root(
    native: ModuleType, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``chgrp -R 0 DIR; chmod -R g=u DIR``, run under any user id: calls work, and nothing is wrong."""
    for place in (file, file.parent):
        os.chown(place, 54321, 0)
        place.chmod(place.stat().st_mode | 0o060 | (0o010 if place.is_dir() else 0))
    monkeypatch.setattr(os, "geteuid", lambda: 1_000_680_000)
    monkeypatch.setenv("AITER_PREBUILT_BUNDLES", str(file))
    assert problems(file) == () and len(warnings(file)) == 2, "its owner is somebody: said, no problem"
    report = doctor.examine()
    assert report["problems"] == [] and len(report["warnings"]) == 2 and report["exit_code"] != 1
    os.chown(file, 0, 0)
    os.chown(file.parent, 0, 0)
    assert ownership.findings(str(file)) == ()


@ROOT_NEEDED
def test_a_users_own_group_is_nobody_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each user has a group of its own, new files are writable for it."""
    import grp
    import pwd

    user = pwd.struct_passwd(("ann", "x", 54321, 54321, "", "/", "/bin/sh"))
    members: list[str] = []
    monkeypatch.setattr(pwd, "getpwuid", lambda number: user)
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group(("ann", "x", 54321, members)))
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    file.chmod(0o664)
    os.chown(file, 54321, 54321)
    assert ownership.findings(str(file)) == ()
    members.append("bob")
    assert "may be written by its group" in warnings(file)[0]


def test_doctor_says_so(
    native: ModuleType, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AITER_PREBUILT_BUNDLES", str(file))
    assert not [text for text in doctor.examine()["problems"] if "may be written" in text]
    file.chmod(0o666)
    report = doctor.examine()
    assert [text for text in report["problems"] if text.endswith(f"Run: chmod go-w {file}")]
    assert report["exit_code"] == 1 and report["bundles"][0]["ok"] is True


def test_doctor_refuses_a_miss_log_that_is_a_pipe(
    native: ModuleType, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("AITER_PREBUILT_BUNDLES", str(file))
    monkeypatch.setenv("AITER_PREBUILT_MISS_LOG", str(pipe))
    (problem,) = [text for text in doctor.examine()["problems"] if "MISS_LOG" in text]
    assert f"{pipe} cannot be written" in problem
