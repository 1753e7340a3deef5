"""AITER's Python signature as a manifest says it: ``(input: Tensor, epsilon: float = 1e-6) -> Tensor``, text to records."""

from __future__ import annotations

import ast
import keyword
import re
from dataclasses import dataclass
from typing import Any, Final

from build_tools.manifest.names import parameter_problem

#: What an annotation may be, and how the parameter is called in Python. ``| None`` may follow each.
ANNOTATIONS: Final = {
    "Tensor": "torch.Tensor",
    "dtype": "torch.dtype",
    "int": "int",
    "bool": "bool",
    "float": "float",
    "str": "str",
    "tuple[int, ...]": "tuple[int, ...]",
    "Enum": "int | Enum",
    "object": "object",
}
#: The default of a parameter that has none.
REQUIRED: Final = object()


class PythonSignatureError(ValueError):
    """A text that is no Python signature of known annotations."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. ``kind``: a key of :data:`ANNOTATIONS`, but that an Enum is an int; ``default``: its Python value, or
    :data:`REQUIRED`; ``enum``: a member of an enumeration stands for its number.
    """

    name: str
    kind: str
    optional: bool
    default: Any
    enum: bool = False

    @property
    def required(self) -> bool:
        """Tell whether the caller must give the parameter."""
        return self.default is REQUIRED

    @property
    def text(self) -> str:
        """The parameter as Python writes it."""
        annotation = ANNOTATIONS["Enum" if self.enum else self.kind] + (" | None" if self.optional else "")
        return f"{self.name}: {annotation}" + ("" if self.required else f" = {literal(self.default)}")


@dataclass(frozen=True, slots=True)
class PythonSignature:
    """A function's parameters in order, and how many tensors it returns (0: it writes in place)."""

    parameters: tuple[Parameter, ...]
    returned: int

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter called ``name``."""
        return next((each for each in self.parameters if each.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return tuple(each.name for each in self.parameters)


def literal(value: Any) -> str:
    """Return a default as code, quoted as the formatter quotes."""
    if not isinstance(value, str):
        return repr(value)
    return repr(value) if '"' in value else '"' + value.replace("\\", "\\\\") + '"'


def parse_python(text: str) -> PythonSignature:
    """Read a signature.

    Raises:
        PythonSignatureError: with what is wrong in ``text``.
    """
    try:
        (function,) = ast.parse(f"def function{text.strip()}: ...").body
    except (SyntaxError, ValueError):
        for word in re.findall(r"[(,]\s*(\w+)\s*:", text):
            if keyword.iskeyword(word):
                raise PythonSignatureError(parameter_problem(word)) from None
        raise PythonSignatureError(
            f"{text!r} is not of the form '(input: Tensor, epsilon: float = 1e-6) -> Tensor'"
        ) from None
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        raise PythonSignatureError("only plain parameters: no *, no /")
    missing = len(arguments.args) - len(arguments.defaults)
    defaults = [REQUIRED] * missing + [_default(node) for node in arguments.defaults]
    parameters = tuple(
        _parameter(argument, default) for argument, default in zip(arguments.args, defaults, strict=True)
    )
    for place, parameter in enumerate(parameters):
        if any(parameter.name == other.name for other in parameters[:place]):
            raise PythonSignatureError(f"parameter {parameter.name!r} stands there twice")
    return PythonSignature(parameters, _returned(function.returns))


def _default(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise PythonSignatureError(f"the default {ast.unparse(node)!r} is no literal") from None


def _parameter(argument: ast.arg, default: Any) -> Parameter:
    problem = parameter_problem(argument.arg)
    if problem is not None:
        raise PythonSignatureError(problem)
    if argument.annotation is None:
        raise PythonSignatureError(f"parameter {argument.arg!r} has no annotation")
    text = ast.unparse(argument.annotation)
    kind = text.removesuffix(" | None")
    if kind not in ANNOTATIONS:
        raise PythonSignatureError(
            f"{argument.arg!r} is annotated {text!r}: not one of {', '.join(ANNOTATIONS)}, or one of them | None"
        )
    if default is None and kind == text:
        raise PythonSignatureError(f"{argument.arg!r} has the default None: annotate it {kind} | None")
    return Parameter(argument.arg, "int" if kind == "Enum" else kind, kind != text, default, kind == "Enum")


def _returned(node: ast.expr | None) -> int:
    if node is None:
        raise PythonSignatureError(
            "what it returns is missing: '-> Tensor', '-> tuple[Tensor, Tensor]' or '-> None'"
        )
    text = ast.unparse(node)
    if text == "None":
        return 0
    names = text.removeprefix("tuple[").removesuffix("]").split(", ")
    if any(name != "Tensor" for name in names):
        raise PythonSignatureError(
            f"it returns {text!r}: not Tensor, tuple[Tensor, ...] of a fixed number, or None"
        )
    return len(names)
