"""Data wheels: which bundles are refused and in which words, what a wheel says of itself, and all wheels of a build or none."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from support.bundles import blob, small_operator, small_root
from support.installed import data_wheel, write_bundle

from aiter_prebuilt.contract.records import Root
from build_tools.errors import WheelError
from build_tools.pack import notes, sbom, wheel, writer
from build_tools.pack.wheel import Payload
from build_tools.tools import pins

ROOT = Path(__file__).resolve().parents[2]
AGAIN = "Run python -m build_tools build and then this command again"


def bundle(
    folder: Path, root: Root | None = None, name: str = "gfx942-ck-free.apb", backend: int = 1
) -> Path:
    made = small_operator("once")
    made = replace(made, kernels=(replace(made.kernels[0], backend=backend),))
    frame = writer.Frame(blob(0), 300, hashlib.sha256(blob(0)).digest(), "raw")
    path = folder / name
    path.write_bytes(writer.encode(root or small_root(), (made,), (frame,)))
    return path


def refused(path: Path) -> tuple[str, str]:
    """What is found, and what to do."""
    with pytest.raises(WheelError) as caught:
        wheel.read_payload(path)
    assert caught.value.asked == f"pack {path}"
    return caught.value.found, caught.value.fix


def test_a_payload_is_what_the_bundle_says(tmp_path: Path) -> None:
    path = bundle(tmp_path, replace(small_root(), provenance='{"tools":{"zig":"1"},"cus":[304]}'))
    found = wheel.read_payload(path)
    assert (found.data, found.calls, found.target, found.profile) == (
        path.read_bytes(),
        None,
        "gfx942",
        "ck-free",
    )
    assert (found.distribution, found.version) == ("aiter-prebuilt-gfx942", "0.1.0")
    assert (found.tools, found.backends) == ({"zig": "1"}, ("hip",))
    assert [entry.name for entry in found.entries] == ["gfx942-hip-once"]
    assert found.unproved == "1 of its 1 entries were not executed on any device before they shipped."


@pytest.mark.parametrize(
    ("backend", "vendor", "name"),
    [(3, 0, "triton"), (3, 1, "triton-nvidia"), (1, 1, "hip-nvidia"), (1, 0, "hip"), (0, 1, "asm")],
)
def test_licences_of_triton_depend_on_the_vendor(
    tmp_path: Path, backend: int, vendor: int, name: str
) -> None:
    path = bundle(tmp_path, replace(small_root(), vendor=vendor), backend=backend)
    assert wheel.read_payload(path).backends == (name,)


def test_what_is_no_bundle_of_this_version_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "gfx942-ck-free.apb"
    found, fix = refused(missing)
    assert "No such file" in found and fix == AGAIN
    path = bundle(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert refused(path)[1] == AGAIN, "a code object is damaged, and nothing before it"
    older = bundle(tmp_path, replace(small_root(), version="0.0.9"))
    assert refused(older) == ("the bundle was built for version 0.0.9, this is 0.1.0", AGAIN)
    renamed = bundle(tmp_path, name="gfx950-ck-free.apb")
    assert refused(renamed) == (
        "the bundle says that it is gfx942 ck-free",
        "Rename it back, or build it again",
    )
    named = bundle(tmp_path, replace(small_root(), distribution="Aiter_Prebuilt"))
    assert refused(named) == (
        "'Aiter_Prebuilt' is no normalised distribution name",
        "Mend manifests/targets.toml",
    )


def payload(**changes: Any) -> Payload:
    told: dict[str, Any] = {
        "data": b"", "calls": None, "target": "gfx942", "profile": "ck-free", "distribution": "aiter-prebuilt-gfx942",
        "version": "0.1.0", "tools": {}, "backends": (), "entries": (),
    }  # fmt: skip
    return Payload(**(told | changes))


def test_what_a_wheel_says_of_itself(tmp_path: Path) -> None:
    proved = wheel.about(payload())
    assert (proved.tag, proved.pure) == ("py3-none-any", True)
    assert proved.summary == "Code objects of aiter-prebuilt for gfx942, profile ck-free"
    assert proved.requires == ("aiter-prebuilt==0.1.0",)
    assert proved.description.endswith("Nothing here is imported; the runtime finds the file.\n")
    entries = wheel.read_payload(bundle(tmp_path)).entries
    unproved = "1 of its 1 entries were not executed on any device before they shipped."
    told = wheel.about(payload(entries=entries))
    assert told.summary == f"{proved.summary}. {unproved}"
    assert told.description == f"{proved.description}{unproved}\n"
    more = wheel.about(payload(distribution="aiter-prebuilt-gfx942-ck", profile="ck-full"))
    assert more.requires == ("aiter-prebuilt==0.1.0", "aiter-prebuilt-gfx942==0.1.0")


def test_one_wheel_has_the_bundle_its_calls_and_its_sources(tmp_path: Path) -> None:
    path = bundle(tmp_path)
    path.with_suffix(".calls").write_bytes(b"calls")
    digest = hashlib.sha256(b"calls").hexdigest()
    notes.write(path, {"calls": {"sha256": digest}, "sources": {"a.hip": "a" * 64}})
    made = data_wheel(path, tmp_path / "dist")
    assert made == tmp_path / "dist" / "aiter_prebuilt_gfx942-0.1.0-py3-none-any.whl"
    with ZipFile(made) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    assert {name: data for name, data in inside.items() if ".dist-info/" not in name} == {
        "aiter_prebuilt_bundles/gfx942-ck-free.apb": path.read_bytes(),
        "aiter_prebuilt_bundles/gfx942-ck-free.calls": b"calls",
    }
    bill = next(json.loads(data) for name, data in inside.items() if name.endswith(".cdx.json"))
    files = {part["name"] for part in bill["components"] if part["type"] == "file"}
    assert files == {"a.hip"}
    by_hand = bundle(tmp_path, replace(small_root(), target="gfx950"), "gfx950-ck-free.apb")
    assert data_wheel(by_hand, tmp_path / "dist").is_file(), "it needs no note"


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """What a build that ended well leaves."""
    jobs = [{"id": "one", "ok": True}, {"id": "two", "ok": True}]
    (tmp_path / "compile.json").write_text(json.dumps({"jobs": jobs, "planned": 2}))
    (tmp_path / "report.json").write_text("{}")
    for name in ("compile.json", "report.json"):
        os.utime(tmp_path / name, ns=(10**18, 10**18))
    return tmp_path


REFUSED = "the last build compiled everything and then refused a code object"


def test_a_build_that_ended_well_may_be_packed(reports: Path) -> None:
    wheel.refuse_failed_build(reports)
    os.utime(reports / "report.json", ns=(10**18 + 1, 10**18 + 1))
    wheel.refuse_failed_build(reports)
    (reports / "compile.json").unlink()
    wheel.refuse_failed_build(reports)
    (reports / "report.json").unlink()
    wheel.refuse_failed_build(reports)


def test_a_job_that_the_build_left_out_is_no_failure(reports: Path) -> None:
    compiled(True, False)(reports)
    os.utime(reports / "compile.json", ns=(10**18, 10**18))
    (reports / "report.json").write_text(json.dumps({"left_out": [{"entry": "job1"}]}))
    wheel.refuse_failed_build(reports)
    (reports / "report.json").write_text(json.dumps({"left_out": [{"entry": "job0"}]}))
    with pytest.raises(WheelError, match="1 jobs of the last build failed, job1 first"):
        wheel.refuse_failed_build(reports)


def test_a_wheel_of_a_checkout_says_so(tmp_path: Path) -> None:
    payload = wheel.read_payload(
        bundle(tmp_path, replace(small_root(), target="gfx942"), "gfx942-ck-free.apb")
    )
    assert payload.unpinned == ""
    payload = replace(payload, tools={**payload.tools, "aiter": "unpinned (AITER_DIR)"})
    told = wheel.about(payload)
    assert told.summary.endswith("It was made of files of aiter that are not the pinned ones.")
    assert "It was made of files of aiter that are not the pinned ones." in told.description
    name = "aiter:hsa/gfx942/k.co"
    assert (
        sbom.upstream_name(name, pins.load(ROOT), payload.tools)
        == "aiter unpinned (AITER_DIR): hsa/gfx942/k.co"
    )
    assert sbom.upstream_name(name, pins.load(ROOT), {}).startswith("amd-aiter 0.1.7")


def compiled(*rights: bool, planned: object = 2) -> Callable[[Path], object]:
    jobs = [{"id": f"job{place}", "ok": right} for place, right in enumerate(rights)]
    return lambda folder: (folder / "compile.json").write_text(json.dumps({"jobs": jobs, "planned": planned}))


@pytest.mark.parametrize(
    ("deed", "found"),
    [
        (compiled(True, False), "1 jobs of the last build failed, job1 first"),
        (compiled(False, False, True), "2 jobs of the last build failed, job0 first"),
        (compiled(True), "the last build was interrupted after 1 of 2 jobs"),
        (compiled(), "the last build was interrupted after 0 of 2 jobs"),
        (lambda folder: (folder / "report.json").unlink(), REFUSED),
        (lambda folder: os.utime(folder / "report.json", ns=(10**18 - 1, 10**18 - 1)), REFUSED),
        (compiled(True, True, planned="many"), "cannot be read (invalid literal"),
        (compiled(True, True, planned=None), "cannot be read (int() argument"),
        (lambda folder: (folder / "compile.json").write_bytes(b"\xff"), "cannot be read ('utf-8' codec"),
        (lambda folder: (folder / "compile.json").write_text("[]"), "cannot be read (list indices"),
    ],
)  # fmt: skip
def test_a_build_that_did_not_may_not(reports: Path, deed: Callable[[Path], object], found: str) -> None:
    deed(reports)
    with pytest.raises(WheelError) as caught:
        wheel.refuse_failed_build(reports)
    assert caught.value.asked == "pack wheels" and found in caught.value.found
    assert caught.value.fix == "Run python -m build_tools build, mend what it says, and pack again"


def current(folder: Path, *targets: str) -> Path:
    """A folder of bundles that are as the sources are."""
    folder.mkdir(parents=True)
    sources = notes.hashes(ROOT, notes.manifest_files(ROOT))
    for target in targets:
        path = write_bundle(folder, target, "ck-free")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        notes.write(path, {"sha256": digest, "sources": sources})
    return folder


def test_all_wheels_of_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's and the emulator's are made at the same time, and come last but for the bridge's."""

    def maker(name: str) -> Callable[[Path, Path], Path]:
        def make(root: Path, folder: Path) -> Path:
            assert root == ROOT and list(folder.glob("*gfx942*.whl"))
            (folder / name).write_bytes(b"")
            return folder / name

        return make

    monkeypatch.setattr(wheel, "build_runtime_wheel", maker("runtime.whl"))
    monkeypatch.setattr(wheel, "build_emulator_wheel", maker("emulator.whl"))
    monkeypatch.setattr(wheel, "build_bridge_wheel", maker("bridge.whl"))
    bundles, dist = current(tmp_path / "build" / "bundles", "gfx950", "gfx942"), tmp_path / "a" / "dist"
    data = [f"aiter_prebuilt_{target}-0.1.0-py3-none-any.whl" for target in ("gfx942", "gfx950")]
    made = wheel.write_wheels(ROOT, bundles, dist, unproved=("all",))
    assert made == tuple(dist / name for name in (*data, "runtime.whl", "emulator.whl", "bridge.whl"))
    assert sorted(dist.iterdir()) == sorted(made), "and nothing else is left"
    made = wheel.write_wheels(ROOT, bundles, dist, runtime=False, unproved=("all",))
    assert [path.name for path in made] == data


