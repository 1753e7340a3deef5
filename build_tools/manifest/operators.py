"""From an operator as written to the operator that is built: what its Python signature says already is derived, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.contract.records import NO_TEXT
from build_tools.manifest.grammar import SignatureError, parse_tensor
from build_tools.manifest.model import Family, FamilyText, Operator, OperatorPart, OperatorText
from build_tools.manifest.names import operator_problem
from build_tools.manifest.problems import Problems, suggestion
from build_tools.manifest.python import Parameter, PythonSignature, PythonSignatureError, parse_python
from build_tools.manifest.sharing import kernels_of

_SCALARS = ("int", "bool", "float")


@dataclass(frozen=True, slots=True)
class ArgumentType:
    """A covered value of an element type option: the type of this argument."""

    argument: str

    def __repr__(self) -> str:
        return f"{self.argument}.dtype"


@dataclass(frozen=True, slots=True)
class Named:
    """An element type by its name, beside covered values."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Given:
    """The covered value of a tensor that AITER's signature lets be None, and that no kernel here does without."""

    def __repr__(self) -> str:
        return "a tensor"


#: All that ``covered`` says of such a tensor: ``covered.scale = ["Tensor"]``.
GIVEN: Final = (Given(),)


def family_of(name: str, families: Mapping[str, FamilyText], problems: Problems) -> Family:
    """Build the operators of the file of ``name``.

    Problems go to ``problems``.
    """
    text = families[name]
    operators = []
    for operator, part in text.operators.items():
        with problems.at("operators", operator):
            problem = operator_problem(operator)
            if problem is not None:
                problems.add(problem)
            written = _complete(part, text.operators, problems)
            if written is not None:
                operators.append(_operator(operator, name, written, families, problems))
    used = {
        entry if isinstance(entry, str) else entry.use
        for each in text.operators.values()
        for entry in each.kernels
    }
    used |= {kernel.like for kernel in text.kernels.values() if kernel.like is not None}
    for kernel in text.kernels:
        if kernel not in used:
            problems.add("no operator uses this kernel", "kernels", kernel)
    return Family(name, tuple(operator for operator in operators if operator is not None))


def _complete(
    part: OperatorPart, others: Mapping[str, OperatorPart], problems: Problems
) -> OperatorText | None:
    """Merge the keys of an operator with those it is like.

    Its own come first; its measured rows, which are about one function, are not inherited. One step: likeness to a likeness is
    hard to read.
    """
    keys = part.model_dump(exclude_unset=True, exclude={"like"})
    if part.like is not None:
        model = others.get(part.like)
        if model is None or model.like is not None or model is part:
            problems.add(
                f"{part.like!r} is no operator of this file that is like none{suggestion(part.like, others)}",
                "like",
            )
            return None
        keys = {**model.model_dump(exclude_unset=True, exclude={"tuned_from"}), **keys}
    for name, field in OperatorText.model_fields.items():
        if field.is_required() and not keys.get(name):
            problems.add("is missing", name)
            return None
    return OperatorText.model_validate(keys)


def _operator(
    name: str, family: str, text: OperatorText, families: Mapping[str, FamilyText], problems: Problems
) -> Operator | None:
    try:
        python = parse_python(text.python)
    except PythonSignatureError as error:
        problems.add(str(error), "python")
        return None
    covered = _covered(text, python, problems)
    _check_tensors(text, python, covered, problems)
    if text.function is None:
        _check_generated(text, python, problems)
    elif text.function != family and not text.function.startswith(f"{family}_"):
        problems.add(
            f"ops/{text.function}.py does not bear the family's name: {family} or {family}_...", "function"
        )
    _check_results(text, python, families[family].operators, problems)
    _check_dense(text, problems)
    _check_first_rows(text, problems)
    for key, names in (("notes", text.notes), ("ignored", text.ignored)):
        for each in names:
            if python.parameter(each) is None and each not in text.returns:
                problems.add(f"{each!r} is no parameter{suggestion(each, python.names)}", key)
    return Operator(
        name=name,
        family=family,
        python=python,
        module=text.module,
        summary=text.summary,
        source=text.source,
        notes=dict(text.notes),
        covered=covered,
        ignored=tuple(text.ignored),
        type_of=dict(text.type_of),
        into=dict(text.into),
        served_by=dict(text.served_by),
        epilogue=text.epilogue,
        plain=tuple(text.plain),
        dense=tuple(text.dense),
        detached=text.detached,
        first_rows=dict(text.first_rows),
        function=text.function,
        types=dict(text.types),
        arguments=dict(text.arguments),
        returns=dict(text.returns),
        attributes=_attributes(text, python, covered, problems),
        tuned=text.tuned,
        tuned_from=text.tuned_from,
        kernels=kernels_of(text, family, families, problems),
    )


