"""``hsa/findings.toml``: each finding is about bytes that the pinned tree has."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from aiter_prebuilt.contract.receipt import passed_over
from aiter_prebuilt.contract.records import Entry
from build_tools.errors import ManifestError
from build_tools.judge import findings, receipts
from build_tools.judge.findings import EMBEDDED_CHECKS, Finding
from build_tools.objects import codeobject
from build_tools.tools import tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
ROW = {
    "file": "aiter:hsa/gfx942/a.co", "sha256": "aa", "kernel": "_Zk", "offset": 0x6CC, "check": "races", "what": "a race",
    "calls": "all", "served": True,
}  # fmt: skip
FINDING = Finding("aiter:hsa/gfx942/a.co", "aa", "_Zk", 0x6CC, "races", "a race", "all", served=True)


OBJECTS = [
    {"file": "aiter:hsa/gfx942/a.co", "sha256": "aa", "kernel": "_Zk", "at": "0x6cc, 0x700-0x708"},
    {"file": "aiter:hsa/gfx942/b.co", "sha256": "bb", "kernel": "_Zj", "at": "0x4"},
]
SHARED = {"check": "races", "what": "a race", "calls": "all", "served": True}


def toml(value: object) -> str:
    """A value of a row as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def written(folder: Path, *rows: dict[str, object], edition: int = 1) -> Path:
    """A repository whose findings are these."""
    text = "\n".join(
        "[[finding]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in row.items()) for row in rows
    )
    (folder / "hsa").mkdir()
    (folder / "hsa" / "findings.toml").write_text(f"edition = {edition}\n{text}")
    return folder


def test_each_finding_is_about_bytes_of_the_tree() -> None:
    table = tomllib.loads((ROOT / "hsa/findings.toml").read_text())
    assert table["edition"] == 1 and table["finding"]
    for finding in findings.read(ROOT):
        row = asdict(finding)
        assert row["check"] in ("addresses", "lds", "races", "hazards", "alignment", "values")
        if tree.tree_of(row["file"], ROOT).pinned:
            assert tree.digest(row["file"], ROOT) == row["sha256"]
            facts = codeobject.read(tree.located(row["file"], ROOT).read_bytes())
            assert row["kernel"] in [kernel.symbol for kernel in facts.kernels]


def test_findings_are_read(tmp_path: Path) -> None:
    plain = {key: value for key, value in ROW.items() if key != "served"}
    assert findings.read(tmp_path) == ()
    found = findings.read(written(tmp_path, ROW, plain, ROW | {"last": 0x6D8}))
    assert found[0] == FINDING and not found[1].served
    assert [one.word for one in found[1:]] == ["races:0x6cc:_Zk", "races:0x6cc-0x6d8:_Zk"]
    assert len(findings.read(ROOT)) >= 10


def test_one_pattern_in_many_objects(tmp_path: Path) -> None:
    one, two, three = findings.read(written(tmp_path, {**SHARED, "objects": OBJECTS}))
    assert one == FINDING
    assert two == replace(FINDING, offset=0x700, last=0x708)
    assert three == replace(FINDING, file="aiter:hsa/gfx942/b.co", sha256="bb", kernel="_Zj", offset=4)


