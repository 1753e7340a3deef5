"""The operators' kernels for CPU tensors, from the manifests' references, and calls of each: what opcheck runs without a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

import aiter_prebuilt
from aiter_prebuilt.tracing import signatures
from support import call_tensors, references

ROOT = Path(__file__).resolve().parents[2]
FP8 = torch.float8_e4m3fn
#: A target whose fp8 that is.
TARGET = "gfx950"

KERNELS: dict[str, Callable[..., Any]] = {name: references.kernel(name) for name in signatures.load()}

#: The public functions that have an operator.
FUNCTIONS = sorted(aiter_prebuilt.ops.HOMES)


#: A native call: the operator, and of each argument the shape, element type and strides, or the value.
NativeCall = tuple[str, tuple[Any, ...]]


def registered(seen: list[NativeCall] | None = None) -> Iterator[Any]:
    """``aiter_prebuilt.tracing.library`` with these kernels for CPU tensors, until the generator goes on.

    Args:
        seen: gets each call of a kernel.
    """
    from aiter_prebuilt.tracing import (
        functions,  # noqa: F401  # makes its copies now: later ones would keep what a test had changed for itself
        library,
    )

    kernels = torch.library.Library("aiter_prebuilt", "IMPL")
    for name, kernel in KERNELS.items():
        kernels.impl(name, _noted(name, kernel, seen), "CPU")
        if signatures.load()[name].returns:
            kernels.impl(f"{name}.out", _noted(name, _into_memory(name, kernel), seen), "CPU")
    yield library
    kernels._destroy()


def recorded() -> Iterator[list[NativeCall]]:
    """The calls of kernels for CPU tensors that do nothing else, until the generator goes on."""
    from aiter_prebuilt.tracing.launches import LAUNCHES

    kernels, seen = torch.library.Library("aiter_prebuilt", "IMPL"), list[NativeCall]()
    for name, launch in LAUNCHES.items():
        kernels.impl(launch._name.partition("::")[2], _noted(name, lambda *_: None, seen), "CPU")
    yield seen
    kernels._destroy()


def as_traced(module: ModuleType) -> ModuleType:
    """Return the copy of a module of ``ops`` that a trace sees: what a test changes of it must change there, too."""
    from aiter_prebuilt.tracing import functions

    return sys.modules[f"{functions.__name__}.copies.{module.__name__.rpartition('.')[2]}"]


def _noted(name: str, kernel: Callable[..., Any], seen: list[NativeCall] | None) -> Callable[..., Any]:
    if seen is None:
        return kernel

    def call(*given: Any) -> Any:
        seen.append((name, tuple(map(_described, given))))
        return kernel(*given)

    return call


def _described(value: Any) -> Any:
    tensor = isinstance(value, torch.Tensor)
    return (tuple(value.shape), value.dtype, value.stride()) if tensor else value


class Dispatched(torch.Tensor):
    """A tensor whose native calls go through torch's dispatcher: eager code runs on CPU tensors with these kernels."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call ``func`` with plain tensors of the same memory."""
        with no_dispatch():
            given, words = tree_map(_plain, (args, kwargs or {}))
            return tree_map(dispatched, func(*given, **words))


def _plain(value: Any) -> Any:
    return value.as_subclass(torch.Tensor) if isinstance(value, Dispatched) else value


def dispatched(value: Any) -> Any:
    """Return a tensor as :class:`Dispatched`; anything else stays."""
    return value.as_subclass(Dispatched) if isinstance(value, torch.Tensor) else value


def _into_memory(name: str, kernel: Callable[..., Any]) -> Callable[..., None]:
    """Return the kernel as the native call has it: with memory for its results behind the other tensors."""
    signature = signatures.load()[name]
    first, count, free = len(signature.arguments), len(signature.tensors), signature.free_types

    def call(*given: Any) -> None:
        held = given[first:count]
        attributes = [*given[count:], *(each.value for each in signature.attributes[len(given) - count :])]
        kinds = [
            memory.dtype for spec, memory in zip(signature.returns, held, strict=True) if spec.name in free
        ]
        made = kernel(*given[:first], *attributes, *kinds)
        for memory, result in zip(held, made if isinstance(made, tuple) else (made,), strict=True):
            memory.copy_(result)

    return call


def python(code: str) -> str:
    """Run code in a fresh interpreter and return its output.

    It has the package, and no home.
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


#: opcheck compares by allclose, which torch has not for these; :func:`check_written` does for them what ``test_schema`` does.
_UNCOMPARABLE = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)


def checks(args: tuple[Any, ...]) -> tuple[str, ...]:
    """The parts of opcheck that run with such arguments."""
    rest = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    plain = all(getattr(each, "dtype", None) not in _UNCOMPARABLE for each in args)
    return ("test_schema", *rest) if plain else rest[:2]


def check_written(operator: Any, args: tuple[Any, ...]) -> None:
    """Run it on copies: no byte of an argument changes that the schema does not mark, and no result is an argument's memory."""
    copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in args]
    result = operator(*copies)
    for spec, before, after in zip(operator._schema.arguments, args, copies, strict=False):
        if isinstance(before, torch.Tensor) and not (spec.alias_info and spec.alias_info.is_write):
            assert torch.equal(before.contiguous().view(torch.uint8), after.contiguous().view(torch.uint8)), (
                f"{spec.name} is written and not marked"
            )
            for made in result if isinstance(result, tuple) else () if result is None else (result,):
                assert made.data_ptr() != after.data_ptr() or not made.numel()


#: One call: the operator, a label, its arguments in the order of the schema.
Sample = tuple[str, str, tuple[Any, ...]]


def samples(
    device: str = "cpu", target: str = TARGET, names: Collection[str] | None = None
) -> Iterator[Sample]:
    """Calls of the operators in ``names``, or of every one: dense and strided, several leading dims, optional arguments given and
    left out, no rows.
    """
    for call in call_tensors.small(target):
        if names is not None and call.operator not in names:
            continue
        yield call.operator, call.label, call_tensors.schema_arguments(call, device)
