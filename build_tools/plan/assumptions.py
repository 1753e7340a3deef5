"""Prove by trial that what a compiler may assume is really guaranteed by the recipe's conditions.

For each argument that the compiler takes as a multiple of 16, calls are tried in which everything else is as nice as
can be and this one is not. If such a call passes all conditions, the kernel would be launched on it and read the wrong
bytes, so the manifest is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from aiter_prebuilt.contract.bytecode import ExpressionError, evaluate, slots_of
from aiter_prebuilt.contract.records import ARG_INT, ARG_TENSOR
from build_tools.manifest.problems import Problems
from build_tools.plan.recipe import RecipeDraft
from build_tools.plan.slots import Slots

_NICE = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536, 131072)
_ADDRESS = 1 << 20
_MAX_CHOICES = 32


def check_assumptions(drafted: RecipeDraft, slots: Slots, problems: Problems) -> None:
    """Add a problem for each assumed argument that a permitted call can break."""
    for step, job in zip(drafted.recipe.steps, drafted.jobs, strict=True):
        for arg, kernel_arg in zip(step.args, job.args, strict=True):
            if not kernel_arg.divisible:
                continue
            if arg.kind == ARG_TENSOR:
                broken: dict[str, tuple[int, ...]] = {"&" + slots.tensors[arg.operand].name: (1, 2, 4, 8)}
            elif arg.kind == ARG_INT and kernel_arg.name in slots.names:
                broken = {kernel_arg.name: (1, 2, 3, 4, 7, 8, 24, 100, 1000, 4104)}
            else:
                problems.add(
                    f"{kernel_arg.name!r} is neither a tensor nor a dim or stride", "assume", "divisible"
                )
                continue
            call = _permitted(drafted, slots, broken)
            if call is not None:
                problems.add(
                    f"{kernel_arg.name!r} is assumed to be a multiple of 16, but 'when' lets this call through: {call}",
                    "assume", "divisible",
                )  # fmt: skip


def _permitted(drafted: RecipeDraft, slots: Slots, broken: dict[str, tuple[int, ...]]) -> str | None:
    ((name, bad_values),) = broken.items()
    codes = tuple(condition.code for condition in drafted.recipe.conditions)
    call = _search(codes, slots, name, bad_values)
    if call is None:
        return None
    return ", ".join(
        f"{slot}={value}" for slot, value in zip(slots.names, call, strict=True) if slot[0] != "?"
    )


@lru_cache(maxsize=4096)
def _search(
    codes: tuple[bytes, ...], slots: Slots, name: str, bad_values: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Find the first tried call that passes every condition.

    Cached: variants that differ in types only ask the same.
    """
    place = slots.names.index(name)
    # One condition that refuses every tried call proves the assumption. Ask those that look at the argument first, with
    # values for the few slots that they load; nearly always that is all there is to do. Those with the fewest come first.
    for code in sorted(codes, key=lambda code: len(slots_of(code))):
        if place in slots_of(code) and _refuses(code, slots, place, bad_values):
            return None
    everything = frozenset(range(len(slots.names)))
    return next(
        (
            call
            for call in _calls(slots, place, bad_values, everything)
            if all(_holds(code, call) for code in codes)
        ),
        None,
    )


@lru_cache(maxsize=8192)
def _refuses(code: bytes, slots: Slots, place: int, bad_values: tuple[int, ...]) -> bool:
    """Tell whether one condition refuses every tried call.

    Cached: the conditions of two variants differ in one or two.
    """
    return not any(_holds(code, call) for call in _calls(slots, place, bad_values, slots_of(code)))


def _calls(
    slots: Slots, place: int, bad_values: tuple[int, ...], used: frozenset[int]
) -> Iterator[tuple[int, ...]]:
    """Yield calls that are nice but for slot ``place``, once each.

    They have values for the ``used`` slots (the others are 0).
    """
    choices = _attribute_choices(slots, {slots.names[slot] for slot in used})
    sized = {
        slot
        for slot in used - {place}
        if slots.names[slot][0] not in "&?" and slots.names[slot] not in choices[0]
    }
    nices = _NICE if sized else _NICE[:1]
    for nice, bad, attributes in itertools.product(nices, bad_values, choices):
        call = [0] * len(slots.names)
        for slot in used:
            call[slot] = attributes.get(slots.names[slot], _value(slots.names[slot], nice))
        call[place] = _ADDRESS + bad if slots.names[place].startswith("&") else bad
        yield tuple(call)


def _attribute_choices(slots: Slots, used: set[str]) -> list[dict[str, int]]:
    """List combinations of the used attributes and optional tensors.

    Every value of a bool or enum, 0 and 1 of an int.
    """
    ranges = {
        spec.name: range(len(spec.values)) if spec.kind == "enum" else range(2)
        for spec in slots.attributes
        if spec.kind != "float" and spec.name in used
    }
    ranges |= {
        "?" + tensor.name: range(2)
        for tensor in slots.tensors
        if tensor.optional and "?" + tensor.name in used
    }
    return [
        dict(zip(ranges, values, strict=True))
        for values in itertools.islice(itertools.product(*ranges.values()), _MAX_CHOICES)
    ]


def _value(slot: str, nice: int) -> int:
    if slot.startswith("&"):
        return _ADDRESS
    return 1 if slot.startswith("?") else nice


def _holds(code: bytes, call: tuple[int, ...]) -> bool:
    try:
        return evaluate(code, call) != 0
    except ExpressionError:
        return False
