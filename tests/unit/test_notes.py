"""Bundles know what they were made from: a stale one is not packed, and the bill of materials says what was compiled."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.installed import write_bundle

from aiter_prebuilt.contract.code_graph import CodeGraph
from build_tools.cases import golden
from build_tools.errors import WheelError
from build_tools.judge import receipts
from build_tools.judge.receipts import Receipt
from build_tools.manifest.model import Profile
from build_tools.pack import notes
from build_tools.pack.bundle import BuiltBundle
from build_tools.pack.wheel import write_wheels
from build_tools.pipeline import bundling, planning
from build_tools.records import PlannedBundle, TargetFacts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    for name in ("LICENSE", "one.hip", "two.hip", "manifests/norm.toml"):
        (tmp_path / name).write_text(f"{name} as it was compiled")
    pins = "manifests/toolchains.toml"
    (tmp_path / pins).write_bytes((Path(__file__).resolve().parents[2] / pins).read_bytes())
    return tmp_path


@pytest.fixture
def bundles(root: Path) -> Path:
    folder = root / "build" / "bundles"
    folder.mkdir(parents=True)
    for target, source in (("gfx942", "one.hip"), ("gfx950", "two.hip")):
        path = write_bundle(folder, target, "ck-free")
        sources = notes.hashes(root, {source, *notes.manifest_files(root)})
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        notes.write(path, {"key": "k", "sha256": digest, "sources": sources})
    return folder


def test_current_bundles_are_packed_with_the_sources_of_their_note(root: Path, bundles: Path) -> None:
    packed = write_wheels(root, bundles, root / "dist", runtime=False, unproved=("gfx942", "gfx950"))
    assert len(packed) == 2
    with zipfile.ZipFile(packed[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".cdx.json"))
        document = json.loads(wheel.read(name))
    files = {
        part["name"]: part["hashes"][0]["content"]
        for part in document["components"]
        if part["type"] == "file"
    }
    assert files == notes.hashes(root, ("one.hip", "manifests/norm.toml", "manifests/toolchains.toml"))


def test_golden_calls_are_packed_as_the_build_wrote_them(root: Path, bundles: Path) -> None:
    """A wheel has those that the bundle's note tells of; missing or changed ones are refused, and not left out."""
    calls, path = bundles / "gfx942-ck-free.calls", bundles / "gfx942-ck-free.apb"
    calls.write_bytes(b"as the build wrote it")
    digest = hashlib.sha256(calls.read_bytes()).hexdigest()
    notes.write(path, notes.read(path) | {"calls": {"key": "k", "sha256": digest}})
    packed = write_wheels(root, bundles, root / "dist", runtime=False, unproved=("gfx942", "gfx950"))
    found = {
        name: zipfile.ZipFile(wheel).read(name)
        for wheel in packed
        for name in zipfile.ZipFile(wheel).namelist()
    }
    assert found["aiter_prebuilt_bundles/gfx942-ck-free.calls"] == b"as the build wrote it"
    assert "aiter_prebuilt_bundles/gfx950-ck-free.calls" not in found, "its note tells of none"
    for deed in (lambda: calls.write_bytes(b"other"), calls.unlink):
        deed()
        with pytest.raises(
            WheelError, match=r"gfx942-ck-free\.calls: it is missing, or not what the build wrote"
        ):
            write_wheels(root, bundles, root / "dist", runtime=False, unproved=("gfx942", "gfx950"))


