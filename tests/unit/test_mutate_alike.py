"""Which changes of a program are no mutants: each rule with what it leaves out, and with what is close to it and stays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mutate import alike

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def rule_at(text: str) -> str:
    """Name of the rule that leaves out what stands behind the mark ``@@``; nothing when it is a mutant."""
    before = text[: text.index("@@")]
    rule = alike.left_out(text.replace("@@", ""))(
        before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    )
    return "" if rule is None else rule.name


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("x = list(zip(a, b, strict=@@True))", "zip"),
        ("x = [\n    p for p in\n    zip(\n        a,\n        strict=@@True,\n    )\n]", "zip"),
        ("x = 'é', zip(a, strict=@@True)", "zip"),
        ("x = parse(a, strict=@@True)", ""),
        ("x = zip(@@1, b, strict=True)", ""),
        ("x = zip(parse(strict=@@True), b, strict=True)", ""),
        ("@dataclass(frozen=@@True, slots=True)\nclass A: pass", "record"),
        ("@dataclasses.dataclass(\n    slots=@@True,\n)\nclass A: pass", "record"),
        ("@dataclass(frozen=True, eq=@@False)\nclass A: pass", ""),
        ("@dataclass(frozen=True)\nclass A:\n    x: int = @@1", ""),
        ("@other(frozen=@@True)\nclass A: pass", ""),
        ("@lru_cache(maxsize=@@8)\ndef f(): return 2", "cache"),
        ("@functools.lru_cache(maxsize=8 * @@1024)\ndef f(): return 2", "cache"),
        ("@lru_cache(maxsize=8)\ndef f(): return @@2", ""),
        ("@lru_cache(maxsize=8)\ndef f(x=@@2): pass", ""),
        ("def f():\n    assert (\n        x ==\n        @@1\n    )", "assert"),
        ("def f():\n    assert x\n    return @@1", ""),
        ("if @@TYPE_CHECKING:\n    import a", "typing"),
        ("if typing.TYPE_CHECKING:\n    A = @@1", "typing"),
        ("if TYPE_CHECKING:\n    A = 1\nelse:\n    A = @@2", ""),
        ("if CHECKING:\n    A = @@1", ""),
        ("if sys.version_info >= (3, @@11): pass", "version"),
        ("if @@sys.version_info >= (3, 11): pass", "version"),
        ("if sys.version >= (3, @@11): pass", ""),
        ("if sys.version_info >= (3, 11):\n    A = @@1", ""),
        ("_A = dict[int, Literal[@@1]]\ndef f(x: _A) -> _A: pass", "annotation"),
        ("_A: TypeAlias = Literal[@@1]\nx: _A = 2", "annotation"),
        ("A = Literal[@@1]\ndef f(x: A): pass", ""),
        ("_A = @@1\ndef f(x: _A): return _A", ""),
        ("_A = @@1\n__all__ = ['_A']", ""),
        ("_A = @@1\ndef f(x=_A): pass", ""),
        ("_A = _b = @@1\ndef f(x: _A): return _b", ""),
        ("def f():\n    _a = @@1", ""),
        ("_A[0] = @@1", ""),
        ("@@f()", ""),
    ],
)
def test_what_is_left_out_and_what_is_not(text: str, rule: str) -> None:
    assert rule_at(text) == rule


def test_every_rule_has_a_line_of_reason() -> None:
    assert len({rule.name for rule in alike.RULES}) == len(alike.RULES)
    assert all(rule.reason and "\n" not in rule.reason for rule in alike.RULES)


def test_the_maker_of_mutants_goes_by_the_rules() -> None:
    pytest.importorskip("cosmic_ray")
    from mutate import python

    text = "pairs = list(zip(a, b, strict=True))\nif sys.version_info >= (3, 11):\n    c = True\n"
    made = [(mutant.line, mutant.operator) for mutant in python.mutants("x.py", text)]
    assert made == [(3, "ReplaceTrueWithFalse")]


def test_reasons_are_about_lines_that_are_there() -> None:
    """A line that was changed is to be tried again."""
    table = tomllib.loads((ROOT / "tests/mutate/equivalent.toml").read_text(encoding="utf-8"))
    for row in table["mutant"]:
        lines = {line.strip() for line in (ROOT / row["file"]).read_text(encoding="utf-8").splitlines()}
        assert row["line"] in lines, f"{row['file']}: {row['line']}"
        assert row["reason"] and "\n" not in row["reason"]
    keys = [(row["file"], row["operator"], row["line"]) for row in table["mutant"]]
    assert len(set(keys)) == len(keys)
