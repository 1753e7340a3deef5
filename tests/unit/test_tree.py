"""Source trees: a file is keyed without being unpacked, checked when it is, and a checkout may take the pin's place."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support import trees

from build_tools.compile.backends import asm
from build_tools.errors import FetchError, ManifestError, ToolchainError
from build_tools.tools import fetch, pins, tree
from build_tools.tools.tree import tree_of

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "meta/hsa/gfx942/one.co": b"one", "meta/hsa/gfx942/two.co": b"two", "meta/csrc/kernel.cu": b"// The vLLM team\n",
    "meta/3rdparty/other.h": b"other", "setup.py": b"raise SystemExit",
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(tmp_path / "shelf"))
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("THING_DIR", raising=False)
    return trees.repository(tmp_path / "repository", tmp_path / "shelf", FILES)


def unpacked(tmp_path: Path) -> set[str]:
    folders = (tmp_path / "cache/trees").glob("*/files")
    return {
        path.relative_to(folder).as_posix()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_file_is_keyed_without_being_unpacked(root: Path, tmp_path: Path) -> None:
    assert tree.digest("thing:hsa/gfx942/one.co", root) == hashlib.sha256(b"one").hexdigest()
    assert tree.exists("thing:hsa/gfx942/two.co", root) and not tree.exists("thing:hsa/gfx942/three.co", root)
    assert unpacked(tmp_path) == set()


def test_only_what_is_asked_for_is_unpacked(root: Path, tmp_path: Path) -> None:
    assert tree.located("thing:hsa/gfx942/two.co", root).read_bytes() == b"two"
    assert tree_of("thing", root).text("thing:csrc/kernel.cu") == "// The vLLM team\n"
    assert unpacked(tmp_path) == {"meta/hsa/gfx942/two.co", "meta/csrc/kernel.cu"}


def test_texts_of_many_files_are_read_at_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("thing:csrc/kernel.cu", "thing:hsa/gfx942/two.co")
    expected = dict(zip(names, ("// The vLLM team\n", "two"), strict=True))
    assert tree_of("thing", root).texts(names) == expected
    assert unpacked(tmp_path) == {"meta/hsa/gfx942/two.co", "meta/csrc/kernel.cu"}
    with pytest.raises(FetchError, match=r"amd-thing 1\.0 has no such file"):
        tree_of("thing", root).texts(("thing:csrc/none.cu",))
    (tmp_path / "checkout/csrc").mkdir(parents=True)
    (tmp_path / "checkout/csrc/kernel.cu").write_bytes(b"\xff newer")
    instead = tree_of("thing", root, str(tmp_path / "checkout"))  # whatever the variable says
    assert not instead.pinned and instead.texts(names[:1]) == {names[0]: "\ufffd newer"}
    with pytest.raises(FetchError, match=r"THING_DIR=.* has no such file"):
        instead.texts(names)


def test_an_index_of_other_roots_is_not_taken(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pin that gets a root finds its files in the wheel that is in the cache already."""
    assert not tree_of("thing", root).names("thing:configs", ".h")
    path = root / "manifests/toolchains.toml"
    path.write_text(path.read_text().replace('configs = "thing/configs"', 'configs = "meta/3rdparty"'))
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, "")
    assert tree_of("thing", root).names("thing:configs", ".h") == ("other.h",)


def test_a_folder_is_unpacked_whole_and_keyed_without(root: Path, tmp_path: Path) -> None:
    known = tree_of("thing", root).digest_below("thing:hsa/gfx942")
    assert unpacked(tmp_path) == set()
    folder = tree_of("thing", root).below("thing:hsa/gfx942")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"one.co": b"one", "two.co": b"two"}
    assert unpacked(tmp_path) == {"meta/hsa/gfx942/one.co", "meta/hsa/gfx942/two.co"}
    (folder / "one.co").write_bytes(b"else")
    assert (tree_of("thing", root).below("thing:hsa/gfx942") / "one.co").read_bytes() == b"one"
    for name, content in (("one.co", b"One"), ("three.co", b"one")):  # a content, and a name
        other = {**FILES, f"meta/hsa/gfx942/{name}": content}
        again = trees.repository(tmp_path / name, tmp_path / "shelf", other)
        assert tree_of("thing", again).digest_below("thing:hsa/gfx942") != known


