"""Write ``src/aiter_prebuilt/inspection/call_forms.json``: calls of models' steps with sizes, for ``coverage``.

The manifests (``models.toml``, ``clients.toml``) stay with the build; what is installed says of these calls, on the machine where
it is installed, which kernel takes each. Models that have a short name are in it, with a few numbers of tokens, on one rank. The
other arguments of calls where several ranks share a model stand beside, for ``tune --tp``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aiter_prebuilt.contract.model_steps import RANKS, SHARED, STEPS
from build_tools.manifest.model import Manifest, Operator
from build_tools.shapes.forms import Literal, Size, Type, Value, bind, parse
from build_tools.shapes.models import LINEAR, ClientCall, Model, Models, Sizes, calls_of, layers, sizes_of

FILE: Final = "src/aiter_prebuilt/inspection/call_forms.json"
#: Of the file's layout; ``aiter_prebuilt.inspection.call_forms`` reads no other.
EDITION: Final = 1


def call_forms(models: Models, manifest: Manifest) -> dict[str, Any]:
    """Everything in the file, as plain data."""
    operators = {each.name: each for family in manifest.families.values() for each in family.operators}
    named = {model.short: (name, model) for name, model in models.models.items() if model.short}
    used = {key: told for _, model in named.values() for key, told in calls_of(models, model)}
    return {
        "fp8": {name: target.fp8 for name, target in manifest.amd.items()},
        "forms": {key: _form(told, operators) for key, told in sorted(used.items())},
        "models": {
            short: {
                "name": name,
                "ranks": [RANKS, *_shared(model)],
                "calls": list(_calls(models, model, operators)),
            }
            for short, (name, model) in named.items()
        },
    }


def _shared(model: Model) -> Iterator[int]:
    """Yield the numbers of ranks that can share a model's heads and experts."""
    for ranks in SHARED:
        if not any(model.facts.get(fact, 0) % ranks for fact in ("heads", "inter", "expert_inter")):
            yield ranks


def _form(told: ClientCall, operators: Mapping[str, Operator]) -> dict[str, Any]:
    form = parse(told.call)
    record: dict[str, Any] = {"client": told.client, "function": form.function, "text": told.call}
    more = {"targets": told.targets, "through": told.through, "missing": told.not_served or told.unbound}
    record |= {name: value for name, value in more.items() if value}
    if told.host or (form.function not in operators and not told.through and not told.not_served):
        record["host"] = True
    return record


def _calls(models: Models, model: Model, operators: Mapping[str, Operator]) -> Iterator[dict[str, Any]]:
    """Each call with each number of tokens: its form, layer, step and arguments by name."""
    for key, told in calls_of(models, model):
        form = parse(told.call)
        operator = operators.get(form.function)
        given = {} if operator is None or told.unbound else bind(form, operator.python.parameters)
        shapes = list(layers(models, model, told.each)) if told.each else [("", ())]
        for layer, shape in shapes:
            for phase, tokens in ((name, count) for name, counts in STEPS.items() for count in counts):
                if told.phases and phase not in told.phases:
                    continue
                record: dict[str, Any] = {"form": key, "step": phase, "tokens": tokens}
                if layer:
                    record["layer"] = layer
                if given:
                    wholes = {
                        ranks: _sizes(models, model, phase, ranks, tokens, shape)
                        for ranks in (RANKS, *_shared(model))
                    }
                    record |= _arguments(given, wholes)
                yield record


def _sizes(models: Models, model: Model, phase: str, ranks: int, tokens: int, shape: Sequence[str]) -> Sizes:
    """Return the sizes of a step on one of ``ranks``, with those of a linear layer."""
    sizes = sizes_of(models, model, models.phases[phase], ranks, tokens)
    own = {name: sizes.integer(text) for name, text in zip(LINEAR, shape, strict=False)}
    return Sizes({**sizes.known, **own}, sizes.derived, sizes.reals)


def _arguments(given: Mapping[str, Value], wholes: Mapping[int, Sizes]) -> dict[str, Any]:
    """Write the arguments on one rank, and for each other number of ranks those that differ."""
    alone = {name: argument(value, wholes[RANKS]) for name, value in given.items()}
    shared = {}
    for ranks, sizes in wholes.items():
        theirs = {name: argument(value, sizes) for name, value in given.items()}
        if different := {name: value for name, value in theirs.items() if value != alone[name]}:
            shared[str(ranks)] = different
    return {"arguments": alone, **({"shared": shared} if shared else {})}


def argument(value: Value, sizes: Sizes) -> Any:
    """Write a value as JSON.

    A tensor is [type, dims] or [type, dims, strides], an element type [type], anything else itself. The type ``fp8`` is the
    target's own.

    Raises:
        FormError: a size cannot be computed.
    """
    if isinstance(value, Literal):
        return list(value.value) if isinstance(value.value, tuple) else value.value
    if isinstance(value, Size):
        return sizes.value(value.text)
    if isinstance(value, Type):
        return [value.name]
    made: list[Any] = [value.dtype, [sizes.integer(text) for text in value.dims]]
    return made if value.strides is None else [*made, [sizes.integer(text) for text in value.strides]]


def text(models: Models, manifest: Manifest) -> str:
    """Write the file: a line for each form and each call."""
    found = call_forms(models, manifest)
    about = "Generated by `python -m build_tools generate` from manifests/*.toml."
    head = {"about": about, "edition": EDITION, "fp8": found["fp8"]}
    forms = ",\n".join(f" {json.dumps(key)}: {json.dumps(form)}" for key, form in found["forms"].items())
    parts = []
    for short, model in found["models"].items():
        calls = ",\n".join(f"  {json.dumps(call)}" for call in model["calls"])
        about_model = f'"name": {json.dumps(model["name"])}, "ranks": {json.dumps(model["ranks"])}'
        parts.append(f' {json.dumps(short)}: {{{about_model}, "calls": [\n{calls}\n ]}}')
    models_text = ",\n".join(parts)
    return f'{json.dumps(head)[:-1]}, "forms": {{\n{forms}\n}}, "models": {{\n{models_text}\n}}}}\n'
