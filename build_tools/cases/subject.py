"""The part of an operator that the cases need.

Its Python signature, tensors and types; :func:`subject_of` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from build_tools.manifest.grammar import TensorSpec, is_symbol, parse_tensor
from build_tools.manifest.model import Manifest, Operator
from build_tools.manifest.python import Parameter

_Known = TypeVar("_Known")


def _once(method: Callable[[Subject], _Known]) -> Callable[[Subject], _Known]:
    """Cache a method's answer in its subject.

    Callers must not change the answer.
    """
    name = f"_{method.__name__}"  # the method's own would hide it

    @wraps(method)
    def kept(self: Subject) -> _Known:
        known = self.__dict__
        if name not in known:
            known[name] = method(self)
        found: _Known = known[name]
        return found

    return kept


@dataclass(frozen=True)
class Subject:
    """One operator. ``arguments``: the tensors of its native signature, ``returns``: those that it allocates; ``covered``: the
    values that are served of an option; ``ignored``: parameters of which any value is; ``type_of``: returned tensor -> the
    parameter that chooses its element type; ``targets``: where there are kernels for it; ``slack``: tensor -> bytes behind its
    end that some kernel may read; ``kernels``: their names.
    """

    name: str
    family: str
    parameters: tuple[Parameter, ...]
    types: Mapping[str, tuple[str, ...]]
    arguments: tuple[TensorSpec, ...]
    returns: tuple[TensorSpec, ...] = ()
    covered: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    type_of: Mapping[str, str] = field(default_factory=dict)
    targets: frozenset[str] = frozenset()
    slack: Mapping[str, int] = field(default_factory=dict)
    kernels: frozenset[str] = frozenset()

    def parameter(self, name: str) -> Parameter | None:
        """Find the parameter called ``name``."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)

    @_once
    def tensors(self) -> dict[str, TensorSpec]:
        """All tensors by name: arguments, then returns."""
        return {spec.name: spec for spec in (*self.arguments, *self.returns)}

    @_once
    def results(self) -> tuple[TensorSpec, ...]:
        """List written arguments, then returned tensors, in signature order."""
        written = tuple(spec for spec in self.arguments if spec.role != "in")
        passed = tuple(spec for spec in written if self.parameter(spec.name))
        return (*passed, *(spec for spec in (*written, *self.returns) if not self.parameter(spec.name)))

    @_once
    def symbols(self) -> dict[str, bool]:
        """Dim and stride symbols that a call may state -> does it stand for several leading dims?"""
        found: dict[str, bool] = {}
        for spec in self.tensors().values():
            for place, text in enumerate(spec.dims):
                if is_symbol(text):
                    found[text] = found.get(text, False) or (spec.star and place == 0)
            for text in (spec.strides or ()) if spec.role == "in" or self.parameter(spec.name) else ():
                if is_symbol(text):
                    found.setdefault(text, False)
        return found

    @_once
    def dims(self) -> dict[str, None]:
        """Symbols that stand for a dim of a tensor, in the order of the signature."""
        texts = [text for spec in self.tensors().values() for text in spec.dims]
        return dict.fromkeys(text for text in texts if is_symbol(text))

    @_once
    def open(self) -> tuple[str, ...]:
        """List the options and the tensors that may be left out."""
        optional = (spec.name for spec in self.arguments if spec.optional)
        return (*(parameter.name for parameter in self.options()), *optional)

    def written(self) -> frozenset[str]:
        """Arguments that are written and not read."""
        return frozenset(spec.name for spec in self.arguments if spec.role == "out")

    def names_of_kernels(self) -> tuple[str, ...]:
        """Parameters that are any text: they name a kernel, and where a reference reads one, its result depends on the name."""
        return tuple(
            each.name for each in self.parameters if each.kind == "str" and each.name not in self.covered
        )

    @_once
    def options(self) -> tuple[Parameter, ...]:
        """Parameters that change what is computed: scalars and words of which more than one value is served."""
        return tuple(
            parameter
            for parameter in self.parameters
            if (
                parameter.kind in ("int", "bool", "float")
                or (parameter.kind == "str" and parameter.name in self.covered)
            )
            and parameter.name not in self.ignored
            and len(self.covered.get(parameter.name, (0, 1))) > 1
        )


def subject_of(operator: Operator) -> Subject:
    """Describe an operator of the manifest for the cases.

    Its texts were checked when it was read.
    """
    types = {name: tuple(allowed) for name, allowed in operator.types.items()}
    return Subject(
        name=operator.name,
        family=operator.family,
        parameters=tuple(
            each for each in operator.python.parameters if each.name not in operator.into.values()
        ),
        types=types,
        arguments=tuple(
            parse_tensor(name, text, operator.types) for name, text in operator.arguments.items()
        ),
        returns=tuple(
            parse_tensor(name, text, operator.types, returned=True) for name, text in operator.returns.items()
        ),
        covered=operator.covered,
        ignored=frozenset(operator.ignored),
        type_of=operator.type_of,
        targets=frozenset(target for kernel in operator.kernels for target in kernel.targets),
        slack=operator.slack(),
        kernels=frozenset(kernel.name for kernel in operator.kernels),
    )


def subjects(manifest: Manifest) -> list[Subject]:
    """Every operator of the manifest."""
    return [subject_of(operator) for family in manifest.families.values() for operator in family.operators]