def test_a_folder_that_is_not_there(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FetchError, match=r"amd-thing 1\.0 has no such file"):
        tree_of("thing", root).below("thing:hsa/gfx9")  # no folder, a part of a name
    (tmp_path / "checkout/hsa/gfx942").mkdir(parents=True)
    monkeypatch.setenv("THING_DIR", str(tmp_path / "checkout"))
    assert tree_of("thing", root).below("thing:hsa/gfx942") == tmp_path / "checkout/hsa/gfx942"
    with pytest.raises(FetchError, match=r"THING_DIR=.* has no such file"):
        tree_of("thing", root).below("thing:hsa/gfx950")


def test_an_unpacked_file_that_was_changed_is_unpacked_again(root: Path) -> None:
    path = tree.located("thing:hsa/gfx942/one.co", root)
    path.write_bytes(b"else")
    assert tree.located("thing:hsa/gfx942/one.co", root).read_bytes() == b"one"


def test_a_job_of_the_tree_reads_one_file(root: Path) -> None:
    assert asm.expand("thing:hsa/gfx942/one.co", "kernel", root) == ("thing:hsa/gfx942/one.co",)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other:hsa/x.co", "no source tree 'other'"),
        ("thing:has/x.co", "has no root 'has'.*hsa, csrc"),
        ("thing:hsa", "names no file below its root"),
        ("thing:hsa/../csrc/kernel.cu", "names no file below its root"),
        ("thing:hsa/gfx942/three.co", "amd-thing 1.0 has no such file"),
    ],
)
def test_names_of_nothing(root: Path, name: str, words: str) -> None:
    with pytest.raises(FetchError, match=words):
        tree.located(name, root)
    with pytest.raises(FetchError, match=words):
        tree.digest(name, root)


def test_a_wheel_of_other_bytes_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "shelf" / trees.NAME).write_bytes(b"else")
    with pytest.raises(FetchError, match="other bytes than the pin"):
        tree.located("thing:hsa/gfx942/one.co", root)
    assert unpacked(tmp_path) == set()


@pytest.mark.usefixtures("root")
def test_a_member_that_is_not_what_the_record_says_is_refused(tmp_path: Path) -> None:
    wrong = {**FILES, "meta/hsa/gfx942/one.co": b"two"}
    again = trees.repository(tmp_path / "again", tmp_path / "shelf", FILES, wrong)
    with pytest.raises(FetchError, match="wheel in the cache is damaged"):
        tree.located("thing:hsa/gfx942/one.co", again)
    assert unpacked(tmp_path) == set()


def test_a_checkout_takes_the_place_of_the_pin(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "hsa/gfx942").mkdir(parents=True)
    (checkout / "hsa/gfx942/one.co").write_bytes(b"newer")
    monkeypatch.setenv("THING_DIR", str(checkout))
    assert tree.located("thing:hsa/gfx942/one.co", root) == checkout / "hsa/gfx942/one.co"
    assert tree.digest("thing:hsa/gfx942/one.co", root) == hashlib.sha256(b"newer").hexdigest()
    assert not tree.exists("thing:hsa/gfx942/two.co", root)
    assert tree_of("thing", root).version == "unpinned (THING_DIR)" and not tree_of("thing", root).pinned
    with pytest.raises(FetchError, match=r"THING_DIR=.* has no such file"):
        tree.digest("thing:hsa/gfx942/two.co", root)


def test_an_unpacked_package_will_do_as_a_checkout(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "package/meta/hsa/gfx942"
    place.mkdir(parents=True)
    (place / "one.co").write_bytes(b"one")
    monkeypatch.setenv("THING_DIR", str(tmp_path / "package"))
    assert tree.located("thing:hsa/gfx942/one.co", root) == place / "one.co"


def test_a_folder_that_is_no_checkout_is_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THING_DIR", str(tmp_path))
    with pytest.raises(ToolchainError, match="none of the folders hsa, csrc"):
        tree.exists("thing:hsa/gfx942/one.co", root)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            'csrc = "csrc"\n',
            "",
            r"trees\[0\]: roots and checkout must have the same names, not only one csrc",
        ),
        ('sha256 = "', 'sha256 = "zz', r"trees\[0\].sha256: not 64 hexadecimal digits"),
        ('override = "THING_DIR"\n', "", r"trees\[0\].override: is missing"),
    ],
)
def test_a_wrong_pin_says_what_is_wrong(root: Path, before: str, after: str, words: str) -> None:
    path = root / pins.FILE
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1) if after else "".join(text.rsplit(before, 1)))
    with pytest.raises(ManifestError, match=words):
        pins.load(root)


def test_the_real_pin() -> None:
    pin = pins.load(ROOT).trees["aiter"]
    assert (pin.distribution, pin.override) == ("amd-aiter", "AITER_DIR")
    assert {"hsa", "csrc", "ck", "triton", "configs"} <= set(pin.roots)
