"""Rotations into new tensors take tensors that require a gradient, and record none: AITER's own tests call them so."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from aiter_prebuilt.ops import rope_out, rope_out_pairs  # noqa: E402
from aiter_prebuilt.tracing import signatures  # noqa: E402

FUNCTIONS = [
    (module, name)
    for module in (rope_out, rope_out_pairs)
    for name, value in vars(module).items()
    if isinstance(value, FunctionType) and name.startswith("rope_") and value.__module__ == module.__name__
]


@pytest.mark.parametrize(("module", "name"), FUNCTIONS, ids=[name for _, name in FUNCTIONS])
def test_records_no_gradient(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[Any] = []
    monkeypatch.setattr(module, f"{name}_impl", lambda *given: handed.append(given))
    function = getattr(module, name)
    parameters = list(inspect.signature(function).parameters)
    inputs = [each for each in parameters if each.startswith("input")]
    given = {each: torch.ones(2, 3, 4, 8).requires_grad_() for each in inputs}
    rest = {each: 0 for each in parameters if each not in inputs and each != "transpose_output"}
    results = function(**given, **rest)
    ((*native,),) = handed
    count = len(inputs)
    for made, passed, asked in zip(native[:count], native[count:], given.values(), strict=False):
        assert not made.requires_grad
        assert passed is asked, "the operator leaves gradients out"
    assert signatures.load()[f"{name}_impl"].detached
    returned = results if isinstance(results, tuple) else (results,)
    assert [each.data_ptr() for each in returned] == [each.data_ptr() for each in native[:count]]
