"""The operators' kernels for CPU tensors, from the manifests' references, and calls of each: what opcheck runs without a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import torch

import aiter_prebuilt
from aiter_prebuilt.tracing import signatures
from support import call_tensors, references

ROOT = Path(__file__).resolve().parents[2]
FP8 = torch.float8_e4m3fn
#: A target whose fp8 that is.
TARGET = "gfx950"

KERNELS: dict[str, Callable[..., Any]] = {name: references.kernel(name) for name in signatures.load()}

#: The public functions that have an operator.
FUNCTIONS = sorted(aiter_prebuilt.ops.__all__)


def registered() -> Iterator[Any]:
    """``aiter_prebuilt.tracing.library`` with these kernels for CPU tensors, until the generator goes on."""
    from aiter_prebuilt.tracing import library

    kernels = torch.library.Library("aiter_prebuilt", "IMPL")
    for name, kernel in KERNELS.items():
        kernels.impl(name, kernel, "CPU")
    yield library
    kernels._destroy()


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
