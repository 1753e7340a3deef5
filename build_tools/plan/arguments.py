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
from aiter_prebuilt.contract.structs import laid_out, packed
from build_tools.manifest.model import Step
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan import limits
from build_tools.plan.programs import code_of, meaning, meanings, names_of, real_of
from build_tools.plan.slots import Slots
from build_tools.plan.variants import Variant
from build_tools.records import Backend, KernelArg

_SIZES: Final = {"ptr": 8, "u8": 1, "i32": 4, "i64": 8, "f32": 4, "f64": 8}
_FORM: Final = f"{'|'.join(_SIZES)} WHAT"
_ARG: Final = re.compile(r"^(?P<kind>\w+)\s+(?P<rest>.+)$")
_STRUCT: Final = re.compile(r"^(?P<packed>packed\s*)?\{(?P<fields>.+)\}$")
#: A pointer to nothing; what it would point to is said where a compile asks for it.
_NULL: Final = re.compile(r"^null(?:\s+(?P<type>\w+))?$")
_WORKSPACE: Final = re.compile(r"^workspace(?:\s*\+\s*(?P<offset>.+))?$")
#: Pointers that a backend's compiler appends to every kernel (Triton: global and profile scratch); they are passed as null.
TRAILING_POINTERS: Final = {"triton": 2}
#: What the compiler of a backend has no word for.
_UNKNOWN: Final = {"triton": ("u8", "f64", "{", "packed")}


#: For the runtime, for the compile, and the bytes that they take.
_Arguments = tuple[tuple[Arg, ...], tuple[KernelArg, ...], int]
#: Most variants of a kernel have the same arguments: they are made once for each meaning of the names in their texts. So is each
#: of them, for one place.
_MADE: Final[dict[tuple[object, ...], _Arguments]] = {}
_PLACED: Final[dict[tuple[object, ...], _Arguments]] = {}
#: What the compile sees of them: equal ones are one object, which a plan tells apart without looking into it.
_SAME: Final[dict[tuple[KernelArg, ...], tuple[KernelArg, ...]]] = {}


def arguments_of(
    backend: Backend,
    spec: Step,
    variant: Variant,
    scope: Scope,
    slots: Slots,
    divisible: frozenset[str],
    problems: Problems,
) -> _Arguments:
    """Build the arguments of a launch, and count their bytes.

    For the runtime and for the compile (equal ones are one object).
    """
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
        said = problems.said
        args, named, size = _made(backend, spec, variant, scope, slots, divisible, problems)
        made = args, _SAME.setdefault(named, named), size
        if problems.said > said:
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
    types = variant.types, variant.target.fp8
    for place, text in enumerate(texts):
        assumed = not divisible.isdisjoint(names_of(text)) and divisible
        pointed = text.startswith(("ptr", "{", "packed")) and types  # what is pointed to hangs on the types
        key = (end, backend, spec.slot, assumed, pointed, text, *meaning(text, scope))
        placed = _PLACED.get(key)
        if placed is None:
            said = problems.said
            placed = _placed(text, place, end, backend, spec, variant, scope, slots, divisible, problems)
            if problems.said == said:
                _PLACED[key] = placed
        args += placed[0]
        kernel_args += placed[1]
        end = placed[2]
    for name in sorted(divisible - {arg.name for arg in kernel_args}):
        problems.add(f"{name!r} is not an argument of the kernel", "assume", "divisible")
    limits.check(end, limits.KERNARG, "bytes of kernel arguments", problems, "args")
    return tuple(args), tuple(kernel_args), end


def _placed(
    text: str, place: int, end: int, backend: Backend, spec: Step, variant: Variant, scope: Scope, slots: Slots,
    divisible: frozenset[str], problems: Problems,
) -> _Arguments:  # fmt: skip
    """One argument behind ``end`` bytes of others, and where it ends; of a struct, its fields."""
    with problems.at("args", place):
        struct = _STRUCT.match(text.strip())
        fields = _fields(text, struct["fields"] if struct else None, backend, problems)
    if fields is None:
        return (), (), end
    sizes = [_SIZES[kind] for kind, _ in fields]
    dense = struct is not None and struct["packed"] is not None
    offsets, size = packed(sizes) if dense else laid_out(sizes)
    if spec.slot is not None and spec.slot < size:
        problems.add(f"a slot of {spec.slot} bytes is too small for {text!r}", "slot")
    start = end + -end % (spec.slot or (1 if dense else max(sizes)))
    args, kernel_args = [], []
    for (kind, rest), at in zip(fields, offsets, strict=True):
        index = slots.tensor_index(rest) if kind == "ptr" else None
        with problems.at("args", place):
            args.append(_argument(kind, rest, index, _SIZES[kind], start + at, slots, scope, problems))
        role = "" if index is None else slots.tensors[index].role
        with problems.at("args", place):
            pointee = _pointee(rest if kind == "ptr" else "", index, slots, variant, problems)
        kernel_args.append(KernelArg(kind, rest, start + at, _SIZES[kind], pointee, rest in divisible, role))
    return tuple(args), tuple(kernel_args), start + (spec.slot or size)


def _fields(
    text: str, inside: str | None, backend: Backend, problems: Problems
) -> list[tuple[str, str]] | None:
    """Kind and value of an argument; of each field where it is a struct (``{ i64 seed, u8 0 }``), which is what is ``inside``."""
    if text.startswith(_UNKNOWN.get(backend, ())):
        problems.add(f"{text!r}: kernels of {backend} take none of {', '.join(_UNKNOWN[backend])}")
        return None
    fields = [_ARG.match(field) for field in (_split_commas(inside) if inside is not None else [text])]
    said = [(field["kind"], field["rest"].strip()) for field in fields if field is not None]
    if len(said) < len(fields) or any(kind not in _SIZES for kind, _ in said):
        problems.add(f"{text!r} is not of the form {_FORM!r}, or several of it in braces")
        return None
    return said


def _split_commas(text: str) -> list[str]:
    """Return the texts between commas that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _argument(
    kind: str, rest: str, index: int | None, size: int, offset: int, slots: Slots, scope: Scope, problems: Problems
) -> Arg:  # fmt: skip
    if kind in ("f32", "f64"):
        if rest in slots.floats:
            return Arg(ARG_FLOAT, size, offset, slots.floats.index(rest), b"")
        return Arg(ARG_REAL, size, offset, 0, real_of(rest, slots, scope, problems))
    if kind != "ptr":
        return Arg(ARG_INT, size, offset, 0, code_of(rest, scope, problems))
    if _NULL.match(rest):
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


def _pointee(rest: str, index: int | None, slots: Slots, variant: Variant, problems: Problems) -> str:
    if index is None:
        null = _NULL.match(rest)
        said = null["type"] if null else None
        if said is not None and said not in dtype.BY_NAME:
            problems.add(f"{said!r} is not an element type{suggestion(said, dtype.BY_NAME)}")
        return said or ""
    name = slots.tensors[index].type
    concrete = variant.constants.get(name) if name in slots.types else None
    return str(concrete) if concrete is not None else dtype.resolve(name, variant.target.fp8).name
