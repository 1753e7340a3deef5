"""What packing says: notes beside bundles, refusals of what is not proved, licences, and the bill of materials."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from build_tools.errors import UnprovedError
from build_tools.objects.entries import BuiltEntry
from build_tools.pack import dist_info, licences, notes, sbom
from build_tools.pack.unproved import refuse_unproved, said
from build_tools.tools import pins

ROOT = Path(__file__).resolve().parents[2]
PINS = pins.load(ROOT)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle with a note, made from two sources and from all kinds of files below ``manifests``."""
    names = (
        "a.hip", "b.hip", "manifests/t.toml", "manifests/deep/rows.csv", "manifests/norm/reference.py",
        "manifests/norm/cases.toml", "manifests/norm/receipts.json", "manifests/README.md", "manifests/other.json",
        "manifests/receipts.json",
    )  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    path = tmp_path / "gfx942-ck-free.apb"
    path.write_bytes(b"bundle")
    sources = notes.hashes(tmp_path, {"a.hip", "b.hip", *notes.manifest_files(tmp_path)})
    notes.write(path, {"sources": sources, "sha256": hashlib.sha256(b"bundle").hexdigest()})
    return path


def test_the_files_that_bundles_and_golden_calls_are_made_from(bundle: Path) -> None:
    assert notes.manifest_files(bundle.parent) == {
        "manifests/t.toml", "manifests/deep/rows.csv", "manifests/norm/reference.py", "manifests/norm/cases.toml",
        "manifests/norm/receipts.json",
    }  # fmt: skip


def test_a_note_is_read_as_it_was_written(bundle: Path) -> None:
    path = notes.path_of(bundle)
    assert path == bundle.with_suffix(".json")
    notes.write(bundle, {"b": [1], "a": {}})
    assert path.read_bytes() == b'{\n "a": {},\n "b": [\n  1\n ]\n}\n'
    assert notes.read(bundle) == {"a": {}, "b": [1]}
    for text in (b"[1]", b"{", b"\xff", b"3"):
        path.write_bytes(text)
        assert notes.read(bundle) == {}
    path.unlink()
    assert notes.read(bundle) == {}


def test_hashes_are_of_files_that_are_there(bundle: Path) -> None:
    found = notes.hashes(bundle.parent, ["b.hip", "missing", "manifests", "a.hip", "b.hip"])
    assert list(found.items()) == [
        (name, hashlib.sha256(name.encode()).hexdigest()) for name in ("a.hip", "b.hip")
    ]


def test_what_changed_since_is_named(bundle: Path) -> None:
    """Three of them; and each kind of a proof only where it counts."""
    root = bundle.parent
    assert notes.stale(root, bundle) == notes.stale(root, bundle, proofs=False) == ""
    for name in ("manifests/norm/receipts.json", "manifests/norm/cases.toml", "manifests/norm/reference.py"):
        (root / name).write_text("anew")
    told = (
        "manifests/norm/cases.toml, manifests/norm/receipts.json, manifests/norm/reference.py changed since"
    )
    assert notes.stale(root, bundle) == told
    assert notes.stale(root, bundle, proofs=False) == ""
    (root / "b.hip").unlink()
    said = "b.hip, manifests/norm/cases.toml, manifests/norm/receipts.json and others changed since"
    assert notes.stale(root, bundle) == said
    (root / "manifests/new.csv").write_text("")
    assert notes.stale(root, bundle, proofs=False) == "b.hip, manifests/new.csv changed since"


def test_a_note_about_something_else(bundle: Path) -> None:
    root, note = bundle.parent, notes.read(bundle)
    bundle.write_bytes(b"other")
    assert notes.stale(root, bundle) == "gfx942-ck-free.json is about other bytes"
    for changed in ({}, note | {"sources": []}, note | {"sources": None}):
        notes.write(bundle, changed)
        assert notes.stale(root, bundle) == "gfx942-ck-free.json is missing or says nothing about sources"


def entries(target: str, *operators: str) -> list[BuiltEntry]:
    return [BuiltEntry(name, ("k",), "hip", target, "ck-free", name, "00", (), False) for name in operators]


def told(left: list[BuiltEntry], *allowed: str) -> UnprovedError:
    with pytest.raises(UnprovedError) as caught:
        refuse_unproved(left, allowed)
    return caught.value


CARD = "python ci/gpu_check.py --record FILE on a machine with the card and python -m build_tools receipts FILE here"


