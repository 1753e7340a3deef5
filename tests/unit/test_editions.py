"""Editions: a commit's files beside those of a pinned wheel, compared with the pin whatever brings them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support import repository

from aiter_prebuilt.commands import doctor_text
from aiter_prebuilt.contract import provenance
from build_tools.cases import make, table
from build_tools.cases.receipt_state import meanings
from build_tools.cases.subject import subjects
from build_tools.compile.inputs import inputs_of
from build_tools.errors import FetchError, ManifestError, UsageError
from build_tools.files.filehash import FileHashes
from build_tools.plan.plan import make_plan
from build_tools.release import mirror_build
from build_tools.report.left_out import LeftOut, Reason
from build_tools.tools import editions, fetch, pins, tree
from build_tools.tools.pins import EditionPin

ROOT = Path(__file__).resolve().parents[2]
FILES = {"hsa/gfx942/one.co": b"one\r\n", "csrc/kernel.cu": b"// kernel\n", "other/left.txt": b"not read\n"}


@dataclass
class Upstream:
    """A repository with one commit, its pin, and an empty cache."""

    checkout: Path
    cache: Path
    pin: EditionPin


def git(folder: Path, *words: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *names, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Upstream:
    for name in (editions.VARIABLE, "THING_NEW_DIR", fetch.SDISTS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "cache"))
    checkout = tmp_path / "upstream"
    for name, data in FILES.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_bytes(data)
    git(checkout, "init", "-q")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "first")
    pin = EditionPin(
        "thing-new", "thing", "test", checkout.as_uri(), git(checkout, "rev-parse", "HEAD"), "0" * 64,
        "THING_NEW_DIR", {"hsa": "hsa", "csrc": "csrc"},
    )  # fmt: skip
    told = editions.list_of(pin, checkout, FileHashes(tmp_path / "hashes.json"))
    digest = hashlib.sha256(told.encode()).hexdigest()
    return Upstream(checkout, tmp_path / "cache", replace(pin, sha256=digest))


def test_a_fetched_edition_has_the_bytes_of_the_commit_below_its_roots(upstream: Upstream) -> None:
    place = editions.fetch(upstream.pin, upstream.cache)
    found = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert found == {"hsa/gfx942/one.co", "csrc/kernel.cu"}
    assert (place / "hsa/gfx942/one.co").read_bytes() == FILES["hsa/gfx942/one.co"]
    assert editions.folder_of(upstream.pin, upstream.cache, "") == place
    shutil.rmtree(upstream.checkout)
    assert editions.fetch(upstream.pin, upstream.cache) == place  # nobody is asked again


def test_what_was_not_fetched_is_an_error_with_the_command(upstream: Upstream) -> None:
    with pytest.raises(FetchError, match=r"fetch --edition new\. Or name a copy: THING_NEW_DIR=FOLDER"):
        editions.folder_of(upstream.pin, upstream.cache, "")


def test_an_address_that_has_no_such_commit_leaves_nothing(upstream: Upstream, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="git: exit code"):
        editions.fetch(replace(upstream.pin, commit="1" * 40), upstream.cache)
    with pytest.raises(FetchError, match="git: exit code"):
        editions.fetch(upstream.pin, upstream.cache, str(tmp_path / "nowhere"))
    assert not [path for path in (upstream.cache / "trees").iterdir() if path.is_dir()]


def test_a_commit_with_other_files_than_pinned_leaves_nothing(upstream: Upstream) -> None:
    other = replace(upstream.pin, sha256="f" * 64)
    with pytest.raises(FetchError, match=r"its files are not those of .*Do not use"):
        editions.fetch(other, upstream.cache)
    assert not editions.place_of(other, upstream.cache).exists()


def change(upstream: Upstream) -> None:
    (upstream.checkout / "csrc/kernel.cu").write_bytes(b"// another\n")


def commit(upstream: Upstream) -> None:
    change(upstream)
    git(upstream.checkout, "commit", "-qam", "second")


def lose(upstream: Upstream) -> None:
    shutil.rmtree(upstream.checkout / ".git")
    (upstream.checkout / "csrc/kernel.cu").unlink()


def add(upstream: Upstream) -> None:
    shutil.rmtree(upstream.checkout / ".git")
    (upstream.checkout / "csrc/more.cu").write_bytes(b"")


def link(upstream: Upstream) -> None:
    shutil.rmtree(upstream.checkout / ".git")
    (upstream.checkout / "csrc/kernel.cu").unlink()
    (upstream.checkout / "csrc/kernel.cu").symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (change, "changed since the commit: csrc/kernel.cu"), (commit, "it is a checkout of "), (lose, "its files are not those"),
        (add, "its files are not those"), (link, "it is no regular file"),
    ],
)  # fmt: skip
def test_a_copy_with_other_files_is_refused(
    upstream: Upstream, spoil: Callable[[Upstream], None], said: str
) -> None:
    whole = editions.folder_of(upstream.pin, upstream.cache, str(upstream.checkout))
    assert whole == upstream.checkout
    spoil(upstream)
    with pytest.raises(FetchError, match=said):
        editions.folder_of(upstream.pin, upstream.cache, str(upstream.checkout))


def test_what_python_leaves_in_a_copy_is_no_difference(upstream: Upstream) -> None:
    shutil.rmtree(upstream.checkout / ".git")
    (upstream.checkout / "csrc/__pycache__").mkdir()
    (upstream.checkout / "csrc/__pycache__/kernel.pyc").write_bytes(b"made")
    assert editions.folder_of(upstream.pin, upstream.cache, str(upstream.checkout)) == upstream.checkout


def test_a_mirrors_archive_serves_without_git(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    name = f"{upstream.pin.folder}.zip"
    editions.pack(upstream.pin, upstream.checkout, shelf / name)
    editions.pack(upstream.pin, upstream.checkout, shelf / "again.zip")
    assert (shelf / name).read_bytes() == (shelf / "again.zip").read_bytes()
    shutil.rmtree(upstream.checkout)
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(shelf))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    place = editions.fetch(upstream.pin, upstream.cache)
    assert (place / "csrc/kernel.cu").read_bytes() == FILES["csrc/kernel.cu"]


def test_a_damaged_or_foreign_archive_is_refused(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / f"{upstream.pin.folder}.zip"
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(tmp_path))
    archive.write_bytes(b"PK no archive")
    with pytest.raises(FetchError, match=r"Carry .* again"):
        editions.fetch(upstream.pin, upstream.cache)
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("../../outside.txt", b"outside")
        made.writestr("hsa/gfx942/one.co", b"another")
    with pytest.raises(FetchError, match="its files are not those"):
        editions.fetch(upstream.pin, upstream.cache)
    assert not list(tmp_path.rglob("outside.txt"))


def test_the_callers_repository_is_not_touched(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git's hooks run with these variables."""
    other = tmp_path / "other"
    shutil.copytree(upstream.checkout, other)
    before = (other / ".git/index").read_bytes()
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    (other / "csrc/more.cu").write_bytes(b"more")
    editions.fetch(upstream.pin, upstream.cache)
    assert (other / ".git/index").read_bytes() == before


