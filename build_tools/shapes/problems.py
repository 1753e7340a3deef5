"""What lint asks of models and clients' calls: every name is there, every call fits, and nothing that is said is stale."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from build_tools.errors import UsageError
from build_tools.manifest.model import Manifest, Operator
from build_tools.manifest.problems import suggestion
from build_tools.shapes.ask import Filter, argument, operators_of
from build_tools.shapes.forms import Form, FormError, bind, parse
from build_tools.shapes.models import (
    CLIENTS,
    LINEAR,
    MODELS,
    ClientCall,
    Model,
    Models,
    Sizes,
    calls_of,
    layers,
    read,
    sizes_of,
)


def of_repository(manifest: Manifest, root: Path) -> list[str]:
    """Everything that is wrong with the two files of the repository at ``root``."""
    return of_models(read(root), manifest)


def of_models(models: Models, manifest: Manifest) -> list[str]:
    """Everything that is wrong with what they say."""
    lines = [*_names(models, manifest), *_unused(models), *_calls(models, manifest)]
    if not lines:
        lines += dict.fromkeys(_sizes(models, manifest))
    return lines


def refuse(models: Models, only: Filter) -> None:
    """Raise UsageError where what is asked for is not there."""
    asked = "say what models' steps launch"
    for name in only.models:
        if name not in models.models:
            found = f"no model is called {name!r}{suggestion(name, models.models)}"
            raise UsageError(asked, found, f"Name one of {MODELS}")
    functions = {parse(told.call).function for told in models.calls.values()}
    for name in only.functions:
        if name not in functions:
            found = f"no client calls {name!r}{suggestion(name, functions)}"
            raise UsageError(asked, found, f"Name a function of {CLIENTS}")
    for name, model in models.models.items():
        if not only.models or name in only.models:
            for ranks in only.ranks:
                _refuse_ranks(asked, name, model, ranks)


def _refuse_ranks(asked: str, name: str, model: Model, ranks: int) -> None:
    for fact, size in model.facts.items():
        if fact in ("heads", "inter", "expert_inter") and size % ranks:
            raise UsageError(
                asked, f"{name} has {fact} = {size}, which {ranks} ranks cannot share", "Choose another --tp"
            )


def _names(models: Models, manifest: Manifest) -> Iterator[str]:
    for where, names, known in _references(models, manifest):
        for name in names:
            if name not in known:
                yield f"{where}: nothing is called {name!r}{suggestion(name, known)}"
    for group, each in models.linears.items():
        for layer, shape in each.items():
            if len(shape) != len(LINEAR):
                yield f"{MODELS}: linears.{group}.{layer}: not rows and columns"


def _references(models: Models, manifest: Manifest) -> Iterator[tuple[str, Sequence[str], Collection[str]]]:
    """Where names stand, which, and what they may be."""
    for name, model in models.models.items():
        yield f"{MODELS}: models.{name}.linears", model.linears, models.linears
        yield f"{MODELS}: models.{name}.parts", model.parts, models.parts
    for part, calls in models.parts.items():
        yield f"{MODELS}: parts.{part}", calls, models.calls
    for name, told in models.calls.items():
        yield f"{CLIENTS}: calls.{name}.phases", told.phases, models.phases
        yield f"{CLIENTS}: calls.{name}.each", told.each, models.linears
        yield f"{CLIENTS}: calls.{name}.targets", told.targets, manifest.targets
        yield f"{CLIENTS}: calls.{name}.through", told.through, operators_of(manifest)


def _unused(models: Models) -> Iterator[str]:
    parts = {part for model in models.models.values() for part in model.parts}
    groups = {group for model in models.models.values() for group in model.linears}
    calls = {call for part in models.parts.values() for call in part}
    for what, names, used, file in (
        ("part", models.parts, parts, MODELS),
        ("group of linears", models.linears, groups, MODELS),
        ("call", models.calls, calls, CLIENTS),
    ):
        for name in names:
            if name not in used:
                yield f"{file}: no model has the {what} {name!r}"


def _calls(models: Models, manifest: Manifest) -> Iterator[str]:
    operators = operators_of(manifest)
    for name, told in models.calls.items():
        where = f"{CLIENTS}: calls.{name}"
        try:
            form = parse(told.call)
        except FormError as error:
            yield f"{where}: {error}"
            continue
        yield from (f"{where}: {line}" for line in _state(told, form, operators.get(form.function)))


def _state(told: ClientCall, form: Form, operator: Operator | None) -> Iterator[str]:
    """Is what the call says of our function true?"""
    if operator is None:
        if not (told.not_served or told.host or told.through or told.unbound):
            yield (
                f"{form.function} is no operator here: say why (not_served), that it launches nothing (host), or which operators "
                "it launches (through)"
            )
        return
    if told.not_served:
        yield f"{form.function} is served: not_served is stale"
        return
    if told.host or told.through:
        yield f"{form.function} is an operator, which launches something itself: host and through are wrong"
    try:
        bind(form, operator.python.parameters)
    except FormError as error:
        if not told.unbound:
            yield f"{form.function} does not take it: {error}"
    else:
        if told.unbound:
            yield f"{form.function} takes it: unbound is stale"


def _sizes(models: Models, manifest: Manifest) -> Iterator[str]:
    """Each call of each model with the first number of tokens of each phase, sizes and all."""
    fp8 = next(target.fp8 for target in manifest.amd.values())
    for name, model in models.models.items():
        for key, told in calls_of(models, model):
            form = parse(told.call)
            for phase_name, phase in models.phases.items():
                if told.phases and phase_name not in told.phases:
                    continue
                for ranks in model.ranks:
                    try:
                        _one(
                            form,
                            told,
                            models,
                            model,
                            sizes_of(models, model, phase, ranks, phase.tokens[0]),
                            fp8,
                        )
                    except FormError as error:
                        yield f"{CLIENTS}: calls.{key}: of {name}: {error}"


def _one(form: Form, told: ClientCall, models: Models, model: Model, sizes: Sizes, fp8: str) -> None:
    shapes = [shape for _, shape in layers(models, model, told.each)] if told.each else [()]
    for shape in shapes:
        own = {each: sizes.integer(text) for each, text in zip(LINEAR, shape, strict=False)}
        with_layer = Sizes({**sizes.known, **own}, sizes.derived, sizes.reals)
        for value in form.values():
            argument(value, with_layer, fp8)
