"""``manifests/bridge/triton.toml``: calls of AITER's Triton functions whose kernels are compiled ahead of time, and for which
builds of Triton.

A call is written as those of ``manifests/clients.toml`` (``build_tools/shapes/forms.py``), with the sizes of
``manifests/models.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

from aiter_prebuilt.contract.dtype import BY_NAME, resolve
from build_tools.errors import ManifestError
from build_tools.report.reason_table import STRICT, Table, read_table
from build_tools.shapes import models as known
from build_tools.shapes.forms import FormError, Literal, Tensor, Type, Value, parse
from build_tools.shapes.models import LINEAR, Model, Models, Sizes

FILE: Final = "manifests/bridge/triton.toml"
#: Of tensors: they have sizes and no memory, unless AITER's function reads them.
_WITHOUT_MEMORY: Final = "meta"
_DEVICES: Final = (_WITHOUT_MEMORY, "cpu")


class SeededCall(BaseModel):
    """A call. ``client``: who makes it; ``modules``: where AITER's trees have the function, the first that a tree has counts;
    ``models``: whose sizes it has; ``each``: one call for each linear layer of these groups; ``tokens``: by phase, instead of the
    file's; ``ranks``: instead of the models'; ``targets``: only these; ``device``: ``cpu`` where AITER reads a tensor.
    """

    model_config = STRICT

    client: str = Field(min_length=1)
    modules: list[str] = Field(min_length=1)
    call: str = Field(min_length=1)
    models: list[str] = Field(min_length=1)
    each: list[str] = []
    tokens: dict[str, list[int]] = {}
    ranks: list[int] = []
    targets: list[str] = []
    device: str = _WITHOUT_MEMORY


class Same(BaseModel):
    """Builds of one release of Triton that compile the same bytes: SHA-256 of each one's libtriton."""

    model_config = STRICT

    version: str
    libraries: list[str] = Field(min_length=2)


class File(Table):
    """``versions``: of Triton; ``environments``: what Triton may say of its variables, and compiles the same; ``tokens``: by
    phase of models.toml; ``left``: functions whose kernels are not in here, and why.
    """

    model_config = STRICT

    versions: list[str] = Field(default_factory=list)
    environments: list[dict[str, str]] = Field(default_factory=list)
    same: list[Same] = Field(default_factory=list)
    tokens: dict[str, list[int]] = Field(default_factory=dict)
    calls: dict[str, SeededCall] = Field(default_factory=dict)
    left: dict[str, str] = Field(default_factory=dict)


def read(root: Path) -> File:
    """Return the file of the repository at ``root``.

    Raises:
        ManifestError: it is not of this form, or names a model, phase, group of layers or device that there is not.
    """
    found, models = read_table(root, FILE, File), known.read(root)
    problems = [problem for name, call in found.calls.items() for problem in _problems(name, call, models)]
    problems += [
        f"{FILE}: tokens: there is no phase {phase!r}" for phase in found.tokens if phase not in models.phases
    ]
    if problems:
        raise ManifestError(problems)
    return found


def _problems(name: str, call: SeededCall, models: Models) -> Iterator[str]:
    at = f"{FILE}: {name}"
    for what, words, there in (
        ("model", call.models, models.models),
        ("group of layers", call.each, models.linears),
        ("phase", call.tokens, models.phases),
        ("device", [call.device], _DEVICES),
    ):
        yield from (f"{at}: there is no {what} {word!r}" for word in words if word not in there)
    try:
        parse(call.call)
    except FormError as error:
        yield f"{at}: {error}"


def problems(root: Path, targets: Mapping[str, str]) -> list[str]:
    """List the problems of the file, for the targets too.

    ``targets``: name -> its own fp8. Empty where there is no file.
    """
    try:
        file = read(root)
        for target, fp8 in targets.items():
            requests(root, target, fp8)
    except ManifestError as error:
        return list(error.problems)
    unknown = {
        (name, each) for name, call in file.calls.items() for each in call.targets if each not in targets
    }
    called = {parse(call.call).function for call in file.calls.values()}
    return [
        *(f"{FILE}: {name}: there is no target {each!r}" for name, each in sorted(unknown)),
        *(f"{FILE}: left: {name} is called, too" for name in sorted(called & file.left.keys())),
    ]


def requests(root: Path, target: str, fp8: str) -> list[dict[str, Any]]:
    """List the calls for ``target``, equal ones once.

    Its own fp8 is ``fp8``; the child takes them so.

    Raises:
        ManifestError: see :func:`read`; or a size cannot be computed.
    """
    file, models = read(root), known.read(root)
    found: dict[str, dict[str, Any]] = {}
    for name, call in file.calls.items():
        if call.targets and target not in call.targets:
            continue
        form = parse(call.call)
        for label, sizes in _steps(models, call, call.tokens or file.tokens):
            try:
                row = {
                    "name": name,
                    "modules": call.modules,
                    "function": form.function,
                    "positional": [_argument(value, sizes, fp8, call.device) for value in form.positional],
                    "keywords": {
                        word: _argument(value, sizes, fp8, call.device) for word, value in form.keywords
                    },
                }
            except FormError as error:
                raise ManifestError([f"{FILE}: {name}: {label}: {error}"]) from None
            found.setdefault(repr(row), row | {"label": f"{name} {label}"})
    return list(found.values())


def _steps(models: Models, call: SeededCall, tokens: Mapping[str, list[int]]) -> Iterator[tuple[str, Sizes]]:
    for name in call.models:
        model = models.models[name]
        for ranks in call.ranks or model.ranks:
            for phase, numbers in tokens.items():
                for number in numbers:
                    sizes = known.sizes_of(models, model, models.phases[phase], ranks, number)
                    for layer, own in _linears(models, model, call, sizes):
                        label = f"{name} TP={ranks} {phase} M={number} {layer}".rstrip()
                        yield label, replace(sizes, known={**sizes.known, **own})


def _linears(
    models: Models, model: Model, call: SeededCall, sizes: Sizes
) -> Iterator[tuple[str, dict[str, int]]]:
    if not call.each:
        yield "", {}
        return
    for layer, shape in known.layers(models, model, call.each):
        yield layer, {name: sizes.integer(text) for name, text in zip(LINEAR, shape, strict=True)}


def torch_name(name: str) -> str:
    """Torch's name of an element type of manifests."""
    return BY_NAME[name].torch


def _argument(value: Value, sizes: Sizes, fp8: str, device: str) -> dict[str, Any]:
    if isinstance(value, Literal):
        return {"value": list(value.value) if isinstance(value.value, tuple) else value.value}
    if isinstance(value, Type):
        return {"type": resolve(value.name, fp8).torch}
    if isinstance(value, Tensor):
        strides = None if value.strides is None else [sizes.integer(text) for text in value.strides]
        return {
            "dims": [sizes.integer(text) for text in value.dims],
            "dtype": resolve(value.dtype, fp8).torch,
            "strides": strides,
            "device": device,
        }
    return {"value": sizes.value(value.text)}
