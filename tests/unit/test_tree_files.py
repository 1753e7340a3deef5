"""A source tree, part by part: names and lists of files, the index beside the wheel, what is fetched when, a checkout."""

from __future__ import annotations

import hashlib
import json
import os
import random
import zipfile
from pathlib import Path

import pytest
from support import trees

from build_tools.errors import FetchError, ManifestError, ToolchainError
from build_tools.tools import fetch, pins, tree
from build_tools.tools.tree import Tree, tree_of

FILES = {
    "meta/hsa/gfx942/b.co": b"two", "meta/hsa/gfx942/a.co": b"one", "meta/hsa/gfx942/deep/c.co": b"three",
    "meta/hsa/gfx942/a.csv": b"x", "meta/hsa/gfx9420/d.co": b"four", "meta/csrc/k.cu": b"\xff\xfe", "meta/hsab/e.co": b"five",
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(tmp_path / "shelf"))
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("THING_DIR", raising=False)
    return trees.repository(tmp_path / "repository", tmp_path / "shelf", FILES)


@pytest.fixture
def checkout(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same files, in the folders that a checkout has."""
    for name, data in FILES.items():
        path = tmp_path / "checkout" / name.removeprefix("meta/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    monkeypatch.setenv("THING_DIR", str(tmp_path / "checkout"))
    return tmp_path / "checkout"


def again(root: Path) -> Tree:
    """The tree as another process opens it."""
    return Tree(pins.load(root).trees["thing"], fetch.cache_folder(), None)


def place(root: Path) -> Path:
    return again(root).fetched()


def test_where_a_name_lies(root: Path) -> None:
    found = tree_of("thing", root)
    assert found.where("thing:hsa/gfx942/a.co") == "meta/hsa/gfx942/a.co"
    assert found.where("thing:csrc/./k.cu") == "meta/csrc/k.cu"
    assert (found.pinned, found.version) == (True, "1.0")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other:hsa/x", "thing has no root 'hsa'"), ("thing:has/x", "thing has no root 'has'"),
        ("thing:/etc/passwd", "thing has no root ''"), ("thing", "thing has no root ''"),
        ("thing:hsa", "it names no file below its root"), ("thing:hsa/", "it names no file below its root"),
        ("thing:hsa//etc/passwd", "it names no file below its root"), ("thing:hsa/..", "it names no file below its root"),
        ("thing:hsa/a/../../x", "it names no file below its root"),
    ],
)  # fmt: skip
def test_a_name_that_leaves_its_root(root: Path, name: str, words: str) -> None:
    with pytest.raises(FetchError) as refused:
        tree_of("thing", root).where(name)
    assert (refused.value.asked, refused.value.found) == (f"find {name}", words)
    fix = "write thing:ROOT/path" if "root '" in words else "Correct source in the manifest"
    assert fix in refused.value.fix


@pytest.mark.parametrize("under", ["thing:hsa/gfx942", "thing:hsa/gfx942/"])
@pytest.mark.parametrize("of", ["root", "checkout"])
def test_the_files_below_a_folder(root: Path, request: pytest.FixtureRequest, of: str, under: str) -> None:
    request.getfixturevalue(of)
    found = tree_of("thing", root)
    assert found.pinned == (of == "root")
    assert found.names(under, ".co") == ("a.co", "b.co", "deep/c.co")
    assert found.names(under, ".csv") == ("a.csv",) and found.names("thing:hsa/gfx950", ".co") == ()


def test_what_is_no_text_is_refused(root: Path) -> None:
    with pytest.raises(FetchError, match=r"read thing:csrc/k\.cu: .*utf-8.*Name a text file"):
        tree_of("thing", root).text("thing:csrc/k.cu")
    assert tree_of("thing", root).text("thing:hsa/gfx942/a.csv") == "x"


def test_a_missing_file_is_named_with_its_tree(root: Path) -> None:
    for ask in (tree_of("thing", root).path, tree_of("thing", root).sha256):
        with pytest.raises(FetchError) as refused:
            ask("thing:hsa/gone.co")
        assert (refused.value.asked, refused.value.found) == (
            "find thing:hsa/gone.co",
            "amd-thing 1.0 has no such file",
        )


def test_a_file_that_is_there_is_not_unpacked_again(root: Path) -> None:
    path = tree.located("thing:hsa/gfx942/a.co", root)
    os.utime(path, ns=(7, 7))
    assert tree.located("thing:hsa/gfx942/a.co", root) == path and path.stat().st_mtime_ns == 7
    assert path == place(root) / "files/meta/hsa/gfx942/a.co"


def test_the_index_is_kept_beside_the_wheel(root: Path, tmp_path: Path) -> None:
    """With it nobody opens the wheel to ask for a hash; without it, or with a damaged one, it is made again."""
    (kept,) = place(root).glob("index-*.json")
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    del digests["meta/hsab/e.co"]  # below no root: "hsa" is not a beginning of letters
    assert json.loads(kept.read_text()) == digests
    wheel, shelf = place(root) / trees.NAME, tmp_path / "shelf" / trees.NAME
    whole = wheel.read_bytes()
    wheel.unlink()
    shelf.write_bytes(b"else")
    assert again(root).sha256("thing:hsa/gfx942/a.co") == digests["meta/hsa/gfx942/a.co"]
    kept.write_text("{")
    with pytest.raises(FetchError, match="other bytes than the pin"):
        again(root).has("thing:hsa/gfx942/a.co")
    shelf.write_bytes(whole)
    assert again(root).has("thing:hsa/gfx942/a.co") and json.loads(kept.read_text()) == digests


def test_a_wheel_in_the_cache_is_fetched_again_when_it_is_another(root: Path, tmp_path: Path) -> None:
    wheel, shelf = place(root) / trees.NAME, tmp_path / "shelf" / trees.NAME
    whole = wheel.read_bytes()
    shelf.write_bytes(b"else")
    (kept,) = wheel.parent.glob("index-*.json")
    kept.unlink()
    assert again(root).has("thing:hsa/gfx942/a.co"), "the wheel in the cache is right, and enough"
    at = random.randrange(len(whole))
    wheel.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    shelf.write_bytes(whole)
    kept.unlink()
    assert again(root).has("thing:hsa/gfx942/a.co") and wheel.read_bytes() == whole, at
    assert not list((tmp_path / "cache/trees").glob(".fetch.*"))


def test_a_record_without_sha256_is_refused(root: Path, tmp_path: Path) -> None:
    """Only of files below a root: what else a wheel holds is nobody's affair."""
    path = tmp_path / "shelf" / trees.NAME
    for name, refused in (("other/x", False), ("meta/hsa/x", True)):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("amd_thing-1.0.dist-info/RECORD", f"{name},md5=abcd,1\n")
        text = trees.PIN.format(file=trees.NAME, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        (root / pins.FILE).write_text(text)
        if refused:
            with pytest.raises(FetchError, match=f"read {trees.NAME}: {name} has no sha256 in RECORD"):
                place(root)
        else:
            assert not again(root).has("thing:hsa/x")


def test_asking_where_it_lies_fetches_it(root: Path, tmp_path: Path) -> None:
    assert not (tmp_path / "cache").exists()
    assert (tree_of("thing", root).fetched() / trees.NAME).is_file()


def test_a_checkout_is_read_where_it_lies(root: Path, checkout: Path, tmp_path: Path) -> None:
    found = tree_of("thing", root)
    assert (found.fetched(), found.version, found.pinned) == (checkout, "unpinned (THING_DIR)", False)
    assert found.where("thing:hsa/x") == "hsa/x" and not found.has("thing:hsa/gfx942")
    assert found.has("thing:hsa/gfx942/a.co")
    path = checkout / "hsa/gfx942/a.co"
    first = found.sha256("thing:hsa/gfx942/a.co")
    path.write_bytes(b"longer")
    assert (first, found.sha256("thing:hsa/gfx942/a.co")) == (
        hashlib.sha256(b"one").hexdigest(), hashlib.sha256(b"longer").hexdigest()
    )  # fmt: skip
    for ask in (found.sha256, found.path):
        with pytest.raises(FetchError, match=f"THING_DIR={checkout} has no such file"):
            ask("thing:hsa/gone.co")
    assert not (tmp_path / "cache").exists(), "nothing was fetched"


def test_one_folder_of_a_checkout_is_enough(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THING_DIR", str(tmp_path / "part"))
    with pytest.raises(ToolchainError) as refused:
        tree_of("thing", root)
    assert refused.value.asked == f"use thing from THING_DIR={tmp_path / 'part'}"
    assert refused.value.fix == "Set THING_DIR to a checkout, or unset it to use the pinned wheel"
    (tmp_path / "part/csrc").mkdir(parents=True)
    assert tree_of("thing:csrc/k.cu", root).fetched() == tmp_path / "part"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THING_DIR", "part")
    assert tree_of("thing", root).folder == (tmp_path / "part").resolve()


def test_a_tree_that_is_none(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FetchError) as refused:
        tree_of("other:hsa/x", root)
    assert (refused.value.found, refused.value.fix) == (
        "there is no source tree 'other'", "The trees are thing"
    )  # fmt: skip
    (root / pins.FILE).write_text("edition = 1\n")
    os.utime(root / pins.FILE, ns=(8, 8))
    with pytest.raises(FetchError, match="The trees are none"):
        tree_of("thing", root)
    with pytest.raises(ManifestError):
        tree_of("thing", tmp_path / "nowhere")


def test_files_of_the_repository(root: Path) -> None:
    (root / "k.hip").write_bytes(b"kernel")
    assert (
        tree.exists("k.hip", root) and not tree.exists("l.hip", root) and not tree.exists("manifests", root)
    )
    assert tree.located("k.hip", root) == root / "k.hip" and tree.located("l.hip", root) == root / "l.hip"
    assert tree.digest("k.hip", root) == hashlib.sha256(b"kernel").hexdigest()
    (root / "k.hip").write_bytes(b"another")
    assert tree.digest("k.hip", root) == hashlib.sha256(b"another").hexdigest()
    with pytest.raises(FileNotFoundError):
        tree.digest("l.hip", root)
