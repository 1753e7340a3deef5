"""Small made-up bundles: real format, code objects of random bytes."""

from __future__ import annotations

import hashlib
import random

from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.records import (
    ARG_FLOAT,
    ARG_INT,
    ARG_TENSOR,
    DIM_BIND,
    NONE8,
    Arg,
    Attribute,
    Condition,
    Dim,
    Entry,
    Kernel,
    Operator,
    Recipe,
    Root,
    Step,
    Tensor,
)
from build_tools.pack import writer

SLOTS = ("M", "N", "CUS", "&out", "?out", "&x", "?x")
SCOPE = Scope({name: place for place, name in enumerate(SLOTS)})


def code(text: str) -> bytes:
    """Bytecode over :data:`SLOTS`."""
    return compile_expression(text, SCOPE)


def blob(seed: int, size: int = 300) -> bytes:
    """Bytes that stand for a code object."""
    return random.Random(seed).randbytes(size)


def tensor(name: str, role: int, address: int) -> Tensor:
    """A contiguous f32 [M, N]."""
    dims = (Dim(DIM_BIND, 0, b""), Dim(DIM_BIND, 1, b""))
    return Tensor(name, role, 0, 0, 1, NONE8, 8, 1, address, address + 1, dims, ())


def small_operator(name: str, code_object: int = 0) -> Operator:
    """``name(out: f32[M, N], x: f32[M, N], eps: float)`` with two variants of one kernel."""
    args = (
        Arg(ARG_TENSOR, 8, 0, 0, b""),
        Arg(ARG_TENSOR, 8, 8, 1, b""),
        Arg(ARG_INT, 4, 16, 0, code("N")),
        Arg(ARG_FLOAT, 4, 20, 0, b""),
    )
    step = Step(0, 24, 256, 1, 1, code("M"), b"", b"", b"", args)
    small = Recipe(0, "small", (), (Condition("N <= 1024", code("N <= 1024")),), code("N"), b"", (step,))
    large = Recipe(0, "large", (), (), code("N * 2"), b"", (step,))
    entry = Entry(
        f"gfx942-hip-{name}", "kernel", "job", '{"executed": false}', code_object, 24, 8, 0, 256, 16, 16, 0, 0, 0,
        hashlib.sha256(blob(code_object)).digest(),
    )  # fmt: skip
    return Operator(
        name=name,
        summary="made up",
        signature=f"{name}(out, x, eps)",
        return_count=0,
        type_variables=(),
        tensors=(tensor("out", 1, 3), tensor("x", 0, 5)),
        attributes=(Attribute("eps", "", 2, 0, ()),),
        slots=SLOTS,
        floats=("eps",),
        kernels=(Kernel("kernel", 1, 0, 0),),
        recipes=(small, large),
        entries=(entry,),
        tuned_slots=(),
        tuned=(),
    )


def small_root(target: str = "gfx942", profile: str = "ck-free") -> Root:
    """The facts of a made-up bundle."""
    return Root(
        target=target, profile=profile, distribution=f"aiter-prebuilt-{target}", version="0.1.0",
        provenance='{"tools":{},"cus":[304]}', vendor=0, wave=64, lds_bytes=65536, fp8=11,
    )  # fmt: skip


def small_bundle(target: str = "gfx942", profile: str = "ck-free") -> tuple[bytes, tuple[Operator, ...]]:
    """A bundle of two operators with one code object each, and the operators."""
    operators = (small_operator("twice", 1), small_operator("once", 0))
    frames = tuple(writer.Frame(blob(i), 300, hashlib.sha256(blob(i)).digest(), "raw") for i in range(2))
    return writer.encode(small_root(target, profile), operators, frames), operators
