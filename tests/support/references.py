"""The manifests' references for torch tensors on the processor: what an operator must compute, by the only formula there is.

``manifests/<family>/reference.py`` says the exact result and the largest error before the last rounding; here torch tensors go
in, and rounded tensors come out (:func:`kernel`), or found ones are judged by the interval (:func:`misses`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import aiter_prebuilt
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.tracing import signatures
from build_tools.cases import interval, numbers, reference
from build_tools.cases.near import Near, as_near

#: What samples of fp8 are made of.
FP8 = "e4m3fn"
MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
NAMES = {getattr(torch, kind.torch): kind.name for kind in dtype.DTYPES if hasattr(torch, kind.torch)}


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """The reference of each operator."""
    return {
        name: function
        for path in sorted(MANIFESTS.glob("*/reference.py"))
        for name, function in reference.load(
            path, path.relative_to(MANIFESTS.parent).as_posix()
        ).functions.items()
    }


def exact(tensor: Any) -> Any:
    """Convert a tensor's elements to float64 or int64."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    wide = tensor.detach().double() if tensor.is_floating_point() else tensor.detach().to(torch.int64)
    return wide.numpy()


def stored(values: Any, kind: torch.dtype) -> torch.Tensor:
    """Exact values as a tensor, rounded once."""
    name = NAMES[kind]
    codes = numbers.encode(np.asarray(values), name, saturate=name in numbers.SATURATING)
    return torch.from_numpy(np.ascontiguousarray(codes)).view(kind).reshape(np.shape(values))


def named(signature: signatures.Signature, args: tuple[Any, ...]) -> dict[str, Any]:
    """Arguments in the order of torch's schema by name, left out ones with their defaults."""
    found: dict[str, Any] = dict.fromkeys(each.name for each in signature.arguments)
    found |= {attribute.name: attribute.value for attribute in signature.attributes}
    found |= dict.fromkeys(f"{name}_dtype" for name in signature.free_types)
    return found | dict(zip(found, args, strict=False))


def results(signature: signatures.Signature, given: Mapping[str, Any]) -> dict[str, Near]:
    """The exact results by name. ``given``: tensors, attributes and the types of free results, by name."""
    function = functions()[signature.name]
    kinds = {name: NAMES[value.dtype] for name, value in given.items() if isinstance(value, torch.Tensor)}
    kinds |= {each.name: NAMES[out_type(signature, each, given)] for each in signature.returns}
    kinds["fp8"] = FP8  # the target's own
    public = inspect.signature(getattr(aiter_prebuilt, signature.name)).parameters.values()
    known: dict[str, Any] = {
        each.name: None if each.default is each.empty else each.default for each in public
    }
    known |= {name: exact(value) for name, value in given.items()}
    if {"seed", "offset"} <= given.keys():
        known["generator"] = (given["seed"], given["offset"])
    if "section_t" in given:
        known["mrope_section_"] = tuple(given[f"section_{axis}"] for axis in "thw")
    if "silu" in given:
        known["activation"] = "silu" if given["silu"] else None
    if (
        "left" in given
    ):  # a native call has its window, causal or not, in two numbers, and no bound of the keys
        first = (given["first"],) if "first" in given else ()
        window = (given["left"], given.get("right", 0), *first)
        known |= {"window_size": window, "max_seqlen_k": 1 << 31, "min_seqlen_q": given.get("skip", 0)}
        known |= {"window_size_left": window[0], "window_size_right": window[1]}
    known |= {
        f"{kind}{each.name}": given[each.name] is not None
        for each in signature.arguments
        for kind in ("return_", "return_softmax_", "output_", "need_")
        if each.optional
    }
    known |= {"kinds": kinds, "sizes": sizes(signature, given)}
    with np.errstate(all="ignore"):
        made = function(**{name: known.get(name) for name in inspect.signature(function).parameters})
    order = [each.name for each in (*signature.arguments, *signature.returns) if each.role != "in"]
    if not isinstance(made, dict):
        made = dict(zip(order, made if isinstance(made, tuple) else (made,), strict=True))
    return {name: as_near(value) for name, value in made.items() if value is not None}


def out_type(
    signature: signatures.Signature, spec: signatures.Tensor, given: Mapping[str, Any]
) -> torch.dtype:
    """The element type of a returned tensor."""
    chosen: torch.dtype | None = given.get(f"{spec.name}_dtype")
    like = [given[each.name] for each in signature.arguments if each.type == spec.type]
    for tensor in like if chosen is None else ():
        chosen = chosen or (None if tensor is None else tensor.dtype)
    usual: torch.dtype = getattr(torch, dtype.BY_NAME[signature.allowed(spec)[0]].torch)
    return chosen or usual


def sizes(signature: signatures.Signature, given: Mapping[str, Any]) -> dict[str, int]:
    """Dim symbol -> its size; the symbol of all leading dims -> their product."""
    found: dict[str, int] = {}
    for spec in signature.arguments:
        tensor = given[spec.name]
        for place, text in enumerate(reversed(spec.dims)):
            if tensor is not None and text.isidentifier() and place < tensor.dim():
                end = tensor.dim() - place
                first = 0 if spec.star and place + 1 == len(spec.dims) else end - 1
                found.setdefault(text, math.prod(tensor.shape[first:end]))
    return found


def kernel(name: str) -> Callable[..., Any]:
    """The operator for CPU tensors, as torch's schema has it: each result is the exact one, rounded once."""
    signature = signatures.load()[name]
    grouped = {"input"} if name == "dynamic_per_token_scaled_quant" else set[str]()

    def run(*args: Any) -> Any:
        given = named(signature, args)
        # A native call sees groups of a row as a dim of their own; the reference knows them as rows.
        seen = {
            key: each.flatten(0, 1) if key in grouped and each.dim() == 3 else each
            for key, each in given.items()
        }
        made = results(signature, seen)
        for spec in signature.arguments:
            if spec.role != "in" and given[spec.name] is not None:
                out = stored(made[spec.name].values, given[spec.name].dtype)
                kept = made[spec.name].kept
                if kept is not None:
                    out = torch.where(torch.from_numpy(kept), given[spec.name], out)
                given[spec.name].copy_(out)
        returned = [
            stored(made[each.name].values, out_type(signature, each, given)) for each in signature.returns
        ]
        return (returned[0] if len(returned) == 1 else tuple(returned)) if returned else None

    return run


def misses(name: str, found: Mapping[str, torch.Tensor], **given: Any) -> dict[str, list[int]]:
    """Find results outside the interval that the reference allows.

    Of each it gives the index of the first wrong element; {} when all are right.

    ``given``: arguments and attributes by name; those that are left out have their defaults.
    """
    signature = signatures.load()[name]
    everything = named(signature, ()) | dict(found) | given
    everything |= {f"{each.name}_dtype": found[each.name].dtype for each in signature.returns}
    wrong = {}
    for result, near in results(signature, everything).items():
        bounds = interval.interval(near, NAMES[found[result].dtype])
        missed = bounds.misses(exact(found[result]))
        if missed.any():
            wrong[result] = np.argwhere(missed)[0].tolist()
    return wrong
