"""From one kernel variant to its recipe and its jobs: conditions, cost, grids and kernel arguments as bytecode."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.expression import ExpressionError, Scope, compile_expression, constant_value
from aiter_prebuilt.contract.records import (
    ARG_FLOAT,
    ARG_INT,
    ARG_NULL,
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
from build_tools.plan.slots import Slots
from build_tools.plan.variants import Variant
from build_tools.records import Constant, KernelArg

_SIZES: Final = {"ptr": 8, "i32": 4, "i64": 8, "f32": 4}
_ARG: Final = re.compile(r"^(?P<kind>\w+)\s+(?P<rest>.+)$")
_WORKSPACE: Final = re.compile(r"^workspace(?:\s*\+\s*(?P<offset>.+))?$")
#: Pointers that a backend's compiler appends to every kernel (Triton: global and profile scratch); they are passed as null.
TRAILING_POINTERS: Final = {"triton": 2}


@dataclass(frozen=True, slots=True)
class JobDraft:
    """What a step needs compiled; the plan makes it a job with an id, shared by equal drafts."""

    step: str
    source: str
    symbol: str
    constants: tuple[tuple[str, Constant], ...]
    args: tuple[KernelArg, ...]
    kernarg_size: int
    block: tuple[int, int, int]
    used: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class RecipeDraft:
    """A recipe whose steps are paired with their jobs-to-be; ``Step.entry`` is still 0."""

    recipe: Recipe
    jobs: tuple[JobDraft, ...]


def steps_of(kernel: Kernel, problems: Problems) -> list[StepSpec]:
    """The steps as written, or the one step that a kernel without steps is."""
    if kernel.steps:
        for key in ("symbol", "grid", "block", "args", "lds", "slot", "assume"):
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
            symbol=kernel.symbol, grid=kernel.grid, block=kernel.block, lds=kernel.lds, args=kernel.args,
            slot=kernel.slot, assume=kernel.assume,
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
            step, job = _step(kernel, spec, variant, slots, problems)
        steps.append(step)
        jobs.append(job)
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
        return compile_expression(text, scope)
    except ExpressionError as error:
        problems.add(str(error), *path)
        return b""


def _constant(text: str | int, code: bytes, problems: Problems, *path: str | int) -> int | None:
    try:
        return constant_value(code)
    except ExpressionError as error:
        problems.add(f"{text!r} cannot be computed: {error}", *path)
        return None


def _step(
    kernel: Kernel, spec: StepSpec, variant: Variant, slots: Slots, problems: Problems
) -> tuple[Step, JobDraft]:
    merged = Variant(
        variant.target, variant.types, variant.axes, variant.keys, {**variant.constants, **spec.constants}
    )
    scope = merged.scope(slots)
    grid = [_code(text, scope, problems, "grid", place) for place, text in enumerate(spec.grid)]
    x, y, z = [*grid, b"", b""][:3]
    block = _block(kernel, spec, merged, scope, problems)
    divisible = _divisible(spec.assume, merged, problems)
    args, kernel_args, size = _arguments(kernel, spec, merged, slots, divisible, problems)
    step = Step(0, size, *block, x, y, z, _code(spec.lds, scope, problems, "lds"), args)
    used = _used(spec, variant, problems)
    constants = {
        name: value
        for name, value in merged.constants.items()
        if used is None
        or name in used
        or name in slots.types
        or name in kernel.constants
        or name in spec.constants
    }
    job = JobDraft(
        step=spec.symbol if kernel.steps else "",
        source=spec.source or kernel.source,
        symbol=spec.symbol,
        constants=tuple(sorted(constants.items())),
        args=kernel_args,
        kernarg_size=size,
        block=(0, 0, 0) if kernel.backend == "triton" else block,
        used=used,
    )
    return step, job


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
    kernel: Kernel, spec: StepSpec, variant: Variant, scope: Scope, problems: Problems
) -> tuple[int, int, int]:
    if kernel.backend == "triton":
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
        problems.add(f"is missing (needed for backend {kernel.backend!r})", "block")
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
    kernel: Kernel,
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
    texts = [*spec.args, *["ptr null"] * TRAILING_POINTERS.get(kernel.backend, 0)]
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
        pointee = _pointee(kind, rest, slots, variant)
        kernel_args.append(KernelArg(kind, rest, offset, size, pointee, rest in divisible))
    for name in sorted(divisible - {arg.name for arg in kernel_args}):
        problems.add(f"{name!r} is not an argument of the kernel", "assume", "divisible")
    limits.check(end, limits.KERNARG, "bytes of kernel arguments", problems, "args")
    return tuple(args), tuple(kernel_args), end


def _argument(
    kind: str, rest: str, size: int, offset: int, slots: Slots, scope: Scope, problems: Problems
) -> Arg:
    if kind == "f32":
        if rest not in slots.floats:
            problems.add(f"{rest!r} is not a float attribute{suggestion(rest, slots.floats)}")
            return Arg(ARG_NULL, size, offset, 0, b"")
        return Arg(ARG_FLOAT, size, offset, slots.floats.index(rest), b"")
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


def _pointee(kind: str, rest: str, slots: Slots, variant: Variant) -> str:
    index = slots.tensor_index(rest) if kind == "ptr" else None
    if index is None:
        return ""
    name = slots.tensors[index].type
    concrete = variant.constants.get(name) if name in slots.types else None
    return str(concrete) if concrete is not None else dtype.resolve(name, variant.target.fp8).name
