"""Strides of a call: which show that a kernel reads them, and which the conditions of a recipe hold where they are.

A kernel that works a stride out from sizes is right wherever the tensor is dense. So one of the calls of a recipe must have
another value of each stride that they are free to have than sizes give.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aiter_prebuilt.contract import bytecode
from aiter_prebuilt.contract.bytecode import ExpressionError
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.contract.records import ATTRIBUTE_KINDS, DIM_BIND, Attribute, Operator, Recipe
from build_tools.cases.bind import Bound, Layout
from build_tools.manifest.grammar import TensorSpec, is_symbol

#: Elements by which a stride is moved to see whether a condition minds: multiples of what conditions divide by, and one.
_MOVES: Final = (1, 16, 64, 1024)
#: What sizes are multiplied with, to see whether a condition minds the value of an attribute or its size for theirs.
_SCALES: Final = (1, 2, 16)


def strides_of(bound: Bound) -> dict[str, int]:
    """Stride symbols of the tensors that the caller gives -> their values, where there is more than one step to take."""
    return {name: step for name, step, *_ in _steps(bound)}


def shown(bound: Bound) -> frozenset[str]:
    """Find the strides that a call tests.

    Such a stride is neither that of dense dims inside, nor the next stride times its size.
    """
    dims = bound.subject.dims()
    return frozenset(
        name
        for name, step, inner, nested in _steps(bound)
        if name not in dims and step not in (inner, nested)
    )


#: How elements of what is only read may share memory: all indices of a dim at one place, or each over a part of the last.
ZERO: Final = "0"
OVERLAPPING: Final = "less than a row"


def shared(bound: Bound) -> dict[str, str]:
    """Stride symbols of tensors that are only read -> how elements share memory there."""
    return {
        name: ZERO if step == 0 else OVERLAPPING
        for name, step, row in _rows(bound)
        if step == 0 or 0 < step < row
    }


def admitted(operator: Operator, recipe: Recipe, bounds: Iterable[Bound]) -> frozenset[tuple[str, str]]:
    """(stride symbol, how elements share memory) that the conditions of a recipe let pass in a tensor that is only read.

    Each of its calls is tried with that stride changed, alone and together with its equals.
    """
    codes = [each.code for each in recipe.conditions]
    found: set[tuple[str, str]] = set()
    for bound in bounds:
        values = _values(operator, bound, _settled(bound))
        minding = [code for code in codes if _true(code, values)]
        rows = list(_rows(bound))
        for name, step, row in rows:
            equal = {other for other, same, _ in rows if same == step}
            for how, value in ((ZERO, 0), (OVERLAPPING, row // 2)):
                if (name, how) in found or (how == OVERLAPPING and not value):
                    continue
                for names in ({name}, equal):
                    moved = [
                        value if slot in names else now
                        for slot, now in zip(operator.slots, values, strict=True)
                    ]
                    if all(_true(code, moved) for code in minding):
                        found.add((name, how))
    return frozenset(found)


def _rows(bound: Bound) -> Iterator[tuple[str, int, int]]:
    """(symbol, stride, elements of the last dim) of each dim but the last of what is only read, where it has two indices."""
    for spec in bound.subject.arguments:
        layout = bound.tensors.get(spec.name)
        if layout is None or layout.returned or spec.role != "in" or spec.strides is None:
            continue
        if math.prod(layout.shape):
            for text, dim, size in _placed(spec, layout):
                if is_symbol(text) and size > 1 and dim < len(layout.shape) - 1:
                    yield text, layout.strides[dim], layout.shape[-1]


def _steps(bound: Bound) -> Iterator[tuple[str, int, int, int]]:
    """(symbol, stride, what the sizes inside come to, what the next stride and its size come to)."""
    for spec in bound.subject.arguments:
        layout = bound.tensors.get(spec.name)
        if layout is None or layout.returned or spec.strides is None or not math.prod(layout.shape):
            continue
        for text, dim, size in _placed(spec, layout):
            if is_symbol(text) and size > 1:
                rest = layout.shape[dim + 1 :]
                nested = layout.strides[dim + 1] * rest[0] if rest else 1
                yield text, layout.strides[dim], math.prod(rest), nested


def _placed(spec: TensorSpec, layout: Layout) -> Iterator[tuple[str, int, int]]:
    """(text of a stride, the dim whose stride it is, the size of that dim, all leading ones as one)."""
    leading = len(layout.shape) - len(spec.dims) + 1 if spec.star else 1
    for place, text in enumerate(spec.strides or ()):
        dim = place + leading - 1
        if dim >= 0:
            yield text, dim, math.prod(layout.shape[:leading]) if place == 0 else layout.shape[dim]


def held(operator: Operator, recipe: Recipe, bounds: Iterable[Bound], name: str) -> bool:
    """Do conditions of the recipe refuse each of its calls as soon as this stride or size is another one, alone or with its
    equals?
    """
    place = operator.slots.index(name) if name in operator.slots else -1
    codes = [each.code for each in recipe.conditions]
    if not any(place in bytecode.slots_of(code) for code in codes):
        return False
    for bound in bounds:
        size = name in bound.sizes
        steps = bound.sizes if size else strides_of(bound)
        if name not in steps:
            continue
        values = _values(operator, bound)
        minding = [
            code for code in codes if _true(code, values)
        ]  # what a function changes first is not known
        equal = [slot for slot, other in enumerate(operator.slots) if steps.get(other) == steps[name]]
        for slots in ([place], equal):
            for move in (*_MOVES, *(-move for move in _MOVES if size and move < steps[name])):
                moved = [value + move * (slot in slots) for slot, value in enumerate(values)]
                if all(_true(code, moved) for code in minding):
                    return False
    return True


def fixed(operator: Operator, recipe: Recipe, bounds: Iterable[Bound], name: str) -> bool:
    """Do conditions of the recipe refuse each of its calls with another value of this attribute, whichever the sizes?"""
    place = operator.slots.index(name)
    sizes = {dim.slot for tensor in operator.tensors for dim in tensor.dims if dim.kind == DIM_BIND}
    codes = [each.code for each in recipe.conditions if place in bytecode.slots_of(each.code)]
    for bound in bounds:
        values = _values(operator, bound)
        minding = [code for code in codes if _true(code, values)]
        now = values[place]
        for other in {*range(now - 4, now + 5), now // 2, now * 2, now + 16} - {now}:
            moved = [
                [
                    other if slot == place else value * scale if slot in sizes else value
                    for slot, value in enumerate(values)
                ]
                for scale in _SCALES
            ]
            if all(any(_true(code, each) for each in moved) for code in minding):
                return False
    return True


def _true(code: bytes, values: list[int]) -> bool:
    try:
        return bool(bytecode.evaluate(code, values))
    except ExpressionError:
        return False


def _settled(bound: Bound) -> dict[str, int]:
    """Strides of dims without a step to take: what the runtime binds is what sizes give."""
    found = {}
    for spec in bound.subject.arguments:
        layout = bound.tensors.get(spec.name)
        if layout is not None and spec.strides is not None:
            for text, dim, size in _placed(spec, layout):
                if is_symbol(text) and size <= 1:
                    found[text] = math.prod(max(each, 1) for each in layout.shape[dim + 1 :])
    return found


def _values(operator: Operator, bound: Bound, settled: Mapping[str, int] | None = None) -> list[int]:
    """List the values of the slots that a call's words determine."""
    known: dict[str, int] = {
        **(settled or {}),
        **strides_of(bound),
        **bound.sizes,
        "CUS": bound.words.compute_units,
    }
    for name, layout in bound.tensors.items():
        known[f"?{name}"] = int(layout is not None)
        known[f"&{name}"] = layout.offset * BY_NAME[layout.dtype].itemsize if layout is not None else 0
    attributes: Mapping[str, Attribute] = {each.name: each for each in operator.attributes}
    for name, value in bound.values.items():
        if name in attributes:
            known[name] = _number(attributes[name], value)
    return [known.get(name, 0) for name in operator.slots]


def _number(attribute: Attribute, value: object) -> int:
    kind = ATTRIBUTE_KINDS[attribute.kind]
    if kind == "enum":
        return attribute.values.index(str(value)) if str(value) in attribute.values else 0
    if kind == "text":
        return bytecode.text_number(str(value or ""))
    return int(value) if isinstance(value, (bool, int)) else 0
