"""Signing a folder of wheels: what is written, that the runtime trusts it, and that the same keys give the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from click.testing import CliRunner
from support.bundles import small_root
from support.verified import IMAGE, operator

from aiter_prebuilt.bundles import minisign, trust
from aiter_prebuilt.errors import OldBundleError
from build_tools.errors import SigningError, WheelError
from build_tools.pack import writer
from build_tools.pack.archive import write_members
from build_tools.release import built, provenance
from build_tools.release.sign import new_key, write_sums
from build_tools.verbs.options import KEY_VARIABLE
from build_tools.verbs.release import release

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = "aiter_prebuilt_bundles/gfx942-ck-free.apb"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    data = writer.encode(small_root(), (operator(),), writer.as_is([IMAGE]).frames)
    info = "aiter_prebuilt_gfx942-1.dist-info"
    members = {BUNDLE: data, f"{info}/METADATA": b"Name: x\n", f"{info}/sboms/a.cdx.json": b"{}"}
    write_members(folder / "aiter_prebuilt_gfx942-1-py3-none-any.whl", members)
    write_members(folder / "aiter_prebuilt-1-py3-none-any.whl", {"aiter_prebuilt/__init__.py": b""})
    return folder


def _sign(dist: Path, *keys: Path) -> None:
    words = [word for key in keys for word in ("--key", str(key))]
    done = CliRunner().invoke(release, ["sign", str(dist), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def _installed(wheel: Path, folder: Path) -> Path:
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder / BUNDLE


@pytest.mark.parametrize("password", ["", "a password"])
def test_what_is_signed_is_trusted_where_it_is_installed(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, password)
    old, new = (new_key(tmp_path, name, password) for name in ("old", "new"))
    assert old[0].stat().st_mode & 0o077 == 0 and (b"encrypted" in old[0].read_bytes()) == bool(password)
    _sign(dist, old[0], new[0])
    bundle = _installed(dist / "aiter_prebuilt_gfx942-1-py3-none-any.whl", tmp_path / "site")
    for public in (old[1], new[1]):
        keys = minisign.keys_of(public)
        seal = trust.seal_of(str(bundle), keys)
        assert (seal.problem, seal.key) == ("", keys[0].number)
        assert seal.comment.endswith(f"file:{bundle.name}\tversion:1")  # the wheel's
        listed, problems = trust.check_release(dist, keys)
        assert problems == [] and listed.key == keys[0].number
    assert public.read_text().splitlines()[0].endswith(keys[0].number)
    data = bytearray(bundle.read_bytes())
    data[20] ^= 1
    bundle.write_bytes(bytes(data))
    assert "one of the two was changed" in trust.seal_of(str(bundle), keys).problem


def test_signing_twice_gives_the_same_bytes_and_another_key_takes_the_place_of_the_first(
    dist: Path, tmp_path: Path
) -> None:
    one, two = new_key(tmp_path, "one", ""), new_key(tmp_path, "two", "")
    _sign(dist, one[0], two[0])
    first = {path.name: path.read_bytes() for path in dist.iterdir()}
    _sign(dist, one[0], two[0])
    assert {path.name: path.read_bytes() for path in dist.iterdir()} == first
    assert sorted(first) == [
        "SHA256SUMS",
        f"SHA256SUMS.{minisign.keys_of(two[1])[0].number}.minisig",
        "SHA256SUMS.minisig",
        "aiter_prebuilt-1-py3-none-any.whl",
        "aiter_prebuilt-1-py3-none-any.whl.provenance.json",
        "aiter_prebuilt_gfx942-1-py3-none-any.whl",
        "aiter_prebuilt_gfx942-1-py3-none-any.whl.provenance.json",
    ]
    _sign(dist, two[0])
    bundle = _installed(dist / "aiter_prebuilt_gfx942-1-py3-none-any.whl", tmp_path / "site")
    assert sorted(path.name for path in bundle.parent.iterdir()) == [bundle.name, f"{bundle.name}.minisig"]
    assert trust.seal_of(str(bundle), minisign.keys_of(two[1])).ok
    assert not trust.seal_of(str(bundle), minisign.keys_of(one[1])).ok


def test_an_older_release_that_is_signed_again_stays_an_older_one(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys change, and the newest checkout signs what was released before."""
    monkeypatch.delenv(trust.OLDEST, raising=False)
    for path in list(dist.glob("*-1-*.whl")):
        path.rename(path.with_name(path.name.replace("-1-", "-0.0.9-")))
    secret, public = new_key(tmp_path, "one", "")
    _sign(dist, secret)
    bundle = _installed(dist / "aiter_prebuilt_gfx942-0.0.9-py3-none-any.whl", tmp_path / "site")
    keys = minisign.keys_of(public)
    with pytest.raises(OldBundleError, match=r"signed as release 0\.0\.9"):
        trust.check_header(str(bundle), bundle.read_bytes()[:128], keys)
    assert trust.check_release(dist, keys, "0.0.9")[0].comment.endswith("\tversion:0.0.9")