@pytest.mark.parametrize(("count", "named"), [(1, True), (6, True), (7, False)])
def test_a_command_names_six_operators(count: int, named: bool) -> None:
    names = [f"op{place}" for place in range(count)]
    error = told(entries("gfx942", *reversed(names)))
    words = "".join(f" --operator {name}" for name in names) if named else ""
    assert error.fix == (
        f"Run python -m build_tools prove{words} --target gfx942, then python -m build_tools build, and pack again; "
        "or let them in with --unproved gfx942"
    )
    assert error.found == f"{count} entries for gfx942 have no receipt"


def test_each_target_is_proved_in_its_way() -> None:
    left = [*entries("sm_90", "b", "c"), *entries("gfx950", "a"), *entries("gfx942", "a", "a")]
    error = told(left)
    flags = "--unproved gfx942 --unproved gfx950 --unproved sm_90"
    assert error.fix == (
        f"Run python -m build_tools prove --operator a --target gfx942 --target gfx950, and {CARD}, "
        f"then python -m build_tools build, and pack again; or let them in with {flags}"
    )
    assert error.found == "5 entries for gfx942, gfx950, sm_90 have no receipt"
    assert str(error).splitlines()[:4] == [
        f"{target}: {operator}.k: {count} entries were not executed"
        for target, operator, count in (
            ("gfx942", "a", 2),
            ("gfx950", "a", 1),
            ("sm_90", "b", 1),
            ("sm_90", "c", 1),
        )
    ]
    only = told(left, "gfx942", "gfx950").fix
    assert only.startswith(f"Run {CARD}, then") and "prove" not in only.partition(",")[0]
    refuse_unproved([replace(each, executed=True) for each in left], ())


def test_a_wheel_says_how_many() -> None:
    assert said(0, 5) == said(0, 0) == ""
    for count in (1, 5):
        words = f"{count} of its 5 entries were not executed on any device before they shipped."
        assert said(count, 5) == words


def test_rows_of_the_table_have_defaults() -> None:
    row = {
        "title": "T", "backends": ["hip", "ck"], "spdx": "MIT", "holder": "H", "url": "U", "from": "zig", "version": "1",
        "purl": "pkg:x",
    }  # fmt: skip
    part = licences._part("name", row)
    assert part == licences.Part(
        "name", "T", ("hip", "ck"), "MIT", "H", "U", "zig", "1", "pkg:x", (), rocm=False
    )
    more = licences._part("name", row | {"files": ["a", "b"], "rocm": True})
    assert more == replace(part, files=("a", "b"), rocm=True)


def test_notices_are_laid_out() -> None:
    (part,) = licences.parts([licences.TRITON_NVIDIA])
    text = licences.notices([licences.TRITON_NVIDIA])
    licence = (licences.FOLDER / f"{part.spdx}.txt").read_text().rstrip()
    assert text == (
        "Parts of this wheel were made from the work of others:\n\n"
        f"{part.title}\n  Copyright (c) {part.holder}\n  {part.spdx}\n  {part.url}\n\n{'=' * 80}\n{part.spdx}\n\n{licence}\n"
    )
    assert licences.notices([]) == "Parts of this wheel were made from the work of others:\n"


def test_the_command_writes_the_notices_of_the_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(licences, "__file__", str(tmp_path / "build_tools" / "pack" / "licences.py"))
    assert licences.main() == 0
    assert (tmp_path / "THIRD_PARTY.txt").read_text() == licences.notices([licences.RUNTIME])


def bill(**changes: Any) -> sbom.Bill:
    told: dict[str, Any] = {
        "distribution": "aiter-prebuilt-gfx950", "version": "1.0", "content": b"bundle", "backends": ("hip", "ck"),
        "tools": {}, "sources": (("b", "b" * 64), ("a", "a" * 64)),
    }  # fmt: skip
    return sbom.Bill(**(told | changes))


def document(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sbom.write(bill(**changes), PINS))
    return found


def parts(**changes: Any) -> dict[str, dict[str, Any]]:
    return {part["name"]: part for part in document(**changes)["components"]}


def test_the_serial_number_is_that_of_the_content() -> None:
    text = sbom.write(bill(), PINS).decode()
    serial = json.loads(text)["serialNumber"]
    without = text.replace(serial, uuid.UUID(int=0).urn)
    assert serial == uuid.uuid5(sbom._NAMESPACE, without).urn
    assert text.endswith("}\n") and text.count("\n") == 1