def test_one_pattern_in_the_objects_of_a_table(tmp_path: Path) -> None:
    root = written(tmp_path, {**SHARED, "objects": "t.csv"}, {**SHARED, "check": "lds", "objects": "t.csv"})
    with pytest.raises(ManifestError, match="finding 1: each of objects has"):
        findings.read(root)
    (root / "hsa/t.csv").write_text(
        "file,sha256,kernel,races,lds\n"
        'aiter:hsa/gfx942/a.co,aa,_Zk,"0x6cc, 0x700-0x708",\naiter:hsa/gfx942/b.co,bb,_Zj,,0x8\n'
    )
    one, two, three = findings.read(root)
    assert (one, two) == (FINDING, replace(FINDING, offset=0x700, last=0x708))
    assert (three.kernel, three.check, three.offset, three.sha256) == ("_Zj", "lds", 8, "bb")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": "_Zk"}, "kernel stands beside objects"),
        ({"last": 8}, "last stands beside objects"),
        ({"objects": []}, "each of objects has file, sha256, kernel, at and nothing else"),
        ({"objects": [{**OBJECTS[0], "at": 4}]}, "all of them text"),
        ({"objects": [{**OBJECTS[0], "more": "x"}]}, "and nothing else"),
        ({"objects": [{**OBJECTS[0], "at": "0x6cc,0x700"}]}, "at is '0x6cc,0x700', not of the form"),
        ({"objects": [{**OBJECTS[0], "at": "0x6cc-0x6c8"}]}, "last is 0x6c8, before offset 0x6cc"),
        ({"check": "addresses"}, "'addresses' cannot be passed over"),
    ],
)
def test_objects_that_are_none(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(ManifestError, match="finding 2: ") as caught:
        findings.read(written(tmp_path, ROW, {**SHARED, "objects": OBJECTS, **changes}))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"offset": "0x6cc"}, "offset is '0x6cc', not a number"),
        ({"kernel": 3}, "kernel is 3, not text"),
        ({"more": 1}, "'more' is no key of a finding"),
        ({"served": 1}, "served is 1, not true or false"),
        ({"last": True}, "last is True, not a number"),
        ({"last": 0x6C8}, "last is 0x6c8, before offset 0x6cc"),
        ({"check": "addresses"}, "'addresses' cannot be passed over"),
        ({"kernel": "a::k"}, "give its mangled name"),
    ],
)
def test_a_row_that_is_none(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(ManifestError, match="finding 2: ") as caught:
        findings.read(written(tmp_path, ROW, ROW | changes))
    assert words in str(caught.value)


def test_a_row_without_a_key_and_a_file_of_another_edition(tmp_path: Path) -> None:
    lacking = {key: value for key, value in ROW.items() if key != "what"}
    with pytest.raises(ManifestError, match="what is None, not text"):
        findings.read(written(tmp_path, lacking))
    (tmp_path / "hsa/findings.toml").write_text("edition = 2")
    with pytest.raises(ManifestError, match="edition 2 is not 1"):
        findings.read(tmp_path)
    (tmp_path / "hsa/findings.toml").write_text("edition = ")
    with pytest.raises(ManifestError, match=r"findings\.toml"):
        findings.read(tmp_path)


def test_only_what_is_served_is_passed_over_and_said() -> None:
    refused = Finding("f", "bb", "_Zj", 4, "hazards", "", "", served=False)
    known = (FINDING, refused)
    assert findings.checks(known, {"bb", "cc"}) == EMBEDDED_CHECKS
    assert findings.checks(known, {"aa", "bb"}) == f"{EMBEDDED_CHECKS}, but for races at _Zk+0x6cc"
    assert findings.words(known, [("_Zk", "aa"), ("_Zj", "bb"), ("_Zk", "aa")]) == ("races:0x6cc:_Zk",)
    assert findings.words(known, [("_Zk", "cc")]) == ()


def test_a_kernel_of_the_same_name_in_another_file_is_not_spared() -> None:
    with pytest.raises(ManifestError, match=r"_Zk of aiter:hsa/gfx942/a.co is passed over, and another"):
        findings.words([FINDING], [("_Zk", "aa"), ("_Zk", "cc")])


def test_a_receipt_holds_only_while_the_same_is_passed_over() -> None:
    made = receipts.Receipt(
        "d", "f", "op.k", "v", "gfx942", "device", findings.checks([FINDING], {"aa"}), frozenset({"aa"}), "r", "c", 1, 0.0, {}
    )  # fmt: skip
    asked = {("f", "op", "gfx942"): "r"}
    assert receipts.holding({"d": made}, asked, [FINDING]) == {"d": made}
    assert receipts.holding({"d": made}, asked, ()) == {}
    clean = replace(made, checks=EMBEDDED_CHECKS)
    assert receipts.holding({"d": clean}, asked, [FINDING]) == {}
    assert receipts.holding({"d": clean}, asked, ()) == {"d": clean}
    card = replace(made, checks="values")
    assert receipts.holding({"d": card}, asked, [FINDING]) == {"d": card}


def entry(**receipt: object) -> Entry:
    facts: dict[str, Any] = dict.fromkeys(Entry.__dataclass_fields__, 0)
    return Entry(**facts | {"receipt": json.dumps({"executed": True} | receipt)})


def test_an_entry_says_what_was_passed_over() -> None:
    """Of all the recipes that launch it, each once."""
    one, two = findings.checks([FINDING], {"aa"}), findings.checks([replace(FINDING, offset=4)], {"aa"})
    assert passed_over(entry(checks=EMBEDDED_CHECKS)) == ()
    assert passed_over(entry(checks=f"{EMBEDDED_CHECKS}; {two}; {one}; {one}")) == (
        "races at _Zk+0x4",
        "races at _Zk+0x6cc",
    )
    assert (
        passed_over(entry())
        == passed_over(entry(checks=3))
        == passed_over(entry(executed=False, checks=one))
        == ()
    )
