"""The calls of models' steps in the words of ``aiter-prebuilt explain``: ``rms_norm M=8 N=4096 T=bf16``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from aiter_prebuilt.contract.calls import Array, Call, ElementType
from build_tools.manifest.grammar import TensorSpec, is_symbol, parse_tensor
from build_tools.manifest.model import Manifest, Operator
from build_tools.shapes import ask
from build_tools.shapes.models import Models


def calls_of(models: Models, manifest: Manifest, target: str, only: ask.Filter) -> Iterator[str]:
    """Each once, of operators whose Python function is the native call; others make other calls of theirs."""
    operators = ask.operators_of(manifest)
    seen: set[str] = set()
    for each in ask.step_calls(models, manifest, target, only):
        operator = operators.get(each.call.operator) if each.call is not None else None
        if each.call is None or operator is None or operator.function is not None:
            continue
        words = words_of(operator, each.call)
        if words not in seen:
            seen.add(words)
            yield words


def words_of(operator: Operator, call: Call) -> str:
    """Express a call's tensors and options as the operator's symbols.

    Symbols that the call leaves open are left to explain.
    """
    settings: dict[str, str] = {}
    for name, text in operator.arguments.items():
        spec, value = parse_tensor(name, text, operator.types), call.arguments.get(name)
        if isinstance(value, Array):
            settings |= _bound(spec, value)
            if spec.type in operator.types:
                settings[spec.type] = value.dtype
        elif spec.optional:
            settings[name] = "none"
    for name in operator.attributes:
        given = call.arguments.get(name)
        if isinstance(given, (bool, int, str)):
            settings[name] = str(given).lower() if isinstance(given, bool) else str(given)
    for tensor, parameter in operator.type_of.items():
        given, returned = call.arguments.get(parameter), operator.returns.get(tensor)
        if isinstance(given, ElementType) and returned is not None:
            settings[parse_tensor(tensor, returned, operator.types, returned=True).type] = given.name
    return " ".join([operator.name, *(f"{name}={value}" for name, value in settings.items())])


def _bound(spec: TensorSpec, value: Array) -> dict[str, str]:
    """Sizes, and strides that have a name; a starred dim is all that stands before the others."""
    before = len(value.shape) - len(spec.dims) + 1 if spec.star else 0
    shape: Sequence[int] = (prod(value.shape[:before]), *value.shape[before:]) if spec.star else value.shape
    sizes = dict(zip(spec.dims, shape, strict=False))
    if spec.strides is not None and not spec.star:
        sizes |= dict(zip(spec.strides, value.strides, strict=False))
    return {name: str(size) for name, size in sizes.items() if is_symbol(name)}
