"""The kernel arguments of one launch: their places, and where their values come from."""

from __future__ import annotations

import re
from typing import Final

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.expression import Scope
from aiter_prebuilt.contract.records import (
    ARG_FLOAT,
    ARG_INT,
    ARG_NULL,
    ARG_REAL,
    ARG_TENSOR,
    ARG_WORKSPACE,
    Arg,
)
from build_tools.manifest.model import Step
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan import limits
from build_tools.plan.programs import code_of, meanings, real_of
from build_tools.plan.slots import Slots
from build_tools.plan.variants import Variant
from build_tools.records import Backend, KernelArg

_SIZES: Final = {"ptr": 8, "i32": 4, "i64": 8, "f32": 4}
_ARG: Final = re.compile(r"^(?P<kind>\w+)\s+(?P<rest>.+)$")
_WORKSPACE: Final = re.compile(r"^workspace(?:\s*\+\s*(?P<offset>.+))?$")
#: Pointers that a backend's compiler appends to every kernel (Triton: global and profile scratch); they are passed as null.
TRAILING_POINTERS: Final = {"triton": 2}


#: For the runtime, for the compile, and the bytes that they take.
_Arguments = tuple[tuple[Arg, ...], tuple[KernelArg, ...], int]
#: Most variants of a kernel have the same arguments: they are made once for each meaning of the names in their texts.
_MADE: Final[dict[tuple[object, ...], _Arguments]] = {}


def arguments_of(
    backend: Backend,
    spec: Step,
    variant: Variant,
    scope: Scope,
    slots: Slots,
    divisible: frozenset[str],
    problems: Problems,
) -> _Arguments:
    """The arguments of a launch for the runtime and for the compile, and the bytes that they take."""
    texts = tuple(spec.args or ())
    key = (
        backend,
        texts,
        spec.slot,
        divisible,
        variant.types,
        variant.target.fp8,
        slots,
        meanings(texts, scope),
    )
    if key not in _MADE:
        told = len(problems.lines)
        made = _made(backend, spec, variant, scope, slots, divisible, problems)
        if len(problems.lines) > told:
            return made  # wrong: each variant says so at its own place
        _MADE[key] = made
    return _MADE[key]


def _made(
    backend: Backend, spec: Step, variant: Variant, scope: Scope, slots: Slots, divisible: frozenset[str],
    problems: Problems,
) -> _Arguments:  # fmt: skip
    args: list[Arg] = []
    kernel_args: list[KernelArg] = []
    end = 0
    texts = [*(spec.args or ()), *["ptr null"] * TRAILING_POINTERS.get(backend, 0)]
    for place, text in enumerate(texts):
        match = _ARG.match(text)
        if match is None or match["kind"] not in _SIZES:
            problems.add(f"{text!r} is not of the form 'ptr|i32|i64|f32 WHAT'", "args", place)
            continue
        kind, rest = match["kind"], match["rest"].strip()
        size = _SIZES[kind]
        if spec.slot is not None and spec.slot < size:
            problems.add(f"a slot of {spec.slot} bytes is too small for {text!r}", "slot")
        align = spec.slot or size
        offset = end + -end % align
        end = offset + (spec.slot or size)
        index = slots.tensor_index(rest) if kind == "ptr" else None
        with problems.at("args", place):
            args.append(_argument(kind, rest, index, size, offset, slots, scope, problems))
        role = "" if index is None else slots.tensors[index].role
        pointee = _pointee(index, slots, variant)
        kernel_args.append(KernelArg(kind, rest, offset, size, pointee, rest in divisible, role))
    for name in sorted(divisible - {arg.name for arg in kernel_args}):
        problems.add(f"{name!r} is not an argument of the kernel", "assume", "divisible")
    limits.check(end, limits.KERNARG, "bytes of kernel arguments", problems, "args")
    return tuple(args), tuple(kernel_args), end


def _argument(
    kind: str, rest: str, index: int | None, size: int, offset: int, slots: Slots, scope: Scope, problems: Problems
) -> Arg:  # fmt: skip
    if kind == "f32":
        if rest in slots.floats:
            return Arg(ARG_FLOAT, size, offset, slots.floats.index(rest), b"")
        return Arg(ARG_REAL, size, offset, 0, real_of(rest, slots, scope, problems))
    if kind != "ptr":
        return Arg(ARG_INT, size, offset, 0, code_of(rest, scope, problems))
    if rest == "null":
        return Arg(ARG_NULL, size, offset, 0, b"")
    workspace = _WORKSPACE.match(rest)
    if workspace is not None:
        return Arg(ARG_WORKSPACE, size, offset, 0, code_of(workspace["offset"], scope, problems))
    if index is None:
        problems.add(
            f"{rest!r} is not a tensor of the operator{suggestion(rest, [spec.name for spec in slots.tensors])}"
        )
        return Arg(ARG_NULL, size, offset, 0, b"")
    return Arg(ARG_TENSOR, size, offset, index, b"")


def _pointee(index: int | None, slots: Slots, variant: Variant) -> str:
    if index is None:
        return ""
    name = slots.tensors[index].type
    concrete = variant.constants.get(name) if name in slots.types else None
    return str(concrete) if concrete is not None else dtype.resolve(name, variant.target.fp8).name
