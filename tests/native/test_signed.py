"""With keys named, a bundle is opened only when one of them signed what the reader itself read; without, nobody asks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest
from minisign import KeyPair, SecretKey

import aiter_prebuilt
from aiter_prebuilt.__main__ import main as command
from aiter_prebuilt.bundles import locate, minisign, opening, trust
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.errors import KeyFileError, OldBundleError, SignatureError, UnsignedError, WrongKeyError
from native import synthetic
from native.synthetic import Op, T

SCHEMA = Path(aiter_prebuilt.__file__).with_name("schemas") / "verify.json"


@pytest.fixture
def bundle(native: ModuleType, tmp_path: Path) -> InstalledBundle:
    path = tmp_path / "gfx942-ck-free.apb"
    path.write_bytes(synthetic.bundle_bytes([Op("op", [T("x", "f32", ["N"])])]))
    opened = native.Bundle(str(path))
    return InstalledBundle(str(path), opened.target, opened.profile)


def _key(folder: Path, name: str) -> tuple[SecretKey, str]:
    pair = KeyPair.generate()
    path = folder / f"{name}.pub"
    path.write_bytes(bytes(pair.public_key) + b"\n")
    return pair.secret_key, str(path)


def _sign(bundle: InstalledBundle, key: SecretKey) -> None:
    header = Path(bundle.path).read_bytes()[:128]
    Path(f"{bundle.path}.minisig").write_bytes(bytes(key.sign(header, trusted_comment="version:1")) + b"\n")


def test_the_header_is_that_of_the_file_as_it_was_opened(native: ModuleType, bundle: InstalledBundle) -> None:
    before = Path(bundle.path).read_bytes()
    opened = native.Bundle(bundle.path)
    Path(bundle.path).write_bytes(bytes(len(before)))
    assert opened.header == before[:128]


def test_no_key_asks_for_no_signature(bundle: InstalledBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(opening.KEYS, raising=False)
    assert opening.open_bundle(bundle).path == bundle.path


def test_only_what_is_signed_with_a_named_key_is_opened(
    bundle: InstalledBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, mine_public = _key(tmp_path, "mine")
    other, other_public = _key(tmp_path, "other")
    monkeypatch.setenv(opening.KEYS, mine_public)
    with pytest.raises(UnsignedError, match="there is no signature"):
        opening.open_bundle(bundle)
    _sign(bundle, other)
    with pytest.raises(WrongKeyError):
        opening.open_bundle(bundle)
    monkeypatch.setenv(opening.KEYS, os.pathsep.join((mine_public, other_public)))
    assert opening.open_bundle(bundle).path == bundle.path
    monkeypatch.setenv(opening.KEYS, mine_public)
    _sign(bundle, mine)
    assert opening.open_bundle(bundle).path == bundle.path


def test_a_bundle_in_the_place_of_the_one_that_was_signed(
    bundle: InstalledBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, public = _key(tmp_path, "mine")
    _sign(bundle, key)
    Path(bundle.path).write_bytes(synthetic.bundle_bytes([Op("another", [T("x", "f32", ["N"])])]))
    monkeypatch.setenv(opening.KEYS, public)
    with pytest.raises(SignatureError, match="one of the two was changed"):
        opening.open_bundle(bundle)


def test_an_older_bundle_is_opened_only_where_it_is_asked_for(
    bundle: InstalledBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, public = _key(tmp_path, "mine")
    header = Path(bundle.path).read_bytes()[:128]
    signed = key.sign(header, trusted_comment="timestamp:1\tfile:x\tversion:0.0.9")
    Path(f"{bundle.path}.minisig").write_bytes(bytes(signed) + b"\n")
    monkeypatch.setenv(opening.KEYS, public)
    monkeypatch.delenv(trust.OLDEST, raising=False)
    for read in (opening.open_bundle, opening.read_bundle):
        with pytest.raises(OldBundleError, match=r"signed as release 0\.0\.9.*AITER_PREBUILT_OLDEST=0\.0\.9"):
            read(bundle)
    monkeypatch.setenv(trust.OLDEST, "0.0.9")
    assert opening.open_bundle(bundle).path == bundle.path
    assert opening.read_bundle(bundle).root.target == bundle.target


def test_an_older_bundle_is_refused_whatever_release_its_signature_names(
    bundle: InstalledBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, public = _key(tmp_path, "mine")
    data = synthetic.bundle_bytes([Op("op", [T("x", "f32", ["N"])])], version="0.0.9")
    Path(bundle.path).write_bytes(data)
    signed = key.sign(data[:128], trusted_comment=f"timestamp:1\tfile:x\tversion:{VERSION}")
    Path(f"{bundle.path}.minisig").write_bytes(bytes(signed) + b"\n")
    monkeypatch.setenv(opening.KEYS, public)
    monkeypatch.delenv(trust.OLDEST, raising=False)
    for read in (opening.open_bundle, opening.read_bundle):
        with pytest.raises(OldBundleError, match=r"it is of release 0\.0\.9.*AITER_PREBUILT_OLDEST=0\.0\.9"):
            read(bundle)
    monkeypatch.setenv(trust.OLDEST, "0.0.9")
    assert opening.open_bundle(bundle).path == bundle.path
    assert opening.read_bundle(bundle).root.target == bundle.target


@pytest.mark.parametrize("setting", ["", "none.pub", os.pathsep])
def test_a_setting_that_names_no_key_opens_nothing(
    bundle: InstalledBundle, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(opening.KEYS, setting)
    with pytest.raises(KeyFileError, match="read the public key"):
        opening.open_bundle(bundle)


def test_the_python_reader_asks_too(
    bundle: InstalledBundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """list and explain read with it; verify takes the setting's keys where it is given none."""
    key, public = _key(tmp_path, "mine")
    monkeypatch.setenv(locate.VARIABLE, bundle.path)
    monkeypatch.setenv(opening.KEYS, public)
    with pytest.raises(UnsignedError):
        opening.read_bundle(bundle)
    assert command(["list"]) == 28 and "UnsignedError" in capsys.readouterr().err
    assert command(["verify"]) == 1 and "there is no signature" in capsys.readouterr().out
    _sign(bundle, key)
    assert opening.read_bundle(bundle).root.target == bundle.target and command(["list"]) == 0


