"""The operators' signatures as torch needs them: records, and the schema text. No torch is imported here.

``signatures.json`` is written from the manifests (``python -m build_tools generate``) and travels with the runtime: a traced call
has no device, so there may be no bundle to ask.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.bundles import extras
from aiter_prebuilt.contract.dtype import TARGET_FP8
from aiter_prebuilt.errors import NativeError

_FILE: Final = Path(__file__).with_name("signatures.json")
_EDITION: Final = 3
#: A manifest's ``fp8`` is the target's own e4m3; a traced call has no target, so either will do until the launch.
FP8_FLAVOURS: Final = ("e4m3fn", "e4m3fnuz")
_SCHEMA_TYPES: Final = {"int": "int", "bool": "bool", "float": "float", "enum": "str", "text": "str?"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor. ``role``: in, out, inout, or return (the caller does not pass it). ``type``: an element type, or a type
    variable. ``star``: the first of ``dims`` stands for all leading ones. A dim is a symbol, a number or an expression.
    """

    name: str
    role: str
    type: str
    star: bool
    dims: tuple[str, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class Attribute:
    """One scalar: ``kind`` is int, bool, float, enum (of ``values``) or text; ``default`` is text, or None when there is none."""

    name: str
    kind: str
    values: tuple[str, ...]
    default: str | None

    @property
    def value(self) -> Any:
        """The default as the Python value it is."""
        text = self.default
        if text is None or self.kind == "enum":
            return text
        if self.kind == "text":
            return None
        return {"true": True, "false": False}[text] if self.kind == "bool" else _NUMBERS[self.kind](text)


_NUMBERS: Final = {"int": int, "float": float}


@dataclass(frozen=True, slots=True)
class Signature:
    """One operator: tensors in the order of the native call (the returned ones last), then attributes.

    ``parameters``: of the Python function, in order; ``covered``: option -> the values that are served, as the file has them;
    ``targets``: for which it has kernels -> the profile whose bundle has the first of them, ck-free if any does;
    ``why``: target -> why its ck-free bundle has none; ``dense``: tensors of which a contiguous copy is taken where no kernel
    walks their strides; ``detached``: whether a tensor that requires a gradient is read as if it did not; ``first_rows``:
    result that may have more rows than are written -> the tensor whose rows say how many are.
    """

    name: str
    types: dict[str, tuple[str, ...]]
    tensors: tuple[Tensor, ...]
    attributes: tuple[Attribute, ...]
    parameters: tuple[str, ...]
    covered: dict[str, tuple[Any, ...]]
    targets: dict[str, str]
    why: dict[str, str] = field(default_factory=dict)
    dense: tuple[str, ...] = ()
    detached: bool = False
    first_rows: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The tensors that a caller passes."""
        return tuple(tensor for tensor in self.tensors if tensor.role != "return")

    @property
    def returns(self) -> tuple[Tensor, ...]:
        """The tensors that a call makes."""
        return tuple(tensor for tensor in self.tensors if tensor.role == "return")

    @property
    def free_types(self) -> tuple[str, ...]:
        """Returned tensors whose type no argument says, or only one that may be left out: the schema has a ``NAME_dtype``."""
        said = {tensor.type for tensor in self.arguments if not tensor.optional}
        return tuple(each.name for each in self.returns if each.type in self.types and each.type not in said)

    def into_memory(self) -> Signature:
        """Return the signature of the same call with memory for its results, in the order of the native call."""
        tensors = tuple(replace(each, role="out") if each.role == "return" else each for each in self.tensors)
        return replace(self, tensors=tensors)

    def allowed(self, tensor: Tensor) -> tuple[str, ...]:
        """Names of the element types that ``tensor`` may have, first the one that is meant when nobody says."""
        names = self.types.get(tensor.type, (tensor.type,))
        return tuple(each for name in names for each in (FP8_FLAVOURS if name == TARGET_FP8 else (name,)))

    def schema(self, overload: str = "") -> str:
        """Torch's schema: arguments, attributes, types of free returns; ``-> ()`` when everything is written in place."""
        words, defaults = [], []
        for place, tensor in enumerate(self.arguments):
            written = f"(a{place}!)" if tensor.role in ("out", "inout") else ""
            words.append(f"Tensor{written}{'?' * tensor.optional} {tensor.name}")
            defaults.append("None" if tensor.optional else None)
        for attribute in self.attributes:
            words.append(f"{_SCHEMA_TYPES[attribute.kind]} {attribute.name}")
            defaults.append(None if attribute.default is None else _schema_default(attribute))
        words += [f"ScalarType? {name}_dtype" for name in self.free_types]
        defaults += ["None"] * len(self.free_types)
        # A schema takes no default before an argument that has none.
        first = max((place + 1 for place, default in enumerate(defaults) if default is None), default=0)
        parts = [
            word if place < first else f"{word}={default}"
            for place, (word, default) in enumerate(zip(words, defaults, strict=True))
        ]
        results = ["Tensor"] * len(self.returns)
        result = results[0] if len(results) == 1 else f"({', '.join(results)})"
        return f"{self.name}{overload and '.'}{overload}({', '.join(parts)}) -> {result}"


def _schema_default(attribute: Attribute) -> str:
    return f'"{attribute.default}"' if attribute.kind == "enum" else repr(attribute.value)


@cache
def load() -> dict[str, Signature]:
    """Every operator of the manifests that this runtime was made from.

    Raises:
        NativeError: the file is missing, or of another edition than this package reads.
    """
    asked = f"read {_FILE.name}"
    fix = f"run: {extras.pip_line(reinstall=True)}"
    try:
        document = json.loads(_FILE.read_text(encoding="utf-8"))
        edition = document["edition"]
        if edition == _EDITION:
            return {name: _signature(name, record) for name, record in document["operators"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NativeError(asked, f"{type(error).__name__}: {error}", fix) from error
    raise NativeError(asked, f"it is of edition {edition}, this package reads {_EDITION}", fix)


def _signature(name: str, record: dict[str, Any]) -> Signature:
    tensors = (Tensor(**{**each, "dims": tuple(each["dims"])}) for each in record["tensors"])
    attributes = (Attribute(**{**each, "values": tuple(each["values"])}) for each in record["attributes"])
    types = {variable: tuple(allowed) for variable, allowed in record["types"].items()}
    parameters = tuple(each["name"] for each in record["parameters"])
    covered = {
        option: tuple(tuple(value) if isinstance(value, list) else value for value in values)
        for option, values in record["covered"].items()
    }
    return Signature(
        name, types, tuple(tensors), tuple(attributes), parameters, covered, dict(record["targets"]),
        dict(record.get("why", {})), tuple(record.get("dense", ())), record.get("detached", False), record.get("first_rows", {}),
    )  # fmt: skip
