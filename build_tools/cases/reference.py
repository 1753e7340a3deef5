"""A family's ``reference.py``: loaded by path, called with the parameters that a function declares, its results put in order."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from build_tools.cases.bind import Bound
from build_tools.cases.draw import Drawer
from build_tools.cases.near import Near, as_near
from build_tools.errors import ManifestError
from build_tools.manifest.problems import suggestion

#: Parameters that a reference may have beside those of the Python function: tensor or result name -> its element type
#: (and under ``fp8`` the target's own e4m3, for bytes that hold it), and dim or stride symbol of the call -> its value.
KINDS: Final = "kinds"
SIZES: Final = "sizes"


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference functions of a family, and the distributions that it brings."""

    file: str
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    draws: Mapping[str, Drawer] = field(default_factory=dict)


def load(path: Path, file: str) -> Reference:
    """Everything public that ``path`` defines, and the draws that it imports; ``file`` is its name in errors.

    Raises:
        ManifestError: it is missing or cannot be imported.
    """
    spec = importlib.util.spec_from_file_location(f"manifests_{path.parent.name}_reference", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ManifestError([f"{file}: the file is missing"])
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a reference raises, the file is named
        raise ManifestError([f"{file}: cannot be imported: {type(error).__name__}: {error}"]) from error
    own = {name: value for name, value in _functions(module) if not name.startswith("_")}
    draws = {name.removeprefix("draw_"): value for name, value in own.items() if name.startswith("draw_")}
    functions = {name: value for name, value in own.items() if not name.startswith("draw_")}
    return Reference(file, functions, draws)


def _functions(module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    return [
        (name, value)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and (value.__module__ == module.__name__ or name.startswith("draw_"))
    ]


def function_of(reference: Reference, bound: Bound) -> Callable[..., Any]:
    """Load the function of the operator.

    Raises:
        ManifestError: there is none, or it asks for what the Python function has not.
    """
    name = bound.subject.name
    function = reference.functions.get(name)
    if function is None:
        raise ManifestError(
            [f"{reference.file}: no function {name!r}{suggestion(name, reference.functions)}"]
        )
    written = {spec.name for spec in bound.subject.arguments if spec.role == "out"}
    known = {KINDS, SIZES, *(parameter.name for parameter in bound.subject.parameters)} - written
    strange = [asked for asked in inspect.signature(function).parameters if asked not in known]
    if strange:
        raise ManifestError(
            [f"{reference.file}: {name}: no reference is given {strange[0]!r}{suggestion(strange[0], known)}"]
        )
    return function


def results(reference: Reference, bound: Bound, inputs: Mapping[str, Any]) -> dict[str, Near]:
    """Compute the exact results by name.

    ``inputs``: decoded tensors (None where left out); values come from ``bound``.

    Raises:
        ManifestError: there is no function, it fails, or its results have other names, shapes or number.
    """
    function = function_of(reference, bound)
    kinds = {"fp8": bound.fp8}
    kinds |= {layout.name: layout.dtype for layout in bound.tensors.values() if layout is not None}
    known = {**bound.values, **inputs, KINDS: kinds, SIZES: dict(bound.sizes)}
    asked = {name: known[name] for name in inspect.signature(function).parameters}
    try:
        with np.errstate(all="ignore"):
            found = function(**asked)
        return _named(bound, found)
    except Exception as error:  # whatever a reference raises, the file, the operator and the call are named
        where = f"{reference.file}: {bound.subject.name}: {bound.label!r}"
        raise ManifestError([f"{where}: {type(error).__name__}: {error}"]) from error


def _named(bound: Bound, found: Any) -> dict[str, Near]:
    order = [spec.name for spec in bound.subject.results()]
    if isinstance(found, Mapping):
        named = {str(name): value for name, value in found.items() if value is not None}
        strange = sorted(named.keys() - set(order))
        if strange:
            raise ValueError(f"there is no result {strange[0]!r}{suggestion(strange[0], order)}")
    else:
        values = found if isinstance(found, tuple) else (found,)
        if len(values) != len(order):
            raise ValueError(f"{len(values)} results for {', '.join(order)}")
        named = {name: value for name, value in zip(order, values, strict=True) if value is not None}
    tensors, arranged = bound.subject.tensors(), {}
    for name in order:
        layout = bound.tensors[name]
        if name not in named:
            if layout is not None and not tensors[name].optional:
                raise ValueError(f"the result {name} is missing")
            continue
        result = as_near(named[name])
        if layout is None:
            raise ValueError(f"a result {name} of a call that leaves {name} out")
        if result.values.shape != layout.shape:
            raise ValueError(f"{name} has shape {result.values.shape}, and should have {layout.shape}")
        arranged[name] = result
    return arranged
