"""A folder to install from without a network: its index, what it refuses to replace, and yanks."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from zipfile import ZipFile

import pytest
from click.testing import CliRunner
from support.bundles import small_root
from support.releases import wheel as _wheel
from support.verified import IMAGE, operator

from aiter_prebuilt.bundles import minisign, trust
from build_tools.errors import MirrorError
from build_tools.pack import writer
from build_tools.pack.archive import write_members
from build_tools.release import index, mirror
from build_tools.release.sign import new_key, signers
from build_tools.tools import locks
from build_tools.verbs import mirror as mirror_verb

DATA = writer.encode(small_root(), (operator(),), writer.as_is([IMAGE]).frames)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    _wheel(folder, "aiter-prebuilt", "0.1")
    (_wheel(folder, "aiter-prebuilt-gfx942", "0.1").with_suffix(".whl.provenance.json")).write_text("{}")
    return folder


def _info(stem: str, version: str) -> dict[str, bytes]:
    """What makes members a wheel."""
    told = f"Metadata-Version: 2.4\nName: {stem.replace('_', '-')}\nVersion: {version}\n".encode()
    return {f"{stem}-{version}.dist-info/METADATA": told}


def _deploy(dist: Path, folder: Path) -> list[str]:
    return mirror.deploy(sorted(dist.glob("*.whl")), folder, [])


def test_links_have_hashes_and_pythons_and_lead_to_files(dist: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mirror"
    names = _deploy(dist, folder)
    assert names == ["aiter_prebuilt-0.1-py3-none-any.whl", "aiter_prebuilt_gfx942-0.1-py3-none-any.whl"]
    assert re.findall(r'href="([^"]*)"', (folder / "simple/index.html").read_text()) == [
        "aiter-prebuilt/", "aiter-prebuilt-gfx942/"
    ]  # fmt: skip
    page = folder / "simple/aiter-prebuilt-gfx942/index.html"
    (link,) = re.findall(
        r'<a href="([^"#]*)#sha256=([0-9a-f]{64})" data-requires-python="&gt;=3.10" ', page.read_text()
    )
    assert trust._sha256((page.parent / link[0]).resolve()) == link[1]
    assert (folder / "files" / f"{names[1]}.provenance.json").read_text() == "{}"
    assert (
        "`gfx942`" in (folder / "README.md").read_text()
        and "signed with the key" not in (folder / "README.md").read_text()
    )


def test_an_earlier_release_stays_and_other_bytes_under_its_name_are_refused(
    dist: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mirror"
    _deploy(dist, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert _deploy(dist, folder) and {path: path.read_bytes() for path in before} == before
    _wheel(dist, "aiter-prebuilt", "0.1", b"other")
    with pytest.raises(MirrorError, match="it has a file of that name with other bytes"):
        _deploy(dist, folder)
    assert {path: path.read_bytes() for path in before} == before
    shutil.rmtree(dist)
    _wheel(dist, "aiter-prebuilt", "0.2")
    assert len(_deploy(dist, folder)) == 3


def test_what_lies_beside_a_wheel_is_of_the_present_release(dist: Path, tmp_path: Path) -> None:
    files = tmp_path / "mirror" / "files"
    wheel = "aiter_prebuilt_gfx942-0.1-py3-none-any.whl"
    (dist / f"{wheel}.minisig").write_text("of the first release")
    _deploy(dist, tmp_path / "mirror")
    (dist / f"{wheel}.provenance.json").write_text('{"of": "the second release"}')
    (dist / f"{wheel}.minisig").unlink()
    (files / "aiter_prebuilt_gone-0.1-py3-none-any.whl.provenance.json").write_text("{}")
    _deploy(dist, tmp_path / "mirror")
    assert (files / f"{wheel}.provenance.json").read_text() == '{"of": "the second release"}'
    assert sorted(path.name for path in files.iterdir() if ".whl." in path.name) == [
        "aiter_prebuilt-0.1-py3-none-any.whl.metadata", f"{wheel}.metadata", f"{wheel}.provenance.json"
    ]  # fmt: skip
    assert "gone" not in (tmp_path / "mirror" / "SHA256SUMS").read_text()


def test_a_record_takes_the_place_of_the_one_before(dist: Path, tmp_path: Path) -> None:
    for text in ("first", "second"):
        (dist / "aiter_prebuilt-0.1.release.json").write_text(text)
        mirror.deploy(
            sorted(dist.glob("*.whl")), tmp_path / "mirror", [], [dist / "aiter_prebuilt-0.1.release.json"]
        )
    assert (tmp_path / "mirror" / "files" / "aiter_prebuilt-0.1.release.json").read_text() == "second"


def test_a_refused_wheel_leaves_the_mirror_as_it_was(dist: Path, tmp_path: Path) -> None:
    _deploy(dist, tmp_path / "mirror")
    before = {path: path.read_bytes() for path in (tmp_path / "mirror").rglob("*") if path.is_file()}
    _wheel(dist, "aiter-prebuilt-a", "0.1")
    _wheel(dist, "aiter-prebuilt-gfx942", "0.1", b"other")
    with pytest.raises(MirrorError, match="other bytes"):
        _deploy(dist, tmp_path / "mirror")
    assert {path: path.read_bytes() for path in (tmp_path / "mirror").rglob("*") if path.is_file()} == before


def test_a_yanked_release_says_why(dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = tmp_path / "yanked.toml"
    reasons.write_text('[yanked]\n"0.1" = "wrong <results> of \\"x\\""\n')
    monkeypatch.setattr(mirror, "yanked", lambda: index.yanked(reasons))
    folder = tmp_path / "mirror"
    _deploy(dist, folder)
    page = (folder / "simple/aiter-prebuilt/index.html").read_text()
    assert 'data-yanked="wrong &lt;results&gt; of &quot;x&quot;"' in page
    assert 'wrong &lt;results&gt; of "x"' in (folder / "README.md").read_text()


def test_the_page_names_an_extra_with_code_objects_and_keys_only_of_signed_wheels(
    dist: Path, tmp_path: Path
) -> None:
    for name in ("bridge", "cache-gfx942", "gfx950-ck"):
        _wheel(dist, f"aiter-prebuilt-{name}", "0.1")
    secret, _ = new_key(tmp_path, "one", "")
    with ExitStack() as stack:
        signing = signers(stack, [secret], "")
        mirror.deploy(sorted(dist.glob("*.whl")), tmp_path / "mirror", signing)
        page = (tmp_path / "mirror" / mirror.PAGE).read_text()
        assert (
            "'aiter-prebuilt[gfx942]'" in page and "`bridge`, `cache-gfx942`, `gfx942`, `gfx950-ck`" in page
        )
        assert "who signed them" not in page, "the list is signed, what is in the wheels is not"
        write_members(
            dist / "aiter_prebuilt_gfx942-0.1-py3-none-any.whl",
            {"x.bundle": b"", "x.bundle.minisig": b"", **_info("aiter_prebuilt_gfx942", "0.1")},
        )
        mirror.deploy(sorted(dist.glob("*gfx942*.whl")), tmp_path / "other", signing)
    assert "`--key KEY`, who signed them" in (tmp_path / "other" / mirror.PAGE).read_text()


def test_a_reason_stays_in_its_cell(dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "yanked", lambda: {"0.1": "a | b <b>c</b> `d` \\"})
    _deploy(dist, tmp_path / "mirror")
    rows = [
        line
        for line in (tmp_path / "mirror" / mirror.PAGE).read_text().splitlines()
        if line.startswith("| `")
    ]
    assert len(rows) == len(list(dist.glob("*.whl")))
    for row in rows:
        assert row.endswith(r"| a \| b &lt;b&gt;c&lt;/b&gt; \`d\` \\ |")


@pytest.mark.parametrize(
    "text", ["[yanked]\n1 = 2\n", '[yanked]\n"0.1" = ""\n', "[other]\n", "[yanked", '[yanked]\n"x" = "y"\n']
)
def test_reasons_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "yanked.toml"
    path.write_text(text)
    with pytest.raises(MirrorError, match=r"read .*yanked\.toml"):
        index.yanked(path)


def test_the_committed_reasons_can_be_read() -> None:
    assert isinstance(index.yanked(), dict)


def test_what_is_no_wheel_of_its_name_is_refused_before_anything_is_written(
    dist: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mirror"
    with pytest.raises(MirrorError, match="there is no wheel to put into it"):
        mirror.deploy([], folder, [])
    for name, data in (("aiter_prebuilt_x-1-py3-none-any.whl", b"no"), ("no.whl", b"no")):
        (dist / name).write_bytes(data)
        with pytest.raises(MirrorError, match="it is no wheel of what its name says"):
            _deploy(dist, folder)
        (dist / name).unlink()
    wheel = dist / "aiter_prebuilt-0.1-py3-none-any.whl"
    wheel.rename(dist / "aiter_prebuilt-0.2-py3-none-any.whl")
    with pytest.raises(MirrorError, match=r"it holds aiter-prebuilt 0\.1"):
        _deploy(dist, folder)
    assert not folder.exists()


def test_a_signed_mirror_is_a_release_that_can_be_checked(dist: Path, tmp_path: Path) -> None:
    secret, public = new_key(tmp_path, "one", "")
    folder = tmp_path / "mirror"
    with ExitStack() as stack:
        mirror.deploy(sorted(dist.glob("*.whl")), folder, signers(stack, [secret], ""))
    keys = minisign.keys_of(public)
    assert trust.check_release(folder, keys)[1] == []
    assert f"signed with the key {keys[0].number}" in (folder / "README.md").read_text()
    (folder / "simple/aiter-prebuilt/index.html").write_text("another page")
    assert trust.check_release(folder, keys)[1] == [
        "simple/aiter-prebuilt/index.html: its bytes are not those that were released"
    ]


def test_each_wheel_has_its_metadata_beside_it(dist: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mirror"
    for name in _deploy(dist, folder):
        with ZipFile(folder / "files" / name) as archive:
            (info,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            wanted = archive.read(info)
        assert (folder / "files" / f"{name}.metadata").read_bytes() == wanted
        page = (folder / "simple" / name.split("-")[0].replace("_", "-") / "index.html").read_text()
        assert f'data-core-metadata="sha256={hashlib.sha256(wanted).hexdigest()}"' in page
    assert "files/aiter_prebuilt-0.1-py3-none-any.whl.metadata" in (folder / "SHA256SUMS").read_text()


def test_the_page_says_whether_it_is_signed_and_how_trust_begins(dist: Path, tmp_path: Path) -> None:
    _deploy(dist, tmp_path / "bare")
    bare = (tmp_path / "bare" / mirror.PAGE).read_text()
    assert (
        "**This folder is not signed**" in bare and "pip --isolated install --no-index --find-links" in bare
    )
    secret, _ = new_key(tmp_path, "one", "")
    with ExitStack() as stack:
        mirror.deploy(sorted(dist.glob("*.whl")), tmp_path / "signed", signers(stack, [secret], ""))
    page = (tmp_path / "signed" / mirror.PAGE).read_text()
    assert "not signed" not in page and "take KEY from SECURITY.md" in page


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv, of pyproject.toml's group lock, is not here")
def test_the_line_for_uv_takes_nothing_of_an_index_that_the_machine_names(dist: Path, tmp_path: Path) -> None:
    _deploy(dist, tmp_path / "mirror")
    _wheel(tmp_path / "other", "aiter-prebuilt", "9")
    _deploy(tmp_path / "other", tmp_path / "evil")
    found = re.search(r"`(uv pip install [^`]*) \.\.\.`", (tmp_path / "mirror" / mirror.PAGE).read_text())
    assert found is not None
    words = found[1].replace("FOLDER", str(tmp_path / "mirror")).split()
    evil = f"file://{tmp_path / 'evil' / 'simple'}"
    done = subprocess.run(
        [*words, "--target", str(tmp_path / "there"), "aiter-prebuilt"],
        env={
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_NO_CACHE": "1", "UV_PYTHON": sys.executable,
            "UV_INDEX": evil, "UV_DEFAULT_INDEX": evil, "UV_OFFLINE": "1",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "there").glob("*.dist-info")] == [
        "aiter_prebuilt-0.1.dist-info"
    ]


def test_refuses_a_wheel_whose_name_would_be_markup(tmp_path: Path) -> None:
    _wheel(tmp_path, "aiter-prebuilt", "0.2", b"x")
    made = tmp_path / "aiter_prebuilt-0.2-py3-none-any.whl"
    odd = made.rename(made.with_name("aiter_prebuilt-0.2-py3-none-any](x)|.whl"))
    with pytest.raises(MirrorError, match="its name has letters that no wheel of a release has"):
        index.listed(odd, {})


def test_the_page_has_the_extras_of_each_gpu_and_names_those_that_are_missing(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    for name in ("gfx942", "gfx942-ck", "bridge", "bridge-gfx950"):
        _wheel(dist, f"aiter-prebuilt-{name}", "0.1")
    told = "Metadata-Version: 2.4\nName: aiter-prebuilt\nVersion: 0.1\n" + "".join(
        f"Provides-Extra: {name}\n" for name in ("gfx942", "bridge", "bridge-gfx942", "sm90")
    )
    write_members(
        dist / "aiter_prebuilt-0.1-py3-none-any.whl", {"aiter_prebuilt-0.1.dist-info/METADATA": told.encode()}
    )
    _deploy(dist, tmp_path / "mirror")
    page = (tmp_path / "mirror" / mirror.PAGE).read_text()
    assert "| MI300X, MI325X, MI308X, MI300A | `gfx942`, `gfx942-ck` |" in page
    assert (
        "| MI350X, MI355X | `bridge-gfx950` |" in page
        and "| any of them, beside its own | `bridge` |" in page
    )
    assert "H100" not in page
    assert "Not in this folder: `bridge-gfx942`, `sm90`. In a checkout" in page


def test_aiter_lies_beside_our_wheels_and_our_yanks_are_not_its(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "yanked", lambda: {"0.1": "wrong"})
    more = [_wheel(tmp_path / "more", "amd-aiter", "0.1"), _wheel(tmp_path / "more", "einops", "0.8.2")]
    folder = tmp_path / "mirror"
    mirror.deploy(sorted(dist.glob("*.whl")), folder, [], more)
    assert "data-yanked" in (folder / "simple/aiter-prebuilt/index.html").read_text()
    assert "data-yanked" not in (folder / "simple/amd-aiter/index.html").read_text()
    page = (folder / mirror.PAGE).read_text()
    assert "AITER itself is here" in page and "`einops`" not in page
    _deploy(dist, tmp_path / "without")
    assert "`mirror deploy --aiter` brings `amd-aiter`" in (tmp_path / "without" / mirror.PAGE).read_text()


def test_one_page_links_every_file_with_its_hash(dist: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mirror"
    names = _deploy(dist, folder)
    links = re.findall(r'href="files/([^"#]*)#sha256=([0-9a-f]{64})"', (folder / index.LINKS).read_text())
    assert [name for name, _ in links] == names
    assert all(trust._sha256(folder / "files" / name) == digest for name, digest in links)
    assert index.LINKS in (folder / "SHA256SUMS").read_text()


def test_what_aiter_asks_for_is_locked_but_torch() -> None:
    """The metadata of the pinned wheel: pybind11, pandas, einops, psutil."""
    root = Path(__file__).resolve().parents[2]
    locked = locks.pins_of(locks.read(root, "server"))
    assert {"pybind11", "pandas", "einops", "psutil"} <= locked.keys() and "torch" not in locked


def test_a_folder_that_nobody_signed_is_said_to_be(dist: Path, tmp_path: Path) -> None:
    words = ["deploy", str(tmp_path / "mirror"), "--wheels", str(dist)]
    done = CliRunner().invoke(mirror_verb.mirror, words)
    assert done.exit_code == 0 and "is not signed: nobody vouches for it" in done.output
    secret, _ = new_key(tmp_path, "one", "")
    done = CliRunner().invoke(mirror_verb.mirror, [*words, "--key", str(secret)])
    assert done.exit_code == 0 and "is not signed" not in done.output


def test_deploy_without_wheels_says_how_to_build_them(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        mirror_verb.mirror, ["deploy", str(tmp_path / "out"), "--wheels", str(tmp_path / "none")]
    )
    assert isinstance(done.exception, MirrorError)
    assert "none has no wheels. Name their folder with --wheels, or build them: python -m nox -s demo" in str(
        done.exception
    )
    assert not (tmp_path / "out").exists()
