"""Prove by trial that what a compiler may assume is really guaranteed by the recipe's conditions.

For each argument that the compiler takes as a multiple of 16, calls are tried in which everything else is as nice as
can be and this one is not. If such a call passes all conditions, the kernel would be launched on it and read the wrong
bytes, so the manifest is refused.
"""

from __future__ import annotations

import itertools

from aiter_prebuilt.contract.expression import ExpressionError, evaluate
from aiter_prebuilt.contract.records import ARG_INT, ARG_TENSOR
from build_tools.frame import Frame
from build_tools.manifest.problems import Problems
from build_tools.recipe import RecipeDraft

_NICE = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 65536)
_ADDRESS = 1 << 20


def check_assumptions(drafted: RecipeDraft, frame: Frame, problems: Problems) -> None:
    """Add a problem for each assumed argument that a permitted call can break."""
    for step, job in zip(drafted.recipe.steps, drafted.jobs, strict=True):
        for arg, kernel_arg in zip(step.args, job.args, strict=True):
            if not kernel_arg.divisible:
                continue
            if arg.kind == ARG_TENSOR:
                broken = {"&" + frame.tensors[arg.operand].name: (1, 2, 4, 8)}
            elif arg.kind == ARG_INT and kernel_arg.name in frame.slots:
                broken = {kernel_arg.name: (1, 2, 3, 4, 7, 8, 24, 100, 1000, 4104)}
            else:
                problems.add(f"{kernel_arg.name!r} is neither a tensor nor a dim or stride", "assume", "divisible")
                continue
            call = _permitted(drafted, frame, broken)
            if call is not None:
                problems.add(
                    f"{kernel_arg.name!r} is assumed to be a multiple of 16, but 'when' lets this call through: {call}",
                    "assume", "divisible",
                )  # fmt: skip


def _permitted(drafted: RecipeDraft, frame: Frame, broken: dict[str, tuple[int, ...]]) -> str | None:
    (name, bad_values), = broken.items()
    for nice, bad, flag in itertools.product(_NICE, bad_values, (0, 1)):
        slots = [_value(slot, nice, flag) for slot in frame.slots]
        place = frame.slots.index(name)
        slots[place] = slots[place] + bad if name.startswith("&") else bad
        if all(_holds(condition.code, slots) for condition in drafted.recipe.conditions):
            return ", ".join(f"{slot}={value}" for slot, value in zip(frame.slots, slots, strict=True) if slot[0] != "?")
    return None


def _value(slot: str, nice: int, flag: int) -> int:
    if slot.startswith("&"):
        return _ADDRESS
    return 1 if slot.startswith("?") else nice * (1 + flag)


def _holds(code: bytes, slots: list[int]) -> bool:
    try:
        return evaluate(code, slots) != 0
    except ExpressionError:
        return False
