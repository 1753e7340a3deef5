"""Loading kernels ahead of time, so that no later call loads anything: no pause at a first request, and graph capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import ArgumentKindError
from aiter_prebuilt.launch import dispatch, operator_closure
from aiter_prebuilt.launch.graph_break import graph_break

_ASKED: Final = "preload"
#: The example in an error about a described call.
_EXAMPLE: Final = "preload({name!r}, shapes=[{symbols}])"


@graph_break("it loads code objects")
def preload(
    *names: str,
    ops: str | Sequence[str] | None = None,
    shapes: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
    vendor: str | None = None,
    ordinal: int = 0,
) -> int:
    """Load code objects now, without a launch.

    Whole operators, or with ``shapes`` exactly the kernels of these calls.

        aiter_prebuilt.preload()                                    # everything that the device's bundles have
        aiter_prebuilt.preload("rms_norm", "fused_moe", "tgemm")    # all that these functions may launch
        aiter_prebuilt.preload(ops="softmax", shapes=[{"M": 64, "N": 4096, "T": "bf16"}])
        aiter_prebuilt.preload(shapes={"softmax": [(x, out)]})      # the calls themselves: tensors, then attributes

    A call of what was named then loads no code object and reads no file: functions are imported, too, all of them when none is
    named.

    Args:
        ops: operators to load, by name.
        shapes: calls, for each of the operators, or by operator. A call is a dict of symbols, types, absent tensors and
            alignments as ``aiter-prebuilt explain`` takes them (``{"M": 17, "T": "f16", "bias": None, "out.align": 2}``; tensors
            are dense and aligned to 256 bytes unless it says otherwise), or a tuple of the arguments of a call in the order of
            the signature (arguments, returned tensors, attributes), on the device.
        vendor: "amd" or "nvidia"; the one that has a device when None.
        ordinal: the device.
        *names: functions of this package to load, by name. Of a function around operators (``fused_moe``) those of its operators
            that the device's bundles have. All operators are loaded when neither names, nor ops, nor ``shapes`` name one.

    Returns:
        How many operators were loaded, or with ``shapes`` how many calls.

    Raises:
        DriverError, NoBundleError, LoadError: the device, its bundle or a code object cannot be used.
        ArgumentError, NoKernelError, NoOperatorError: a described call does not fit its operator, or a name is of nothing that
            launches.

    Source: this project; AITER has no such function.
    """
    listed = _names(names, ops)
    chosen = _vendor(vendor)
    if isinstance(ordinal, bool) or not isinstance(ordinal, int):
        raise ArgumentKindError(_ASKED, f"ordinal must be an int, got {ordinal!r}", "")
    if shapes is None:
        found = wanted(listed, chosen, ordinal)
        for name in found:
            dispatch.operator(name).preload(chosen, ordinal)
        return len(found)
    count = 0
    for name, calls in _by_operator(listed, shapes).items():
        operator_closure.public(name)
        for call in calls:
            tensors, attributes = _arguments(name, call, chosen, ordinal)
            dispatch.operator(name).preload(chosen, ordinal, tensors, attributes)
            count += 1
    return count


def _names(names: tuple[object, ...], ops: object) -> tuple[str, ...]:
    if not isinstance(ops, (Sequence, AbstractSet, type(None))):
        raise ArgumentKindError(
            _ASKED, f"ops must be a name or a list of names, got {ops!r}", 'For example: ops=["rms_norm"]'
        )
    listed = (*names, *((ops,) if isinstance(ops, str) else ops or ()))
    for name in listed:
        if not isinstance(name, str) or not name.isprintable():
            raise ArgumentKindError(
                _ASKED, f"an operator's name must be a str, got {name!r}", 'For example: preload("rms_norm")'
            )
    return tuple(map(str, listed))


def _vendor(vendor: object) -> str:
    if vendor is None:
        return first_vendor()
    if vendor not in device.VENDORS:
        known = " or ".join(map(repr, device.VENDORS))
        raise ArgumentKindError(_ASKED, f"vendor must be {known}, got {vendor!r}", "")
    return str(vendor)


def wanted(listed: Sequence[str], vendor: str, ordinal: int) -> Sequence[str]:
    """Return the operators behind the names, each once.

    Without names all.

    Raises:
        ArgumentKindError: a name that is no text, or of what launches nothing because it is no function.
    """
    if not listed:
        operator_closure.import_all()
        return operators(vendor, ordinal)
    found: dict[str, None] = {}
    for name in listed:
        function = _function(name)
        behind = (name,) if function is None else operator_closure.operators_of(function)
        if len(behind) > 1:  # one that is there for other targets alone, or in a wheel that is not installed
            behind = tuple(each for each in operators(vendor, ordinal) if each in behind) or behind
        found |= dict.fromkeys(behind)
    return tuple(found)


def _function(name: Any) -> Any:
    """Look up a function by name.

    None: perhaps an operator, by its own name.
    """
    if not isinstance(name, str):
        raise ArgumentKindError(
            _ASKED,
            f"an operator's name must be a str, got {name!r}",
            'For example: preload("rms_norm")',
        )
    found = operator_closure.public(name)
    if found is not None and not operator_closure.is_called(found):
        raise ArgumentKindError(
            f"preload {name!r}",
            "it launches no kernels",
            'Name functions, classes or operators: preload("rms_norm", "CustomAllreduce")',
        )
    return found


def first_vendor() -> str:
    """Return the vendor whose driver reports a device.

    AMD when none does, so that the error is about its driver.
    """
    return next((name for name in device.VENDORS if device.probe(name).devices), device.VENDORS[0])


def operators(vendor: str, ordinal: int) -> tuple[str, ...]:
    """Return the operators of the bundles that serve a device, sorted.

    Raises:
        DriverError, NoBundleError: the device or its bundle cannot be used.
    """
    facts = device.facts(vendor, ordinal)
    bundles = dispatch.bundles_of(facts.arch, str(facts))
    return tuple(sorted({name for bundle in bundles for name in bundle.names}))


def _by_operator(
    listed: Sequence[str], shapes: Sequence[Any] | Mapping[str, Sequence[Any]]
) -> Mapping[str, Sequence[Any]]:
    if isinstance(shapes, Mapping):
        stray = [key for key, calls in shapes.items() if isinstance(calls, (str, int)) or calls is None]
        if stray or any(name not in shapes for name in listed):
            raise ArgumentKindError(
                _ASKED,
                "shapes must have a list of calls for each operator, "
                + (f"but not for {', '.join(map(repr, stray))}" if stray else "but one is missing"),
                "For example: shapes={'softmax': [{'M': 64, 'N': 4096}]}",
            )
        return shapes
    if not listed or isinstance(shapes, str):
        raise ArgumentKindError(
            _ASKED,
            "shapes needs the name of an operator"
            if not listed
            else f"shapes must be a list, got {shapes!r}",
            "For example: preload(ops='softmax', shapes=[{'M': 64, 'N': 4096}])",
        )
    return dict.fromkeys(listed, shapes)


def _arguments(name: str, call: Any, vendor: str, ordinal: int) -> tuple[list[Any], list[Any] | None]:
    """Return a call as the native side takes it.

    Tensors and attributes.
    """
    if isinstance(call, (tuple, list)):
        return list(call), None
    if not isinstance(call, Mapping):
        raise ArgumentKindError(
            _ASKED,
            f"a shape of {name} must be a dict of symbols or a tuple of arguments, got {call!r}",
            "For example: {'M': 64, 'N': 4096}, or (x, out)",
        )
    from aiter_prebuilt.inspection.decisions import (
        describe,
        find_operator,
    )  # reads a bundle's index in Python: not at import

    facts = device.facts(vendor, ordinal)
    serving = locate.for_target(facts.arch, locate.installed(), str(facts))
    block, _ = find_operator(name, serving, "preload")
    tensors, attributes, _ = describe(block, {key: word(value) for key, value in call.items()}, _EXAMPLE)
    return [tensor and (*tensor[:-1], (vendor, ordinal)) for tensor in tensors], attributes


def word(value: object) -> str:
    """Write a value of a described call.

    As the command line has it: ``true``, ``none``, ``17``, ``bf16``.
    """
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return str(value)
