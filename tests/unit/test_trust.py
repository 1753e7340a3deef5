"""Who signed a bundle, or a release's folder: each thing that can be wrong, and one of two keys is enough while keys change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from packaging.version import Version
from unit.test_minisign import Signer

from aiter_prebuilt.bundles import trust
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract.header import HEADER_SIZE
from aiter_prebuilt.contract.signature import order_of
from aiter_prebuilt.errors import ArgumentError, OldBundleError, SignatureError, UnsignedError, WrongKeyError

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


@pytest.mark.parametrize(
    ("comment", "said", "allow"),
    [
        ("timestamp:1\tfile:x\tversion:1.0rc1", "it was signed as release 1.0rc1", "1.0rc1"),
        ("version:0.9", "it was signed as release 0.9", "0.9"),
        ("who and when", "its signed comment names no release", "0"),
        ("version:next", "its signed comment names no release", "0"),
    ],
)
def test_refuses_a_bundle_of_an_older_release_unless_it_is_asked_for(
    one: Signer, bundle: Path, monkeypatch: pytest.MonkeyPatch, comment: str, said: str, allow: str
) -> None:
    monkeypatch.delenv(trust.OLDEST, raising=False)
    monkeypatch.setattr(trust, "VERSION", "1.0")
    one.sign(_beside(bundle), HEADER, comment)
    with pytest.raises(OldBundleError, match=f"{said}, and this package is 1.0") as refused:
        trust.check_header(str(bundle), HEADER, one.keys)
    assert refused.value.fix.endswith(f"export AITER_PREBUILT_OLDEST={allow}")
    assert said in trust.seal_of(str(bundle), one.keys).problem
    monkeypatch.setenv(trust.OLDEST, allow)
    assert trust.check_header(str(bundle), HEADER, one.keys).ok
    monkeypatch.setenv(trust.OLDEST, "1.0")
    with pytest.raises(OldBundleError, match=r"AITER_PREBUILT_OLDEST is 1\.0"):
        trust.check_header(str(bundle), HEADER, one.keys)


def test_opens_a_bundle_of_this_release_and_of_newer_ones(
    one: Signer, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(trust.OLDEST, raising=False)
    monkeypatch.setattr(trust, "VERSION", "1.0")
    for version in ("1", "1.0", "1.0.post1", "1.1.dev1", "2.0"):
        one.sign(_beside(bundle), HEADER, f"version:{version}")
        assert trust.check_header(str(bundle), HEADER, one.keys).ok


@pytest.mark.parametrize("setting", ["", "any", "1.x"])
def test_an_oldest_release_that_is_no_version_is_refused(
    one: Signer, bundle: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    one.sign(_beside(bundle), HEADER)
    monkeypatch.setenv(trust.OLDEST, setting)
    with pytest.raises(ArgumentError, match=f"read AITER_PREBUILT_OLDEST: '{setting}' is no version"):
        trust.check_header(str(bundle), HEADER, one.keys)


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
    assert "is not a name below the folder" in problem or "is listed for the second time" in problem


def _resigned(folder: Path, signer: Signer, names: dict[str, str]) -> None:
    data = "".join(f"{digest}  {name}\n" for name, digest in names.items()).encode()
    (folder / "SHA256SUMS").write_bytes(data)
    signer.sign(folder / "SHA256SUMS.minisig", data)


def test_refuses_a_listed_file_that_is_a_link_or_lies_behind_one(one: Signer, tmp_path: Path) -> None:
    folder = _release(tmp_path / "r", one)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.whl").write_bytes(b"a")
    digest = hashlib.sha256(b"a").hexdigest()
    (folder / "a.whl").unlink()
    (folder / "a.whl").symlink_to(tmp_path / "outside" / "a.whl")
    (folder / "files").symlink_to(tmp_path / "outside")
    (folder / "b.whl").unlink()
    _resigned(folder, one, {"a.whl": digest, "files/a.whl": digest})
    assert trust.check_release(folder, one.keys)[1] == [
        "files: it is not in SHA256SUMS",
        "a.whl: a.whl is a link, which leads out of what was released",
        "files/a.whl: files is a link, which leads out of what was released",
    ]


@pytest.mark.parametrize("data", [b"\xff\xfe\n", b"0" * 63 + b"  a.whl\n", b"a note\n", b"\n"])
def test_refuses_a_signed_list_with_a_line_that_it_cannot_read(
    one: Signer, tmp_path: Path, data: bytes
) -> None:
    folder = _release(tmp_path / "r", one)
    data = (folder / "SHA256SUMS").read_bytes() + data
    (folder / "SHA256SUMS").write_bytes(data)
    one.sign(folder / "SHA256SUMS.minisig", data)
    _, (problem,) = trust.check_release(folder, one.keys)
    assert "SHA256SUMS:3: not a SHA-256" in problem or "SHA256SUMS is not UTF-8" in problem


def test_refuses_an_older_release_unless_it_is_asked_for(
    one: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    names = {}
    for version in ("0.9", "1.0rc1"):
        name = f"aiter_prebuilt-{version}-py3-none-any.whl"
        (folder / name).write_bytes(version.encode())
        names[name] = hashlib.sha256(version.encode()).hexdigest()
    _resigned(folder, one, names)
    for installed in ("0.1.0", "0.9", "1.0rc1", "1.0.dev3"):
        monkeypatch.setattr(trust, "VERSION", installed)
        assert trust.check_release(folder, one.keys)[1] == []
    monkeypatch.setattr(trust, "VERSION", "1.0")
    _, (problem,) = trust.check_release(folder, one.keys)
    assert problem.startswith("its newest release is 1.0rc1, and 1.0 is installed here")
    assert trust.check_release(folder, one.keys, "1.0rc1")[1] == []
    assert trust.check_release(folder, one.keys, "1.0")[1] == ["release 1.0 is not in it: it has 0.9, 1.0rc1"]
    assert trust.check_release(folder, one.keys, "0.9.0")[1] == []  # one version, written otherwise


def test_a_release_without_a_runtime_wheel_is_of_the_version_that_its_list_was_signed_as(
    one: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, name = tmp_path / "r", "aiter_prebuilt_gfx942-0.9-py3-none-any.whl"
    folder.mkdir()
    (folder / name).write_bytes(b"a bundle")
    _resigned(folder, one, {name: hashlib.sha256(b"a bundle").hexdigest()})
    data = (folder / "SHA256SUMS").read_bytes()
    one.sign(folder / "SHA256SUMS.minisig", data, "file:SHA256SUMS\tversion:0.9")
    monkeypatch.setattr(trust, "VERSION", "1.0")
    _, (problem,) = trust.check_release(folder, one.keys)
    assert problem.startswith("its newest release is 0.9, and 1.0 is installed here")
    assert trust.check_release(folder, one.keys, "0.9")[1] == []
    monkeypatch.setattr(trust, "VERSION", "0.9")
    assert trust.check_release(folder, one.keys)[1] == []


def test_versions_are_ordered_as_packaging_orders_them() -> None:
    versions = [
        "0.1",
        "0.1.0",
        "0.1.post1",
        "0.1.1",
        "0.2.dev1",
        "0.2a1",
        "0.2a1.dev2",
        "0.2b3",
        "0.2rc1",
        "0.2",
        "0.10",
        "1",
    ]
    pairs = [(one, two) for one in versions for two in versions]
    for one, two in pairs:
        wanted = Version(one) < Version(two), Version(one) == Version(two)
        assert (order_of(one) < order_of(two), order_of(one) == order_of(two)) == wanted, (one, two)


def test_golden_calls_of_another_bundle_or_release_are_refused(one: Signer, tmp_path: Path) -> None:
    bundle = tmp_path / "gfx942-ck-free.apb"
    bundle.write_bytes(HEADER + b"all else")
    one.sign(_beside(bundle), HEADER, f"timestamp:1\tfile:{bundle.name}\tversion:2")
    calls = bundle.with_suffix(".calls")
    calls.write_bytes(b"calls")
    installed = InstalledBundle(str(bundle), "gfx942", "ck-free")
    for comment, words in (
        ("timestamp:1\tfile:gfx950-ck-free.calls\tversion:2", "they were signed as 'gfx950-ck-free.calls'"),
        ("timestamp:1\tfile:gfx942-ck-free.calls\tversion:1", "they are of version 1, the bundle is of 2"),
        ("made by hand", "they were signed as 'a file without a name'"),
    ):
        one.sign(_beside(calls), b"calls", comment)
        right, wrong = trust.seals_of(installed, one.keys)
        assert right.ok and words in wrong.problem
    one.sign(_beside(calls), b"calls", "timestamp:1\tfile:gfx942-ck-free.calls\tversion:2")
    assert all(seal.ok for seal in trust.seals_of(installed, one.keys))
