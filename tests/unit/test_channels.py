"""From nightly over rc to stable as the same bytes: what is not signed, not whole or yanked goes no further; yanks."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.releases import wheel

from aiter_prebuilt.bundles import minisign, trust
from aiter_prebuilt.contract.version import VERSION
from build_tools.__main__ import cli
from build_tools.errors import MirrorError, ReleaseError
from build_tools.release import channels, index, mirror
from build_tools.release.sign import new_key

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.delenv("AITER_PREBUILT_KEY_PASSWORD", raising=False)
    return new_key(tmp_path, "mine", "")


@pytest.fixture
def yanked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "yanked.toml"
    path.write_text("# why\n[yanked]\n")
    monkeypatch.setattr(index, "YANKED", path)
    for module in (channels, mirror):
        monkeypatch.setattr(module, "yanked", lambda: index.yanked(path))
    return path


@pytest.fixture
def dist(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    folder = tmp_path / "dist"
    for name in ("aiter-prebuilt", "aiter-prebuilt-gfx942"):
        wheel(folder, name, "0.2", name.encode())
    (folder / "aiter_prebuilt-0.2.release.json").write_text("{}")
    (folder / "aiter_prebuilt-0.2-py3-none-any.whl.provenance.json").write_text("{}")
    _sign(folder, keys[0])
    return folder


def _sign(folder: Path, key: Path) -> None:
    from contextlib import ExitStack

    from build_tools.release.sign import signers, write_sums

    with ExitStack() as stack:
        write_sums(folder, signers(stack, [key], ""))


def _promote(folder: Path, keys: tuple[Path, Path], to: str, dist: Path, version: str = "0.2") -> str:
    words = ["release", "promote", str(folder), version, "--to", to, "--wheels", str(dist)]
    done = CliRunner().invoke(cli, [*words, "--trust", str(keys[1]), "--key", str(keys[0])])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.whl")}


def test_the_same_bytes_go_through_all_channels(
    dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path
) -> None:
    folder, wanted = tmp_path / "channels", _hashes(dist)
    for channel in channels.CHANNELS:
        shown = _promote(folder, keys, channel, dist)
        assert shown.splitlines() == [str(folder / channel / "files" / name) for name in sorted(wanted)]
        assert _hashes(folder / channel / "files") == wanted
        assert trust.check_release(folder / channel, minisign.keys_of(keys[1]))[1] == []
        page = (folder / channel / "simple/aiter-prebuilt-gfx942/index.html").read_text()
        assert f"#sha256={wanted['aiter_prebuilt_gfx942-0.2-py3-none-any.whl']}" in page
        assert (folder / channel / "files/aiter_prebuilt-0.2.release.json").is_file()
        assert (folder / channel / "files/aiter_prebuilt-0.2-py3-none-any.whl.provenance.json").is_file()
    shutil.rmtree(dist)
    dist.mkdir()
    assert _promote(folder, keys, "stable", dist), "rc has it, whatever became of the folder of wheels"


def test_no_channel_is_passed_over(dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path) -> None:
    folder = tmp_path / "channels"
    with pytest.raises(ReleaseError, match=r"Promote it to rc first\."):
        _promote(folder, keys, "stable", dist)
    _promote(folder, keys, "nightly", dist)
    wheel(dist, "aiter-prebuilt", "0.3")
    _sign(dist, keys[0])
    with pytest.raises(
        ReleaseError, match=r"no runtime wheel of it; it has 0\.2.*promote it to nightly first"
    ):
        _promote(folder, keys, "rc", dist, "0.3")
    assert not (folder / "rc").exists()
    _promote(folder, keys, "nightly", dist, "0.3")
    _promote(folder, keys, "rc", dist, "0.2")
    assert len(_hashes(folder / "nightly/files")) == 3 and len(_hashes(folder / "rc/files")) == 2


def test_what_is_not_verified_is_refused_before_anything_is_written(
    dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path
) -> None:
    folder, kept = tmp_path / "channels", tmp_path / "kept"
    shutil.copytree(dist, kept)
    name = "aiter_prebuilt-0.2-py3-none-any.whl"

    def broken(match: str, signers: tuple[Path, Path] = keys) -> None:
        with pytest.raises(ReleaseError, match=match):
            _promote(folder, signers, "nightly", dist)
        assert not folder.exists()
        shutil.rmtree(dist)
        shutil.copytree(kept, dist)

    data = bytearray((dist / name).read_bytes())
    data[-1] ^= 1
    (dist / name).write_bytes(data)
    broken("is not as its list says")
    (dist / name).unlink()
    broken("is not as its list says")
    wheel(dist, "aiter-prebuilt-gfx950", "0.2")
    broken("is not as its list says")
    (dist / "SHA256SUMS.whl").write_bytes(b"a name that only looks like the list's")
    broken("is not as its list says")
    (dist / "more").symlink_to(tmp_path)
    broken("is not as its list says")
    lines = (dist / "SHA256SUMS").read_text()
    (dist / "SHA256SUMS").write_text(lines.replace("0.2", "0.4"))
    broken("no key that is trusted signed")
    (dist / "SHA256SUMS.minisig").unlink()
    broken("no key that is trusted signed")
    (dist / "SHA256SUMS").unlink()
    broken("is no signed release")
    other = new_key(tmp_path, "other", "")
    broken("no key that is trusted signed", (keys[0], other[1]))
    broken("is no public key of minisign's", (keys[0], keys[0]))
    _promote(folder, keys, "nightly", dist)


def test_other_bytes_under_a_name_of_a_channel_are_refused(
    dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path
) -> None:
    folder = tmp_path / "channels"
    _promote(folder, keys, "nightly", dist)
    wheel(dist, "aiter-prebuilt", "0.2", b"built again")
    _sign(dist, keys[0])
    with pytest.raises(MirrorError, match="it has a file of that name with other bytes"):
        _promote(folder, keys, "nightly", dist)


def test_a_yank_is_written_and_ends_the_way(
    dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path
) -> None:
    folder = tmp_path / "channels"
    _promote(folder, keys, "nightly", dist)
    reason = 'wrong results of "silu" on gfx950 \u2014 \\ take 0.3'
    words = ["release", "yank", "0.2", reason, "--folder", str(folder / "nightly"), "--key", str(keys[0])]
    for _ in range(2):
        done = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert done.exit_code == 0 and "commit it" in done.output and done.stderr == ""
        assert index.yanked(yanked) == {"0.2": reason}
    assert yanked.read_text().startswith("# why\n[yanked]\n")
    page = (folder / "nightly/simple/aiter-prebuilt/index.html").read_text()
    assert 'data-yanked="wrong results of &quot;silu&quot;' in page
    assert trust.check_release(folder / "nightly", minisign.keys_of(keys[1]))[1] == []
    with pytest.raises(ReleaseError, match="it was yanked: wrong results"):
        _promote(folder, keys, "rc", dist)
    with pytest.raises(MirrorError, match="it was yanked: wrong results"):
        index.yank("0.2", "another reason", yanked)
    index.yank("0.1.0rc1", "older", yanked)
    assert index.yanked(yanked) == {"0.2": reason, "0.1.0rc1": "older"}


@pytest.mark.parametrize(
    ("version", "reason"), [("x", "why"), ("0.2 ", "why"), ("0.2", " "), ("0.2", "a\nb"), ("0.2", "a\x7f")]
)
def test_a_yank_of_nothing_is_refused(version: str, reason: str, yanked: Path) -> None:
    with pytest.raises(MirrorError, match="yank"):
        index.yank(version, reason, yanked)
    assert yanked.read_text() == "# why\n[yanked]\n"


def test_a_yank_of_what_nobody_has_is_told(yanked: Path) -> None:
    done = CliRunner().invoke(cli, ["release", "yank", "9.9.9", "why"], catch_exceptions=False)
    assert done.exit_code == 0 and "9.9.9 is no version of this checkout" in done.stderr
    assert index.yanked(yanked) == {"9.9.9": "why"}
    assert CliRunner().invoke(cli, ["release", "yank", VERSION, "why"]).stderr == ""


def test_only_nightly_takes_from_a_folder_of_wheels(
    dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path
) -> None:
    _promote(tmp_path / "channels", keys, "nightly", dist)
    assert "aiter_prebuilt_gfx942" in _promote(tmp_path / "channels", keys, "rc", tmp_path / "none")
    with pytest.raises(ReleaseError, match=r"promote 0\.2 to nightly"):
        _promote(tmp_path / "more", keys, "nightly", tmp_path / "none")


def test_secret_keys_are_asked_for(dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path) -> None:
    words = [
        "release",
        "promote",
        str(tmp_path / "c"),
        "0.2",
        "--to",
        "nightly",
        "--wheels",
        str(dist),
        "--trust",
        str(keys[1]),
    ]
    assert CliRunner().invoke(cli, words).exit_code == 2
    assert CliRunner().invoke(cli, ["release", "yank", "0.2", "why", "--folder", str(dist)]).exit_code == 2
    assert index.yanked(yanked) == {}


@pytest.mark.parametrize("line", [b"a note that nobody compares\n", b"\xff\n"])
def test_refuses_a_signed_list_with_a_line_that_it_cannot_read(
    line: bytes, dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path
) -> None:
    from contextlib import ExitStack

    from build_tools.release.sign import signers

    data = (dist / "SHA256SUMS").read_bytes() + line
    (dist / "SHA256SUMS").write_bytes(data)
    with ExitStack() as stack:
        (signer,) = signers(stack, [keys[0]], "")
        (dist / "SHA256SUMS.minisig").write_bytes(signer.sign(data, "SHA256SUMS"))
    with pytest.raises(ReleaseError, match=r"SHA256SUMS(:[0-9]+: not a SHA-256| is not UTF-8)"):
        channels.verified(dist, [keys[1]], "promote 0.2 to nightly")


@pytest.mark.parametrize("version", ["0.2", "0.2.0", "0.2.0.0", "0.2+local.1"])
def test_a_yank_covers_equal_versions_and_local_builds(version: str) -> None:
    assert index.reason_for(version, {"0.2": "wrong numbers"}) == "wrong numbers"
    assert index.reason_for(f"{version}", {"0.2.1": "no", "0.3": "no"}) is None
    assert index.reason_for("0.2.post1", {"0.2": "wrong numbers"}) is None


def test_promoting_another_spelling_of_a_yanked_version_is_refused(
    dist: Path, tmp_path: Path, keys: tuple[Path, Path], yanked: Path
) -> None:
    yanked.write_text('[yanked]\n"0.2.0" = "wrong numbers"\n')
    with pytest.raises(ReleaseError, match="it was yanked: wrong numbers"):
        channels.promote(tmp_path / "channels", "0.2", "nightly", dist, [keys[1]], [])