def test_a_later_checkout_reads_the_note_of_an_older_release(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = dist / "aiter_prebuilt-1-py3-none-any.whl"
    with monkeypatch.context() as older:
        older.setattr(built, "NAME", "aiter_prebuilt-1.build.json")
        built.write(dist, [wheel], "a" * 40)
    secret, _ = new_key(tmp_path, "one", "")
    _sign(dist, secret)
    told = json.loads((dist / f"{wheel.name}.provenance.json").read_text())
    assert told["predicate"]["buildDefinition"]["internalParameters"]["commit"] == "a" * 40


def test_no_statement_of_a_wheel_that_is_gone_is_signed(dist: Path, tmp_path: Path) -> None:
    secret, _ = new_key(tmp_path, "one", "")
    _sign(dist, secret)
    (dist / "aiter_prebuilt-1-py3-none-any.whl").unlink()
    _sign(dist, secret)
    assert sorted(path.name for path in dist.glob("*.provenance.json")) == [
        "aiter_prebuilt_gfx942-1-py3-none-any.whl.provenance.json"
    ]
    assert "aiter_prebuilt-1-" not in (dist / "SHA256SUMS").read_text()


def test_the_commit_is_that_of_the_wheels(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = new_key(tmp_path, "one", "")
    wheel, other = sorted(dist.glob("*.whl"))[:2]
    before = {path.name: path.read_bytes() for path in (wheel, other)}
    built.write(dist, [wheel], "a" * 40)
    built.write(dist, [other], "b" * 40)
    assert {path.name: path.read_bytes() for path in (wheel, other)} == before, "it is in no wheel"

    def told(path: Path) -> tuple[str, str]:
        statement = json.loads((dist / f"{path.name}.provenance.json").read_text())
        inner = statement["predicate"]["buildDefinition"]["internalParameters"]
        return inner["commit"], inner["signedAt"]

    monkeypatch.setattr(provenance, "commit_of", lambda _root: "b" * 40)
    for _ in range(2):  # what is signed is still the wheel that was noted
        done = CliRunner().invoke(release, ["sign", str(dist), "--key", str(secret)], catch_exceptions=False)
        assert (told(wheel), told(other)) == (("a" * 40, "b" * 40), ("b" * 40, "b" * 40))
        assert f"{wheel.name}: built at {'a' * 40}" in done.stderr and f"{other.name}: " not in done.stderr
    with ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}
    write_members(wheel, {**members, "more.py": b""})
    done = CliRunner().invoke(release, ["sign", str(dist), "--key", str(secret)], catch_exceptions=False)
    assert told(wheel) == ("", "b" * 40) and f"{wheel.name}: no {built.NAME} beside it says" in done.stderr
    (dist / built.NAME).write_text("[]")
    with pytest.raises(WheelError, match=r"read .*build\.json"):
        built.commits([wheel])


def test_a_commit_is_told_with_what_was_changed_since(tmp_path: Path) -> None:
    assert provenance.commit_of(tmp_path) == ""
    from build_tools.files.run import run

    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "x")):
        (tmp_path / "f").write_text("1")
        assert run(["git", "-C", str(tmp_path), *words]).ok
    commit = provenance.commit_of(tmp_path)
    assert len(commit) == 40
    (tmp_path / "f").write_text("2")
    assert provenance.commit_of(tmp_path) == f"{commit}-dirty"


def test_keys_are_not_overwritten_and_what_is_none_is_refused(dist: Path, tmp_path: Path) -> None:
    secret, public = new_key(tmp_path, "one", "")
    before = secret.read_bytes()
    with pytest.raises(SigningError, match=r"make the key .*one\.key.*File exists"):
        new_key(tmp_path, "one", "")
    assert secret.read_bytes() == before
    for keys, words in (([public], "read the secret key"), ([secret, secret], "one of them is named twice")):
        with pytest.raises(SigningError, match=words):
            _sign(dist, *keys)
    (dist / "SHA256SUMS").write_text("as it was")
    assert (dist / "SHA256SUMS").read_text() == "as it was"


