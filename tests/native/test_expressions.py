"""The C++ evaluator against the shared vectors and, on random programs, against the Python one."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiter_prebuilt.contract import bytecode, expression

DATA = json.loads((Path(__file__).resolve().parents[1] / "data" / "expressions.json").read_text())
VECTORS = DATA["vectors"]


def outcome(
    evaluate: Callable[[bytes, list[int]], int], code: bytes, slots: list[int]
) -> tuple[str, int | str]:
    try:
        return "value", evaluate(code, slots)
    except ValueError as error:
        return "error", str(error)


def wanted(vector: dict[str, Any]) -> tuple[str, int | str]:
    return ("value", vector["value"]) if "value" in vector else ("error", vector["error"])


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(native: ModuleType, vector: dict[str, Any]) -> None:
    code = bytes.fromhex(vector["code"])
    assert outcome(native.evaluate, code, vector["slots"]) == wanted(vector)
    assert outcome(bytecode.evaluate, code, vector["slots"]) == wanted(vector)
    if "text" in vector:
        slots = {name: slot for slot, name in enumerate(DATA["slots"])}
        scope = expression.Scope(slots, DATA["constants"], DATA["enums"], DATA["strings"])
        assert expression.compile_expression(vector["text"], scope) == code


def test_there_are_enough_vectors() -> None:
    assert len(VECTORS) >= 60 and sum("error" in vector for vector in VECTORS) >= 20


def test_every_operation_is_in_a_vector_that_gives_a_value() -> None:
    seen: set[int] = set()
    for vector in VECTORS:
        if "value" in vector:
            seen.update(operation for operation, _, _ in bytecode.instructions(bytes.fromhex(vector["code"])))
    assert seen == set(bytecode._FORMS)


EDGES = [0, 1, -1, 2, 3, 7, 16, -128, 2**31, 2**62, 2**63 - 1, -(2**63)]


def random_program(rng: random.Random) -> bytes:
    """Mostly well formed: operations with the stack they need, sometimes a jump, sometimes a stray byte."""
    code, depth = b"", 0
    for _ in range(rng.randrange(1, 24)):
        kind = rng.random()
        if depth < 2 or kind < 0.35:
            value = rng.choice(EDGES)
            code += (
                struct.pack("<Bq", 2, value)
                if rng.random() < 0.5
                else struct.pack("<BH", 3, rng.randrange(5))
            )
            depth += 1
        elif kind < 0.75:
            code += bytes([rng.choice([*range(0x10, 0x18), 0x1B, 0x1C, *range(0x20, 0x26)])])
            depth -= 1
        elif kind < 0.9:
            code += bytes([rng.choice([0x18, 0x19, 0x1A, 0x1D])])
        else:
            code += struct.pack("<BH", rng.choice([0x30, 0x31, 0x32, 0x33]), rng.choice([0, 1, 2, 3, 9]))
    code += bytes([0x16]) * max(depth - 1, 0)
    if rng.random() < 0.1:
        at = rng.randrange(len(code))
        code = code[:at] + rng.randbytes(1) + code[at + 1 :]
    return code


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_end_alike_in_both(native: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    values = errors = 0
    for _ in range(800):
        code, slots = random_program(rng), [rng.choice(EDGES) for _ in range(5)]
        got = outcome(native.evaluate, code, slots)
        assert got == outcome(bytecode.evaluate, code, slots), (code.hex(), slots)
        values += got[0] == "value"
        errors += got[0] == "error"
    assert values > 50 and errors > 50


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_end_alike_in_both(native: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(1500):
        code = bytes(
            rng.choice(range(0x34)) if rng.random() < 0.9 else rng.randrange(256)
            for _ in range(rng.randrange(1, 16))
        )
        assert outcome(native.evaluate, code, [1, 2, 3, 4, 5]) == outcome(
            bytecode.evaluate, code, [1, 2, 3, 4, 5]
        ), code.hex()


def test_evaluate_refuses_what_it_cannot_take(native: ModuleType) -> None:
    with pytest.raises(ValueError, match="empty"):
        native.evaluate(b"", [])
    with pytest.raises(TypeError, match="64 bits"):
        native.evaluate(b"\x01\x01", [2**63])
    with pytest.raises(TypeError):
        native.evaluate("text", [])
