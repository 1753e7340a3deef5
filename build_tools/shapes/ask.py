"""The calls of models' steps with their sizes, and what the runtime says of each: the live choice, in a child of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from aiter_prebuilt.contract import dtype, model_steps
from aiter_prebuilt.contract.calls import Argument, Array, Call, ElementType
from build_tools.manifest.model import Manifest, Operator
from build_tools.report.shapes import ABSENT, CHOSEN, HOST, NOT_SERVED, REFUSED, UNBOUND, ShapeRow, step_call
from build_tools.shapes.forms import Form, FormError, Literal, Size, Tensor, Type, Value, bind, parse
from build_tools.shapes.models import (
    LINEAR,
    TOKENS,
    ClientCall,
    Model,
    Models,
    Sizes,
    calls_of,
    layers,
    sizes_of,
)

#: Says what calls would launch on a target: lines of ``python -m aiter_prebuilt.execute --explain``.
Explain: TypeAlias = Callable[[str, Iterable[Call]], Iterable[Mapping[str, Any]]]

#: How the executor begins what it says of a call that no kernel takes, and of an operator that no bundle has.
_NO_KERNEL: Final = "NoKernelError: "
_NOT_THERE: Final = "NoOperatorError: "


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a request; empty: everything.

    ``ranks``: instead of each model's own.
    """

    models: Collection[str] = ()
    functions: Collection[str] = ()
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StepCall:
    """One call on one target. ``row``: without an answer; ``call``: the question to the runtime, None if there is none."""

    row: ShapeRow
    call: Call | None


def operators_of(manifest: Manifest) -> dict[str, Operator]:
    """By name."""
    return {each.name: each for family in manifest.families.values() for each in family.operators}


def step_calls(models: Models, manifest: Manifest, target: str, only: Filter) -> Iterator[StepCall]:
    """Every call of every step, by model, ranks, call, layer, and tokens.

    Raises:
        FormError: a call cannot be made.
    """
    operators = operators_of(manifest)
    fp8 = manifest.targets[target].fp8
    for name, model in models.models.items():
        if only.models and name not in only.models:
            continue
        for ranks in only.ranks or model.ranks:
            for key, told in calls_of(models, model):
                form = parse(told.call)
                if only.functions and form.function not in only.functions:
                    continue
                if told.targets and target not in told.targets:
                    continue
                for layer, phase, sizes in _steps(models, model, told, ranks):
                    row = ShapeRow(
                        name, ranks, phase, sizes.known[TOKENS], key, told.client, form.function, layer,
                        written(form, sizes), target, REFUSED, "",
                    )  # fmt: skip
                    yield _call_of(row, told, form, operators.get(form.function), sizes, fp8)


def _steps(models: Models, model: Model, told: ClientCall, ranks: int) -> Iterator[tuple[str, str, Sizes]]:
    """(layer, phase, sizes) of each of its calls."""
    linears = list(layers(models, model, told.each)) if told.each else [("", ())]
    for layer, shape in linears:
        for phase_name, phase in models.phases.items():
            if told.phases and phase_name not in told.phases:
                continue
            for tokens in phase.tokens:
                sizes = sizes_of(models, model, phase, ranks, tokens)
                own = {name: sizes.integer(text) for name, text in zip(LINEAR, shape, strict=False)}
                yield layer, phase_name, replace(sizes, known={**sizes.known, **own})


def _call_of(
    row: ShapeRow, told: ClientCall, form: Form, operator: Operator | None, sizes: Sizes, fp8: str
) -> StepCall:
    if told.not_served:
        return StepCall(replace(row, state=NOT_SERVED, reason=told.not_served), None)
    if told.through:
        return StepCall(replace(row, within=tuple(told.through)), None)
    if told.unbound:
        return StepCall(replace(row, state=UNBOUND, reason=told.unbound), None)
    if told.host or operator is None:
        return StepCall(replace(row, state=HOST, reason="no kernel of ours"), None)
    found = bind(form, operator.python.parameters)
    arguments = {name: argument(value, sizes, fp8) for name, value in found.items()}
    return StepCall(row, Call(operator.name, f"{row.model} {row.call} M={row.tokens}", arguments, ()))


