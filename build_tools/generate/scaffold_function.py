"""A new operator's hand-written function: the model's, under the new name, in a module of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from build_tools.errors import UsageError

FOLDER: Final = Path("src/aiter_prebuilt/ops")


def module_of(family: str, name: str) -> str:
    """Name the module of a new function. It begins with the family, as the pages of the reference expect."""
    return name if name.startswith(family) else f"{family}_{name}"


def text(root: Path, module: str, like: str, name: str) -> str:
    """Copy a function, and what of its module it uses.

    Args:
        root: the repository.
        module: the model's module, below ``ops``.
        like: the model's function.
        name: the new function.

    Returns:
        The text of the new module. The native object and the generated refusal have the new name, too.

    Raises:
        UsageError: the module does not define the function.
    """
    path = root / FOLDER / f"{module}.py"
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    kept = _needed(tree, like)
    if not kept:
        raise UsageError(
            f"copy the function of {like!r}", f"{path.name} has no such function", "Choose another operator"
        )
    parts = [_segment(source, node, kept) for node in tree.body if _is_kept(node, kept)]
    whole = "\n".join(filter(None, parts))
    return re.sub(rf"(?<!\w)(_new_|_|refuse_)?{like}(?!\w)", rf"\g<1>{name}", whole) + "\n"


def _needed(tree: ast.Module, like: str) -> set[str]:
    """List the names that a function uses, and those that their definitions use; nothing without such a function."""
    definitions = {name: node for node in tree.body for name in _defined(node)}
    found: set[str] = set()
    guards = [each.id for node in tree.body if isinstance(node, ast.If) for each in _names(node.test)]
    waiting = [like, *guards] if isinstance(definitions.get(like), ast.FunctionDef) else []
    while waiting:
        name = waiting.pop()
        found.add(name)
        if name in definitions and not isinstance(definitions[name], ast.ImportFrom | ast.Import):
            used = {each.id for each in _names(definitions[name])}
            waiting += used - found - {*waiting}
    return found


def _defined(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (each.id for target in targets for each in _names(target))


def _names(node: ast.AST) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def _is_kept(node: ast.stmt, kept: set[str]) -> bool:
    """Tell whether a statement stays: the docstring, ``if TYPE_CHECKING``, and what defines a kept name."""
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return future or isinstance(node, ast.Expr | ast.If) or not kept.isdisjoint(_defined(node))


def _segment(source: str, node: ast.stmt, kept: set[str]) -> str:
    """Return a statement's text with its decorators, comments and the blank lines before them; of an import, the kept names."""
    lines = source.splitlines()
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    begin = first
    while begin and not lines[begin - 1].strip():
        begin -= 1
    text = lines[first : node.end_lineno]
    if isinstance(node, ast.ImportFrom) and node.module != "__future__":
        names = [alias for alias in node.names if (alias.asname or alias.name) in kept]
        text = [ast.unparse(ast.ImportFrom(node.module, names, node.level))]
    return "\n".join([*lines[begin:first], *text])