def _check_dense(text: OperatorText, problems: Problems) -> None:
    """Check that copied tensors are tensors of the call."""
    tensors = [*text.arguments, *text.returns]
    for name in text.dense:
        if name not in tensors:
            problems.add(f"{name!r} is no tensor{suggestion(name, tensors)}", "dense")


def _check_first_rows(text: OperatorText, problems: Problems) -> None:
    """Check results of which the first rows are written.

    Such a result is a written argument, and an argument says how many rows.
    """
    for result, counted in text.first_rows.items():
        for name in (result, counted):
            if name not in text.arguments:
                problems.add(
                    f"{name!r} is no argument{suggestion(name, text.arguments)}", "first_rows", result
                )
        if not text.arguments.get(result, "out").startswith(("out", "inout")):
            problems.add(f"{result!r} is only read", "first_rows", result)


def _covered(text: OperatorText, python: PythonSignature, problems: Problems) -> dict[str, tuple[Any, ...]]:
    made: dict[str, tuple[Any, ...]] = {}
    for name, values in text.covered.items():
        parameter = python.parameter(name)
        if parameter is None:
            problems.add(f"is no parameter{suggestion(name, python.names)}", "covered", name)
            continue
        found = tuple(_value(parameter, value, text.arguments, problems) for value in values)
        if not parameter.required and parameter.default not in found and found != GIVEN:
            problems.add(
                f"the default {parameter.default!r} is not among the covered values", "covered", name
            )
        made[name] = found
    return made


def _value(parameter: Parameter, value: Any, arguments: Mapping[str, str], problems: Problems) -> Any:
    if value == "None" and parameter.optional:
        return None
    if value == "Tensor" and parameter.kind == "Tensor" and parameter.optional:
        return GIVEN[0]
    argument = value.removesuffix(".dtype") if isinstance(value, str) else ""
    if parameter.kind == "dtype" and argument in arguments:
        return ArgumentType(argument)
    if parameter.kind == "tuple[int, ...]" and isinstance(value, list):
        return tuple(value)
    expected = {"int": int, "bool": bool, "float": float, "str": str}.get(parameter.kind)
    if expected is None or type(value) is not expected:
        problems.add(f"{value!r} is no value of {parameter.text!r}", "covered", parameter.name)
    return value


def _check_tensors(
    text: OperatorText, python: PythonSignature, covered: Mapping[str, tuple[Any, ...]], problems: Problems
) -> None:
    """Every tensor parameter has a contract, with the same word on whether it may be None.

    A hand-written function may turn one that may be None into others: its note says what it is.
    """
    turned = text.notes if text.function is not None else {}
    for parameter in python.parameters:
        left_out = covered.get(parameter.name) == (None,) or parameter.name in (
            *text.ignored,
            *text.into.values(),
        )
        left_out = left_out or (parameter.optional and parameter.name in turned)
        if parameter.kind == "Tensor" and parameter.name not in text.arguments and not left_out:
            problems.add(
                f"tensor {parameter.name!r} has no contract here, and is not covered by None alone",
                "arguments",
            )
    for name, contract in text.arguments.items():
        found = python.parameter(name)
        if found is None:
            if text.function is None:
                problems.add(f"is no parameter{suggestion(name, python.names)}", "arguments", name)
            continue
        try:
            optional = parse_tensor(name, contract, text.types).optional
        except SignatureError as error:
            problems.add(str(error), "arguments", name)
            continue
        if found.kind != "Tensor":
            problems.add(f"{found.text!r} is no tensor", "arguments", name)
        elif optional != (found.optional and covered.get(name) != GIVEN):
            problems.add("only one of 'optional' and '| None' is said", "arguments", name)
    for name, option in text.type_of.items():
        found = python.parameter(option)
        if name not in text.returns or found is None or found.kind != "dtype":
            problems.add(
                f"type_of says by which dtype parameter a returned tensor's type is chosen, not {option!r}",
                "type_of",
                name,
            )


