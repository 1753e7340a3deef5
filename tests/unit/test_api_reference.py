"""The reference of public names: every name has one entry, and every entry says what a caller needs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support import repository

import aiter_prebuilt
from build_tools.errors import ManifestError
from build_tools.generate import api_reference, docstring_sections
from build_tools.generate.api_reference import PublicName

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = [operator for family in repository.manifest().families.values() for operator in family.operators]
PAGES = api_reference.files(OPERATORS, {})
NAMES = {each.name: each for each in api_reference.public_names(OPERATORS, {})}
FUNCTIONS = {name: each for name, each in NAMES.items() if isinstance(each.node, ast.FunctionDef)}


def test_every_public_name_has_one_entry() -> None:
    pages = PAGES
    headings = [found for text in pages.values() for found in re.findall(r"^## (\w+)$", text, re.MULTILINE)]
    assert sorted(headings) == sorted(set(aiter_prebuilt.__all__) - {"__version__"})
    listed = re.findall(r"^\| \[`(\w+)`\]", pages[Path(api_reference.INDEX)], re.MULTILINE)
    assert sorted(listed) == sorted(headings)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_entry_describes_each_parameter_the_result_the_errors_and_the_source(name: str) -> None:
    each = FUNCTIONS[name]
    assert isinstance(each.node, ast.FunctionDef)
    found = each.docstring
    arguments = each.node.args
    wanted = {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
    entries = [entry.partition(": ")[0].split(", ") for entry in found.sections.get("Args:", ())]
    described = {word.lstrip("*") for words in entries for word in words}
    assert wanted - described == set()
    if name != "qr_max_size" and "extension" not in name:  # they take nothing and refuse nothing
        assert "Raises:" in found.sections
    assert found.source
    result = each.node.returns
    assert result is not None
    if ast.unparse(result) != "None":
        assert "Returns:" in found.sections


def test_methods_of_a_base_class_and_members_of_an_enumeration_are_listed() -> None:
    pages = PAGES
    collectives = pages[Path("docs/api/collectives.md")]
    assert "### CustomAllreduce.all_reduce" in collectives
    assert "### CustomAllreduce.custom_fused_ar_rms" in collectives
    assert "_blocks" not in collectives
    assert "- `per_1x128` = `4`" in pages[Path("docs/api/runtime.md")]
    assert "### tgemm.mm" in pages[Path("docs/api/gemm.md")]


def test_a_module_without_a_page_is_an_error() -> None:
    assert api_reference.topic_of("ops.generated.gemm_f4") == "gemm"
    sentence = (
        "build_tools/generate/api_reference.py: TOPICS has no page for src/aiter_prebuilt/ops/unheard_of.py"
    )
    with pytest.raises(ManifestError, match=sentence):
        api_reference.topic_of("ops.unheard_of")


def test_modules_without_a_page_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert api_reference.problems(OPERATORS) == []
    left = {topic: row for topic, row in api_reference.TOPICS.items() if topic not in ("rope", "sampling")}
    monkeypatch.setattr(api_reference, "TOPICS", left)
    named = [
        re.search(r"for src/aiter_prebuilt/ops/(\S+)\.py", line) for line in api_reference.problems(OPERATORS)
    ]
    assert {"generated/rope", "rope_cache_minimax", "generated/topk"} <= {
        found[1] for found in named if found
    }


def test_generated_text_goes_before_the_file() -> None:
    path = next(each.file for each in NAMES.values() if "generated" in each.file)
    text = (ROOT / path).read_text().replace("Source: ", "Source: newer ")
    made = api_reference.public_names(OPERATORS, {Path(path): text})
    assert any(each.docstring.source.startswith("newer") for each in made)


def entry(source: str) -> list[str]:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return api_reference._entry(PublicName("f", "ops.quant", node))


def test_parts_of_a_docstring_become_markdown() -> None:
    lines = entry(
        "def f(a: int, *, b: str = 'x') -> int:\n"
        '    """Add ``a`` to :func:`g`.\n\n    Two * three.\n\n        f(1)\n\n'
        "    Args:\n        a: [M, N],\n            strided.\n        b: *M of_it _x.\n\n"
        "    Returns:\n        One:\n        two.\n\n"
        '    Raises:\n        A, B: bad.\n\n    Source: AITER ``f``.\n    """\n'
    )
    text = "\n".join(lines)
    assert "f(a: int, *, b: str = 'x') -> int" in text
    assert "Add `a` to `g`." in text
    assert "Two \\* three." in text
    assert "\n    f(1)\n" in text
    assert "- `a`: [M, N], strided." in text
    assert "- `b`: \\*M of_it \\_x." in text
    assert "- One: two." in text
    assert "- `A`, `B`: bad." in text
    assert "Source: AITER `f`." in text
    assert "Defined in `src/aiter_prebuilt/ops/quant.py`." in text


def test_an_empty_docstring_has_no_parts() -> None:
    assert docstring_sections.parse("").summary == ""
    assert docstring_sections.body(docstring_sections.parse("")) == []
