"""The grammar of tensors and attributes, and the schema of the manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import made_manifest
from support.made_manifest import GOOD, ROOT, problems_of

from build_tools.manifest.grammar import SignatureError, parse_attribute, parse_tensor
from build_tools.manifest.parse import load
from build_tools.manifest.problems import Problems
from build_tools.manifest.schema import manifest_schema
from build_tools.plan.slots import assign_slots, tensor_records


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_manifest.placed(tmp_path)


def test_in_place_of_an_input(folder: Path) -> None:
    """It names an argument that is only read and has the same type and dims; the bundle's record has its position."""
    out = (
        'out = "out Q[*M, N] strides [out_row, 1]"',
        'out = "out T[*M, N] strides [out_row, 1] in place of input"',
    )
    unused = ('types.Q = ["fp8", "i8"]\n', "")
    assert parse_tensor("x", "out f16[N] in place of y optional", {}).in_place == "y"
    assert parse_tensor("x", "out f16[N]", {}).in_place is None
    for text in ("f16[N] in place of y", "inout f16[N] in place of y", "out f16[N] in place of"):
        with pytest.raises(SignatureError):
            parse_tensor("x", text, {})
    for after, words in (
        (
            out[1].replace("of input", "of inputs"),
            "'inputs' is no argument that is only read (did you mean 'input'?)",
        ),
        (out[1].replace("of input", "of out"), "'out' is no argument that is only read"),
        (out[1].replace("of input", "of bias"), "in place of bias: their types and dims are not the same"),
        (out[1].replace("T[", "Q["), "in place of input: their types and dims are not the same"),
    ):
        found = problems_of(folder, (out[0], after))
        assert any(words in line and "arguments.out" in line for line in found), found
    (folder / "norm" / "operators.toml").write_text(GOOD.replace(*out).replace(*unused))
    (operator,) = load(folder).families["norm"].operators
    slots = assign_slots(operator, Problems())
    records = tensor_records(slots, "e4m3fn", Problems())
    assert [record.in_place for record in records] == [2, 0, 0]


@pytest.mark.parametrize("text", ["", "T", "T[M", "T[*M, *N]", "in T[M]", "T[M,,N]", "out out T[M]"])
def test_wrong_tensors(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_tensor("x", text, {"T": ["bf16"]})


@pytest.mark.parametrize("text", ["", "integer", "int = 1.5", "enum", "float(1)", "bool = yes"])
def test_wrong_attributes(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_attribute("x", text)


def test_committed_schema_is_the_generated_one() -> None:
    assert (ROOT / "manifests" / "manifest.schema.json").read_text() == manifest_schema()


def test_the_schema_accepts_the_manifests() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    tomllib = pytest.importorskip("tomllib")
    schema = json.loads(manifest_schema())
    checked = 0
    for path in sorted((ROOT / "manifests").glob("*/operators.toml")):
        jsonschema.validate(tomllib.loads(path.read_text()), schema["family"])
        checked += 1
    assert checked >= 5
