"""Changes that no test can or should notice, by their kind: they are no mutants. One of no kind stands in ``equivalent.toml``.

Standard library only, and only the syntax tree: a rule sees the node that is changed and all around it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: The node that is changed, the last, and those around it, the module first.
Chain = Sequence[ast.AST]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind. ``holds``: is this node of the kind?"""

    name: str
    reason: str
    holds: Callable[[Chain], bool]


def left_out(text: str) -> Callable[[int, int], Rule | None]:
    """For a file: (line from 1, column from 0) of a change -> the rule that leaves it out, or None."""
    tree = ast.parse(text)
    lines = text.splitlines()

    def rule_of(line: int, column: int) -> Rule | None:
        at = len(lines[line - 1][:column].encode())  # the syntax tree counts bytes
        chain = tuple(_around(tree, line, at))
        return next((rule for rule in RULES if rule.holds(chain)), None)

    return rule_of


def _around(tree: ast.Module, line: int, at: int) -> Iterator[ast.AST]:
    """The module, and ever smaller nodes in which the place lies."""
    node: ast.AST | None = tree
    while node is not None:
        yield node
        node = next((child for child in ast.iter_child_nodes(node) if _holds(child, line, at)), None)


def _holds(node: ast.AST, line: int, at: int) -> bool:
    if not isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.arg, ast.ExceptHandler)):
        return any(_holds(child, line, at) for child in ast.iter_child_nodes(node))
    start = (node.lineno, node.col_offset)
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.decorator_list:  # they stand above it
        first = node.decorator_list[0]
        start = (first.lineno, first.col_offset)
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return start <= (line, at) < end


def _called(node: ast.AST, *names: str) -> bool:
    """Is it a call of one of these, ``module.name`` or ``name``?"""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) in names


def _keyword(chain: Chain, function: str, *names: str) -> bool:
    """Is it the value of one of these keywords of a call of ``function``?"""
    return any(
        _called(call, function) and isinstance(given, ast.keyword) and given.arg in names
        for call, given in pairwise(chain)
    )


def _is_name(node: ast.AST, name: str) -> bool:
    return name in (getattr(node, "id", None), getattr(node, "attr", None))


def _is_checking(node: ast.AST, inner: ast.AST) -> bool:
    return isinstance(node, ast.If) and _is_name(node.test, "TYPE_CHECKING") and inner not in node.orelse


def _compares(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Compare) and _is_name(node.left, name)


def _unread(chain: Chain) -> bool:
    """Is it in the value of a private name of the module that annotations alone name?"""
    if len(chain) < 3 or not isinstance(chain[1], (ast.Assign, ast.AnnAssign)):
        return False
    module, made = chain[0], chain[1]
    targets = made.targets if isinstance(made, ast.Assign) else [made.target]
    names = {target.id if isinstance(target, ast.Name) else "" for target in targets}
    return all(name.startswith("_") for name in names) and not names & set(_read(module))


def _read(node: ast.AST) -> Iterator[str]:
    """Names that are read outside of annotations; texts count, since ``__all__`` and ``getattr`` name things so."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                yield part.id
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value
            if isinstance(part, ast.AST):
                yield from _read(part)


RULES: Final = (
    Rule(
        "zip", "an assertion of ours about lengths, as assert is: it refuses what the lines above rule out",
        lambda chain: _keyword(chain, "zip", "strict"),
    ),
    Rule(
        "record", "strict types keep everybody from writing to a record; frozen and slots only say so again",
        lambda chain: _keyword(chain, "dataclass", "frozen", "slots"),
    ),
    Rule(
        "cache", "how much a cache keeps changes when things are computed, not what",
        lambda chain: any(_called(node, "lru_cache") for node in chain),
    ),
    Rule(
        "assert", "a program of strict types does not depend on its assertions",
        lambda chain: any(isinstance(node, ast.Assert) for node in chain),
    ),
    Rule(
        "typing", "only a type checker goes where TYPE_CHECKING is true",
        lambda chain: any(_is_checking(node, inner) for node, inner in pairwise(chain)),
    ),
    Rule(
        "version", "which Python this is: the tests have one, and both ways read alike",
        lambda chain: any(_compares(node, "version_info") for node in chain),
    ),
    Rule("annotation", "a private name that annotations alone name: nobody evaluates them", _unread),
)  # fmt: skip
