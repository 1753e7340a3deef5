"""Calls to tune, each in the words of ``aiter-prebuilt explain``: typed, from a miss log, or of a model's steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.records import ATTRIBUTE_KINDS, DIM_BIND, NO_TEXT, NONE8
from aiter_prebuilt.errors import AiterPrebuiltError, ArgumentError, MissLogError
from aiter_prebuilt.execute.explain import native_calls
from aiter_prebuilt.execute.layout import dense
from aiter_prebuilt.inspection.decisions import describe, find_operator

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator as Native
    from aiter_prebuilt._native import Views
    from aiter_prebuilt.contract.calls import Call
    from aiter_prebuilt.contract.records import Attribute, Operator, Tensor
    from aiter_prebuilt.devices.device import DeviceFacts

_EXAMPLE: Final = "aiter-prebuilt tune {words}"
#: Version of a miss log's line that is read.
_MISS_VERSION: Final = 1
_USUAL_ALIGN: Final = 256
#: Texts of an attribute that is left out, where the operator names no default.
_DEFAULTS: Final = {"int": "0", "bool": "false", "float": "1.0", "text": NO_TEXT}


@dataclass(frozen=True, slots=True)
class TuneCall:
    """One call. ``settings``: ``SYMBOL=VALUE`` pairs that ``explain`` and ``bench`` take; equal calls have equal settings."""

    operator: str
    settings: tuple[tuple[str, str], ...]

    @property
    def words(self) -> str:
        """``gemm_a16w16 T=bf16 M=17 K=4096 N=4096 bias=none``."""
        return " ".join([self.operator, *(f"{name}={value}" for name, value in self.settings)])


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A call that cannot be tuned, and why."""

    words: str
    problem: str


def described(operator: str, settings: Mapping[str, str], facts: DeviceFacts) -> TuneCall:
    """Check a call in words, and write it as every other source writes it.

    Raises:
        NoBundleError, NoOperatorError, ArgumentError: as ``explain``.
    """
    block, _ = _block(operator, facts)
    tensors, attributes, _ = describe(block, settings, _EXAMPLE)
    return TuneCall(operator, tuple(words_of(block, tensors, attributes).items()))