def _check_results(
    text: OperatorText, python: PythonSignature, others: Mapping[str, OperatorPart], problems: Problems
) -> None:
    """Memory for a result, results that another operator has, and tensors that are refused when they are shuffled."""
    if text.function is not None and (text.into or text.served_by or text.plain):
        problems.add("a hand-written function ('function') sees to it itself", "into")
    for name, option in text.into.items():
        found = python.parameter(option)
        fits = found is not None and found.kind == "Tensor" and found.optional
        if name not in text.returns or not fits or option in text.arguments:
            problems.add(
                f"into says by which 'Tensor | None' the memory of a returned tensor is given, not {option!r}",
                "into",
                name,
            )
    for name in text.plain:
        if name not in text.arguments or name not in python.names:
            problems.add(f"names tensors of the call that may not be shuffled, not {name!r}", "plain")
    if text.epilogue is not None and not (
        {"f32"} == text.served_by.keys()
        and text.covered.get(text.epilogue) == ["None"]
        and "bias" in text.arguments
    ):
        problems.add(
            f"names an option of which None alone is covered, beside a bias and served_by.f32, not {text.epilogue!r}",
            "epilogue",
        )
    mine = {name for name in python.names if name in text.arguments or name in text.into.values()}
    for kind, other in text.served_by.items():
        part = others.get(other)
        try:
            theirs = set(parse_python(part.python).names) if part is not None and part.python else None
        except PythonSignatureError:  # said where it stands
            continue
        if kind not in BY_NAME or theirs is None or theirs != mine:
            problems.add(
                f"is not an element type that an operator of this file, with the parameters {', '.join(sorted(mine))}, has",
                "served_by",
                kind,
            )


def _check_generated(text: OperatorText, python: PythonSignature, problems: Problems) -> None:
    if text.attributes is not None:
        problems.add(
            "are derived from 'python'; only a hand-written function ('function') lists them", "attributes"
        )
    if python.returned != len(text.returns):
        problems.add(
            f"it returns {python.returned} tensors, and 'returns' has {len(text.returns)}", "returns"
        )
    order = [name for name in python.names if name in text.arguments]
    if order != [name for name in text.arguments if name in order]:
        problems.add(f"stand in another order than in 'python' ({', '.join(order)})", "arguments")
    for parameter in python.parameters:
        said = parameter.name in text.covered or parameter.name in text.ignored
        if parameter.kind == "dtype" and not said and parameter.name not in text.type_of.values():
            problems.add(
                f"{parameter.name!r} is an element type that neither type_of nor covered names", "python"
            )
        if parameter.kind == "object" and parameter.name not in text.ignored:
            problems.add(f"{parameter.name!r} is any object, which no kernel takes: ignore it", "python")
        if parameter.kind.startswith("tuple") and not said:
            problems.add(
                f"{parameter.name!r} is a tuple, which no kernel takes: cover it or name a function", "python"
            )


def _attributes(
    text: OperatorText, python: PythonSignature, covered: Mapping[str, tuple[Any, ...]], problems: Problems
) -> dict[str, str]:
    """Return the scalars of the native call.

    Parameters of which more than one value is served.
    """
    if text.function is not None:
        return dict(text.attributes or {})
    made: dict[str, str] = {}
    for parameter in python.parameters:
        values = covered.get(parameter.name, ())
        if parameter.name in text.ignored or len(values) == 1:
            continue
        if parameter.kind == "str" and not values:
            made[parameter.name] = "text" if parameter.required else f"text = {NO_TEXT}"
            if not parameter.required and parameter.default:
                problems.add(f"{parameter.name!r} is any text, whose default is None or empty", "python")
            continue
        if parameter.kind == "str":
            kind = f"enum({', '.join(map(str, values))})"
        elif parameter.kind in _SCALARS:
            kind = parameter.kind
            if parameter.optional:
                problems.add(
                    f"{parameter.name!r} may be None, which no kernel takes: cover it or name a function",
                    "python",
                )
        else:
            continue
        made[parameter.name] = kind if parameter.required else f"{kind} = {_default(parameter)}"
    return made


def _default(parameter: Parameter) -> str:
    value = parameter.default
    return str(value).lower() if isinstance(value, bool) else str(value)