def test_an_archive_whose_data_are_damaged_is_refused(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / f"{upstream.pin.folder}.zip"
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(tmp_path))
    editions.pack(upstream.pin, upstream.checkout, archive)
    data = bytearray(archive.read_bytes())
    start = data.index(b"csrc/kernel.cu") + len("csrc/kernel.cu")
    data[start : start + 4] = b"\xff\xff\xff\xff"
    archive.write_bytes(bytes(data))
    with pytest.raises(FetchError, match=r"Carry .* again"):
        editions.fetch(upstream.pin, upstream.cache)


def test_a_copy_that_is_not_there_is_named(upstream: Upstream) -> None:
    with pytest.raises(FetchError, match="there is no such folder"):
        editions.folder_of(upstream.pin, upstream.cache, "/nowhere")


def test_without_git_the_remedy_is_a_mirror(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(FetchError, match=r"git is not installed\. Install git, or put thing-new-.*\.zip"):
        editions.fetch(upstream.pin, upstream.cache)


def test_an_unknown_edition_is_named(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(editions.VARIABLE, "new,2031-01")
    with pytest.raises(UsageError, match=r"'2031-01'.*The editions are new"):
        editions.requested([upstream.pin])
    monkeypatch.setenv(editions.VARIABLE, "new,")
    assert editions.requested([upstream.pin]) == (upstream.pin,)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('of = "aiter"', 'of = "nothing"', "name must be a tree, a hyphen and the edition"),
        ('commit = "e40486', 'commit = "x40486', "commit: not 40 hexadecimal digits"),
        ('sha256 = "dfb28a63', 'sha256 = "dfb', "not 64 hexadecimal digits"),
        ("[editions.roots]", "[editions.other]", "other: unknown key"),
    ],
)
def test_a_wrong_pin_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (ROOT / pins.FILE).read_text()
    assert old in text
    (tmp_path / "manifests").mkdir()
    (tmp_path / pins.FILE).write_text(text.replace(old, new))
    with pytest.raises(ManifestError, match=said):
        pins.load(tmp_path)