@pytest.mark.parametrize("name", ["../evil", "a/b", "/nowhere/evil", "", ".", ".."])
def test_a_key_is_made_in_its_folder_alone(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "keys"
    (folder / "a").mkdir(parents=True)
    with pytest.raises(SigningError, match="it is no name of a file"):
        new_key(folder, name, "")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_is_no_small_file_is_no_key_and_nothing_waits_for_it(dist: Path, tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_bytes(b"x" * 5000)
    for path, found in ((pipe, "it is no regular file"), (large, "it has 5000 bytes")):
        words = ["release", "sign", str(dist), "--key", str(path)]
        done = subprocess.run(
            [sys.executable, "-m", "build_tools", *words],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == SigningError.exit_code and found in done.stderr, done.stderr


def test_another_password_is_refused(dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, _ = new_key(tmp_path, "one", "right")
    for password in ("wrong", ""):
        monkeypatch.setenv(KEY_VARIABLE, password)
        with pytest.raises(SigningError, match=f"read the secret key .*{KEY_VARIABLE}"):
            _sign(dist, secret)


def test_what_is_no_release_is_refused(dist: Path, tmp_path: Path) -> None:
    secret, _ = new_key(tmp_path, "one", "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SigningError, match="there is no wheel in it"):
        _sign(tmp_path / "empty", secret)
    (dist / "folder").mkdir()
    with pytest.raises(SigningError, match="folder is no file"):
        _sign(dist, secret)
    (dist / "folder").rmdir()
    (dist / "no.whl").write_bytes(b"no")
    with pytest.raises(SigningError, match=r"sign .*no\.whl: it is no wheel"):
        _sign(dist, secret)
    (dist / "no.whl").unlink()
    write_members(dist / "no-1-py3-none-any.whl", {BUNDLE: b"no bundle"})
    with pytest.raises(SigningError, match=r"sign .*\.apb of no-1-py3-none-any\.whl: 9 bytes are too few"):
        _sign(dist, secret)


def test_no_list_has_a_secret_key_or_a_file_that_is_no_part_of_a_release(dist: Path, tmp_path: Path) -> None:
    secret, _ = new_key(tmp_path, "one", "")
    before = {path.name: path.read_bytes() for path in dist.iterdir()}
    for password in ("", "a password"):
        made = new_key(dist, "aiter-prebuilt", password)
        with pytest.raises(SigningError, match=r"aiter-prebuilt\.key is a secret key"):
            _sign(dist, secret)
        made[0].rename(dist / "aiter_prebuilt-1.release.json")
        with pytest.raises(SigningError, match=r"aiter_prebuilt-1\.release\.json is a secret key"):
            _sign(dist, secret)
        (dist / "aiter_prebuilt-1.release.json").unlink()
        with pytest.raises(SigningError, match=r"aiter-prebuilt\.pub is none of wheels"):
            _sign(dist, secret)
        made[1].unlink()
    assert {path.name: path.read_bytes() for path in dist.iterdir()} == before
    (dist / "aiter_prebuilt-1.release.json").write_text("{}")
    for _ in range(2):
        _sign(dist, secret)
    assert "aiter_prebuilt-1.release.json" in (dist / "SHA256SUMS").read_text()


def test_no_list_of_a_mirror_has_a_secret_key(tmp_path: Path) -> None:
    (tmp_path / "mirror" / "files").mkdir(parents=True)
    new_key(tmp_path / "mirror" / "files", "one", "")
    with pytest.raises(SigningError, match=r"files/one\.key is a secret key"):
        write_sums(tmp_path / "mirror", [])


def test_who_makes_a_key_is_told_whether_it_is_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = CliRunner()
    assert KEY_VARIABLE in runner.invoke(release, ["keygen", "--help"]).output
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    bare = runner.invoke(release, ["keygen", str(tmp_path), "--name", "bare"])
    assert bare.exit_code == 0 and "bare.key is not encrypted" in bare.stderr and KEY_VARIABLE in bare.stderr
    monkeypatch.setenv(KEY_VARIABLE, "a password")
    closed = runner.invoke(release, ["keygen", str(tmp_path), "--name", "closed"])
    assert closed.exit_code == 0 and "is not encrypted" not in closed.stderr
    assert (
        "closed.pub into SECURITY.md" in closed.stderr and "Public keys" in (ROOT / "SECURITY.md").read_text()
    )
