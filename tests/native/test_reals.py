"""The C++ evaluator of computed floats against the shared vectors and, on random programs, against the Python one."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiter_prebuilt.contract import real

DATA = json.loads((Path(__file__).resolve().parents[1] / "data" / "reals.json").read_text())
VECTORS = DATA["vectors"]
EDGES = [0.0, -0.0, 1.0, -2.5, 1e-310, 1e308, math.inf, -math.inf, math.nan, 0.1]


def bits(value: float) -> str:
    """A double bit for bit; all NaNs are one."""
    return "nan" if math.isnan(value) else struct.pack("<d", value).hex()


def outcome(
    evaluate: Callable[..., float], code: bytes, slots: list[int], floats: list[float]
) -> tuple[str, str]:
    try:
        return "value", bits(evaluate(code, slots, floats))
    except ValueError as error:
        return "error", str(error)


@pytest.mark.parametrize(
    "vector", VECTORS, ids=[f"{place} {row['text']}" for place, row in enumerate(VECTORS)]
)
def test_vector(native: ModuleType, vector: dict[str, Any]) -> None:
    code, floats = bytes.fromhex(vector["code"]), [float(number) for number in vector["floats"]]
    assert outcome(native.evaluate_real, code, vector["slots"], floats) == ("value", vector["value"])
    assert outcome(real.evaluate, code, vector["slots"], floats) == ("value", vector["value"])
    slots = {name: slot for slot, name in enumerate(DATA["slots"]) if name[0] not in "&?"}
    assert real.compile_real(vector["text"], slots, DATA["floats"], DATA["constants"]) == code


def random_program(rng: random.Random) -> bytes:
    code, depth = b"", 0
    for _ in range(rng.randrange(1, 20)):
        if depth < 2 or rng.random() < 0.4:
            code += rng.choice(
                [
                    struct.pack("<Bd", real.REAL, rng.choice(EDGES)),
                    struct.pack("<BH", real.SLOT, rng.randrange(3)),
                    struct.pack("<BH", real.FLOAT, rng.randrange(2)),
                ]
            )
            depth += 1
        elif rng.random() < 0.7:
            code += bytes([rng.randrange(real.ADD, real.NEG)])
            depth -= 1
        else:
            code += bytes([rng.choice([real.NEG, real.SQRT])])
    code += bytes([real.MUL]) * max(depth - 1, 0)
    if rng.random() < 0.15:
        at = rng.randrange(len(code))
        code = code[:at] + rng.randbytes(1) + code[at + 1 :]
    return code


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_end_alike_in_both(native: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    values = errors = 0
    for _ in range(1000):
        code = random_program(rng)
        slots = [rng.choice([0, 1, -7, 2**53 + 1, 2**63 - 1, -(2**63)]) for _ in range(3)]
        floats = [rng.choice(EDGES) for _ in range(2)]
        got = outcome(native.evaluate_real, code, slots, floats)
        assert got == outcome(real.evaluate, code, slots, floats), (code.hex(), slots, floats)
        values += got[0] == "value"
        errors += got[0] == "error"
    assert values > 100 and errors > 20


def test_it_refuses_what_it_cannot_take(native: ModuleType) -> None:
    with pytest.raises(TypeError, match="3 arguments"):
        native.evaluate_real(b"", [])
    with pytest.raises(TypeError, match="64 bits"):
        native.evaluate_real(b"", [2**63], [])
    with pytest.raises(TypeError):
        native.evaluate_real(b"", [], ["x"])