def test_a_build_without_the_edition_reads_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from build_tools.manifest.parse import load

    monkeypatch.delenv(editions.VARIABLE, raising=False)
    monkeypatch.setenv("AITER_2026_08_DIR", "/nowhere")  # would be an error where it was read
    assert not tree.is_read("aiter-2026-08:hsa/x", ROOT) and tree.is_read("aiter:hsa/x", ROOT)
    manifest = load(ROOT / "manifests")
    families = {"gemm_asm": manifest.families["gemm_asm"]}
    manifest = manifest.model_copy(update={"families": families})
    plan = make_plan(manifest, ROOT, inputs_of(ROOT), prove=False)
    assert plan.jobs and not [job for job in plan.jobs if job.source.startswith("aiter-2026-08:")]
    monkeypatch.setenv(editions.VARIABLE, "2026-08")
    with pytest.raises(FetchError, match=r"2026-08 in /nowhere: there is no such folder"):
        make_plan(manifest, ROOT, inputs_of(ROOT), prove=False)


def test_a_call_of_a_tree_is_made_where_the_bundles_have_its_files() -> None:
    manifest = repository.manifest()
    known = table.load(
        ROOT / "manifests",
        [each for each in subjects(manifest) if each.family == "gemm_asm"],
        manifest.targets,
    )
    cases, facts = known["gemm_a16w16_asm"], manifest.targets["gfx950"]
    every = [
        bound.words.tree for bound in make.bounds(cases, "gfx950", facts, trees={"aiter", "aiter-2026-08"})
    ]
    without = [bound.words.tree for bound in make.bounds(cases, "gfx950", facts, trees={"aiter"})]
    assert set(without) == {""} and set(every) == {"", "aiter-2026-08"}
    assert every.count("") == len(without)


def test_receipts_of_kernels_of_a_tree_that_a_build_leaves_out_are_kept() -> None:
    manifest = repository.manifest()
    mine = ("gemm_a16w16_asm", "bf16gemm_fp32bf16")
    assert mine in manifest.of_other_trees({"aiter"})
    assert ("gemm_a16w16_asm", "bf16gemm") not in manifest.of_other_trees({"aiter"})
    assert not [place for place in manifest.of_other_trees({"aiter", "aiter-2026-08"}) if place == mine]


def test_a_call_of_a_tree_is_no_part_of_the_state_of_other_receipts(tmp_path: Path) -> None:
    for name in ("manifests/softmax", "src/aiter_prebuilt/ops"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "manifests/targets.toml", tmp_path / "manifests")
    before = meanings(tmp_path / "manifests")
    place = tmp_path / "manifests/softmax/cases.toml"
    text = place.read_text()
    place.write_text(text.replace("calls = [", 'calls = [\n  "tree=aiter-2026-08 M=3 N=5",'))
    assert meanings(tmp_path / "manifests") == before
    place.write_text(text.replace("calls = [", 'calls = [\n  "M=3 N=5",'))
    assert meanings(tmp_path / "manifests") != before


def test_reasons_about_an_edition_that_is_not_read_are_not_asked_for() -> None:
    reasons = LeftOut((Reason(files=["thing:a/*", "thing-new:a/*"], reason="why"),))
    there = frozenset({"thing:a/x"})
    assert reasons.problems(there, frozenset())
    assert not reasons.without_trees(("thing-new",)).problems(there, frozenset())


def test_a_mirror_carries_the_editions_that_are_asked_for(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = pins.Pins({}, {}, {}, {upstream.pin.name: upstream.pin})
    packages = tmp_path / "packages"
    packages.mkdir()
    said: list[str] = []
    assert mirror_build._editions(pinned, packages, said.append) == "" and not list(packages.iterdir())
    monkeypatch.setenv(editions.VARIABLE, "new")
    monkeypatch.setenv("THING_NEW_DIR", str(upstream.checkout))
    page = mirror_build._editions(pinned, packages, said.append)
    assert "fetch --edition new" in page and said == ["the edition new"]
    monkeypatch.delenv("THING_NEW_DIR")
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(packages))
    shutil.rmtree(upstream.checkout)
    assert (editions.fetch(upstream.pin, upstream.cache) / "csrc/kernel.cu").is_file()


def test_a_bundle_says_its_editions() -> None:
    told = json.dumps({"trees": {"aiter": "0.1.7", "aiter-2026-08": "e404", "own-tree": "1"}})
    assert provenance.editions(told) == ("aiter-2026-08",)
    assert provenance.editions("no JSON") == ()
    row = {
        "target": "gfx950",
        "profile": "ck-free",
        "ok": True,
        "operators": 3,
        "why": "ready",
        "editions": ["aiter-2026-08"],
    }
    report = {"bundles": [row], "overlaps": [], "shadowed": []}
    assert list(doctor_text._bundles(report)) == [
        "Bundle gfx950 (ck-free): 3 operators, with aiter-2026-08, ready"
    ]
