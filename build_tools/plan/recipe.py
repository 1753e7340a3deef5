"""From one kernel variant to its recipe and its jobs: conditions, cost, grids and kernel arguments as bytecode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.expression import ExpressionError, Scope, compile_expression, constant_value
from aiter_prebuilt.contract.real import compile_real
from aiter_prebuilt.contract.records import (
    ARG_FLOAT,
    ARG_INT,
    ARG_NULL,
    ARG_REAL,
    ARG_TENSOR,
    ARG_WORKSPACE,
    Arg,
    Condition,
    Recipe,
    Step,
)
from build_tools.manifest.model import Assume, Kernel
from build_tools.manifest.model import Step as StepSpec
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan import limits
from build_tools.plan.rows import TemplateError, filled
from build_tools.plan.slots import Slots
from build_tools.plan.variants import Variant
from build_tools.plan.zero import zero_step
from build_tools.records import Backend, Constant, KernelArg

_SIZES: Final = {"ptr": 8, "i32": 4, "i64": 8, "f32": 4}
_ARG: Final = re.compile(r"^(?P<kind>\w+)\s+(?P<rest>.+)$")
#: What the name of a job does without.
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9_.]+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_WORKSPACE: Final = re.compile(r"^workspace(?:\s*\+\s*(?P<offset>.+))?$")
#: Pointers that a backend's compiler appends to every kernel (Triton: global and profile scratch); they are passed as null.
TRAILING_POINTERS: Final = {"triton": 2}


@dataclass(frozen=True, slots=True)
class JobDraft:
    """What a step needs compiled; the plan makes it a job with an id, shared by equal drafts."""

    step: str
    backend: Backend
    source: str
    symbol: str
    constants: tuple[tuple[str, Constant], ...]
    args: tuple[KernelArg, ...]
    kernarg_size: int
    block: tuple[int, int, int]
    used: frozenset[str] | None
    demangled: str = ""


@dataclass(frozen=True, slots=True)
class RecipeDraft:
    """A recipe whose steps are paired with their jobs-to-be; ``Step.entry`` is still 0."""

    recipe: Recipe
    jobs: tuple[JobDraft, ...]


def steps_of(kernel: Kernel, problems: Problems) -> list[StepSpec]:
    """The steps as written, or the one step that a kernel without steps is."""
    if kernel.steps:
        for key in ("symbol", "demangled", "grid", "block", "args", "lds", "slot", "assume"):
            if getattr(kernel, key) is not None:
                problems.add("stands with the steps when there are steps", key)
        limits.check(len(kernel.steps), limits.STEPS, "steps", problems, "steps")
        return list(kernel.steps)
    for key in ("symbol", "grid", "args"):
        if getattr(kernel, key) is None:
            problems.add("is missing", key)
    if kernel.symbol is None or kernel.grid is None or kernel.args is None:
        return []
    return [
        StepSpec(
            symbol=kernel.symbol, demangled=kernel.demangled, grid=kernel.grid, block=kernel.block, lds=kernel.lds,
            args=kernel.args, slot=kernel.slot, assume=kernel.assume,
        )
    ]  # fmt: skip


def draft(kernel: Kernel, variant: Variant, slots: Slots, problems: Problems) -> RecipeDraft | None:
    """The recipe of ``variant``, or None when its conditions can never hold."""
    scope = variant.scope(slots)
    conditions = _conditions(kernel, scope, problems)
    if conditions is None:
        return None
    steps, jobs = [], []
    for place, spec in enumerate(steps_of(kernel, problems)):
        at = ("steps", place) if kernel.steps else ()
        with problems.at(*at):
            made = _step(kernel, spec, variant, slots, problems)
        if made is not None:
            steps.append(made[0])
            jobs.append(made[1])
    recipe = Recipe(
        kernel=0,
        variant=variant.name,
        types=tuple(dtype.BY_NAME[name].number for name in variant.types),
        conditions=conditions,
        cost=_code(kernel.cost, scope, problems, "cost"),
        workspace=_code(kernel.workspace, scope, problems, "workspace"),
        steps=tuple(steps),
    )
    return RecipeDraft(recipe, tuple(jobs))


def _conditions(kernel: Kernel, scope: Scope, problems: Problems) -> tuple[Condition, ...] | None:
    result = []
    for place, text in enumerate(kernel.when):
        code = _code(text, scope, problems, "when", place)
        value = _constant(text, code, problems, "when", place)
        if value == 0 and code:
            return None
        if value is None and code:
            result.append(Condition(text, code))
    return tuple(result)


def _code(text: str | int | None, scope: Scope, problems: Problems, *path: str | int) -> bytes:
    if text is None:
        return b""
    try:
        return _compiled(text, _names(text), scope)
    except ExpressionError as error:
        problems.add(str(error), *path)
        return b""


@lru_cache(maxsize=8192)
def _names(text: str | int) -> tuple[str, ...]:
    return tuple(_NAME.findall(text)) if isinstance(text, str) else ()


#: Bytecode by text, the slots that it may use and what its names mean: most of the texts of a kernel mean the same in all of its
#: variants, and there may be hundreds.
_COMPILED: Final[dict[tuple[object, ...], bytes]] = {}


def _compiled(text: str | int, names: tuple[str, ...], scope: Scope) -> bytes:
    meanings = tuple((scope.constants.get(name), scope.strings.get(name)) for name in names)
    key = (text, scope.key, meanings)
    if scope.key is None:
        return compile_expression(text, scope)
    if key not in _COMPILED:
        _COMPILED[key] = compile_expression(text, scope)
    return _COMPILED[key]


def _constant(text: str | int, code: bytes, problems: Problems, *path: str | int) -> int | None:
    try:
        return constant_value(code)
    except ExpressionError as error:
        problems.add(f"{text!r} cannot be computed: {error}", *path)
        return None


def _step(
    kernel: Kernel, spec: StepSpec, variant: Variant, slots: Slots, problems: Problems
) -> tuple[Step, JobDraft] | None:
    if spec.zero is not None:
        zero = zero_step(kernel, spec, variant, slots, problems)
        if zero is None:
            return None
        spec = zero
    backend = spec.backend or kernel.backend
    if spec.symbol is None or spec.grid is None or spec.args is None:
        for key in ("symbol", "grid", "args"):
            if getattr(spec, key) is None:
                problems.add("is missing", key)
        return None
    merged = Variant(
        variant.target, variant.types, variant.axes, variant.keys, {**variant.constants, **spec.constants}
    )
    scope = merged.scope(slots)
    sizes = [
        spec.grid[0] if spec.only_if is None else f"({spec.grid[0]}) if ({spec.only_if}) else 0",
        *spec.grid[1:],
    ]
    grid = [_code(text, scope, problems, "grid", place) for place, text in enumerate(sizes)]
    grid += [b""] * (3 - len(grid))
    block = _block(backend, spec, merged, scope, problems)
    divisible = _divisible(spec.assume, merged, problems)
    args, kernel_args, size = _arguments(backend, spec, merged, slots, divisible, problems)
    step = Step(0, size, *block, grid[0], grid[1], grid[2], _code(spec.lds, scope, problems, "lds"), args)
    used = _used(spec, variant, problems)
    words = {**merged.constants, "target": merged.target.name}
    source = _filled(spec.source or kernel.source, words, problems, "source")
    symbol = _filled(spec.symbol, words, problems, "symbol")
    demangled = _filled(spec.demangled or "", words, problems, "demangled")
    constants = {
        name: value
        for name, value in merged.constants.items()
        if not source.endswith(".co")  # nothing compiles it, so nothing of a variant is in it
    }
    constants = {
        name: value
        for name, value in constants.items()
        if used is None
        or name in used
        or name in slots.types
        or name in kernel.constants
        or name in spec.constants
    }
    job = JobDraft(
        step=_UNNAMED.sub("_", demangled or symbol) if kernel.steps else "",
        backend=backend,
        source=source,
        symbol=symbol,
        constants=tuple(sorted(constants.items())),
        args=kernel_args,
        kernarg_size=size,
        block=(0, 0, 0) if backend == "triton" else block,
        used=used,
        demangled=demangled,
    )
    return step, job


def _filled(text: str, words: Mapping[str, object], problems: Problems, key: str) -> str:
    try:
        return filled(text, words)
    except TemplateError as error:
        problems.add(str(error), key)
        return text


def _used(spec: StepSpec, variant: Variant, problems: Problems) -> frozenset[str] | None:
    if spec.uses is None:
        return None
    for name in spec.uses:
        if name not in variant.constants:
            problems.add(
                f"{name!r} is not a constant of the kernel{suggestion(name, variant.constants)}", "uses"
            )
    return frozenset(spec.uses)


def _block(
    backend: Backend, spec: StepSpec, variant: Variant, scope: Scope, problems: Problems
) -> tuple[int, int, int]:
    if backend == "triton":
        if spec.block is not None:
            problems.add("Triton kernels have no block: it is num_warps times the wave size", "block")
        warps = variant.constants.get("num_warps", 4)
        if not isinstance(warps, int) or not 1 <= warps * variant.target.wave <= limits.THREADS:
            problems.add(
                f"num_warps = {warps!r} makes no block of 1 to {limits.THREADS} threads (waves of {variant.target.wave})"
            )
            return variant.target.wave, 1, 1
        return warps * variant.target.wave, 1, 1
    if spec.block is None:
        problems.add(f"is missing (needed for backend {backend!r})", "block")
        return 1, 1, 1
    sizes = [1, 1, 1]
    for place, text in enumerate(spec.block):
        value = _constant(text, _code(text, scope, problems, "block", place), problems, "block", place)
        if value is None or not 1 <= value <= limits.THREADS:
            problems.add(f"{text!r} is not a constant between 1 and {limits.THREADS}", "block", place)
        else:
            sizes[place] = value
    if sizes[0] * sizes[1] * sizes[2] > limits.THREADS:
        problems.add(f"{sizes} is more than {limits.THREADS} threads", "block")
    return sizes[0], sizes[1], sizes[2]


def _divisible(assume: Assume | None, variant: Variant, problems: Problems) -> frozenset[str]:
    if assume is None:
        return frozenset()
    if assume.when_constant is not None:
        if assume.when_constant not in variant.constants:
            problems.add(
                f"{assume.when_constant!r} is not a constant of the kernel", "assume", "when_constant"
            )
        if not variant.constants.get(assume.when_constant):
            return frozenset()
    return frozenset(assume.divisible)


def _arguments(
    backend: Backend,
    spec: StepSpec,
    variant: Variant,
    slots: Slots,
    divisible: frozenset[str],
    problems: Problems,
) -> tuple[tuple[Arg, ...], tuple[KernelArg, ...], int]:
    args: list[Arg] = []
    kernel_args: list[KernelArg] = []
    scope = variant.scope(slots)
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
        with problems.at("args", place):
            args.append(_argument(kind, rest, size, offset, slots, scope, problems))
        index = slots.tensor_index(rest) if kind == "ptr" else None
        role = "" if index is None else slots.tensors[index].role
        pointee = _pointee(kind, rest, slots, variant)
        kernel_args.append(KernelArg(kind, rest, offset, size, pointee, rest in divisible, role))
    for name in sorted(divisible - {arg.name for arg in kernel_args}):
        problems.add(f"{name!r} is not an argument of the kernel", "assume", "divisible")
    limits.check(end, limits.KERNARG, "bytes of kernel arguments", problems, "args")
    return tuple(args), tuple(kernel_args), end


def _argument(
    kind: str, rest: str, size: int, offset: int, slots: Slots, scope: Scope, problems: Problems
) -> Arg:
    if kind == "f32":
        if rest in slots.floats:
            return Arg(ARG_FLOAT, size, offset, slots.floats.index(rest), b"")
        return Arg(ARG_REAL, size, offset, 0, _real(rest, slots, scope, problems))
    if kind != "ptr":
        return Arg(ARG_INT, size, offset, 0, _code(rest, scope, problems))
    if rest == "null":
        return Arg(ARG_NULL, size, offset, 0, b"")
    workspace = _WORKSPACE.match(rest)
    if workspace is not None:
        return Arg(ARG_WORKSPACE, size, offset, 0, _code(workspace["offset"], scope, problems))
    index = slots.tensor_index(rest)
    if index is None:
        problems.add(
            f"{rest!r} is not a tensor of the operator{suggestion(rest, [spec.name for spec in slots.tensors])}"
        )
        return Arg(ARG_NULL, size, offset, 0, b"")
    return Arg(ARG_TENSOR, size, offset, index, b"")


def _real(text: str, slots: Slots, scope: Scope, problems: Problems) -> bytes:
    key = ("f32", text, scope.key, tuple(scope.constants.get(name) for name in _names(text)))
    try:
        if key not in _COMPILED:
            plain = {name: slot for name, slot in scope.slots.items() if name[0] not in "&?"}
            _COMPILED[key] = compile_real(text, plain, slots.floats, scope.constants)
        return _COMPILED[key]
    except ExpressionError as error:
        if text.isidentifier():
            problems.add(f"{text!r} is not a float attribute{suggestion(text, slots.floats)}")
        else:
            problems.add(str(error))
        return b""


def _pointee(kind: str, rest: str, slots: Slots, variant: Variant) -> str:
    index = slots.tensor_index(rest) if kind == "ptr" else None
    if index is None:
        return ""
    name = slots.tensors[index].type
    concrete = variant.constants.get(name) if name in slots.types else None
    return str(concrete) if concrete is not None else dtype.resolve(name, variant.target.fp8).name