def argument(value: Value, sizes: Sizes, fp8: str) -> Argument:
    """Return an argument as the executor takes it.

    A tensor has no data.

    Raises:
        FormError: a size cannot be computed, or is negative.
    """
    if isinstance(value, Literal):
        return list(value.value) if isinstance(value.value, tuple) else value.value
    if isinstance(value, Size):
        return sizes.value(value.text)
    if isinstance(value, Type):
        return ElementType(dtype.resolve(value.name, fp8).name)
    shape = tuple(sizes.integer(text) for text in value.dims)
    strides = dense(shape) if value.strides is None else tuple(map(sizes.integer, value.strides))
    if min((*shape, *strides), default=0) < 0:
        raise FormError(f"{value.dtype}[{', '.join(value.dims)}] is {shape}, strides {strides}")
    return Array(dtype.resolve(value.dtype, fp8).name, shape, strides, 0, None)


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor without gaps."""
    strides = [1] * len(shape)
    for place in range(len(shape) - 2, -1, -1):
        strides[place] = strides[place + 1] * max(1, shape[place + 1])
    return tuple(strides)


def written(form: Form, sizes: Sizes) -> str:
    """Return the arguments with their sizes.

    ``bf16[8, 4096], bf16[4096], eps``.
    """
    words = [_written(value, sizes) for value in form.positional]
    words += [f"{name}={_written(value, sizes)}" for name, value in form.keywords]
    return ", ".join(words)


def _written(value: Value, sizes: Sizes) -> str:
    if isinstance(value, Tensor):
        text = f"{value.dtype}[{', '.join(str(sizes.integer(text)) for text in value.dims)}]"
        if value.strides is None:
            return text
        return f"{text} strides ({', '.join(str(sizes.integer(each)) for each in value.strides)})"
    if isinstance(value, Type):
        return value.name
    return str(sizes.value(value.text)) if isinstance(value, Size) else repr(value.value)


def answered(
    every: Iterable[StepCall], operators: Mapping[str, Operator], target: str, explain: Explain
) -> list[ShapeRow]:
    """Return the rows, with what the runtime says of each."""
    rows = list(every)
    profiles = {
        (operator.name, kernel.name): kernel.profile
        for operator in operators.values()
        for kernel in operator.kernels
    }
    # The first of several native calls may be another operator's: mla_decode_fwd makes works first.
    elsewhere = {kernel: profile for (_, kernel), profile in reversed(profiles.items())}
    lines = iter(explain(target, (each.call for each in rows if each.call is not None)))
    found = [
        each.row if each.call is None else _answered(each.row, profiles, elsewhere, next(lines))
        for each in rows
    ]
    return _joined(found)


def _joined(rows: Sequence[ShapeRow]) -> list[ShapeRow]:
    """Say of each function that only calls others which of them serves the call."""
    models: dict[str, list[model_steps.StepCall]] = {}
    for row in rows:
        models.setdefault(row.model, []).append(step_call(row))
    known = {name: model_steps.callees(calls) for name, calls in models.items()}
    return [_with_callees(row, known[row.model]) if row.within else row for row in rows]


def _with_callees(row: ShapeRow, known: Mapping[tuple[str, model_steps.Place], bool]) -> ShapeRow:
    if names := model_steps.serving(step_call(row), known):
        return replace(row, state=HOST, reason=f"a function around {', '.join(names)}")
    return replace(row, reason=f"none of {', '.join(row.within)} takes it")


def _answered(
    row: ShapeRow,
    profiles: Mapping[tuple[str, str], str],
    elsewhere: Mapping[str, str],
    line: Mapping[str, Any],
) -> ShapeRow:
    """``profiles``: of an operator's kernel; ``elsewhere``: of a kernel of the first operator that has it."""
    if line["problems"]:
        problem = "; ".join(line["problems"])
        if problem.startswith(_NOT_THERE):
            return replace(row, state=ABSENT, reason="no bundle of the target has the operator")
        return replace(row, reason=problem.removeprefix(_NO_KERNEL))
    kernel = line["kernel"]
    profile = profiles.get((row.function, kernel), elsewhere.get(kernel, ""))
    return replace(
        row, state=CHOSEN, reason=line.get("reason", ""), kernel=line["kernel"], variant=line["variant"],
        backend=line["backend"], profile=profile, cost=line.get("cost"),
    )  # fmt: skip
