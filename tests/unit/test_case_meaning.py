"""The state of a formula: everything that its function uses, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import repository

from build_tools.cases import receipt_state
from build_tools.cases.receipt_state import formula_digests, meanings

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

TABLE = {}
TABLE[1] = 2

def _loose(f):
    return f

one = _loose(one)

def draw_rows(x):
    return x
'''


CASES = {"one": {"calls": ["x~rows"]}, "two": {"calls": ["x~rows y~normal:2"]}}


def states(text: str) -> dict[str, str]:
    return formula_digests("norm", text, CASES)


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
        ("_OTHER", "_ELSE", set()),
        ("return x\n", "return -x\n", {"one", "two"}),  # the draw
        ("import numpy as np", "import cupy as np", {"one"}),
        ("TABLE[1] = 2", "TABLE[1] = 3", {"one", "two"}),
        ("one = _loose(one)\n", "", {"one"}),
        ("return f\n", "return lambda x: x\n", {"one"}),
    ],
)
def test_what_a_change_touches(before: str, after: str, changed: set[str]) -> None:
    was, now = states(TEXT), states(TEXT.replace(before, after))
    assert was.keys() == now.keys() == {"one", "two"}
    assert {name for name in was if was[name] != now[name]} == changed


def test_a_draw_counts_for_the_operators_whose_calls_name_it() -> None:
    text = TEXT.replace("return x\n", "return x\n\ndef draw_else(x):\n    return 2\n")
    assert states(text) == states(TEXT)
    cases = {**CASES, "two": {"calls": ["x~else:1"]}}
    assert formula_digests("norm", text, cases)["one"] == states(TEXT)["one"]
    assert (
        formula_digests("norm", text, cases)["two"]
        != formula_digests("norm", text.replace("return 2", "return 3"), cases)["two"]
    )


def test_refuses_what_is_no_python() -> None:
    with pytest.raises(SyntaxError):
        states("def one(")


def test_every_operator_has_one_and_its_calls_carry_it() -> None:
    manifest = repository.manifest()
    found = meanings(ROOT / "manifests")
    known = repository.cases()
    assert known
    for name, cases in known.items():
        for target in manifest.targets:
            assert len(found[cases.subject.family, name, target]) == 16
            assert cases.states[target] == found[cases.subject.family, name, target]


def test_calls_judges_and_hand_written_functions_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "manifests" / "norm"
    place.mkdir(parents=True)
    (place.parent / "targets.toml").write_text("[gfx942]\n")
    ops = tmp_path / "src/aiter_prebuilt/ops"
    ops.mkdir(parents=True)
    (ops / "by_hand.py").write_text("def one(): ...")
    texts = {
        "reference.py": TEXT,
        "cases.toml": '[one]\ndefault = "x~normal:4"\ncalls = ["M=1", "M=2"]\n[two]\ncalls = ["M=1"]\n',
        "operators.toml": '[operators.one]\nfunction = "by_hand"\n[operators.two]\n',
    }

    def now(**changes: str) -> dict[str, str]:
        for name, text in {**texts, **changes}.items():
            (place / name).write_text(text)
        return {name: digest for (_, name, _), digest in meanings(tmp_path / "manifests").items()}

    def changed(**changes: str) -> set[str]:
        after = now(**changes)
        return {name for name in before if before[name] != after.get(name)}

    before = now()
    assert before.keys() == {"one", "two"}
    cases = texts["cases.toml"]
    assert changed(**{"cases.toml": cases.replace("normal:4", "normal:0.01")}) == {"one"}
    assert changed(**{"cases.toml": cases.replace('"M=1", "M=2"', '"M=1"')}) == {"one"}
    assert changed(**{"cases.toml": f"# said anew\n{cases}"}) == set()
    elsewhere = cases.replace('"M=2"', '"M=2", "M=3 targets=sm_90"')
    assert changed(**{"cases.toml": elsewhere}) == set(), "a call of another target"
    assert changed(**{"cases.toml": elsewhere.replace("sm_90", "sm_90,gfx942")}) == {"one"}
    left_out = cases.replace("[one]", '[one]\nexcept.sm_90 = ["M=2"]')
    assert changed(**{"cases.toml": left_out}) == set(), "a call that another target leaves out"
    assert changed(**{"cases.toml": left_out.replace("sm_90", "gfx942")}) == {"one"}
    always = elsewhere.replace("normal:4", "normal:4 targets=gfx942")
    assert changed(**{"cases.toml": always}) == {"one"}, "the default is part of what is asked"
    assert changed(**{"operators.toml": "not TOML"}) == {"one", "two"}
    taken = texts["operators.toml"].replace("[operators.two]\n", '[operators.two]\nlike = "one"\n')
    before = now(**{"operators.toml": taken})
    (ops / "by_hand.py").write_text("def one(): return 2\ndef two(): return one()")
    assert changed(**{"operators.toml": taken}) == {"one", "two"}
    before = now()
    (ops / "by_hand.py").write_text("def one(): return 1")
    assert changed() == {"one"}
    for name, counts in (("_helper", True), ("_common", False)):
        (ops / f"{name}.py").write_text("rule = 0")
        (ops / "by_hand.py").write_text(
            f"from aiter_prebuilt.ops.{name} import rule\ndef one(): return rule\n"
        )
        before = now()
        (ops / f"{name}.py").write_text("rule = 1")
        assert changed() == ({"one"} if counts else set()), name
    before = now()
    said = cases.replace("[one]", '[one]\ninsensitive = {x = "because"}')
    assert changed(**{"cases.toml": said}) == set(), "lint asks for it, whatever was proved"
    before = now(**{"cases.toml": said})
    assert changed(**{"cases.toml": said.replace("because", "for another reason")}) == set()
    before = now()
    monkeypatch.setattr(receipt_state, "judges", lambda: ("another", ""))
    assert changed() == {"one", "two"}
