"""Who signed a bundle, or a release's folder: each thing that can be wrong, and one of two keys is enough while keys change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from unit.test_minisign import Signer

from aiter_prebuilt import trust
from aiter_prebuilt.contract.header import HEADER_SIZE
from aiter_prebuilt.errors import SignatureError, UnsignedError, WrongKeyError

HEADER = bytes(range(HEADER_SIZE))


@pytest.fixture
def one(tmp_path: Path) -> Signer:
    return Signer(tmp_path, "one")


@pytest.fixture
def two(tmp_path: Path) -> Signer:
    return Signer(tmp_path, "two")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "gfx942-ck-free.apb"
    path.write_bytes(HEADER + b"all else")
    return path


def _beside(path: Path, number: str = "") -> Path:
    return path.with_name(f"{path.name}{number}.minisig")


def test_a_bundle_that_is_signed(one: Signer, bundle: Path) -> None:
    one.sign(_beside(bundle), HEADER, "version:1")
    seal = trust.check_header(str(bundle), HEADER, one.keys)
    assert (
        seal
        == trust.seal_of(str(bundle), one.keys)
        == trust.Seal(str(bundle), one.keys[0].number, "version:1")
    )
    assert seal.ok


def test_a_bundle_that_is_not(one: Signer, bundle: Path) -> None:
    with pytest.raises(UnsignedError, match=r"trust the bundle .*: there is no signature .*apb\.minisig"):
        trust.check_header(str(bundle), HEADER, one.keys)
    seal = trust.seal_of(str(bundle), one.keys)
    assert not seal.ok and "there is no signature" in seal.problem
    assert "No such file" in trust.seal_of(str(bundle) + "x", one.keys).problem


def test_another_header_than_the_one_that_was_signed(one: Signer, bundle: Path) -> None:
    one.sign(_beside(bundle), HEADER)
    with pytest.raises(SignatureError, match="it is not the signature of the bundle"):
        trust.check_header(str(bundle), HEADER[:-1] + b"\x00", one.keys)
    bundle.write_bytes(HEADER[:40] + b"\x00" + HEADER[41:] + b"all else")
    assert "one of the two was changed" in trust.seal_of(str(bundle), one.keys).problem


def test_while_keys_change_one_of_two_is_enough(one: Signer, two: Signer, bundle: Path) -> None:
    one.sign(_beside(bundle), HEADER)
    with pytest.raises(WrongKeyError):
        trust.check_header(str(bundle), HEADER, two.keys)
    extra = two.sign(_beside(bundle, f".{two.keys[0].number}"), HEADER)
    for keys in (one.keys, two.keys, one.keys + two.keys):
        assert trust.check_header(str(bundle), HEADER, keys).key in {key.number for key in keys}
    # Only the old one is left, and it was damaged: what is said is what was damaged, not that another key is missing.
    extra.unlink()
    two.sign(_beside(bundle, f".{two.keys[0].number}"), b"another header")
    with pytest.raises(SignatureError, match=rf"{two.keys[0].number}\.minisig"):
        trust.check_header(str(bundle), HEADER, two.keys)


def _release(folder: Path, signer: Signer) -> Path:
    folder.mkdir()
    (folder / "a.whl").write_bytes(b"a")
    (folder / "b.whl").write_bytes(b"b")
    rows = [f"{hashlib.sha256(name).hexdigest()}  {name.decode()}.whl\n" for name in (b"a", b"b")]
    (folder / "SHA256SUMS").write_text("".join(rows))
    signer.sign(folder / "SHA256SUMS.minisig", (folder / "SHA256SUMS").read_bytes(), "version:1")
    return folder


def test_a_release_that_is_whole(one: Signer, tmp_path: Path) -> None:
    folder = _release(tmp_path / "r", one)
    seal, problems = trust.check_release(folder, one.keys)
    assert (seal.comment, problems) == ("version:1", [])


def test_what_can_be_wrong_with_a_release(one: Signer, tmp_path: Path) -> None:
    folder = _release(tmp_path / "r", one)
    (folder / "a.whl").write_bytes(b"A")
    (folder / "b.whl").unlink()
    (folder / "c.whl").write_bytes(b"c")
    _, problems = trust.check_release(folder, one.keys)
    assert problems == [
        "c.whl: it is not in SHA256SUMS",
        "a.whl: its bytes are not those that were released",
        "b.whl: it cannot be read: No such file or directory",
    ]
    (folder / "SHA256SUMS").write_text("")
    with pytest.raises(SignatureError, match="it is not the signature of"):
        trust.check_release(folder, one.keys)
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(UnsignedError, match="SHA256SUMS cannot be read"):
        trust.check_release(folder, one.keys)


def test_a_release_with_folders(one: Signer, tmp_path: Path) -> None:
    folder = _release(tmp_path / "r", one)
    (folder / "files").mkdir()
    (folder / "files" / "a.whl").write_bytes(b"a")
    data = (
        folder / "SHA256SUMS"
    ).read_bytes() + f"{hashlib.sha256(b'a').hexdigest()}  files/a.whl\n".encode()
    (folder / "SHA256SUMS").write_bytes(data)
    one.sign(folder / "SHA256SUMS.minisig", data)
    assert trust.check_release(folder, one.keys)[1] == []
    (folder / "files" / "b.whl").write_bytes(b"a")
    (folder / "files" / "a.whl").write_bytes(b"b")
    assert trust.check_release(folder, one.keys)[1] == [
        "files/b.whl: it is not in SHA256SUMS", "files/a.whl: its bytes are not those that were released"
    ]  # fmt: skip


def test_what_is_only_called_like_the_list_is_named_and_so_is_a_link_to_a_folder(
    one: Signer, tmp_path: Path
) -> None:
    folder = _release(tmp_path / "r", one)
    (folder / "SHA256SUMS_evil-1.0-py3-none-any.whl").write_bytes(b"")
    (folder / "SHA256SUMS.d").mkdir()
    (folder / "SHA256SUMS.d" / "b.whl").write_bytes(b"b")
    (folder / "extra").symlink_to(tmp_path)
    assert trust.check_release(folder, one.keys)[1] == [
        f"{name}: it is not in SHA256SUMS"
        for name in ("SHA256SUMS.d/b.whl", "SHA256SUMS_evil-1.0-py3-none-any.whl", "extra")
    ]


@pytest.mark.parametrize(
    "line", ["../a.whl", "x/../../a.whl", "/etc/passwd", "a//b", "a.whl\n" + "0" * 64 + "  a.whl"]
)
def test_names_that_lead_elsewhere_or_stand_twice_are_refused(one: Signer, tmp_path: Path, line: str) -> None:
    folder = _release(tmp_path / "r", one)
    data = f"{'0' * 64}  {line}\n".encode()
    (folder / "SHA256SUMS").write_bytes(data)
    one.sign(folder / "SHA256SUMS.minisig", data)
    _, (problem,) = trust.check_release(folder, one.keys)
    assert "not a SHA-256 and a name below the folder, or a name for the second time" in problem