def test_a_wheel_that_fails_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(root: Path, folder: Path) -> Path:
        raise WheelError("a", "b", "c")

    monkeypatch.setattr(wheel, "build_runtime_wheel", fail)
    monkeypatch.setattr(wheel, "build_emulator_wheel", fail)
    bundles = current(tmp_path / "build" / "bundles", "gfx942")
    with pytest.raises(WheelError):
        wheel.write_wheels(ROOT, bundles, tmp_path / "dist", unproved=("all",))
    assert list((tmp_path / "dist").iterdir()) == []
    empty = tmp_path / "build" / "none"
    with pytest.raises(WheelError, match=rf"no bundle in {empty}. Run python -m build_tools build first"):
        wheel.write_wheels(ROOT, empty, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_bundle_of_a_few_operators_is_no_wheel(tmp_path: Path) -> None:
    notes.write(tmp_path / "a.apb", {"operators": ["silu", "topk"]})
    notes.write(tmp_path / "b.apb", {"key": "whole"})
    with pytest.raises(WheelError) as caught:
        wheel.refuse_partial([tmp_path / "a.apb", tmp_path / "b.apb"])
    assert caught.value.found == "a.apb was built for silu, topk alone"
    wheel.refuse_partial([tmp_path / "b.apb", tmp_path / "none.apb"])


def test_stale_bundles_are_named_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"a.apb": "one changed", "b.apb": "", "c.apb": "two changed"}
    monkeypatch.setattr(notes, "stale", lambda root, path: reasons[path.name])
    with pytest.raises(WheelError) as caught:
        wheel.refuse_stale(tmp_path, [Path(name) for name in reasons])
    assert caught.value.found == "a.apb: one changed; c.apb: two changed"
    wheel.refuse_stale(tmp_path, [Path("b.apb")])
