"""From one kernel variant to its recipe and its jobs: conditions, cost, grids and kernel arguments as bytecode."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final, NamedTuple

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.expression import Scope
from aiter_prebuilt.contract.records import (
    Condition,
    Recipe,
    Step,
)
from build_tools.manifest.model import Assume, Kernel
from build_tools.manifest.model import Step as StepSpec
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan import limits
from build_tools.plan.arguments import arguments_of
from build_tools.plan.programs import code_of, constant_of, meanings
from build_tools.plan.rows import TemplateError, filled
from build_tools.plan.slots import Slots
from build_tools.plan.variants import Variant
from build_tools.plan.zero import zero_step
from build_tools.records import Backend, Constant, KernelArg, in_tree

#: What the name of a job does without.
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9_.]+")


class JobDraft(NamedTuple):
    """A compile that a step needs.

    The plan makes it a job with an id, shared by equal drafts.
    """

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
    """Return the steps as written, or a kernel's only step."""
    if kernel.steps:
        for key in ("symbol", "demangled", "grid", "block", "args", "lds", "slot", "assume"):
            if getattr(kernel, key) is not None:
                problems.add("stands with the steps when there are steps", key)
        limits.check(len(kernel.steps), limits.STEPS, "steps", problems, "steps")
        return list(kernel.steps)
    return [
        StepSpec(
            symbol=kernel.symbol, demangled=kernel.demangled, grid=kernel.grid, block=kernel.block, lds=kernel.lds,
            args=kernel.args, slot=kernel.slot, assume=kernel.assume,
        )
    ]  # fmt: skip


#: The kernel that was asked for last and its steps: all its variants ask in a row.
_STEPS: Final[list[tuple[Kernel, list[StepSpec]]]] = []


def _steps_of(kernel: Kernel, problems: Problems) -> list[StepSpec]:
    if _STEPS and _STEPS[0][0] is kernel:
        return _STEPS[0][1]
    said = problems.said
    steps = steps_of(kernel, problems)
    # Where something is wrong, each variant says so.
    _STEPS[:] = [(kernel, steps)] if problems.said == said else []
    return steps


def draft(kernel: Kernel, variant: Variant, slots: Slots, problems: Problems) -> RecipeDraft | None:
    """Draft the recipe of ``variant``; None if it can never hold."""
    scope = variant.scope(slots)
    conditions = _conditions(kernel, scope, problems)
    if conditions is None:
        return None
    steps, jobs = [], []
    for place, spec in enumerate(_steps_of(kernel, problems)):
        at = ("steps", place) if kernel.steps else ()
        with problems.at(*at):
            made = _step(kernel, spec, variant, scope, slots, problems)
        if made is not None:
            steps.append(made[0])
            jobs.append(made[1])
    recipe = Recipe(
        kernel=0,
        variant=variant.name,
        types=tuple(dtype.BY_NAME[name].number for name in variant.types),
        conditions=conditions,
        cost=code_of(kernel.cost, scope, problems, "cost"),
        workspace=code_of(kernel.workspace, scope, problems, "workspace"),
        steps=tuple(steps),
    )
    return RecipeDraft(recipe, tuple(jobs))


#: Conditions by their texts, the slots and what their names mean: most are those of a variant before.
_CONDITIONS: Final[dict[tuple[object, ...], tuple[Condition, ...] | None]] = {}


def _conditions(kernel: Kernel, scope: Scope, problems: Problems) -> tuple[Condition, ...] | None:
    texts = tuple(kernel.when)
    key = texts, scope.key, meanings(texts, scope)
    if key not in _CONDITIONS:
        said = problems.said
        made = _made(texts, scope, problems)
        if problems.said > said:
            return made  # wrong: each variant says so
        _CONDITIONS[key] = made
    return _CONDITIONS[key]


def _made(texts: Sequence[str], scope: Scope, problems: Problems) -> tuple[Condition, ...] | None:
    result = []
    for place, text in enumerate(texts):
        code = code_of(text, scope, problems, "when", place)
        value = constant_of(text, code, problems, "when", place)
        if value == 0 and code:
            return None
        if value is None and code:
            result.append(Condition(text, code))
    return tuple(result)


def _step(
    kernel: Kernel, spec: StepSpec, variant: Variant, scope: Scope, slots: Slots, problems: Problems
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
    merged = variant
    if spec.constants:
        merged = replace(variant, constants={**variant.constants, **spec.constants})
        scope = merged.scope(slots)
    sizes = [
        spec.grid[0] if spec.only_if is None else f"({spec.grid[0]}) if ({spec.only_if}) else 0",
        *spec.grid[1:],
    ]
    grid = [code_of(text, scope, problems, "grid", place) for place, text in enumerate(sizes)]
    x, y, z = [*grid, b"", b""][:3]
    block = _block(backend, spec, merged, scope, problems)
    divisible = _divisible(spec.assume, merged, problems)
    args, kernel_args, size = arguments_of(backend, spec, merged, scope, slots, divisible, problems)
    step = Step(0, size, *block, x, y, z, code_of(spec.lds, scope, problems, "lds"), args)
    used = _used(spec, variant, problems)
    words = merged.filling
    source = _filled(spec.source or kernel.source, words, problems, "source")
    symbol = _filled(spec.symbol, words, problems, "symbol")
    demangled = _filled(spec.demangled or "", words, problems, "demangled")
    constants: list[tuple[str, Constant]] = []
    if not in_tree(source) and not source.endswith(".co"):  # taken as it is: nothing of a variant is in it
        constants = list(merged.constants.items())
        if used is not None:
            kept = used.union(slots.types, spec.constants)
            constants = [each for each in constants if each[0] in kept]
    job = JobDraft(
        step=_UNNAMED.sub("_", demangled or symbol) if kernel.steps else "",
        backend=backend,
        source=source,
        symbol=symbol,
        constants=tuple(sorted(constants, key=itemgetter(0))),
        args=kernel_args,
        kernarg_size=size,
        block=(0, 0, 0) if backend == "triton" else block,
        used=used,
        demangled=demangled,
    )
    return step, job


def _filled(text: str, words: Mapping[str, object], problems: Problems, key: str) -> str:
    if "{" not in text:
        return text
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
        value = constant_of(text, code_of(text, scope, problems, "block", place), problems, "block", place)
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
