"""Docstrings of generated functions: shapes, types, options, errors, source."""

from __future__ import annotations

from typing import Any, Final

from build_tools.generate.python_text import wrapped
from build_tools.manifest.grammar import TensorSpec, is_symbol, parse_tensor
from build_tools.manifest.model import Operator
from build_tools.manifest.operators import ArgumentType, Named
from build_tools.manifest.python import Parameter, literal

TITLES: Final = {
    "f32": "fp32", "f16": "fp16", "f64": "fp64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "fp8": "the target's own e4m3",
}  # fmt: skip
_FIT: Final = (
    "ArgumentError: types, shapes, strides or device do not fit.",
    "NoKernelError: no kernel takes the call.",
)


def tensors(operator: Operator) -> dict[str, TensorSpec]:
    """Every tensor of the native call, returned ones last."""
    types = dict(operator.types)
    made = {name: parse_tensor(name, text, types) for name, text in operator.arguments.items()}
    return made | {
        name: parse_tensor(name, text, types, returned=True) for name, text in operator.returns.items()
    }


def types_text(operator: Operator, spec: TensorSpec) -> str:
    """``bf16 or fp16``."""
    return " or ".join(TITLES.get(name, name) for name in operator.types.get(spec.type, [spec.type]))


def shape_text(spec: TensorSpec) -> str:
    """``[..., N]``: the leading dims that a ``*M`` takes are an ellipsis."""
    if spec.star and len(spec.dims) == 1:
        return f"{spec.dims[0]} elements,"
    dims = [("..." if spec.star and place == 0 else dim) for place, dim in enumerate(spec.dims)]
    return f"[{', '.join(dims)}]"


def describe(operator: Operator, spec: TensorSpec, note: str) -> str:
    """Describe a tensor: shape, types, strides, and its note."""
    words = [f"{shape_text(spec)} {types_text(operator, spec)}"]
    if spec.role != "in":
        words.append("read and written" if spec.role == "inout" else "written")
    if spec.in_place is not None:
        words.append(f"may be `{spec.in_place}` itself")
    if spec.optional:
        words.append("or None")
    if spec.strides is not None:
        words.append(_strided(spec))
    behind = operator.slack().get(spec.name, 0)
    if behind:
        words.append(f"up to {behind} bytes behind its end are read and must be memory of the device")
    if note:
        words.append(note)
    if spec.name in operator.dense:
        which = "a strided one" if spec.strides is None else "one whose strides no kernel takes"
        words.append(f"{which} is copied" if spec.role == "in" else f"{which} is written through a copy")
    return f"{words[0]}{', ' if len(words) > 1 else ''}{'; '.join(words[1:])}"


def _strided(spec: TensorSpec) -> str:
    if spec.strides is None or spec.strides[-1] != "1":
        return "may be strided"
    if len(spec.dims) <= 2:
        return "rows may be strided"
    free = [is_symbol(stride) and stride not in spec.dims for stride in spec.strides]
    return (
        "may be strided, the last dim contiguous"
        if any(free[1:])
        else "the first dim may be strided, the others are dense"
    )


def served(operator: Operator, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the covered values of an option.

    Where it is a result's element type, those of other operators are included.
    """
    if not any(isinstance(value, ArgumentType) for value in values):
        return values
    kinds = [*operator.served_by, *(result_types(operator) if operator.served_by else ())]
    return (*values, *(Named(TITLES.get(kind, kind)) for kind in kinds))


def result_types(operator: Operator) -> tuple[str, ...]:
    """List the element types of the operator's own result."""
    return tuple(operator.types[next(iter(operator.types))])


def given(operator: Operator, parameter: str) -> list[str]:
    """Describe the memory for a result that a caller gives by ``parameter``."""
    said: list[str] = []
    for returned in (name for name, option in operator.into.items() if option == parameter):
        spec = parse_tensor(returned, operator.returns[returned], operator.types, returned=True)
        types = [types_text(operator, spec), *(TITLES.get(kind, kind) for kind in operator.served_by)]
        written = "contiguous, written and returned"
        if returned in operator.dense:
            written = "written and returned, a strided one through a copy"
        said.append(f"{shape_text(spec)} {' or '.join(types)}, {written}; made when None")
    return said


def covered_text(values: tuple[Any, ...]) -> str:
    """``only 0 is supported``."""
    said = " and ".join(literal(value) for value in values)
    return f"only {said} {'is' if len(values) == 1 else 'are'} supported"


def _scalar(operator: Operator, parameter: Parameter) -> str:
    words = [operator.notes.get(parameter.name, "")]
    if parameter.name in operator.covered and parameter.name != operator.epilogue:
        words.append(covered_text(served(operator, operator.covered[parameter.name])))
    if parameter.name in operator.ignored:
        words.append("accepted and ignored")
    words += given(operator, parameter.name)
    for returned, option in operator.type_of.items():
        if option == parameter.name:
            spec = parse_tensor(returned, operator.returns[returned], operator.types, returned=True)
            words.append(f"the type of the result: {types_text(operator, spec)}")
    return "; ".join(word for word in words if word) or _one(parameter.kind)


def _one(kind: str) -> str:
    """Write a kind with its article: an int, a float."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def split_summary(text: str) -> tuple[str, str]:
    """Split a summary into its first sentence and the rest.

    Args:
        text: the summary.

    Returns:
        The first sentence with its full stop, and the rest, "" where there is none.
    """
    title, stop, details = text.partition(". ")
    return title + stop.rstrip(), details


def arguments(operator: Operator) -> list[tuple[str, str]]:
    """Describe each parameter of an operator's function: its name and a text."""
    specs = tensors(operator)
    found = []
    for parameter in operator.python.parameters:
        spec = None if parameter.name in operator.into.values() else specs.get(parameter.name)
        note = operator.notes.get(parameter.name, "")
        text = _scalar(operator, parameter) if spec is None else describe(operator, spec, note)
        found.append((parameter.name, text))
    return found


def results(operator: Operator) -> list[str]:
    """Describe each returned tensor of an operator's function."""
    specs = tensors(operator)
    return [describe_return(operator, specs[name], operator.notes.get(name, "")) for name in operator.returns]


def docstring(operator: Operator) -> list[str]:
    """Write the lines of a function's docstring, indented by four, with quotes."""
    quoted = [line.replace("`", "``") for line in (operator.summary, operator.source)]
    title, details = split_summary(quoted[0])
    lines = wrapped('"""' + title, 4, 130)
    lines += ["", *wrapped(details, 4, 130)] if details else []
    lines += ["", "    Args:"]
    for name, text in arguments(operator):
        lines += wrapped(f"{name}: {text}.".replace("`", "``"), 8, 130, 4)
    if operator.returns:
        lines += ["", "    Returns:"]
        for text in results(operator):
            lines += wrapped(f"{text}.", 8, 130, 4)
    lines += ["", "    Raises:"]
    refused = ["an option that is not covered"] if operator.covered else []
    if not operator.detached:
        refused.append("a tensor that requires grad")
    errors = [f"UnsupportedError: {', or '.join(refused)}."] if refused else []
    for error in (*errors, *_FIT):
        lines += wrapped(error, 8, 130, 4)
    lines += ["", *wrapped(f"Source: {quoted[1]}", 4, 130), '    """']
    return lines


def describe_return(operator: Operator, spec: TensorSpec, note: str) -> str:
    """Describe a returned tensor."""
    given = operator.into.get(spec.name)
    made = f"{given}, or new and contiguous" if given else "New, contiguous"
    text = f"{made}: {shape_text(spec)} {types_text(operator, spec)}"
    return f"{text}; {note}" if note else text
