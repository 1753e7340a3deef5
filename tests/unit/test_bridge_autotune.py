"""Tuning keys of AITER's Triton kernels, without Triton: a stand-in refuses unknown names as Triton 3.9 does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from aiter_prebuilt_bridge import triton_autotune


def autotune(configs: Any, key: list[str], prune_configs_by: Any = None) -> Callable[[Any], Any]:
    def decorator(kernel: Any) -> Any:
        if unknown := [name for name in key if name not in kernel.arg_names]:
            raise ValueError(f"key contains names that are not kernel arguments: {unknown}")
        return SimpleNamespace(configs=configs, key=key, prune=prune_configs_by)

    return decorator


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: Any = ModuleType("triton")
    made.autotune = autotune
    monkeypatch.setitem(sys.modules, "triton", made)
    return made


def kernel(module: str, *, wrapped: bool = False) -> Any:
    """As Triton's: a kernel around a function, and with ``wrapped`` heuristics around that, whose module is Triton's own."""
    function = SimpleNamespace(__module__=module, __name__="_bwd")
    made = SimpleNamespace(fn=function, arg_names=["Q", "HEAD"], __module__=module)
    return (
        SimpleNamespace(fn=made, arg_names=made.arg_names, __module__="triton.runtime") if wrapped else made
    )


@pytest.mark.parametrize("wrapped", [False, True])
def test_unknown_names_in_keys_of_aiters_kernels_are_dropped(triton: Any, wrapped: bool) -> None:
    triton_autotune.install()
    tuned = triton.autotune(configs=[1], key=["HEAD", "GONE"], prune_configs_by=2)(
        kernel("aiter.ops.triton.x", wrapped=wrapped)
    )
    assert (tuned.configs, tuned.key, tuned.prune) == ([1], ["HEAD"], 2)


def test_keys_without_unknown_names_stay(triton: Any) -> None:
    triton_autotune.install()
    key = ["HEAD"]
    assert triton.autotune([1], key)(kernel("aiter.x")).key is key


@pytest.mark.parametrize("module", ["vllm.kernels", "aiterate.x"])
def test_other_packages_kernels_are_refused_as_before(triton: Any, module: str) -> None:
    triton_autotune.install()
    with pytest.raises(ValueError, match="GONE"):
        triton.autotune([1], ["GONE"])(kernel(module))


def test_it_is_wrapped_once(triton: Any) -> None:
    triton_autotune.install()
    first = triton.autotune
    triton_autotune.install()
    assert triton.autotune is first and first.__name__ == "autotune"


def test_without_triton_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    triton_autotune.install()
