"""A process that registered AITER's operators ends without a word of torch's clean-up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: The registration of AITER of November 2025 (0.1.7.post2) in short: it names the namespace of its library again.
GUARD = """
aiter_lib = None

def torch_compile_guard(calling_func_=None):
    def decorator(function):
        from torch.library import Library

        global aiter_lib
        aiter_lib = Library("aiter", "FRAGMENT") if aiter_lib is None else aiter_lib
        aiter_lib.define(f"aiter::{function.__name__}(Tensor x) -> Tensor")
        aiter_lib.impl(f"aiter::{function.__name__}", function, dispatch_key="CPU")
        return function

    return decorator
"""
#: AITER executes the module twice, under two names, so that there are two libraries.
PROGRAM = """
import sys
import torch
from types import ModuleType
from aiter_prebuilt_bridge import stubs

copies = []
for name in ("torch_guard", "aiter.jit.utils.torch_guard"):
    copies.append(ModuleType(name))
    exec(sys.argv[1], vars(copies[-1]))
    if sys.argv[2] == "bridge":
        stubs.wrap_guard(copies[-1])

def double(x): return x * 2
def triple(x): return x * 3
double.__module__ = triple.__module__ = "somebody"
for copy, function in zip(copies, (double, triple)):
    copy.torch_compile_guard()(function)
one = torch.ones(1)
print(torch.ops.aiter.double(one).item(), torch.ops.aiter.triple(one).item())
"""


def end_of(way: str) -> tuple[str, str]:
    """What a process says that registers two operators through two copies of the guard."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, GUARD, way],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


def test_names_that_are_qualified_twice_end_without_a_traceback() -> None:
    torch = pytest.importorskip("torch")
    said, errors = end_of("bridge")
    assert said == "2.0 3.0" and "Traceback" not in errors, errors
    said, errors = end_of("alone")
    assert said == "2.0 3.0"
    if tuple(map(int, torch.__version__.split(".")[:2])) == (2, 13):  # others may take the name as it is
        assert errors.count("ValueError") == 2, "this program no longer makes the fault"
