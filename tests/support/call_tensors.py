"""Calls with known answers as torch tensors, on the processor or on a GPU: the inputs of opcheck and of torch.compile's tests."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

import aiter_prebuilt
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.calls import Argument, Array, Call, ElementType
from aiter_prebuilt.execute.record import instead
from aiter_prebuilt.tracing import signatures
from build_tools.cases import bind, make, table
from build_tools.cases.subject import subjects
from build_tools.cases.words import Words
from support import repository

#: Elements of all tensors of a small call, and how many such calls of an operator are enough.
SMALL, ENOUGH = 4000, 4
SEED = 1


def tensor(array: Array, device: str = "cpu") -> torch.Tensor:
    """The tensor, in a whole allocation of its own; zeros where it is no input, for torch compares NaN with NaN as different."""
    kind = dtype.BY_NAME[array.dtype]
    data = bytes(array.span * kind.itemsize) if array.data is None else array.data
    flat = torch.frombuffer(bytearray(data or b"\0" * kind.itemsize), dtype=torch.uint8).to(device)
    return flat.view(getattr(torch, kind.torch)).as_strided(
        array.shape, array.strides, array.offset if data else 0
    )


def argument(value: Argument, device: str = "cpu") -> Any:
    """An argument as a torch program gives it."""
    if isinstance(value, Array):
        return tensor(value, device)
    return getattr(torch, dtype.BY_NAME[value.name].torch) if isinstance(value, ElementType) else value


def arguments(call: Call, device: str = "cpu") -> dict[str, Any]:
    """The arguments of the public function by name."""
    return {name: argument(value, device) for name, value in call.arguments.items()}


def schema_arguments(call: Call, device: str = "cpu") -> tuple[Any, ...]:
    """The arguments of ``torch.ops.aiter_prebuilt``: what the public function hands to the native side, less what it returns."""
    signature = signatures.load()[call.operator]
    handed: list[tuple[list[Any], list[Any]]] = []
    function = getattr(aiter_prebuilt, call.operator)
    with instead(function, lambda _, tensors, attributes: handed.append((tensors, attributes))):
        function(**arguments(call, device))
    ((tensors, attributes),) = handed
    count = len(signature.arguments)
    types = {each.name: made.dtype for each, made in zip(signature.returns, tensors[count:], strict=True)}
    return (*tensors[:count], *attributes, *(types[name] for name in signature.free_types))


@cache
def cases() -> dict[str, table.Cases]:
    """The cases of every operator, which ``lint`` checks."""
    manifest = repository.manifest()
    return table.load(repository.MANIFESTS, subjects(manifest), manifest.targets, checked=False)


@cache
def small(target: str) -> tuple[Call, ...]:
    """Some small calls of every operator, of finite values: every golden one, and of each kind of words the first one."""
    facts = repository.manifest().targets[target]
    found: list[Call] = []
    for _, each in sorted(cases().items()):
        found += make.calls(each, target, facts, SEED, golden=True)
        seen: set[tuple[str, ...]] = set()
        for words in each.calls:
            kind = _kind(each, words, target, facts.fp8)
            if kind is None or kind in seen or len(seen) == ENOUGH:
                continue
            question = next(make.questions(replace(each, calls=(words,)), target, facts, SEED))
            if all(np.isfinite(values).all() for values in question.inputs.values() if values is not None):
                seen.add(kind)
                found.append(make.call_of(each, question, target))
    return tuple(found)


def _kind(each: table.Cases, words: Words, target: str, fp8: str) -> tuple[str, ...] | None:
    """Classify a small call by its words and empty dims.

    None when it is not small, or of another target.
    """
    if words.targets and target not in words.targets:
        return None
    bound = next(bind.bind(each.subject, words, fp8))
    layouts = [layout for layout in bound.tensors.values() if layout is not None]
    if sum(math.prod(layout.shape) for layout in layouts) > SMALL:
        return None
    said = sorted(word.partition("=")[0].partition("~")[0] for word in words.text.split())
    return (*said, *(f"no {name}" for name, size in bound.sizes.items() if size == 0))
