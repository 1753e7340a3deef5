"""The record of a release, and the notes that two of them make: what is new, gone and changed, and why."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from support import releases
from support.bundles import small_root
from support.releases import bundle, operator
from support.verified import IMAGE
from support.verified import operator as built_operator

from build_tools.__main__ import cli
from build_tools.errors import ReleaseError
from build_tools.pack import writer
from build_tools.pack.archive import write_members
from build_tools.release import built, changes, changes_view, record

ONE = {"a": ["triton", "11", "21", True], "b": ["hip", "12", "22", True]}
SAME = releases.record("1", [bundle()], [operator("norm", ONE)])


SCHEMAS = Path(record.__file__).with_name("schemas")


def valid(name: str, document: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "surprise": 1}, schema)


def told(old: dict[str, Any], new: dict[str, Any]) -> tuple[dict[str, Any], str]:
    found = changes.compute(old, new)
    valid("notes", {"version": 1, **found.as_json()})
    return found.as_json(), changes_view.render(found)


def test_two_that_are_the_same() -> None:
    document, text = told(SAME, {**SAME, "release": "2"})
    assert document["operators"] == {"added": {}, "removed": {}, "signatures": {}}
    assert document["entries"] == {"added": [], "removed": [], "changed": []}
    assert document["tools"] == {} and document["receipts_lost"] == []
    assert text.startswith("# aiter-prebuilt 2\n\nCompared with 1.\n")
    assert "None is new, gone, or takes other arguments." in text and "All are the same." in text
    assert "| gfx942 (ck-free) | 1.00 MB | 1.00 MB | +0.0 % |" in text


def test_operators_and_entries_that_come_and_go() -> None:
    new = releases.record(
        "2",
        [bundle(bytes=1_100_000), bundle(("gfx950", "ck-free"))],
        [
            operator("norm", {"b": ONE["b"], "c": ["hip", "13", "23", True]}, signature="(x, y)"),
            operator("fresh", {"z": ["hip", "1", "2", True]}),
            operator("fresh", {"z": ["hip", "1", "2", True]}, ("gfx950", "ck-free")),
        ],
    )
    document, text = told(
        releases.record(
            "1", [bundle()], [operator("norm", ONE), operator("old", {"o": ["hip", "1", "2", True]})]
        ),
        new,
    )
    assert document["operators"] == {
        "added": {"fresh": ["gfx942", "gfx950"]}, "removed": {"old": ["gfx942"]},
        "signatures": {"norm": {"old": "(x)", "new": "(x, y)"}},
    }  # fmt: skip
    place = {"operator": "norm", "target": "gfx942", "profile": "ck-free"}
    assert document["entries"]["added"] == [{**place, "entries": ["c"]}]
    assert document["entries"]["removed"] == [{**place, "entries": ["a"]}]
    assert document["sizes"][1]["bytes"] == {"old": None, "new": 1_000_000}
    for line in (
        "- New: `fresh` on gfx942, gfx950", "- Gone: `old` on gfx942", "- New: 1 of `norm` on gfx942 (ck-free): `c`",
        "- Gone: 1 of `norm` on gfx942 (ck-free): `a`", "| gfx942 (ck-free) | 1.00 MB | 1.10 MB | +10.0 % |",
        "| gfx950 (ck-free) | none | 1.00 MB |  |", "- `norm` takes other arguments of its kernels: `(x)` -> `(x, y)`",
    ):  # fmt: skip
        assert line in text.splitlines(), line


SOURCES = bundle()["sources"]
NEWER, OTHER = {"triton": "3.9.0", "toolchain": "hermetic"}, {"triton": "3.8.0", "toolchain": "rocm"}


@pytest.mark.parametrize(
    ("entries", "more", "why"),
    [
        ({"a": ["triton", "99", "21", True]}, {"tools": NEWER}, {"a": ["triton 3.8.0 -> 3.9.0"]}),
        ({"b": ["hip", "99", "22", True]}, {"tools": NEWER}, {"b": []}),
        ({"b": ["hip", "99", "22", True]}, {"tools": OTHER}, {"b": ["toolchain hermetic -> rocm"]}),
        ({"a": ["triton", "11", "99", True]}, {}, {"a": [changes.RECIPE]}),
        (
            {"a": ["triton", "99", "21", True]},
            {"sources": {**SOURCES, "csrc/kernels/triton/norm.py": "A", "csrc/kernels/triton/shared.py": "B"}},
            {"a": ["csrc/kernels/triton/norm.py"]},
        ),
        (
            {"a": ["triton", "99", "21", True], "b": ["hip", "99", "22", True]},
            {"sources": {**SOURCES, "csrc/kernels/triton/shared.py": "B"}},
            {"a": ["csrc/kernels/triton/shared.py"], "b": []},
        ),
        (
            {"a": ["triton", "99", "21", True]},
            {"sources": {**SOURCES, **{f"csrc/kernels/triton/x{n}.py": "A" for n in range(7)}}},
            {"a": [*(f"csrc/kernels/triton/x{n}.py" for n in range(5)), "and 2 files more"]},
        ),
    ],
)  # fmt: skip
def test_why_an_entry_is_another_one(
    entries: dict[str, list[Any]], more: dict[str, Any], why: dict[str, list[str]]
) -> None:
    new = releases.record("2", [bundle(**more)], [operator("norm", {**ONE, **entries})])
    document, text = told(SAME, new)
    assert {row["entry"]: row["why"] for row in document["entries"]["changed"]} == why
    for reasons in why.values():
        said = "; ".join(reasons) or "nothing that the records name changed beside it"
        assert f"of `norm` on gfx942: {said}" in text


def test_a_receipt_that_is_lost_is_told() -> None:
    new = releases.record(
        "2", [bundle(proved=1)], [operator("norm", {**ONE, "a": ["triton", "11", "21", False]})]
    )
    document, text = told(SAME, new)
    assert document["receipts_lost"] == ["norm on gfx942: a"]
    assert (
        "1 of 2 entries were executed and right, 1 were not executed" in text
        and "Lost since 1: `norm on gfx942: a`" in text
    )


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    folder = tmp_path / "bundles"
    folder.mkdir()
    (folder / "gfx942-ck-free.apb").write_bytes(
        writer.encode(small_root(), (built_operator(),), writer.as_is([IMAGE]).frames)
    )
    (folder / "gfx942-ck-free.json").write_text(
        json.dumps({"sources": {"csrc/x.hip": "d" * 64}, "ck": "sample"})
    )
    return folder


def dist(folder: Path, data: bytes) -> list[Path]:
    path = folder / "aiter_prebuilt_gfx942-1-py3-none-any.whl"
    write_members(
        path, {"aiter_prebuilt_bundles/gfx942-ck-free.apb": data, "a.dist-info/METADATA": b"Name: x\n"}
    )
    return [path]


def test_a_record_is_of_the_bundles(bundles: Path, tmp_path: Path) -> None:
    data = (bundles / "gfx942-ck-free.apb").read_bytes()
    wheels = dist(tmp_path, data)
    name = built_operator().name
    found = record.record(tmp_path, bundles, wheels, {name: ("family", ["csrc/x.hip"])})
    (row,) = found["bundles"]
    assert (row["target"], row["profile"], row["bytes"], row["sha256"]) == (
        "gfx942", "ck-free", len(data), hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    assert (row["raw_bytes"], row["code_objects"], row["entries"]) == (
        len(IMAGE),
        1,
        len(built_operator().entries),
    )
    assert row["ck"] == "sample" and row["sources"] == {"csrc/x.hip": "d" * 16}
    (told_of,) = found["operators"]
    assert told_of["sources"] == ["csrc/x.hip", "manifests/family/operators.toml"]
    assert {entry: values[1] for entry, values in told_of["entries"].items()} == {
        entry.name: entry.sha256.hex()[:16] for entry in built_operator().entries
    }
    assert found["wheels"][0]["bytes"] == wheels[0].stat().st_size
    valid("record", found)
    path = tmp_path / record.NAME
    path.write_bytes(record.text(found))
    assert record.read(path) == record.read(tmp_path) == json.loads(json.dumps(found))
    assert record.text(found) == record.text(
        record.record(tmp_path, bundles, wheels, {name: ("family", ["csrc/x.hip"])})
    )


def test_a_bundle_without_composable_kernel_has_no_set_of_it(bundles: Path, tmp_path: Path) -> None:
    (bundles / "gfx942-ck-free.json").write_text("{}")
    found = record.record(tmp_path, bundles, [], {built_operator().name: ("family", ["csrc/x.hip"])})
    assert found["bundles"][0]["ck"] is None
    valid("record", found)


def test_what_is_no_record_is_refused(bundles: Path, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="is not the bundle that is recorded"):
        record.record(tmp_path, bundles, dist(tmp_path, b"other"), {})
    (tmp_path / "no.whl").write_bytes(b"no")
    with pytest.raises(ReleaseError, match="it is no wheel"):
        record.record(tmp_path, bundles, [tmp_path / "no.whl"], {})
    with pytest.raises(ReleaseError, match="there is no bundle"):
        record.record(tmp_path, tmp_path, [], {})
    for text in ("{", "[]", "{}", '{"edition": 1, "operators": [{}], "bundles": []}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ReleaseError, match="read the record"):
            record.read(tmp_path / "x.json")
    (tmp_path / "x.json").write_bytes(record.text({**SAME, "edition": 99}))
    with pytest.raises(ReleaseError, match="of edition 99"):
        record.read(tmp_path / "x.json")
    (bundles / "gfx942-ck-free.apb").write_bytes(b"damaged")
    with pytest.raises(ReleaseError, match="record what is in"):
        record.record(tmp_path, bundles, [], {})


def _spoilt(what: str) -> Any:
    """A record that says one thing wrong."""
    told = json.loads(
        record.text(releases.record("1", [bundle()], [operator("norm", {"e": ["hip", "a", "b", True]})]))
    )
    row, entry = told["bundles"][0], told["operators"][0]
    match what:
        case "entries":
            entry["entries"] = [["hip", "a", "b", True]]
        case "entry":
            entry["entries"]["e"] = ["hip", "a"]
        case "bytes":
            row["bytes"] = "x"
        case "flag":
            row["entries"] = True
        case "target":
            del entry["target"]
        case "bundle":
            told["bundles"] = []
        case "less":
            row["bytes"] = -1
        case "more":
            told["new"] = 1
        case "digest":
            row["sha256"] = "0"
        case "list":
            told["operators"] = {"norm": entry}
    return told


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("", ""), ("entries", "record.operators[0].entries is no object"),
        ("entry", "record.operators[0].entries.e has 2 parts"),
        ("bytes", "record.bundles[0].bytes is no integer"), ("flag", "record.bundles[0].entries is no integer"),
        ("target", "record.operators[0] has no target"),
        ("bundle", "norm is of the bundle gfx942 ck-free, which it does not list"),
        ("less", "record.bundles[0].bytes is -1"), ("more", "record has new, which nobody knows"),
        ("digest", "record.bundles[0].sha256 is '0'"), ("list", "record.operators is no array"),
    ],
)  # fmt: skip
def test_a_record_is_read_as_its_schema_has_it(tmp_path: Path, what: str, said: str) -> None:
    told = _spoilt(what)
    (tmp_path / "x.json").write_text(json.dumps(told))
    validator = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "record.json").read_text()))
    assert validator.is_valid(told) is (what in ("", "bundle")), "jsonschema says the same"
    if not what:
        assert record.read(tmp_path / "x.json") == told
        return
    done = CliRunner().invoke(cli, ["release", "notes", str(tmp_path / "x.json"), str(tmp_path / "x.json")])
    assert isinstance(done.exception, ReleaseError) and said in str(done.exception)


def test_the_commit_of_a_record_is_that_of_its_wheels(bundles: Path, tmp_path: Path) -> None:
    wheels = dist(tmp_path, (bundles / "gfx942-ck-free.apb").read_bytes())
    assert record.record(tmp_path, bundles, wheels, {})["commit"] == ""
    built.write(tmp_path, wheels, "a" * 40)
    assert record.record(tmp_path, bundles, wheels, {})["commit"] == "a" * 40
    more = releases.wheel(tmp_path, "aiter-prebuilt-x", "1")
    built.write(tmp_path, [more], "b" * 40)
    with pytest.raises(ReleaseError, match="they were built at several"):
        record.record(tmp_path, bundles, [*wheels, more], {})


def test_the_verbs(bundles: Path, tmp_path: Path) -> None:
    run = CliRunner()
    folder = tmp_path / "dist"
    folder.mkdir()
    done = run.invoke(
        cli, ["release", "record", str(folder), "--bundles", str(bundles)], catch_exceptions=False
    )
    assert done.output.strip() == str(folder / record.NAME)
    old = tmp_path / "old.json"
    old.write_bytes(record.text(SAME))
    for words in ([str(folder)], ["--bundles", str(bundles)]):
        done = run.invoke(cli, ["release", "notes", str(old), *words, "--json"], catch_exceptions=False)
        document = json.loads(done.output)
        assert document["version"] == 1 and document["operators"]["removed"] == {"norm": ["gfx942"]}
        assert list(document["operators"]["added"]) == [built_operator().name]
    assert run.invoke(cli, ["release", "notes", str(old), str(folder)]).output.startswith("# aiter-prebuilt ")
