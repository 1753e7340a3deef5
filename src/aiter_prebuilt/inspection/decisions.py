"""Why this kernel, or why none: the live choice, run for a described call instead of real tensors.

A call is described by the operator's symbols (``M=17 N=4096 causal=1``), types (``T=f16``) and absent optional tensors
(``bias=none``). Tensors are contiguous unless a stride symbol is given, and aligned to 256 bytes unless ``x.align=2`` says
otherwise.
The decision is made by the same native code that serves a real call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.bundle import FormatError
from aiter_prebuilt.contract.bytecode import ExpressionError, evaluate
from aiter_prebuilt.contract.error_text import did_you_mean
from aiter_prebuilt.contract.records import (
    ATTRIBUTE_KINDS,
    DIM_BIND,
    DIM_EXPRESSION,
    NO_TEXT,
    NONE8,
    Operator,
    Tensor,
)
from aiter_prebuilt.errors import ArgumentError, NoOperatorError
from aiter_prebuilt.inspection import deciding
from aiter_prebuilt.launch import dispatch, operator_closure, user_tables
from aiter_prebuilt.ops import COMPOSED, HOMES

_ADDRESS = 1 << 44  # so far apart that no described tensor reaches into the next
_BYTES = 1 << 40
#: The flavours of which a target has one as its own.
_E4M3 = ("e4m3fn", "e4m3fnuz")
#: Template of the example in an error.
EXAMPLE = "aiter-prebuilt explain {words}"
#: Sizes of that example.
_USUAL = {"M": 17, "N": 4096, "K": 4096}


@dataclass(frozen=True, slots=True)
class Explanation:
    """``decisions``: one per candidate, as the native side made them; the chosen one has ``chosen`` set. Rows of the user's
    tables that name what no bundle has come last. ``tables``: the user's tables for this operator and target. ``decided_by``: a
    word of ``deciding``; "" where nothing is chosen.
    """

    operator: str
    target: str
    cus: int
    call: dict[str, Any]
    decisions: tuple[Any, ...]
    tables: tuple[str, ...]
    decided_by: str = ""


def explain(name: str, settings: Mapping[str, str], target: str, cus: int | None = None) -> Explanation:
    """Decide for operator ``name`` on ``target`` with ``cus`` compute units (the target's usual number when None).

    Raises:
        NoBundleError, NoOperatorError: nothing to decide about.
        ArgumentError: a symbol is missing, unknown or no number; its text lists what the operator needs.
        TunedTableError: a table of ``AITER_PREBUILT_TUNED`` is not what it should be.
    """
    if cus is not None and not 1 <= cus < 2**31:
        raise ArgumentError(
            "explain", f"--cus must be from 1 to 2**31 - 1, got {cus}", "For example: --cus 304"
        )
    installed = locate.installed()
    refuse_unknown(name, installed)
    serving = locate.for_target(target, installed, f"calls of {name} on {target}")
    block, usual = find_operator(name, serving)
    tensors, attributes, call = describe(block, settings, f"{EXAMPLE} --target {target}")
    bundles = opening.usable(serving, opening.open_bundle)
    units = cus or usual
    mine = dispatch.tuned_tables(name, target, units, bundles)
    decisions = dispatch.operator(name).explain(bundles, units, list(tensors), list(attributes), mine)
    users = [user for user in user_tables.read(user_tables.setting()) if user.operator == name]
    notes = {f"{user.path}:{row.line}": row for user in users for row in user.table.rows}
    said = []
    for decision in decisions:
        row = notes.get(decision["row"])
        said.append({**decision, "us": row.us if row else "", "source": row.source if row else ""})
    paths = tuple(user.path for user in users)
    return Explanation(name, target, units, call, tuple(said), paths, deciding.decided_by(said))


def refuse_unknown(name: str, installed: Sequence[InstalledBundle]) -> None:
    """Refuse a name that no installed bundle has, whatever its target is.

    Raises:
        NoOperatorError: it is misspelt, or a function without an operator of its name.
    """
    if name in HOMES:
        return
    names = {one for bundle in installed for one in opening.read_bundle(bundle).names}
    if not names or name in names:
        return
    if name in COMPOSED:
        raise NoOperatorError(
            "", f"{name} is a function of several operators", f"Name one of them: {_behind(name)}"
        )
    raise NoOperatorError(
        "", f"No operator {name!r}", f"{did_you_mean(name, names)}List all: aiter-prebuilt list"
    )


def _behind(name: str) -> str:
    """List the operators that a function launches."""
    value = operator_closure.public(name)
    return ", ".join(operator_closure.operators_of(value)) or "aiter-prebuilt list"


def find_operator(
    name: str, serving: Sequence[InstalledBundle], action: str = "explain"
) -> tuple[Operator, int]:
    """Find the operator's records in the first bundle that has it.

    Args:
        name: the operator.
        serving: the bundles to look into.
        action: what an error says cannot be done, as an infinitive.

    Returns:
        The records, and the usual number of compute units of its target.

    Raises:
        NoOperatorError: none has it. BundleDamagedError: its records cannot be read.
    """
    names: set[str] = set()

    def records(installed: InstalledBundle) -> tuple[Operator, int] | None:
        bundle = opening.read_bundle(installed)
        names.update(bundle.names)
        if name not in bundle.names:
            return None
        try:
            return bundle.operator(name), int(json.loads(bundle.root.provenance)["cus"][0])
        except FormatError as error:
            raise opening.damaged(installed, error) from error

    for installed in serving:
        for found in opening.usable([installed], records):
            if found is not None:
                return found
    if serving:
        missing = dispatch.absent(
            f"{action} {name}", name, serving[0].target, {each.profile for each in serving}
        )
        if missing is not None:
            raise missing
    raise NoOperatorError(
        "",
        f"No operator {name!r}",
        f"{did_you_mean(name, names)}List all: aiter-prebuilt list",
    )


def describe(
    operator: Operator, settings: Mapping[str, str], example: str = EXAMPLE
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Return the tensors and attributes of the described call, as the native side takes them, and the call as plain data.

    Args:
        operator: the operator's records.
        settings: values of symbols, types and attributes, as they were typed.
        example: a template of the call that an error shows: {name}, {words} (name and ``SYMBOL=VALUE``), {symbols} (a dict).

    Raises:
        ArgumentError: a setting is missing, unknown or wrong.
    """
    try:
        return _described(operator, settings)
    except _DescriptionError as problem:
        symbols = {name: _USUAL.get(name, 128) for name in _symbols(operator.tensors, operator)}
        words = " ".join([operator.name, *(f"{name}={value}" for name, value in symbols.items())])
        shown = example.format(name=operator.name, words=words, symbols=symbols)
        raise ArgumentError(operator.name, str(problem), f"For example: {shown}") from None


class _DescriptionError(Exception):
    """Settings that describe no call of an operator."""


def _described(
    operator: Operator, settings: Mapping[str, str]
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    left = dict(settings)
    types = [_type(variable.name, variable.allowed, left) for variable in operator.type_variables]
    absent = {
        tensor.name for tensor in operator.tensors if tensor.optional and left.pop(tensor.name, "") == "none"
    }
    aligns = {
        tensor.name: _align(left.pop(tensor.name + ".align", "256"), tensor.name + ".align")
        for tensor in operator.tensors
    }
    attributes = [_attribute(attribute, left) for attribute in operator.attributes]
    present = [tensor for tensor in operator.tensors if tensor.name not in absent]
    slots = _slots(operator, present, left)
    if left:
        known = ", ".join(_symbols(operator.tensors, operator))
        raise _DescriptionError(f"it has no symbol {' or '.join(sorted(left))}; its sizes are {known}")
    try:
        tensors = [
            None if tensor.name in absent else _raw(operator, tensor, types, slots, aligns[tensor.name])
            for tensor in operator.tensors
        ]
    except ExpressionError as error:
        raise _DescriptionError(f"a size cannot be computed: {error}") from None
    call = {
        "types": {
            variable.name: dtype.BY_NUMBER[number].name
            for variable, number in zip(operator.type_variables, types, strict=True)
        },
        "symbols": {
            name: value
            for name, value in zip(operator.slots, slots, strict=True)
            if value is not None and name[0] not in "&?"
        },
        "absent": sorted(absent),
    }
    return tensors, attributes, call


def _align(text: str, name: str) -> int:
    value = _number(text, name)
    if value < 1 or value & (value - 1):
        raise ArgumentError(
            f"{name}={text}", "the alignment must be a power of two", f"For example: {name}=16"
        )
    return value


def _symbols(tensors: Iterable[Tensor], operator: Operator) -> list[str]:
    """List the sizes that a call of these tensors must give, in the signature's order."""
    return [
        *dict.fromkeys(
            operator.slots[dim.slot] for tensor in tensors for dim in tensor.dims if dim.kind == DIM_BIND
        )
    ]


def _number(text: str, name: str) -> int:
    try:
        value = int(text)
        if -(2**63) <= value < 2**63:
            return value
        raise ValueError
    except ValueError:
        raise ArgumentError(
            f"{name}={text}", "the value must be an integer of 64 bits", f"For example: {name}=16"
        ) from None


def _type(name: str, allowed: tuple[int, ...], left: dict[str, str]) -> int:
    text = left.pop(name, "")
    if not text:
        return allowed[0]
    for number in allowed:
        if text in _words(number):
            return number
    names = [dtype.BY_NUMBER[number].name for number in allowed]
    known = [f"{dtype.TARGET_FP8} ({each})" if each in _E4M3 else each for each in names]
    raise ArgumentError(
        f"{name}={text}", f"{name} must be one of {', '.join(known)}", f"For example: {name}={names[0]}"
    )


def _words(number: int) -> set[str]:
    """List the names of an element type.

    They are its name in tables and reasons, torch's, that of the documents (fp16), and the signature's for the target's own e4m3.
    A bundle's operators take only the flavour of its target.
    """
    kind = dtype.BY_NUMBER[number]
    documents = re.sub(r"^f(?=\d)", "fp", kind.name)
    return {kind.name, kind.torch, documents} | ({dtype.TARGET_FP8} if kind.name in _E4M3 else set())


def _attribute(attribute: Any, left: dict[str, str]) -> Any:
    text = left.pop(attribute.name, attribute.default)
    kind = ATTRIBUTE_KINDS[attribute.kind]
    if kind == "float":
        try:
            return float(text or 1.0)
        except ValueError:
            raise ArgumentError(
                f"{attribute.name}={text}", "the value must be a number", f"For example: {attribute.name}=0.5"
            ) from None
    if kind == "enum":
        return text or attribute.values[0]
    if kind == "text":
        return None if text == NO_TEXT else text
    words = {"true": 1, "false": 0, "": 0}
    return words[text] if text in words else _number(text, attribute.name)


def _slots(operator: Operator, present: list[Tensor], left: dict[str, str]) -> list[int | None]:
    slots: list[int | None] = [None] * len(operator.slots)
    for tensor in present:
        for dim in (*tensor.dims, *tensor.strides):
            name = operator.slots[dim.slot]
            if dim.kind == DIM_BIND and name in left:
                slots[dim.slot] = _number(left.pop(name), name)
    missing = [name for name in _symbols(present, operator) if slots[operator.slots.index(name)] is None]
    if missing:
        *first, last = missing
        raise _DescriptionError(f"{', '.join(first)}{' and ' if first else ''}{last} must be given")
    return slots


def _raw(
    operator: Operator, tensor: Tensor, types: list[int], slots: list[int | None], align: int
) -> tuple[Any, ...]:
    filled = [0 if value is None else value for value in slots]
    shape = [filled[dim.slot] if dim.kind == DIM_BIND else evaluate(dim.code, filled) for dim in tensor.dims]
    strides = [1] * len(shape)
    for place in range(len(shape) - 2, -1, -1):
        strides[place] = strides[place + 1] * max(1, shape[place + 1])
    for place, dim in enumerate(tensor.strides):
        given = slots[dim.slot] if dim.kind == DIM_BIND else None
        if given is not None:
            strides[place] = given
        elif dim.kind == DIM_BIND:
            slots[dim.slot] = strides[place]
        elif dim.kind == DIM_EXPRESSION:
            strides[place] = evaluate(dim.code, filled)
    number = tensor.dtype if tensor.type_var == NONE8 else types[tensor.type_var]
    address = _BYTES + _ADDRESS * (1 + operator.tensors.index(tensor)) + (0 if align >= 256 else align)
    return address, dtype.BY_NUMBER[number].name, tuple(shape), tuple(strides), ("amd", 0)
