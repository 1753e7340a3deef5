"""``release sign --source``: git's addresses in https, and a ref that is the commit of the wheels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.releases import wheel as _wheel

from build_tools.errors import SigningError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.pack import notes
from build_tools.pack.archive import write_members
from build_tools.release import built, provenance, source
from build_tools.release.built import Built
from build_tools.release.sign import new_key
from build_tools.verbs import options
from build_tools.verbs.release import release

ROOT = Path(__file__).resolve().parents[2]
URL = "https://github.com/o/r"


@pytest.mark.parametrize(
    ("text", "url", "ref"),
    [
        ("https://github.com/o/r@refs/tags/v1", URL, "refs/tags/v1"),
        ("https://github.com/o/r.git@main", f"{URL}.git", "main"),
        ("http://git.site:3000/o/r@v1", "http://git.site:3000/o/r", "v1"),
        ("git@github.com:o/r.git@refs/tags/v1", f"{URL}.git", "refs/tags/v1"),
        ("git@git.site.org:group/part/r@main", "https://git.site.org/group/part/r", "main"),
        ("ssh://git@github.com/o/r@refs/tags/v1", URL, "refs/tags/v1"),
        ("ssh://git@github.com:22/o/r@v1", URL, "v1"),
        (f"{URL}@refs/tags/part@1.0", URL, "refs/tags/part@1.0"),
    ],
)
def test_a_source_is_a_web_address_and_a_ref(text: str, url: str, ref: str) -> None:
    assert source.parse(text) == source.Source(url, ref)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (URL, "it is not URL@REF"),
        ("git@github.com:o/r", "it is not URL@REF"),
        ("ssh://me@github.com/o/r@main", "has a known https address"),
        ("ssh://git@github.com:2222/o/r@main", "has a known https address"),
        ("git@ssh.dev.azure.com:v3/o/r@main", "answers SSH alone"),
        ("git@altssh.bitbucket.org:o/r@main", "answers SSH alone"),
        ("git@work:o/r@main", "no name on the network"),
        ("git@github.com:/srv/r@main", "it is not URL@REF"),
        ("/home/me/r@main", "not the address of a repository"),
        (f"{URL}@refs/tags/", "its ref is no ref of git"),
        (f"{URL}@HEAD", "its ref is no ref of git"),
        (f"{URL}@--all", "its ref is no ref of git"),
        (f"{URL}@a..b", "its ref is no ref of git"),
        ("", "not the address of a repository"),
    ],
)
def test_another_form_is_refused_with_what_to_type(text: str, found: str) -> None:
    with pytest.raises(SigningError, match=found) as error:
        source.parse(text)
    assert repr(text) in str(error.value) and f"Type --source {source.FORM}" in str(error.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("https://user:token@github.com/o/r@main", "it has a login"),
        ("https://token@github.com/o/r@main", "it has a login"),
        ("ssh://git:token@github.com/o/r@main", "has a known https address"),
        ("https://u:token/en@github.com/o/r@v0.1.0", "it has a login"),
        ("https://u:a@token/en@github.com/o/r@v0.1.0", "it has a login"),
        ("https://u:token/en@github.com", "it has a login"),
        ("https://u:to ken@github.com/o/r@v1", "it has a login"),
        ("ssh://me:token/token@github.com/o/r@v1", "has a known https address"),
        ("token:token@github.com:o/r@v1", "it is not URL@REF"),
        ("user:token/@github.com/o/r@v1", "not the address of a repository"),
        ("ftp://u:token@github.com/o/r@v1", "not the address of a repository"),
        ("https://github.com/o/r?token=token@v0.1.0", "it has a query or a fragment"),
        ("https://github.com/o/r#token@v0.1.0", "it has a query or a fragment"),
        ("https://github.com/o/r@v0.1.0?access=token", "it has a query or a fragment"),
        ("ssh://git@github.com/o/r?token@v1", "it has a query or a fragment"),
        ("git@github.com:o/r?token@v1", "it has a query or a fragment"),
        ("HTTPS://u:token@github.com/o/r@v1", "it has a login"),
    ],
)
def test_a_login_is_refused_and_not_shown(text: str, found: str) -> None:
    with pytest.raises(SigningError, match=found) as error:
        source.parse(text)
    assert "token" not in str(error.value)


@pytest.mark.parametrize(
    "path",
    [
        'o/r"',
        "o/r'",
        "o/<r>",
        "o/r\\s",
        "o/{r}",
        "o/r^",
        "o/r`",
        "o/r|s",
        "ö/r",
        "o/r%",
        "o/r%2",
        "o/r%zz",
        "o/[r]",
        "o/r\x7f",
    ],
)
@pytest.mark.parametrize("start", ["https://github.com/", "ssh://git@github.com/", "git@github.com:"])
def test_an_address_has_the_letters_of_rfc_3986(start: str, path: str) -> None:
    with pytest.raises(SigningError, match="its address has letters that no address has"):
        source.parse(f"{start}{path}@v1")


@pytest.mark.parametrize(
    "host", ['git"hub.com', "gïthub.com", "git hub.com", "github.com:", "github.com:x", "[::1", "a<b>"]
)
def test_a_host_has_the_letters_of_rfc_3986(host: str) -> None:
    with pytest.raises(SigningError):
        source.parse(f"https://{host}/o/r@v1")


@pytest.mark.parametrize(
    "url", ["https://[::1]:3000/o/r", f"{URL}%20s", f"{URL}~s+a=b,c", "http://localhost/o/r"]
)
def test_an_odd_address_of_rfc_3986_is_taken(url: str) -> None:
    assert source.parse(f"{url}@v1") == source.Source(url, "v1")


def _git(folder: Path, *words: str) -> str:
    done = run(["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words])
    assert done.ok, done.output
    return done.output.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of two commits; the first has the annotated tag v1."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    for number in (1, 2):
        (folder / "f").write_text(str(number))
        _git(folder, "add", "-A")
        _git(folder, "commit", "-qm", "x")
        if number == 1:
            _git(folder, "tag", "-a", "v1", "-m", "x")
    return folder


def test_a_ref_is_compared_with_the_commit_of_each_wheel(checkout: Path) -> None:
    first, second = _git(checkout, "rev-parse", "HEAD~1"), _git(checkout, "rev-parse", "HEAD")
    for ref in ("v1", "refs/tags/v1", first):
        source.refuse_other(checkout, source.Source(URL, ref), {"a": Built(first, first)})
    for row, found in (
        (Built(second, second), f"it is commit {first}, and a was built at {second}"),
        (Built(first, second), f"the bundle of a was built at {second}"),
        (Built(f"{first}-dirty", first), f"at {first} with changes that nobody committed"),
        (Built("", ""), "at a commit that no note tells"),
    ):
        with pytest.raises(SigningError, match=found):
            source.refuse_other(checkout, source.Source(URL, "refs/tags/v1"), {"a": row})


def test_a_ref_that_the_checkout_lacks_is_refused_with_the_command_that_brings_it(checkout: Path) -> None:
    rows = {"a": Built("a" * 40, "a" * 40)}
    with pytest.raises(SigningError, match=re.escape(f"fetch {URL} refs/tags/v2:refs/tags/v2")):
        source.refuse_other(checkout, source.Source(URL, "refs/tags/v2"), rows)
    with pytest.raises(SigningError, match=re.escape(f"--source {URL}@refs/tags/v2")):
        source.refuse_other(checkout, source.Source(URL, "v2"), rows)


def test_the_command_refuses_before_it_writes(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "ROOT", checkout)
    monkeypatch.setattr("build_tools.release.provenance.dependencies", lambda _root: [])
    secret, _ = new_key(tmp_path, "one", "")
    dist = tmp_path / "dist"
    wheel = _wheel(dist, "aiter-prebuilt", "1")
    built.write(dist, [wheel], _git(checkout, "rev-parse", "HEAD"))
    before = {path.name: path.read_bytes() for path in dist.iterdir()}
    words = ["sign", str(dist), "--key", str(secret), "--source"]
    done = CliRunner().invoke(release, [*words, "git@github.com:o/r@refs/tags/v1"])
    assert isinstance(done.exception, SigningError) and "was built at" in str(done.exception)
    assert {path.name: path.read_bytes() for path in dist.iterdir()} == before
    done = CliRunner().invoke(release, [*words, "git@github.com:o/r.git@refs/heads/main"])
    assert done.exit_code == 0, done.exception
    told = json.loads((dist / f"{wheel.name}.provenance.json").read_text())["predicate"]["buildDefinition"]
    assert told["externalParameters"] == {"repository": f"{URL}.git", "ref": "refs/heads/main"}


def test_a_bundle_that_was_built_at_another_commit_is_noted_and_said(tmp_path: Path) -> None:
    bundles, dist = tmp_path / "bundles", tmp_path / "dist"
    bundles.mkdir()
    (bundles / "gfx942-ck-free.apb").write_bytes(b"bundle")
    wheel, plain = dist / "aiter_prebuilt_gfx942-1-py3-none-any.whl", _wheel(dist, "aiter-prebuilt", "1")
    write_members(wheel, {"aiter_prebuilt_bundles/gfx942-ck-free.apb": b"bundle"})
    built.write(dist, [wheel, plain], "b" * 40, bundles)
    assert built.known([wheel, plain]) == {
        wheel.name: Built("b" * 40, ""),
        plain.name: Built("b" * 40, "b" * 40),
    }
    notes.write_commits(bundles, {"gfx942-ck-free.apb": "0" * 64}, "a" * 40)
    assert notes.commit_of(bundles / "gfx942-ck-free.apb") == "", "it is of other bytes"
    notes.write_commits(
        bundles, {"gfx942-ck-free.apb": sha256_file(bundles / "gfx942-ck-free.apb")}, "a" * 40
    )
    built.write(dist, [wheel], "b" * 40, bundles)
    assert built.known([wheel])[wheel.name] == Built("b" * 40, "a" * 40)
    (line,) = built.differences([wheel, plain], "b" * 40)
    assert f"its bundle was built at {'a' * 40} and packed at {'b' * 40}" in line


def test_the_set_of_instances_that_the_build_was_asked_for_is_in_the_statement(tmp_path: Path) -> None:
    bundles, dist = tmp_path / "bundles", tmp_path / "dist"
    bundles.mkdir()
    wheel, plain = dist / "aiter_prebuilt_gfx942_ck-1-py3-none-any.whl", _wheel(dist, "aiter-prebuilt", "1")
    write_members(wheel, {"aiter_prebuilt_bundles/gfx942-ck-full.apb": b"bundle"})
    notes.write(bundles / "gfx942-ck-full.apb", {"ck": "curated"})
    built.write(dist, [wheel, plain], "b" * 40, bundles)
    built.write(dist, [plain], "b" * 40, bundles)
    rows = built.known([wheel, plain])
    assert (rows[wheel.name].ck, rows[plain.name].ck) == ("curated", "")
    for path, wanted in ((wheel, {"ck": "curated"}), (plain, {})):
        told = provenance.statement(path, rows[path.name], "b" * 40, [], provenance.Run())
        assert told["predicate"]["buildDefinition"]["externalParameters"] == wanted


def test_a_service_asks_before_anything_is_installed() -> None:
    words = [sys.executable, "-I", "-S", str(ROOT / "ci" / "release_source.py")]
    done = subprocess.run([*words, "git@github.com:o/r@v1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{URL}@v1\n"), done.stderr
    done = subprocess.run([*words, "/srv/r@v1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Type --source" in done.stderr and "Traceback" not in done.stderr