def test_golden_calls_are_written_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Again when what they are made from changed, or the file did."""
    bundle = BuiltBundle(tmp_path / "gfx950-ck-free.apb", "gfx950", "ck-free", "d", 1, 1, 1, 1, "0", 0)
    notes.write(bundle.path, {"key": "k"})
    made: list[object] = []
    keys = ["one"]

    def stream(self: object, *words: object) -> bytes:
        made.append(words)
        return b"%d" % len(made)

    monkeypatch.setattr(golden.Golden, "stream", stream)
    monkeypatch.setattr(golden, "key", lambda folder, names: keys[-1])
    facts = TargetFacts("gfx950", "", "amd", 64, 163840, 512, 102, "e4m3fn", 9500, (256,), (), 0x4F, "d", "e")
    planned, path = PlannedBundle(facts, "ck-free", ()), tmp_path / "gfx950-ck-free.calls"
    deeds: list[tuple[Callable[[], object], int]] = [
        (lambda: None, 1),
        (lambda: None, 1),
        (lambda: keys.append("two"), 2),
        (path.unlink, 3),
    ]
    for deed, count in deeds:
        if made:
            deed()
        bundling._golden_calls(planned, bundle, golden.Golden(None, tmp_path, frozenset()))  # type: ignore[arg-type]
        assert len(made) == count and path.read_bytes() == b"%d" % count
    assert notes.read(bundle.path)["key"] == "k"


def test_a_bundle_older_than_its_source_is_named(root: Path, bundles: Path) -> None:
    (root / "two.hip").write_text("edited")
    with pytest.raises(
        WheelError, match=r"gfx950-ck-free\.apb: two\.hip changed since.*build_tools build"
    ) as caught:
        write_wheels(root, bundles, root / "dist", runtime=False, unproved=("gfx942", "gfx950"))
    assert "gfx942" not in str(caught.value)
    assert list((root / "dist").iterdir()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda root: (root / "one.hip").unlink(), "gfx942-ck-free.apb: one.hip changed"),
        (lambda root: (root / "manifests/new.toml").write_text(""), "manifests/new.toml changed"),
        (lambda root: (root / "build/bundles/gfx942-ck-free.json").unlink(), "gfx942-ck-free.json is missing"),
        (lambda root: (root / "build/bundles/gfx942-ck-free.json").write_text("{}"), "says nothing about sources"),
        (lambda root: (root / "build/bundles/gfx942-ck-free.json").write_text('{"sources": {}}'), "other bytes"),
        (lambda root: (root / "build/compile.json").write_text("{"), "compile.json cannot be read"),
        (lambda root: (root / "build/compile.json").write_text("{}"), "compile.json cannot be read"),
    ],
)  # fmt: skip
def test_what_else_makes_a_bundle_stale(root: Path, bundles: Path, change: object, said: str) -> None:
    assert callable(change)
    change(root)
    with pytest.raises(WheelError) as caught:
        write_wheels(root, bundles, root / "dist", runtime=False, unproved=("gfx942", "gfx950"))
    assert said in str(caught.value)


def test_stale_bundles_are_named(root: Path, bundles: Path) -> None:
    """For ``status`` and ``coverage``, which count from bundles."""
    before = notes.stale_in(root, bundles)
    note = json.loads((bundles / "gfx942-ck-free.json").read_text())
    source = root / next(name for name in note["sources"] if (root / name).is_file())
    source.write_text(source.read_text() + "\n")
    after = notes.stale_in(root, bundles)
    assert len(after) > len(before) and any(
        line.startswith("gfx942-ck-free.apb: ") for line in after if line not in before
    )


def test_an_unchanged_bundle_gets_the_sources_of_the_last_build(root: Path, bundles: Path) -> None:
    path = bundles / "gfx942-ck-free.apb"
    data = path.read_bytes()
    built = BuiltBundle(
        path, "gfx942", "ck-free", "d", 1, 1, 300, len(data), hashlib.sha256(data).hexdigest(), 1
    )
    rest = {name: getattr(built, name) for name in BuiltBundle.__slots__ if name != "path"}
    notes.write(path, {"key": "k", "sources": {}, **rest})
    assert bundling._unchanged(path, "other", {"one.hip": "x"}) is None
    assert bundling._unchanged(path, "k", {"one.hip": "x"}) == built
    assert notes.read(path)["sources"] == {"one.hip": "x"}


def test_keys_cover_the_code_that_plans_and_bundles() -> None:
    """Derived from imports: a new file of theirs counts without a list that somebody keeps."""
    graph = CodeGraph({"build_tools": ROOT / "build_tools", "aiter_prebuilt": ROOT / "src/aiter_prebuilt"})
    planner = {module.rpartition(".")[2] for module, _ in graph.reachable([planning.PLANNER])}
    assert {"assumptions", "expression", "grammar", "plan", "recipe", "rules", "real"} <= planner
    maker = {module.rpartition(".")[2] for module, _ in graph.reachable([bundling.MAKER])}
    assert {
        "audit",
        "bundle",
        "codeobject",
        "cubin",
        "elf",
        "header",
        "records",
        "structs",
        "subdword_access",
    } <= maker


def test_a_bundle_is_made_again_when_anything_that_makes_it_changes() -> None:
    """Also the code that judges and encodes, and the profile's rules: an old bundle must never pass for a new one."""
    target = TargetFacts(
        "gfx942", "", "amd", 64, 65536, 512, 102, "e4m3fnuz", 9402, (304,), (), 0x4C, "d", "e"
    )
    planned = PlannedBundle(target, "ck-free", ())
    profile = Profile(title="t", backends=["hip"], targets=["gfx942"])
    receipt = Receipt("00", "f", "a.b", "", "gfx942", "d", "", frozenset(), "r", "c", 1, 0.5, {})
    maker = ("build_tools.files.filehash", "sha256_file")
    nothing = receipts.proofs_of({})
    keys = {bundling.bundle_key(planned, [], {}, profile, nothing, maker)}
    assert keys == {bundling.bundle_key(planned, [], {}, profile, nothing, maker)}
    for changed in ({"suffix": "-x"}, {"forbidden_symbols": ["ck"]}):
        keys.add(bundling.bundle_key(planned, [], {}, profile.model_copy(update=changed), nothing, maker))
    keys.add(bundling.bundle_key(planned, [], {"zig": "2"}, profile, nothing, maker))
    keys.add(bundling.bundle_key(planned, [], {}, profile, receipts.proofs_of({"00": receipt}), maker))
    keys.add(bundling.bundle_key(planned, [], {}, profile, nothing, bundling.MAKER))
    assert len(keys) == 6


def test_calls_that_fill_the_bridges_data_wheels_make_no_bundle_stale(root: Path) -> None:
    (root / "manifests" / "bridge").mkdir()
    (root / "manifests" / "bridge" / "triton.toml").write_text("edition = 1\n")
    found = notes.manifest_files(root)
    assert "manifests/norm.toml" in found and "manifests/bridge/triton.toml" not in found
