"""Write the code that allocates a generated function's results.

It launches with them, too: ``ops/_common.py``, ``new_results``.

The runtime remembers for which calls it made and launched what.
"""

from __future__ import annotations

import dataclasses
import re

from build_tools.errors import ManifestError
from build_tools.generate.docstring import tensors
from build_tools.generate.python_text import fitted, substituted
from build_tools.manifest.grammar import TensorSpec, is_symbol
from build_tools.manifest.model import Operator


@dataclasses.dataclass(frozen=True, slots=True)
class Maker:
    """The names and expressions from which results are allocated.

    ``unless``: the parameter by which the caller may give the result.
    """

    given: tuple[str, ...]
    expressions: tuple[str, ...]
    unless: str = ""


def maker_of(operator: Operator) -> Maker:
    """Return the maker of all results.

    They are new, or there is one and the caller may give it.

    Raises:
        ManifestError: some are new, and some may be given.
    """
    if operator.into and len(operator.returns) > 1:
        raise ManifestError(
            [
                f"operators.{operator.name}.into: one of several results cannot be given: make all of them, or none"
            ]
        )
    specs = tensors(operator)
    calls = [_allocation(operator, specs, specs[name]) for name in operator.returns]
    expressions = tuple(f"{function}({', '.join(given)})" for function, given in calls)
    words = set(re.findall(r"(?<![.\w])\w+", " ".join(expressions)))
    given = tuple(each for each in operator.python.names if each in words)
    return Maker(given, expressions, next(iter(operator.into.values()), ""))


def arguments_of(operator: Operator) -> list[str]:
    """List the arguments of ``_new_NAME`` before the operator.

    A native call without its results, and options that decide about those.
    """
    options = [name for name in maker_of(operator).given if name not in operator.arguments]
    others = [name for name in operator.attributes if name not in options]
    return [*operator.arguments, *options, *others]


def lines_of(operator: Operator) -> list[str]:
    """Return the lines that define ``_new_NAME``."""
    if not operator.returns:
        return []
    maker = maker_of(operator)
    make, lines = "like", [""]
    if maker.expressions != (f"like({maker.given[0]})",):
        make = f"_make_{operator.name}"
        parameters = [f"{name}: Any" for name in maker.given]
        lines = ["", "", *fitted(f"def {make}(", parameters, ") -> Any:"), *_body(maker), "", ""]
    given = arguments_of(operator)
    names = tensors(operator)
    kinds = "".join("v" if name not in names else "t" if name in maker.given else "p" for name in given)
    results = [name for name in names if name not in operator.arguments]
    order = [*operator.arguments, *results, *operator.attributes]
    places = [
        -1 - list(operator.returns).index(name) if name in results else given.index(name) for name in order
    ]
    told = [given.index(name) for name in maker.given]
    words = [f'"{operator.name}"', make, f'"{kinds}v"', _numbers(told), _numbers(places)]
    return [*lines, *fitted(f"_new_{operator.name} = new_results(", [*words, str(len(results))], ")")]


def _numbers(values: list[int]) -> str:
    return f"({values[0]},)" if len(values) == 1 else f"({', '.join(map(str, values))})"


def _body(maker: Maker) -> list[str]:
    if len(maker.expressions) > 1:
        return fitted("return (", maker.expressions, ")", 4)
    call, _, given = maker.expressions[0].partition("(")
    shape, kind, element = given.removesuffix(")").partition(", dtype=")
    return fitted(
        f"return {call}(", [shape, f"{kind.removeprefix(', ')}{element}"] if kind else [shape], ")", 4
    )


def _allocation(
    operator: Operator, specs: dict[str, TensorSpec], returned: TensorSpec
) -> tuple[str, list[str]]:
    """Write the call that allocates a result, and its inputs."""
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
