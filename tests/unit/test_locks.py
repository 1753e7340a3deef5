"""The locks of all environments: complete, by hash, and what ``pyproject.toml`` asks for. No network is asked."""

from __future__ import annotations

import shutil
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from build_tools.errors import ManifestError, StaleFilesError, ToolchainError, UsageError
from build_tools.tools import locks, newer

ROOT = Path(__file__).resolve().parents[2]
GROUPS = locks.groups(ROOT)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the locks are compared with."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / locks.FOLDER, tmp_path / locks.FOLDER)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_committed_locks_are_what_pyproject_says() -> None:
    locks.check(ROOT)


def installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


@pytest.mark.parametrize("group", GROUPS)
def test_a_lock_has_all_that_its_packages_need(group: str) -> None:
    pinned = locks.pins_of((ROOT / locks.path_of(group)).read_text(encoding="utf-8"))
    roots = {"torch"} & {*locks.asked_for(ROOT, group)}
    for name in {*pinned} | roots:
        found = installed(name)
        if found is None:
            continue
        for line in found.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert locks.normal(needed.name) in pinned, f"{name} needs {line}"


def test_a_pin_that_moved_alone_is_found(tree: Path) -> None:
    edit(tree / "pyproject.toml", "click==", "click==0")
    with pytest.raises(StaleFilesError, match=r"build.txt: click is .*, pyproject.toml has 0"):
        locks.check(tree)


def test_a_lock_that_is_missing_and_one_of_no_group_are_found(tree: Path) -> None:
    (tree / locks.path_of("lint")).rename(tree / locks.FOLDER / "lints.txt")
    assert locks.problems(tree) == [
        "build_tools/locks/lints.txt: is of no dependency group of pyproject.toml",
        "build_tools/locks/lint.txt: is missing",
    ]


def test_two_locks_with_two_versions_of_a_package_are_found(tree: Path) -> None:
    edit(tree / locks.path_of("release"), "cryptography==", "cryptography==9")
    assert any("cryptography" in each for each in locks.problems(tree))


def test_two_locks_with_other_hashes_of_a_package_are_found(tree: Path) -> None:
    """A hash was edited by hand in one of them."""
    text = (tree / locks.path_of("release")).read_text(encoding="utf-8")
    (digests,) = (each[2] for each in locks.entries(text) if each[0] == "py-minisign")
    edit(tree / locks.path_of("release"), digests[0], digests[0][::-1])
    with pytest.raises(StaleFilesError, match=r"py-minisign \S+ has other hashes than in "):
        locks.check(tree)


def test_a_package_without_a_hash_is_refused(tree: Path) -> None:
    (tree / locks.path_of("lock")).write_text("uv==1.0\n", encoding="utf-8")
    with pytest.raises(ManifestError, match=r"uv==1\.0 has no sha256"):
        locks.check(tree)


def test_a_requirement_that_is_not_exact_is_refused(tree: Path) -> None:
    edit(tree / "pyproject.toml", 'lock = ["uv==', 'lock = ["uv>=')
    with pytest.raises(ManifestError, match="is not pinned"):
        locks.check(tree)


def test_uv_is_asked_for_by_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *words, **options: None)
    with pytest.raises(
        ToolchainError, match=r"pip install --no-deps --require-hashes -r build_tools/locks/lock\.txt"
    ):
        locks.uv()


def test_moving_what_nobody_asks_for_is_an_error(tree: Path) -> None:
    with pytest.raises(UsageError, match="no dependency group"):
        newer.move(tree, ["left-pad"])


@pytest.mark.parametrize(
    ("name", "line", "moved"),
    [
        ("py-minisign", '["py-minisign==1.0"]', '["py-minisign==2"]'),
        ("zstandard", "\"Zstandard==1.0; python_version > '3'\"", "\"Zstandard==2; python_version > '3'\""),
        ("click", '"click==1.0.1"', '"click==1.0.1"'),
        ("click", '"rich-click==1.0"', '"rich-click==1.0"'),
    ],
)
def test_a_pin_is_replaced_where_the_package_stands(name: str, line: str, moved: str) -> None:
    assert newer.replaced(line, name, "1.0", "2") == moved


def test_the_newest_versions_are_written_where_the_pins_stand(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = locks.asked_for(tree, "test")["pytest"]
    monkeypatch.setattr(newer, "newest_of", lambda name: "99.1" if name == "pytest" else "")
    moved = newer.move(tree, ["pytest"])
    assert [(row.name, row.pinned, row.newest) for row in moved] == [("pytest", pinned, "99.1")]
    assert locks.asked_for(tree, "test")["pytest"] == "99.1"
    assert any("pytest" in each for each in locks.problems(tree))
