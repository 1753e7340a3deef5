"""Python text laid out as the formatter lays it out, so that generated files need no second pass."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

WIDTH = 110


def fitted(head: str, items: Sequence[str], tail: str, indent: int = 0) -> list[str]:
    """``head`` + items + ``tail`` on one line, else the items on a line of their own, else one item a line."""
    margin, inner = " " * indent, " " * (indent + 4)
    whole = f"{margin}{head}{', '.join(items)}{tail}"
    if len(whole) <= WIDTH:
        return [whole]
    together = inner + ", ".join(items)
    if len(together) <= WIDTH:
        return [margin + head, together, margin + tail]
    return [margin + head, *(f"{inner}{item}," for item in items), margin + tail]


def imported(module: str, names: Sequence[str], indent: str = "") -> list[str]:
    """``from module import names``: on one line, or a line for each."""
    line = f"{indent}from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{indent}from {module} import (", *(f"{indent}    {name}," for name in names), f"{indent})"]


def wrapped(text: str, indent: int, width: int = WIDTH, hanging: int = 0) -> list[str]:
    """Prose in lines of at most ``width``; lines after the first are ``hanging`` further in."""
    lines: list[str] = []
    line = " " * indent
    for word in text.split():
        if len(line) + 1 + len(word) > width and line.strip():
            lines.append(line.rstrip())
            line = " " * (indent + hanging)
        line += word if not line.strip() else f" {word}"
    return [*lines, line.rstrip()]


class _Substitute(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self.names[node.id], mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        parts = [self.visit(part) for part in node.args]
        if isinstance(node.func, ast.Name) and node.func.id == "cdiv":
            negated = ast.UnaryOp(ast.USub(), parts[0])
            return ast.UnaryOp(ast.USub(), ast.BinOp(negated, ast.FloorDiv(), parts[1]))
        return ast.Call(node.func, parts, [])


def substituted(expression: str, names: Mapping[str, str]) -> str:
    """Write a dim's expression over symbols as Python.

    Raises:
        KeyError: a symbol that ``names`` does not have.
    """
    return ast.unparse(_Substitute(names).visit(ast.parse(expression, mode="eval").body))
