"""The state of each operator's formula, by content: the text of its function in ``reference.py`` and of all that it uses there.

A receipt names it: when the formula or the distance that it allows changes, what was right before has to be executed again. The
cases are not in it: more of them make no earlier result wrong, and fewer do not pass the trial of their sensitivity.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

#: The file of a family.
REFERENCE: Final = "reference.py"
#: Hexadecimal digits: enough to tell the states of one function apart.
_DIGITS: Final = 16


def meanings(folder: Path) -> dict[tuple[str, str], str]:
    """(family, public function of its reference) -> the digest of its state; ``folder`` is ``manifests``. A file that is missing
    or is no Python has none: lint says so.
    """
    return {
        (path.parent.name, name): digest
        for path in folder.glob(f"*/{REFERENCE}")
        for name, digest in of_text(path.read_bytes().decode("utf-8", "replace")).items()
    }


@cache
def of_text(text: str) -> dict[str, str]:
    """:func:`meanings` of one file's text."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    binds: dict[str, list[ast.stmt]] = {}
    for statement in module.body:
        for name in _bound(statement):
            binds.setdefault(name, []).append(statement)
    functions = (statement for statement in module.body if isinstance(statement, ast.FunctionDef))
    return {
        function.name: _digest(text, function, binds)
        for function in functions
        if not function.name.startswith(("_", "draw_"))
    }


def _digest(text: str, function: ast.FunctionDef, binds: dict[str, list[ast.stmt]]) -> str:
    """The bytes count, not the tree, which another Python may print in another way."""
    needed: list[ast.stmt] = []
    left: list[ast.stmt] = [function]
    while left:
        statement = left.pop()
        if statement in needed:
            continue
        needed.append(statement)
        left += [other for name in _used(statement) for other in binds.get(name, ())]
    lines = text.splitlines()
    needed.sort(key=lambda statement: statement.lineno)
    parts = ["\n".join(lines[_first(statement) - 1 : statement.end_lineno]) for statement in needed]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def _first(statement: ast.stmt) -> int:
    """Its first line, decorators included."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return min([statement.lineno, *(each.lineno for each in statement.decorator_list)])
    return statement.lineno


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of the module gives a value."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]


def _used(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