def of_miss_log(path: Path, facts: DeviceFacts) -> tuple[list[TuneCall], list[LeftOut]]:
    """Read the calls of a miss log that were made on such a device, each once.

    Raises:
        MissLogError: the file cannot be read, or a line is no miss.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fix = "Name a file that AITER_PREBUILT_MISS_LOG wrote"
        raise MissLogError(f"read the miss log {path}", str(error), fix) from error
    found: dict[TuneCall, None] = {}
    left: dict[LeftOut, None] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        operator, target, units, settings = _miss(path, number, line)
        words = " ".join([operator, *(f"{name}={value}" for name, value in settings.items())])
        if (target, units) != (facts.target, facts.compute_units):
            left[
                LeftOut(words, f"it was called on {target} with {units} compute units, not on this device")
            ] = None
            continue
        try:
            found[described(operator, settings, facts)] = None
        except AiterPrebuiltError as error:
            left[LeftOut(words, str(error))] = None
    return list(found), list(left)


def _miss(path: Path, number: int, line: str) -> tuple[str, str, int, dict[str, str]]:
    """Return operator, target, compute units and settings of one line."""
    try:
        row = json.loads(line)
        if row["version"] != _MISS_VERSION:
            raise ValueError(f"its version is {row['version']}, this program reads {_MISS_VERSION}")
        settings = {str(name): str(value) for name, value in row["call"].items()}
        return str(row["operator"]), str(row["target"]), int(row["cus"]), settings
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        fix = "Name a file that AITER_PREBUILT_MISS_LOG of this release wrote"
        raise MissLogError(
            f"read the miss log {path}, line {number}", f"it is no miss: {text}", fix
        ) from error


def of_public_calls(calls: Iterable[Call], facts: DeviceFacts) -> tuple[list[TuneCall], list[LeftOut]]:
    """Find the native calls that public functions make, each once.

    Args:
        calls: of public functions; tensors need no data.
        facts: the device.
    """
    found: dict[TuneCall, None] = {}
    left: dict[LeftOut, None] = {}
    for call in calls:
        try:
            for operator, tensors, attributes in native_calls(call, facts):
                found[_of_native(operator, tensors, attributes, facts)] = None
        except Exception as error:  # noqa: BLE001  # whatever refuses the call leaves it out
            left[LeftOut(f"{call.operator} {call.label}", f"{type(error).__name__}: {error}"[:500])] = None
    return list(found), list(left)


def _of_native(
    operator: Native, tensors: Sequence[Any], attributes: Sequence[Any], facts: DeviceFacts
) -> TuneCall:
    name = operator.name
    block, _ = _block(name, facts)
    seen = _viewed(tensors, operator.views)
    settings = words_of(block, seen, attributes)
    again, _, _ = describe(block, settings, _EXAMPLE)
    for spec, given, made in zip(block.tensors, seen, again, strict=True):
        if given is not None and _placed(spec, given) != (made[2], made[3]):
            raise ArgumentError(name, f"the strides of {spec.name} have no name in its signature", "")
    return TuneCall(name, tuple(settings.items()))


def _viewed(tensors: Sequence[Any], views: Views) -> list[Any]:
    """Return tensors as an operator with views sees them (``_native.Operator.viewing``)."""
    seen = list(tensors)
    for view in views:
        if (given := seen[view[1]]) is None:
            continue
        address, kind, shape, strides, where = given
        strides = tuple(strides or dense(shape))
        match view:
            case ("order", _, rank, order) if len(shape) == rank:
                picked = [(1, 1) if dim < 0 else (shape[dim], strides[dim]) for dim in order]
                shape, strides = tuple(zip(*picked, strict=True))
            case ("split", _, size) if shape and shape[-1] % size == 0:
                shape, strides = (
                    (*shape[:-1], shape[-1] // size, size),
                    (*strides[:-1], strides[-1] * size, strides[-1]),
                )
            case ("bytes", _, name) if kind == name:
                kind = "u8"
        seen[view[1]] = (address, kind, tuple(shape), strides, where)
    return seen


def _block(operator: str, facts: DeviceFacts) -> tuple[Operator, int]:
    serving = locate.for_target(facts.arch, locate.installed(), str(facts))
    return find_operator(operator, serving, "tune")


def words_of(block: Operator, tensors: Sequence[Any], attributes: Sequence[Any]) -> dict[str, str]:
    """Return the settings of a native call: types, sizes, strides that are not dense, absent tensors, alignments, options."""
    types: dict[str, str] = {}
    sizes: dict[str, str] = {}
    rest: dict[str, str] = {}
    for spec, given in zip(block.tensors, tensors, strict=True):
        if given is None:
            rest[spec.name] = "none"
            continue
        shape, strides = _placed(spec, given)
        if spec.type_var != NONE8:
            types.setdefault(block.type_variables[spec.type_var].name, given[1])
        for dim, size in zip(spec.dims, shape, strict=True):
            if dim.kind == DIM_BIND:
                sizes.setdefault(block.slots[dim.slot], str(size))
        for dim, step, usual in zip(spec.strides, strides, dense(shape), strict=False):
            if dim.kind == DIM_BIND and step != usual:
                rest.setdefault(block.slots[dim.slot], str(step))
        if given[0] % _USUAL_ALIGN:
            rest[f"{spec.name}.align"] = str(given[0] & -given[0])
    for attribute, value in zip(block.attributes, attributes, strict=True):
        text = _text(attribute, value)
        if text != (attribute.default or _usual(attribute)):
            rest[attribute.name] = text
    return types | sizes | {name: value for name, value in rest.items() if name not in sizes}


def _placed(spec: Tensor, given: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides; the leading dims of a starred tensor are one."""
    shape, strides = tuple(given[2]), tuple(given[3] or dense(given[2]))
    before = len(shape) - len(spec.dims) + 1
    if not spec.star or before == 1:
        return shape, strides
    return (prod(shape[:before]), *shape[before:]), (strides[before - 1] if before else 1, *strides[before:])


def _text(attribute: Attribute, value: Any) -> str:
    kind = ATTRIBUTE_KINDS[attribute.kind]
    if kind == "bool":
        return "true" if value else "false"
    if kind == "float":
        return repr(float(value))
    return NO_TEXT if value is None else str(value)


def _usual(attribute: Attribute) -> str:
    return _DEFAULTS.get(ATTRIBUTE_KINDS[attribute.kind]) or (attribute.values or ("",))[0]


def tensor_bytes(tensors: Iterable[Any]) -> int:
    """Count the bytes of the elements of some tensors, each once."""
    return sum(prod(each[2]) * dtype.BY_NAME[each[1]].itemsize for each in tensors if each is not None)
