"""Every call of ``manifests/clients.toml``, as its client writes it, against the signature that our function shows."""

from __future__ import annotations

import inspect
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from support import repository

import aiter_prebuilt
from aiter_prebuilt_bridge import serving
from build_tools.shapes import forms, models
from build_tools.shapes.ask import operators_of
from build_tools.shapes.models import ClientCall

ROOT = Path(__file__).resolve().parents[2]
TOLD = models.read(ROOT)
OPERATORS = operators_of(repository.manifest())
CALLS = {name: told for name, told in TOLD.calls.items() if not told.not_served}
NOT_SERVED = {name: told for name, told in TOLD.calls.items() if told.not_served}


def bound(told: ClientCall) -> inspect.BoundArguments:
    form = forms.parse(told.call)
    if told.bridge:
        function = serving.ours(f"adapted.{form.function}")[0]
        return inspect.signature(function).bind(*form.positional, **dict(form.keywords))
    function = attrgetter(form.function)(aiter_prebuilt)
    first, _, method = form.function.partition(".")
    if method and inspect.isclass(getattr(aiter_prebuilt, first)):
        function = function.__get__(object())
    return inspect.signature(function).bind(*form.positional, **dict(form.keywords))


@pytest.mark.parametrize("name", CALLS)
def test_our_function_takes_the_call(name: str) -> None:
    told = CALLS[name]
    form = forms.parse(told.call)
    assert (form.function.split(".")[0] in aiter_prebuilt.__all__) != told.bridge
    try:
        found = bound(told).arguments
    except TypeError:
        assert told.unbound, f"{name} ({told.client}) does not fit {form.function}"
        return
    operator = OPERATORS.get(form.function)
    if operator is None:
        # A function around operators may refuse what it binds.
        assert bool(told.unbound) != (told.host or bool(told.through)), name
        return
    tensors = {each.name for each in operator.python.parameters if each.kind == "Tensor"}
    # A call that binds may still give a tensor where ours has a number.
    wrong = {each for each, value in found.items() if forms.is_tensor(value) not in (None, each in tensors)}
    assert bool(wrong) == bool(told.unbound), (name, told.client, wrong)


@pytest.mark.parametrize("name", NOT_SERVED)
def test_what_is_not_served_is_no_function_of_ours(name: str) -> None:
    """Who serves one of these says so here: the call is bound from then on."""
    function = forms.parse(NOT_SERVED[name].call).function
    assert function not in aiter_prebuilt.__all__, f"{function} is served: bind {name}, drop its not_served"


@pytest.mark.parametrize("name", CALLS)
def test_the_manifest_and_the_function_bind_alike(name: str) -> None:
    """What the choice is asked with is what Python would hand on."""
    told = CALLS[name]
    form = forms.parse(told.call)
    operator = OPERATORS.get(form.function)
    if told.unbound or operator is None:
        return
    assert forms.bind(form, operator.python.parameters) == dict(bound(told).arguments)


def test_the_calls_that_clients_make_most_are_there() -> None:
    """With how many by position, as the clients' releases have them."""
    counts: dict[str, set[tuple[int, frozenset[str]]]] = {}
    for told in TOLD.calls.values():
        form = forms.parse(told.call)
        counts.setdefault(form.function, set()).add(
            (len(form.positional), frozenset(each for each, _ in form.keywords))
        )
    wanted: list[tuple[str, int, tuple[str, ...]]] = [
        ("rmsnorm2d_fwd_with_add", 6, ("gemma_norm",)), ("rmsnorm2d_fwd_with_add", 6, ()), ("rmsnorm2d_fwd_with_add", 7, ()),
        ("rms_norm", 3, ()), ("topk_softmax", 7, ()), ("biased_grouped_topk", 8, ()), ("grouped_topk", 8, ()),
        ("paged_attention_v1", 20, ()), ("paged_attention_ragged", 19, ()), ("gemm_a8w8_bpreshuffle", 6, ()),
        ("gemm_a8w8_blockscale", 4, ("dtype",)), ("mla_decode_fwd", 8, ("sm_scale", "logit_cap")),
    ]  # fmt: skip
    for function, positional, keywords in wanted:
        assert (positional, frozenset(keywords)) in counts[function], (function, counts[function])
    fused: Any = max(positional for positional, _ in counts["fused_moe"])
    assert fused == 13
