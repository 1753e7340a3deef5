"""First docstring lines and names: the lint finds noun clauses and vague words, and the tree has none."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "ci"))

import docstring_lint


def test_tree_has_no_fault() -> None:
    assert docstring_lint.faults() == []


@pytest.mark.parametrize("word", sorted(docstring_lint.CLAUSES))
def test_finds_noun_clause_at_the_beginning(word: str) -> None:
    (fault,) = docstring_lint.faults_of(f'def size():\n    """{word.title()} a thing is."""\n', "a.py")
    assert fault == f"a.py:2: a docstring begins with {word!r}. Begin with a verb, or with the thing's name."


@pytest.mark.parametrize("name", ["told", "_told", "Asked"])
def test_finds_vague_name(name: str) -> None:
    for text in (f"def {name}(): ...\n", f"class {name}: ...\n"):
        (fault,) = docstring_lint.faults_of(text, "a.py")
        assert fault.startswith(f"a.py:1: {name} says nothing about its meaning.")


def test_finds_vague_file() -> None:
    (fault,) = docstring_lint.faults_of("", "src/wording.py")
    assert fault.startswith("src/wording.py:1: wording.py says nothing about its content.")


@pytest.mark.parametrize(
    "text",
    [
        '"""Whatever is given."""\n',
        "def told_bytes(): ...\n",
        "def size(): ...\n",
        '"""``how``-to pages."""\n',
    ],
)
def test_passes_over_other_words(text: str) -> None:
    assert list(docstring_lint.faults_of(text, "a.py")) == []
