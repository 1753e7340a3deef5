"""Mutants of a Python file by cosmic-ray's operators, and the tests that may notice one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

from mutate import alike, covered
from mutate.mutant import Mutant, Verdict

#: One change for each kind of mistake. Left out: what every test notices or none can (``+`` by ``**``, ``<`` by ``is``).
OPERATORS: Final = (
    "ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add", "ReplaceBinaryOperator_Mul_FloorDiv",
    "ReplaceBinaryOperator_FloorDiv_Mul", "ReplaceBinaryOperator_Mod_Mul", "ReplaceBinaryOperator_BitOr_BitAnd",
    "ReplaceBinaryOperator_BitAnd_BitOr", "ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceComparisonOperator_Lt_LtE", "ReplaceComparisonOperator_LtE_Lt", "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_GtE_Gt", "ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_IsNot_Is",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "AddNot", "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer",
    "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip
#: Tests of one mutant: the quickest that execute its line; the first of them first. A lot that does not end in these seconds
#: found an endless loop, if it is of the quickest.
_FIRST: Final = 60
_MOST: Final = 360
_LIMIT: Final = 180.0
_LIMIT_OF_MORE: Final = 900.0


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All of a file, but what is left out by its kind (``alike.py``)."""
    plain = _meaning(text)
    rule_of = alike.left_out(text)
    provider = OperatorProvider()
    lines = text.splitlines()
    for name in OPERATORS:
        operator = provider[name]()
        for place, (line, column) in enumerate(_places(text, operator)):
            if rule_of(line, column) is not None:
                continue
            try:
                changed = mutate_code(text, operator, place)
            except (
                AttributeError
            ):  # cosmic-ray knows exceptions by a bare name, not `except click.UsageError`
                continue
            if changed is None:
                continue
            try:
                if _meaning(changed) == plain:
                    continue
            except SyntaxError:
                continue
            after = changed.splitlines()
            shown = after[line - 1].strip() if line <= len(after) else ""
            yield Mutant(file, name, line, lines[line - 1].strip(), shown, changed)


def _places(text: str, operator: Any) -> Iterator[tuple[int, int]]:
    """Line and column of each place where an operator applies, in the order in which cosmic-ray counts them."""
    stack = [parso.parse(text)]
    while stack:
        node = stack.pop()
        for start, _ in operator.mutation_positions(node):
            yield start
        stack.extend(reversed(getattr(node, "children", ())))


class _Bare(ast.NodeTransformer):
    """Without annotations: with ``from __future__ import annotations`` nobody evaluates them."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def _meaning(text: str) -> str:
    return ast.dump(_Bare().visit(ast.parse(text)))


def verdict(mutant: Mutant, copy: Path, map_: covered.Map) -> Verdict:
    """Run the tests that execute the line, which lies changed in ``copy``: the quickest, and if these all pass, many more."""
    tests = map_.tests(mutant.file, mutant.line)[:_MOST]
    if not map_.runs(mutant.file, mutant.line):  # a table: tests that compare it execute no line of its file
        own = covered.called_like(copy, mutant.file)
        if own and (words := covered.failed(copy, [*own, *map_.deselected()], _LIMIT)):
            return Verdict(mutant, True, words)
    if not tests:
        return Verdict(mutant, False, "no test executes it")
    if words := covered.failed(copy, tests[:_FIRST], _LIMIT):
        return Verdict(mutant, True, words)
    if more := tests[_FIRST:]:
        words = covered.failed(copy, more, _LIMIT_OF_MORE)
        if words and words != covered.ENDLESS:
            return Verdict(mutant, True, words)
    return Verdict(mutant, False, f"{len(tests)} tests execute it")
