"""Check and evaluate compiled expressions, between a call and its launch.

Everything is a 64-bit signed integer. Text is parsed once, when a bundle is built (``expression.py``), and compiled to the
bytecode below (stack machine, little endian, forward jumps only, so that every program ends). The native runtime has the
second evaluator; ``tests/data/expressions.json`` holds the vectors that both must pass. There is no ``eval`` on either side.

    0x01 PUSH8 i8        0x02 PUSH64 i64      0x03 LOAD u16 slot
    0x10 ADD  0x11 SUB  0x12 MUL  0x13 FLOORDIV  0x14 MOD  0x15 CDIV  0x16 MIN  0x17 MAX
    0x18 NEG  0x19 NOT  0x1a BOOL  0x1b SHL  0x1c SHR  0x1d LOG2
    0x20 EQ   0x21 NE   0x22 LT   0x23 LE   0x24 GT   0x25 GE
    0x30 JUMP u16        0x31 JUMP_IF_FALSE u16 (pops)
    0x32 JUMP_IF_FALSE_KEEP u16     0x33 JUMP_IF_TRUE_KEEP u16 (pop only when they do not jump)

A jump distance counts from the byte after the operand. A program ends at its last byte with
exactly one value on the stack. An empty program means "absent": each user states its default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
MAX_STACK: Final = 32
MAX_CODE: Final = 4096

PUSH8, PUSH64, LOAD = 0x01, 0x02, 0x03
ADD, SUB, MUL, FLOORDIV, MOD, CDIV, MIN, MAX, NEG, NOT, BOOL, SHL, SHR, LOG2 = range(0x10, 0x1E)
EQ, NE, LT, LE, GT, GE = range(0x20, 0x26)
JUMP, JUMP_IF_FALSE, JUMP_IF_FALSE_KEEP, JUMP_IF_TRUE_KEEP = range(0x30, 0x34)


class ExpressionError(ValueError):
    """An expression that cannot be parsed, compiled or evaluated; the text says which part and why."""


def text_number(text: str) -> int:
    """Return the slot value of a text attribute.

    It is the 64-bit signed FNV-1a of its UTF-8 bytes; 0 when there is none. The native runtime computes the same. A slot holds a
    number, so names of kernels are compared by it.
    """
    if not text:
        return 0
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value - 2**64 if value >= 2**63 else value


def constant_value(code: bytes) -> int | None:
    """Evaluate a program that loads no slot.

    None when it depends on the call.
    """
    if not code:
        return None
    if slots_of(code):
        return None
    return evaluate(code, ())


@lru_cache(maxsize=8192)
def slots_of(code: bytes) -> frozenset[int]:
    """Return the slots that a program loads."""
    return frozenset(operand for operation, operand, _ in instructions(code) if operation == LOAD)


@lru_cache(maxsize=8192)
def instructions(code: bytes) -> tuple[tuple[int, int, int], ...]:
    """(operation, operand, offset of the next operation) of each instruction, in order."""
    result: list[tuple[int, int, int]] = []
    at = 0
    while at < len(code):
        operation = code[at]
        if operation not in _FORMS:
            raise ExpressionError(f"unknown operation 0x{operation:02x} at byte {at}")
        form, size = _FORMS[operation]
        if at + 1 + size > len(code):
            raise ExpressionError(f"operation 0x{operation:02x} at byte {at} is cut off")
        operand = form(code, at + 1)[0] if form else 0
        at += 1 + size
        result.append((operation, operand, at))
    return tuple(result)


def _form(operation: int) -> tuple[Callable[[bytes, int], tuple[int, ...]] | None, int]:
    """Return an operation's operand reader and the operand's size.

    The reader is None where the operation has no operand.
    """
    text = {PUSH8: "<b", PUSH64: "<q", LOAD: "<H"}.get(operation, "<H" if operation >= JUMP else "")
    read = struct.Struct(text)
    return (read.unpack_from, read.size) if text else (None, 0)


_FORMS: Final = {
    operation: _form(operation)
    for operation in (PUSH8, PUSH64, LOAD, *range(ADD, LOG2 + 1), *range(EQ, GE + 1), *range(JUMP, 0x34))
}


@lru_cache(maxsize=8192)
def check(code: bytes, slot_count: int) -> None:
    """Prove that ``code`` is well formed: known operations, slots in range, jumps to instruction
    starts and forward, the same stack depth on every path, one value at the end.

    Raises:
        ExpressionError: with the byte where the proof fails.
    """
    if len(code) > MAX_CODE:
        raise ExpressionError(f"{len(code)} bytes of bytecode, at most {MAX_CODE} are allowed")
    depth_at: dict[int, int] = {0: 0}
    depth = 0
    reachable = True
    start = 0
    for operation, operand, following in instructions(code):
        if start in depth_at:
            if reachable and depth_at[start] != depth:
                raise ExpressionError(f"stack depth differs between the paths that meet at byte {start}")
            depth, reachable = depth_at[start], True
        if not reachable:
            raise ExpressionError(f"no path leads to byte {start}")
        if operation == LOAD and operand >= slot_count:
            raise ExpressionError(f"slot {operand} at byte {start}, but there are {slot_count}")
        need, delta = _EFFECTS[operation]
        if depth < need:
            raise ExpressionError(f"stack underflow at byte {start}")
        if operation >= JUMP:
            _note_jump(depth_at, following + operand, depth - (operation == JUMP_IF_FALSE), len(code), start)
        depth += delta
        if depth > MAX_STACK:
            raise ExpressionError(f"stack deeper than {MAX_STACK} at byte {start}")
        reachable = operation != JUMP
        start = following
    _check_end(depth_at, depth, reachable, len(code), {0, *(after for _, _, after in instructions(code))})


def _note_jump(depth_at: dict[int, int], landing: int, depth: int, size: int, start: int) -> None:
    if landing > size:
        raise ExpressionError(f"jump at byte {start} leaves the program")
    if depth_at.setdefault(landing, depth) != depth:
        raise ExpressionError(f"stack depth differs between the paths that meet at byte {landing}")


def _check_end(depth_at: dict[int, int], depth: int, reachable: bool, size: int, starts: set[int]) -> None:
    stray = sorted(set(depth_at) - starts)
    if stray:
        raise ExpressionError(f"jump into the middle of an instruction at byte {stray[0]}")
    final = {depth} if reachable else set()
    if size in depth_at and size:
        final.add(depth_at[size])
    if size and final != {1}:
        raise ExpressionError("a program must end with exactly one value")


def _effect(operation: int) -> tuple[int, int]:
    """(values needed, change of depth on the fall-through path)."""
    if operation in (PUSH8, PUSH64, LOAD):
        return 0, 1
    if operation in (NEG, NOT, BOOL, LOG2):
        return 1, 0
    if operation == JUMP:
        return 0, 0
    if operation >= JUMP_IF_FALSE:
        return 1, -1
    return 2, -1


_EFFECTS: Final = {operation: _effect(operation) for operation in _FORMS}


def _floor_div(left: int, right: int) -> int:
    if right == 0:
        raise ExpressionError("division by zero")
    return left // right


def _mod(left: int, right: int) -> int:
    if right == 0:
        raise ExpressionError("division by zero")
    return left % right


def _power(right: int) -> int:
    if not 0 <= right <= 63:
        raise ExpressionError("a shift by less than 0 or more than 63")
    return 1 << int(right)


def _log2(value: int) -> int:
    if value <= 0:
        raise ExpressionError("the log2 of a number that is not positive")
    return int(value).bit_length() - 1


#: What each operation of two values gives.
OPERATIONS: Final[dict[int, Callable[[int, int], int]]] = {
    ADD: lambda a, b: a + b,
    SUB: lambda a, b: a - b,
    MUL: lambda a, b: a * b,
    FLOORDIV: _floor_div,
    MOD: _mod,
    CDIV: lambda a, b: -_floor_div(-a, b),
    MIN: min,
    MAX: max,
    SHL: lambda a, b: a * _power(b),
    SHR: lambda a, b: a // _power(b),
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
}


def evaluate(
    code: bytes, slots: Sequence[int], operations: Mapping[int, Callable[[int, int], int]] = OPERATIONS
) -> int:
    """Run a program over ``slots``, with ``operations`` for what takes two values.

    Symbolic integers (torch's, which are no ``int``) go through as they are; only a plain number's range can be checked.

    Raises:
        ExpressionError: division by zero, a result beyond 64 bits, or a malformed program.
    """
    check(code, len(slots))
    return run(code, slots, operations)


def run(
    code: bytes, slots: Sequence[int], operations: Mapping[int, Callable[[int, int], int]] = OPERATIONS
) -> int:
    """Evaluate a program that is known to be well formed.

    As :func:`evaluate`.
    """
    stack: list[int] = []
    at = 0
    for operation, operand, following in instructions(code):
        if following <= at:  # jumped over
            continue
        at = following
        if operation in (PUSH8, PUSH64):
            stack.append(operand)
        elif operation == LOAD:
            stack.append(slots[operand])
        elif operation == NEG:
            stack.append(_in_range(-stack.pop()))
        elif operation == LOG2:
            stack.append(_log2(stack.pop()))
        elif operation in (NOT, BOOL):
            stack.append(int((stack.pop() != 0) == (operation == BOOL)))
        elif operation == JUMP:
            at += operand
        elif operation >= JUMP_IF_FALSE:
            wanted = operation == JUMP_IF_TRUE_KEEP
            taken = (stack[-1] != 0) == wanted
            if operation == JUMP_IF_FALSE or not taken:
                stack.pop()
            at += operand if taken else 0
        else:
            right = stack.pop()
            stack.append(_in_range(operations[operation](stack.pop(), right)))
    return stack[-1]


def _in_range(value: int) -> int:
    if type(value) is int and not INT64_MIN <= value <= INT64_MAX:
        raise ExpressionError("a value does not fit 64 bits")
    return value
