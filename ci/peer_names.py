"""Tell whether a name that a test of AITER's asks for exists in its checkout at all, by the sources alone."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path


@lru_cache
def missing(tree: Path, module: str, name: str) -> bool:
    """Tell whether no source of ``module`` spells ``name``, so that the module lacks it without us too.

    A name counts as present wherever a file of the module binds, reads or quotes it, and wherever any file of the package
    sets such an attribute. So does any name if the module imports ``*`` from a place that this function cannot read.

    Args:
        tree: the checkout, which has the package ``aiter``.
        module: dotted name of a module of the checkout.
        name: the attribute that it did not have.
    """
    file = _file(tree, module.split("."))
    if file is None or _file(tree, [*module.split("."), name]) is not None:
        return False
    return not _spells(tree, file, name, set()) and not _set_from_outside(tree / module.split(".")[0], name)


def _set_from_outside(package: Path, name: str) -> bool:
    """Tell whether any file of the package sets an attribute of this name, or quotes it."""
    setting = re.compile(rf"""\.{re.escape(name)}\s*=(?!=)|["']{re.escape(name)}["']""")
    return any(setting.search(file.read_text(encoding="utf-8")) for file in package.rglob("*.py"))


def _file(tree: Path, parts: list[str]) -> Path | None:
    """Find the source of a module."""
    place = tree.joinpath(*parts)
    found = (each for each in (place / "__init__.py", place.with_name(f"{place.name}.py")) if each.is_file())
    return next(found, None)


def _spells(tree: Path, file: Path, name: str, seen: set[Path]) -> bool:
    """Tell whether a file, or one that it imports ``*`` from, spells a name outside of comments."""
    if file in seen:
        return False
    seen.add(file)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names):
            starred = _file(tree, _origin(tree, file, node))
            if starred is None or _spells(tree, starred, name, seen):
                return True
        elif name in _words(node):
            return True
    return False


def _origin(tree: Path, file: Path, node: ast.ImportFrom) -> list[str]:
    """Resolve the module that an import statement of ``file`` reads."""
    package = list(file.parent.relative_to(tree).parts)
    start = package[: len(package) - node.level + 1] if node.level else []
    return [*start, *(node.module or "").split(".")] if node.module else start


def _words(node: ast.AST) -> set[str]:
    """List the names that one node binds, reads or quotes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.alias):
        return {node.asname or node.name.partition(".")[0]}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return set(node.value.replace(".", " ").split()) if len(node.value) < 1000 else set()
    return set()
