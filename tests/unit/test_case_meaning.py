"""The state of a formula: everything that its function uses, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_tools.cases import table
from build_tools.cases.meaning import meanings, of_text
from build_tools.cases.subject import subjects
from build_tools.manifest.parse import load

ROOT = Path(__file__).resolve().parents[2]

TEXT = '''"""Two formulas."""
import numpy as np
from a.b import near

_LIMIT = 2.0
_OTHER: float = 3.0

def _help(x):
    return np.minimum(x, _LIMIT)

@near
def one(x):
    return _help(x)

def two(x):
    return x + _OTHER

def draw_rows(x):
    return x
'''


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("_LIMIT = 2.0", "_LIMIT = 2.5", {"one"}),
        ("np.minimum", "np.maximum", {"one"}),
        ("return _help(x)", "return _help(x) + 1", {"one"}),
        ("@near\n", "", {"one"}),
        ("from a.b import near", "from a.c import near", {"one"}),
        ("_OTHER: float = 3.0", "_OTHER: float = 4.0", {"two"}),
        ("x + _OTHER", "x - _OTHER", {"two"}),
        ("Two formulas", "Two of them", set()),
        ("return x\n", "return -x\n", set()),
        ("import numpy as np", "import cupy as np", {"one"}),
    ],
)
def test_what_a_change_touches(before: str, after: str, changed: set[str]) -> None:
    was, now = of_text(TEXT), of_text(TEXT.replace(before, after))
    assert was.keys() == now.keys() == {"one", "two"}
    assert {name for name in was if was[name] != now[name]} == changed


def test_what_is_no_python_has_none() -> None:
    assert of_text("def one(") == of_text("\0") == {}


def test_every_operator_has_one_and_its_calls_carry_it() -> None:
    manifest = load(ROOT / "manifests")
    found = meanings(ROOT / "manifests")
    known = table.load(ROOT / "manifests", subjects(manifest), manifest.targets)
    assert known
    for name, cases in known.items():
        assert len(found[cases.subject.family, name]) == 16
        assert cases.reference.meanings[name] == found[cases.subject.family, name]
