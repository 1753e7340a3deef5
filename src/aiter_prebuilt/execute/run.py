"""Executes the reference cases on a device, through the same operators that serve callers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiter_prebuilt import dispatch
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.device import DeviceFacts
from aiter_prebuilt.device_memory import DeviceMemory
from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.execute.cases import Case, Tensor, cases
from aiter_prebuilt.execute.numbers import decode, encode


@dataclass(frozen=True, slots=True)
class Execution:
    """One operator on one device. ``error``: the largest, in units of its bound (None: nothing to compare);
    ``seconds``: the first call, loading included; ``problem``: why there is no result, "" otherwise.
    """

    operator: str
    device: str
    target: str
    kernel: str
    variant: str
    backend: str
    error: float | None
    seconds: float
    problem: str

    @property
    def ok(self) -> bool:
        """Right: executed, and no error larger than its bound."""
        return not self.problem and self.error is not None and self.error <= 1


def execute(facts: DeviceFacts, path: str, operators: tuple[str, ...]) -> Iterator[Execution]:
    """Run the case of each operator on a device; ``path`` is its driver's (``DriverFacts.path``).

    An operator that fails is an :class:`Execution` with a problem; the others run all the same.
    """
    known = {case.operator: case for case in cases(facts.target)}
    for name in operators:
        where = (str(facts), facts.target)
        if name not in known:
            yield Execution(name, *where, "", "", "", None, 0.0, "this version has no reference case for it")
            continue
        memory = DeviceMemory(facts, path)
        try:
            yield _one(known[name], facts, memory)
        except AiterPrebuiltError as error:
            yield Execution(name, *where, "", "", "", None, 0.0, f"{type(error).__name__}: {error}")
        finally:
            memory.close()


def _one(case: Case, facts: DeviceFacts, memory: DeviceMemory) -> Execution:
    tensors = [None if tensor is None else _raw(tensor, facts, memory) for tensor in case.tensors]
    operator = dispatch.operator(case.operator)
    bundles = dispatch.bundles_of(facts.arch, str(facts))
    mine = dispatch.tuned_tables(case.operator, facts.target, facts.compute_units, bundles)
    decisions = operator.explain(bundles, facts.compute_units, tensors, case.attributes, mine)
    chosen = next((row for row in decisions if row["chosen"]), None)
    start = time.perf_counter()
    operator(*tensors, *case.attributes, stream=0)
    memory.synchronize()
    seconds = time.perf_counter() - start
    now = [
        decode(tensor.kind, memory.download(raw[0], _size(tensor))) if tensor and raw else None
        for tensor, raw in zip(case.tensors, tensors, strict=True)
    ]
    words = (chosen["kernel"], chosen["variant"], chosen["backend"]) if chosen else ("", "", "")
    worst = case.check(now)
    # No number in JSON is infinite: nothing near the right values is a problem in words.
    problem = "" if math.isfinite(worst) else "an output is not near its value, or was not written"
    return Execution(
        case.operator, str(facts), facts.target, *words, None if problem else worst, seconds, problem
    )


def _size(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * dtype.BY_NAME[tensor.kind].itemsize


def _raw(tensor: Tensor, facts: DeviceFacts, memory: DeviceMemory) -> tuple[Any, ...]:
    # 0xFF is NaN in the wide floats; 0x7F is NaN or a value that no case produces in the types of one byte.
    poison = 0x7F if dtype.BY_NAME[tensor.kind].itemsize == 1 else 0xFF
    data = bytes([poison]) * _size(tensor) if tensor.values is None else encode(tensor.kind, tensor.values)
    return memory.upload(data), tensor.kind, tensor.shape, None, (facts.vendor, facts.ordinal)
