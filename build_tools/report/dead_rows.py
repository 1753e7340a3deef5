"""Can a measured row choose the kernel that it names? Not where the kernel's conditions refuse every call that the row is about.

Then the cost decides, as if there were no row. Of a call only what a row compares is known here, so conditions are worked out
with the rest left open: refused is what no value of the rest can save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from aiter_prebuilt.contract.bytecode import (
    ADD,
    BOOL,
    GE,
    JUMP,
    JUMP_IF_FALSE,
    JUMP_IF_FALSE_KEEP,
    JUMP_IF_TRUE_KEEP,
    LE,
    LOAD,
    LOG2,
    LT,
    MUL,
    NEG,
    NOT,
    OPERATIONS,
    PUSH8,
    PUSH64,
    ExpressionError,
    evaluate,
    instructions,
    slots_of,
)
from aiter_prebuilt.contract.records import Operator, TunedRow
from build_tools.plan.slots import COMPUTE_UNITS

#: Sizes of a range that are tried before it counts as one in which the kernel may be chosen.
MOST: Final = 1 << 12


class Open(NamedTuple):
    """A value that hangs on what the row does not say: at least ``low``, where something is known of it."""

    low: int | None = None


Value = int | Open


def refusal(operator: Operator, rows: Iterable[TunedRow]) -> str:
    """Why none of these, which came of one line, can choose its recipe; "" when one can."""
    said = ""
    for row in rows:
        found = _refused(operator, row)
        if not found:
            return ""
        said = said or found
    return said


def _refused(operator: Operator, row: TunedRow) -> str:
    """The condition that refuses the row's calls all at once, or the first that is asked for; "" when one of them is not."""
    codes = {each.code: each.text for each in operator.recipes[row.recipe].conditions}
    said = ""
    for place, values in enumerate(_calls(row.values, row.last or row.values)):
        slots = _bounded(codes, _slots(operator, row.cus, values))
        found = next((text for code, text in codes.items() if _never(code, slots)), "")
        if found and place == 0:
            return f"refused by {found!r}"
        if not found and place:
            return ""
        said = said or found
    return f"refused by {said!r}" if said else ""


def _calls(first: Sequence[int], last: Sequence[int]) -> Iterator[tuple[Value, ...]]:
    """What is compared in all calls of a row, a range's sizes left open; then in each, of a range its last and the first ones."""
    place = next((at for at, ends in enumerate(zip(first, last, strict=True)) if ends[0] < ends[1]), None)
    if place is None:
        yield tuple(first)
        return
    sizes = last[place], *range(first[place], min(last[place], first[place] + MOST))
    for size in (Open(first[place]), *sizes):
        yield (*first[:place], size, *first[place + 1 :])


def _slots(operator: Operator, cus: int, values: Sequence[Value]) -> list[Value]:
    slots: list[Value] = [Open()] * len(operator.slots)
    slots[operator.slots.index(COMPUTE_UNITS)] = cus
    for slot, value in zip(operator.tuned_slots, values, strict=True):
        slots[slot] = value
    return slots


def _bounded(codes: Iterable[bytes], slots: Sequence[Value]) -> list[Value]:
    """The slots, with what conditions such as ``R >= M`` say of those that are open."""
    bounded = list(slots)
    for code in codes:
        for part in _conjuncts(code):
            steps = instructions(part)
            slot = steps[0][1]
            if steps[0][0] != LOAD or steps[-1][0] != GE or not isinstance(slots[slot], Open):
                continue
            with_other = part[steps[0][2] : -1]  # what it is at least, when that is a program of its own
            try:
                low = evaluate(with_other, _known(with_other, slots))
            except ExpressionError:
                continue
            bounded[slot] = Open(low)
    return bounded


def _known(code: bytes, slots: Sequence[Value]) -> list[int]:
    """The slots for a program that loads none that is open.

    Raises:
        ExpressionError: it loads one.
    """
    if any(isinstance(slots[slot], Open) for slot in slots_of(code)):
        raise ExpressionError("open")
    return [0 if isinstance(value, Open) else value for value in slots]


def _conjuncts(code: bytes) -> list[bytes]:
    """The parts of a program that is a chain of ``and``; else itself."""
    if not code or code[-1] != BOOL:
        return [code]
    parts, start, at = [], 0, 0
    for operation, operand, following in instructions(code):
        if operation == JUMP_IF_FALSE_KEEP and following + operand == len(code) - 1:
            parts.append(code[start:at])
            start = following
        at = following
    return [*parts, code[start:-1]]


def _never(code: bytes, slots: Sequence[Value]) -> bool:
    """Is it 0 whatever is open? An error refuses a call, too."""
    try:
        return evaluate(code, _known(code, slots)) == 0
    except ExpressionError:
        return all(value == 0 for value in _outcomes(code, slots))


def _outcomes(code: bytes, slots: Sequence[Value]) -> Iterator[Value]:
    """What each path comes to, of which there are two where a jump hangs on what is open."""
    ahead: list[tuple[int, list[Value]]] = [(0, [])]
    while ahead:
        at, stack = ahead.pop()
        try:
            for operation, operand, following in instructions(code):
                if following <= at:  # jumped over
                    continue
                at = following
                if operation < JUMP:
                    _step(operation, operand, stack, slots)
                    continue
                if operation != JUMP and isinstance(stack[-1], Open):
                    # A value that ends a chain of "and" is known: 0.
                    kept: dict[int, list[Value]] = {JUMP_IF_FALSE: [], JUMP_IF_FALSE_KEEP: [0]}
                    ahead.append((at + operand, [*stack[:-1], *kept.get(operation, stack[-1:])]))
                    stack.pop()
                    continue
                taken = operation == JUMP or (stack[-1] != 0) == (operation == JUMP_IF_TRUE_KEEP)
                if operation == JUMP_IF_FALSE or not taken:
                    stack.pop()
                at += operand if taken else 0
        except ExpressionError:
            yield 0
        else:
            yield stack[-1]


def _step(operation: int, operand: int, stack: list[Value], slots: Sequence[Value]) -> None:
    if operation in (PUSH8, PUSH64):
        stack.append(operand)
    elif operation == LOAD:
        stack.append(slots[operand])
    elif operation in (NEG, NOT, BOOL, LOG2):
        last = stack.pop()
        stack.append(Open() if isinstance(last, Open) else evaluate(bytes([LOAD, 0, 0, operation]), (last,)))
    else:
        right, left = stack.pop(), stack.pop()
        stack.append(_two(operation, left, right))


def _two(operation: int, left: Value, right: Value) -> Value:
    if not isinstance(left, Open) and not isinstance(right, Open):
        return OPERATIONS[operation](left, right)
    if isinstance(right, Open) and operation in (ADD, MUL):
        left, right = right, left
    if not isinstance(left, Open) or left.low is None or isinstance(right, Open):
        return Open()
    if operation == ADD or (operation == MUL and right >= 0):
        return Open(OPERATIONS[operation](left.low, right))
    decided: dict[int, Callable[[int, int], Value]] = {
        LT: lambda low, high: 0 if low >= high else Open(),
        LE: lambda low, high: 0 if low > high else Open(),
        GE: lambda low, high: 1 if low >= high else Open(),
    }
    return decided[operation](left.low, right) if operation in decided else Open()
