"""What makes the tensors that a generated function returns: a line of the module for each, which the function calls.

The runtime remembers for which shapes and types it made what (``ops/_common.py``, ``outputs``).
"""

from __future__ import annotations

import dataclasses
import re

from build_tools.errors import ManifestError
from build_tools.generate.docstring import tensors
from build_tools.generate.python_text import WIDTH, fitted, substituted
from build_tools.manifest.grammar import TensorSpec, is_symbol
from build_tools.manifest.model import Operator


@dataclasses.dataclass(frozen=True, slots=True)
class Maker:
    """What makes results: its name in the module, what it is given, the results and their expressions.

    ``unless``: the parameter by which the caller may give the result.
    """

    name: str
    given: tuple[str, ...]
    results: tuple[str, ...]
    expressions: tuple[str, ...]
    unless: str = ""


def makers_of(operator: Operator) -> list[Maker]:
    """One maker for all results that are always new, and one for each that the caller may give."""
    specs = tensors(operator)
    texts = {}
    for name in operator.returns:
        function, given = _allocation(operator, specs, specs[name])
        texts[name] = f"{function}({', '.join(given)})"
    new = tuple(name for name in texts if name not in operator.into)
    makers = [_maker(operator, f"_made_{operator.name}", new, texts)] if new else []
    for name, into in operator.into.items():
        if name in texts:
            one = _maker(operator, f"_made_{operator.name}_{into}", (name,), texts)
            makers.append(dataclasses.replace(one, results=(into,), unless=into))
    return makers


def _maker(operator: Operator, name: str, results: tuple[str, ...], texts: dict[str, str]) -> Maker:
    expressions = tuple(texts[each] for each in results)
    words = set(re.findall(r"(?<![.\w])\w+", " ".join(expressions)))
    given = tuple(each for each in operator.python.names if each in words)
    return Maker(name, given, results, expressions)


def lines_of(operator: Operator) -> list[str]:
    """The lines that define them."""
    lines: list[str] = []
    for maker in makers_of(operator) if operator.returns else ():
        head = f"lambda {', '.join(maker.given)}: "
        several = len(maker.expressions) > 1
        whole = head + (f"({', '.join(maker.expressions)})" if several else maker.expressions[0])
        if maker.expressions == (f"like({maker.given[0]})",):
            whole = "like"
        if len(whole) + 4 <= WIDTH:
            lines += fitted(f"{maker.name} = outputs(", [whole], ")")
            continue
        parts = maker.expressions
        if not several:
            call, _, given = maker.expressions[0].partition("(")
            shape, kind, element = given.removesuffix(")").partition(", dtype=")
            head, parts = f"{head}{call}", (shape, f"{kind.removeprefix(', ')}{element}")
        lines += [
            f"{maker.name} = outputs(",
            f"    {head}(",
            *(f"        {each}," for each in parts),
            "    )",
            ")",
        ]
    return lines


def _allocation(
    operator: Operator, specs: dict[str, TensorSpec], returned: TensorSpec
) -> tuple[str, list[str]]:
    """The function that makes a result, and what it is given."""
    given = [specs[name] for name in operator.arguments if not specs[name].optional]
    option = operator.type_of.get(returned.name)
    for spec in given:
        if (spec.dims, spec.star, spec.type) == (
            returned.dims,
            returned.star,
            returned.type,
        ) and option is None:
            return "like", [spec.name]
    same = next((spec for spec in given if spec.type == returned.type and option is None), None)
    base = same or given[0]
    shape = _shape(operator, given, returned)
    if same is not None:
        return f"{base.name}.new_empty", [shape]
    default = f'element_type({base.name}, "{operator.types.get(returned.type, [returned.type])[0]}")'
    return f"{base.name}.new_empty", [shape, f"dtype={option} or {default}" if option else f"dtype={default}"]


def _shape(operator: Operator, given: list[TensorSpec], returned: TensorSpec) -> str:
    parts = []
    places = _places(given)
    for place, dim in enumerate(returned.dims):
        if returned.star and place == 0:
            source = next((spec for spec in given if spec.star and spec.dims[0] == dim), None)
            parts.append(
                f"*{source.name}.shape[:-{len(source.dims) - 1}]" if source else places.get(dim, dim)
            )
        elif dim.isdecimal():
            parts.append(dim)
        else:
            try:
                parts.append(places[dim] if is_symbol(dim) else substituted(dim, places))
            except KeyError as error:
                raise ManifestError(
                    [f"operators.{operator.name}.returns.{returned.name}: no argument has the dim {error}"]
                ) from None
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _places(given: list[TensorSpec]) -> dict[str, str]:
    """Symbol -> where its size is to be had."""
    places: dict[str, str] = {}
    for spec in given:
        for place, dim in enumerate(spec.dims):
            if is_symbol(dim) and not (spec.star and place == 0):
                index = place - len(spec.dims) if spec.star else place
                places.setdefault(dim, f"{spec.name}.shape[{index}]")
    return places
