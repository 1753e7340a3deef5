"""Check the words of docstrings and names in src, build_tools, ci and tests/support.

    python ci/docstring_lint.py

It prints one line for each fault. A first docstring line says what a function does, or names a thing: it must not begin with a
noun clause. A name says what a file, a class or a function is: a vague word alone is no name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("src", "build_tools", "ci", "tests/support")
#: First words of noun clauses. A verb, or the field's name of the thing, says the same in one reading.
CLAUSES: Final = frozenset(
    {"as", "how", "of", "that", "those", "what", "where", "whether", "which", "who", "whose"}
)
#: Words that tell a reader nothing about a file, a class or a function of this name.
VAGUE: Final = frozenset(
    {"answers", "apart", "around", "asked", "drifts", "makers", "meant", "pieces", "reached", "readings", "told", "wording"}
)  # fmt: skip


def first_word(docstring: str) -> str:
    """Return the first word of a docstring in small letters, without quotes.

    Args:
        docstring: the text; "" gives "".
    """
    words = docstring.split(maxsplit=1)
    return words[0].strip("`\"'(),:.").lower() if words else ""


def faults_of(text: str, name: str) -> Iterator[str]:
    """Yield the faults of one file.

    Args:
        text: the source.
        name: the path of the file, for messages.
    """
    tree = ast.parse(text)
    if Path(name).stem.strip("_") in VAGUE:
        yield f"{name}:1: {Path(name).name} says nothing about its content. Name the thing that it holds."
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        word = first_word(ast.get_docstring(node) or "")
        if word in CLAUSES:
            line = node.body[0].lineno
            yield f"{name}:{line}: a docstring begins with {word!r}. Begin with a verb, or with the thing's name."
        if not isinstance(node, ast.Module) and node.name.strip("_").lower() in VAGUE:
            yield f"{name}:{node.lineno}: {node.name} says nothing about its meaning. Name what it does or returns."


def faults(root: Path = ROOT) -> list[str]:
    """List the faults of all files below :data:`FOLDERS`.

    Args:
        root: the repository.
    """
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    return [
        fault
        for path in paths
        for fault in faults_of(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    ]


def main() -> int:
    """Print the faults, and return 1 if there are any."""
    found = faults()
    for fault in found:
        print(fault)
    print(f"docstrings and names: {len(found)} faults")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
