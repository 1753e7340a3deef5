"""Statements to closures, and the program that an entry becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from emulator.pcode import tree
from emulator.pcode.compiler import Evaluator, bounds, expression
from emulator.pcode.frame import Frame, Place
from emulator.pcode.lexer import PcodeError
from emulator.pcode.operators import ARITHMETIC
from emulator.pcode.parser import parse
from emulator.pcode.values import FLOATS, SMALL, VIEW, Value, part, truth

Function: TypeAlias = Callable[[Frame, list[Value]], Value]
# None goes on; a value returns; BREAK leaves a loop.
Step: TypeAlias = Callable[[Frame], Any]
Locator: TypeAlias = Callable[[Frame], Place]
BREAK = object()


def program(text: str) -> Callable[[Frame], None]:
    """The closure that runs an entry on a frame.

    Raises:
        PcodeError: prose, or something that the evaluator lacks.
    """
    steps = _body(parse(text))

    def run(frame: Frame) -> None:
        steps(frame)

    return run


def _body(body: tree.Body) -> Step:
    steps = [_statement(one) for one in body]

    def run(frame: Frame) -> Any:
        for step in steps:
            outcome = step(frame)
            if outcome is not None:
                return outcome
        return None

    return run


def _statement(node: tree.Statement) -> Step:
    if isinstance(node, tree.Assign):
        return _assign(node)
    if isinstance(node, tree.If):
        return _if(node)
    if isinstance(node, tree.For):
        return _for(node)
    if isinstance(node, tree.Declare):
        return _declare(node)
    if isinstance(node, tree.Lambda):
        return _lambda(node)
    if isinstance(node, tree.Return):
        return expression(node.value)
    if isinstance(node, tree.Break):
        return lambda frame: BREAK
    effect = expression(node.value)

    def run(frame: Frame) -> None:
        effect(frame)

    return run


def _if(node: tree.If) -> Step:
    branches = [(expression(c) if c is not None else None, _body(body)) for c, body in node.branches]

    def run(frame: Frame) -> Any:
        for condition, body in branches:
            if condition is None or truth(condition(frame)):
                return body(frame)
        return None

    return run


def _for(node: tree.For) -> Step:
    first, last, body, name = expression(node.first), expression(node.last), _body(node.body), node.name

    def run(frame: Frame) -> Any:
        begin = first(frame)
        for i in range(begin.signed, last(frame).signed + 1):
            frame.values[name] = Value(begin.kind, begin.width, i)
            outcome = body(frame)
            if outcome is BREAK:
                return None
            if outcome is not None:
                return outcome
        return None

    return run


def _declare(node: tree.Declare) -> Step:
    kind = {"U": "u", "I": "i", "B": "b", "F": f"f{node.width}"}[node.letter]

    def run(frame: Frame) -> None:
        # Entries declare their inputs too (S, OFFSET0, ...): what is there stays.
        if node.count:
            frame.arrays.setdefault(node.name, [Value(kind, node.width, 0) for _ in range(node.count)])
        else:
            frame.values.setdefault(node.name, Value(kind, node.width, 0))

    return run


def _lambda(node: tree.Lambda) -> Step:
    body = _body(node.body)

    def call(frame: Frame, arguments: list[Value]) -> Value:
        saved = {name: frame.values.get(name) for name in node.parameters}
        frame.values.update(zip(node.parameters, arguments, strict=True))
        outcome = body(frame)
        for name, value in saved.items():
            if value is None:
                del frame.values[name]
            else:
                frame.values[name] = value
        if not isinstance(outcome, Value):
            raise PcodeError(f"{node.name} returns nothing")
        return outcome

    def run(frame: Frame) -> None:
        frame.lambdas[node.name] = call

    return run


def _assign(node: tree.Assign) -> Step:
    value = expression(node.value)
    if len(node.targets) == 1 and isinstance(node.targets[0], tree.Concatenation):
        return _split(node.targets[0], value)
    targets = [locate(one) for one in node.targets]
    if not node.operator:

        def run(frame: Frame) -> None:
            result = value(frame)
            for target in reversed(targets):
                frame.store(target(frame), result)

        return run
    operation = ARITHMETIC[node.operator]

    def change(frame: Frame) -> None:
        place = targets[0](frame)
        frame.store(place, operation(frame.load(place), value(frame), frame.mode))

    return change


def _split(node: tree.Concatenation, value: Evaluator) -> Step:
    targets = [locate(one) for one in reversed(node.parts)]

    def run(frame: Frame) -> None:
        result, at = value(frame), 0
        for target in targets:
            place = target(frame)
            if not place.width:
                raise PcodeError("a part without a width")
            frame.store(place, part(result, at, place.width))
            at += place.width

    return run


def locate(node: tree.Expression) -> Locator:
    """The closure that says where a target is."""
    if isinstance(node, tree.Name):
        name = node.name
        return lambda frame: Place(name)
    if isinstance(node, tree.Member):
        return _locate_member(node)
    if isinstance(node, tree.Index):
        return _locate_index(node)
    if isinstance(node, tree.Slice):
        base, where = locate(node.base), bounds(node)

        def run(frame: Frame) -> Place:
            place = base(frame)
            low, width, backwards = where(frame)
            place.offset, place.width, place.sliced = place.offset + low, width, True
            place.kind, place.backwards = "u", backwards
            return place

        return run
    raise PcodeError("not a target")


def _locate_member(node: tree.Member) -> Locator:
    match = VIEW.match(node.name)
    if match is None:
        if not isinstance(node.base, tree.Name):
            raise PcodeError(f"no view {node.name!r}")
        name = f"{node.base.name}.{node.name}"
        return lambda frame: Place(name)
    base, width = locate(node.base), int(match[2])
    kind = node.name if node.name in FLOATS or node.name in SMALL else match[1][0]

    def run(frame: Frame) -> Place:
        place = base(frame)
        place.kind, place.width = kind, width
        return place

    return run


def _locate_index(node: tree.Index) -> Locator:
    index = expression(node.index)
    if isinstance(node.base, tree.Name):
        name = node.base.name

        def one(frame: Frame) -> Place:
            at = index(frame).signed
            if name in ("MEM", "LDS") or name in frame.arrays:
                return Place(name, (at,))
            return Place(name, (), at, 1, "u", True)

        return one
    if (
        isinstance(node.base, tree.Index)
        and isinstance(node.base.base, tree.Name)
        and node.base.base.name == "VGPR"
    ):
        lane = expression(node.base.index)
        return lambda frame: Place("VGPR", (lane(frame).signed, index(frame).signed))
    base = locate(node.base)

    def bit_of(frame: Frame) -> Place:
        place = base(frame)
        place.offset, place.width, place.kind, place.sliced = place.offset + index(frame).signed, 1, "u", True
        return place

    return bit_of