def test_the_subject_and_the_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    head = document()["metadata"]
    assert head["timestamp"] == "2001-09-09T01:46:40+00:00"
    subject = head["component"]
    assert (subject["name"], subject["version"], subject["type"]) == (
        "aiter-prebuilt-gfx950",
        "1.0",
        "library",
    )
    assert subject["purl"] == subject["bom-ref"] == "pkg:pypi/aiter-prebuilt-gfx950@1.0"
    assert subject["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"bundle").hexdigest()}]
    assert subject["licenses"] == [{"expression": licences.expression(["hip", "ck"])}]
    assert {tool["name"] for tool in head["tools"]["components"]} == {"build_tools", "cyclonedx-python-lib"}
    assert head["properties"] == [{"name": "aiter-prebuilt:toolchain", "value": "hermetic"}]
    rocm = document(tools={"toolchain": "rocm"})["metadata"]["properties"]
    assert rocm == [{"name": "aiter-prebuilt:toolchain", "value": "rocm"}]


def test_a_part_has_hashes_only_at_the_version_of_its_pin() -> None:
    """CK_DIR, other pins than today's, or an installed ROCm: what is not known is not said."""
    pinned, other = parts(), parts(tools={"composable-kernel": "other"})
    for name in ("composable-kernel", "rocm-device-libs"):
        references = pinned[name]["externalReferences"]
        assert [each["type"] for each in references].count("website") == 1
        assert [each["type"] for each in references].count("distribution") >= 1
    assert pinned["rocm-device-libs"]["components"] and "components" not in pinned["composable-kernel"]
    told = other["composable-kernel"]
    assert (told["version"], told["purl"]) == ("other", "pkg:generic/composable-kernel@other")
    assert [each["type"] for each in told["externalReferences"]] == ["website"]
    assert other["rocm-device-libs"] == pinned["rocm-device-libs"]
    triton = parts(tools={"triton": "0.0"})["rocm-device-libs"]
    assert (triton["version"], "components" in triton) == ("0.0", False)
    rocm = parts(tools={"toolchain": "rocm"})
    assert rocm["rocm-device-libs"]["version"] == "unknown"
    assert rocm["composable-kernel"] == pinned["composable-kernel"], "CK comes with no ROCm"
    hermetic = parts(tools={"toolchain": "hermetic", "ROCm": "7"})
    assert hermetic["rocm-device-libs"] == pinned["rocm-device-libs"]


def test_a_tool_is_named_as_what_is_known_of_it() -> None:
    pin = PINS.tools["ziglang"]
    tools = {
        "ziglang": pin.version,
        "cmake": "4.0",
        "amdclang++": "7",
        "toolchain": "rocm",
        "composable-kernel": "x",
    }
    found = {name: part for name, part in parts(tools=tools).items() if part["type"] == "application"}
    assert set(found) == {"ziglang", "cmake", "amdclang++"}
    zig, cmake, clang = (found[name] for name in ("ziglang", "cmake", "amdclang++"))
    assert (zig["purl"], zig["description"]) == (f"pkg:pypi/ziglang@{pin.version}", pin.gives)
    assert len(zig["externalReferences"]) == len(pin.wheels)
    assert {each["hashes"][0]["content"] for each in zig["externalReferences"]} == set(pin.wheels.values())
    assert zig["licenses"] == [{"expression": pin.spdx}]
    assert cmake["licenses"] == [{"expression": sbom.BUILDERS["cmake"]}]
    assert (cmake["purl"], "externalReferences" in cmake) == ("pkg:pypi/cmake@4.0", False)
    assert ("licenses" in clang, "externalReferences" in clang) == (False, False)
    assert clang["purl"] == "pkg:generic/amdclang%2B%2B@7"
    older = parts(tools={"ziglang": "0.1"})["ziglang"]
    assert (older["version"], "externalReferences" in older) == ("0.1", False)


def test_hashes_of_files_are_sorted_and_unique(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in "ab"}
    assert sbom.file_hashes(tmp_path, ["b", "a", "b"]) == tuple(digests.items())


@pytest.mark.parametrize(("pure", "word"), [(True, "true"), (False, "false")])
def test_a_wheel_file_says_whether_it_is_pure(pure: bool, word: str) -> None:
    about = dist_info.About("s", "d", (), "cp310-abi3-linux_x86_64", pure)
    assert dist_info._wheel(about).decode().splitlines()[2:] == [
        f"Root-Is-Purelib: {word}",
        "Tag: cp310-abi3-linux_x86_64",
        "",
    ]
    assert dist_info.stem(bill()) == "aiter_prebuilt_gfx950-1.0"