def test_golden_calls_are_signed_too(bundle: InstalledBundle, tmp_path: Path) -> None:
    key, public = _key(tmp_path, "mine")
    keys = minisign.keys_of(public)
    _sign(bundle, key)
    assert [seal.ok for seal in trust.seals_of(bundle, keys)] == [True]
    calls = Path(bundle.calls)
    calls.write_bytes(b"calls")
    assert [seal.ok for seal in trust.seals_of(bundle, keys)] == [True, False]
    Path(f"{calls}.minisig").write_bytes(
        bytes(key.sign(b"calls", trusted_comment=f"file:{calls.name}\tversion:1")) + b"\n"
    )
    assert [seal.ok for seal in trust.seals_of(bundle, keys)] == [True, True]
    calls.write_bytes(b"others")
    assert "one of the two was changed" in trust.seals_of(bundle, keys)[1].problem


def test_the_command_says_who_signed(
    bundle: InstalledBundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(locate.VARIABLE, bundle.path)
    key, public = _key(tmp_path, "mine")
    assert command(["verify", "--key", public, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    (row,) = told["signatures"]
    assert not row["ok"] and "there is no signature" in row["problem"] and not told["ok"]
    _sign(bundle, key)
    command(["verify", "--key", public, "--json"])
    (row,) = json.loads(capsys.readouterr().out)["signatures"]
    number = minisign.keys_of(public)[0].number
    assert row == {"path": bundle.path, "key": number, "comment": "version:1", "problem": "", "ok": True}
    command(["verify", "--key", public])
    assert f"signed with the key {number} (version:1)" in capsys.readouterr().out
    command(["verify", "--json"])
    assert json.loads(capsys.readouterr().out)["signatures"] is None


def test_the_command_checks_a_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, public = _key(tmp_path, "mine")
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "SHA256SUMS").write_bytes(b"")
    signed = key.sign(b"", trusted_comment="version:1")
    (folder / "SHA256SUMS.minisig").write_bytes(bytes(signed) + b"\n")
    assert command(["verify", "--release", str(folder), "--key", public]) == 0
    assert "all of its files are those that were released" in capsys.readouterr().out
    (folder / "more").write_bytes(b"")
    assert command(["verify", "--release", str(folder), "--key", public, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert told["problems"] == ["more: it is not in SHA256SUMS"] and told["signatures"][0]["ok"]
    assert command(["verify", "--release", str(folder)]) == 27
    assert "KeyFileError: Cannot check the release in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--release", ""], "Write --release . for this folder"),
        (["--release", ".", "--execute"], "--execute ask about what is installed"),
        (["--release", ".", "--target", "gfx942", "--execute"], "--target and --execute ask"),
    ],
)
def test_a_release_is_checked_as_files_alone(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, public = _key(tmp_path, "mine")
    assert command(["verify", *words, "--key", public]) == 2
    told = capsys.readouterr()
    assert "ArgumentError: Cannot check the release in" in told.err and said in told.err and told.out == ""
