"""What the cases need of an operator: its Python signature, its tensors, its types. Made from the manifest in one place."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from build_tools.manifest.signature import TensorSpec, is_symbol

#: The default of a parameter that the caller must give.
REQUIRED: Final = "<required>"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the Python function. ``annotation`` in Python's words: ``Tensor | None``, ``float``, ``dtype | None``."""

    name: str
    annotation: str
    default: Any = REQUIRED

    @property
    def kind(self) -> str:
        """``Tensor``, ``dtype``, ``int``, ``bool``, ``float``, ``str``, or the annotation when it is none of these."""
        return self.annotation.removesuffix("| None").strip()

    @property
    def nullable(self) -> bool:
        """May it be None?"""
        return self.annotation.endswith("| None")


@dataclass(frozen=True, slots=True)
class Subject:
    """One operator. ``arguments``: the tensors of its native signature, ``returns``: those that it allocates; ``covered``: the
    values that are served of an option; ``type_of``: returned tensor -> the parameter that chooses its element type.
    """

    name: str
    family: str
    parameters: tuple[Parameter, ...]
    types: Mapping[str, tuple[str, ...]]
    arguments: tuple[TensorSpec, ...]
    returns: tuple[TensorSpec, ...] = ()
    covered: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    type_of: Mapping[str, str] = field(default_factory=dict)
    targets: frozenset[str] = frozenset()

    def parameter(self, name: str) -> Parameter | None:
        """The parameter called ``name``."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)

    def tensors(self) -> dict[str, TensorSpec]:
        """All tensors by name: arguments, then returns."""
        return {spec.name: spec for spec in (*self.arguments, *self.returns)}

    def results(self) -> tuple[TensorSpec, ...]:
        """What is written, then what is returned, in the order of the signature."""
        written = tuple(spec for spec in self.arguments if spec.role != "in")
        passed = tuple(spec for spec in written if self.parameter(spec.name))
        return (*passed, *(spec for spec in (*written, *self.returns) if not self.parameter(spec.name)))

    def symbols(self) -> dict[str, bool]:
        """Dim and stride symbols -> does it stand for several leading dims?"""
        found: dict[str, bool] = {}
        for spec in self.tensors().values():
            for place, text in enumerate(spec.dims):
                if is_symbol(text):
                    found[text] = found.get(text, False) or (spec.star and place == 0)
            for text in spec.strides or ():
                if is_symbol(text):
                    found.setdefault(text, False)
        return found

    def options(self) -> tuple[Parameter, ...]:
        """Parameters that a call may set: no tensor, no element type, and more than one value of it served."""
        return tuple(
            parameter
            for parameter in self.parameters
            if parameter.kind in ("int", "bool", "float", "str") and len(self.covered.get(parameter.name, (0, 1))) > 1
        )


def read_signature(text: str) -> tuple[str, tuple[Parameter, ...]]:
    """``f(a: Tensor, b: int = 0) -> Tensor`` as (name, parameters).

    Raises:
        ValueError: it is not the signature of a Python function.
    """
    try:
        (function,) = ast.parse(f"def {text}: ...").body
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{text!r} is not a Python signature: {error}") from None
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(named) - len(arguments.defaults))
    defaults: list[ast.expr | None] = [*missing, *arguments.defaults, *arguments.kw_defaults]
    parameters = tuple(
        Parameter(
            argument.arg,
            ast.unparse(argument.annotation) if argument.annotation else "",
            REQUIRED if default is None else ast.literal_eval(default),
        )
        for argument, default in zip([*named, *arguments.kwonlyargs], defaults, strict=True)
    )
    return function.name, parameters
