"""A step that fills with zero bytes: how much, where, when, and what is no such step."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support import planned

from aiter_prebuilt.contract.bytecode import evaluate
from aiter_prebuilt.contract.records import ARG_INT, ARG_TENSOR, ARG_WORKSPACE
from build_tools.manifest.problems import Problems
from build_tools.plan import zero
from build_tools.plan.recipe import RecipeDraft, draft
from build_tools.plan.slots import Slots

SIGNATURE: dict[str, Any] = {
    "types": {"T": ["bf16"], "Q": ["fp8", "f32"]},
    "arguments": {
        "out": "out T[M, N + 1]", "acc": "inout f32[M]", "x": "T[M, N]", "some": "out T[M, N] strides [row, 1]",
        "code": "out Q[N]",
    },
}  # fmt: skip
NEXT = {"symbol": "k", "grid": ["M"], "block": [64], "args": ["ptr out"]}


def slots() -> Slots:
    return planned.slots(**SIGNATURE)


def attempt(step: dict[str, Any], place: int = 0, **changes: Any) -> tuple[RecipeDraft | None, list[str]]:
    """The draft of a kernel whose first step is ``step``, of variant ``place``, and what was said."""
    whole: dict[str, Any] = {"symbol": None, "grid": None, "block": None, "args": None, "steps": [step, NEXT]}
    made = planned.kernel(**{**whole, **changes})
    variant = planned.variants(made, slots())[place]
    problems = Problems()
    return draft(made, variant, slots(), problems), problems.lines


def sizes(step: dict[str, Any], m: int, n: int, place: int = 0, **changes: Any) -> tuple[int, int]:
    """Workgroups of the fill, and the bytes that it is told."""
    found, said = attempt(step, place, **changes)
    assert found is not None and said == [] and len(found.recipe.steps) == 2
    values = [{"M": m, "N": n}.get(name, 0) for name in slots().names]
    fill = found.recipe.steps[0]
    return evaluate(fill.grid_x, values), evaluate(fill.args[1].code, values)


def test_a_fill_is_a_launch_of_our_kernel() -> None:
    found, said = attempt({"zero": "acc"}, backend="asm", source="k.co")
    assert found is not None and said == []
    job, _ = found.jobs
    assert (job.step, job.backend, job.source, job.symbol) == (
        "zero_bytes", "hip", "csrc/kernels/hip/zero.hip", "zero_bytes"
    )  # fmt: skip
    assert (job.block, job.kernarg_size, job.used) == ((256, 1, 1), 16, frozenset())
    fill = found.recipe.steps[0]
    assert [(arg.kind, arg.size, arg.offset) for arg in fill.args] == [(ARG_TENSOR, 8, 0), (ARG_INT, 8, 8)]
    assert (fill.block_x, fill.block_y, fill.block_z, fill.lds) == (256, 1, 1, b"")
    assert fill.args[0].operand == 1, "acc"


@pytest.mark.parametrize(
    ("name", "place", "size"),
    [("out", 0, "m * (n + 1) * 2"), ("acc", 0, "m * 4"), ("code", 0, "n"), ("code", 1, "n * 4")],
)
def test_all_bytes_of_a_tensor(name: str, place: int, size: str) -> None:
    """Of a type variable as the variant has it: fp8 is one byte, f32 four."""
    for _ in range(5):
        m, n = random.randint(1, 5000), random.randint(1, 5000)
        wanted = eval(size, {"m": m, "n": n})
        assert sizes({"zero": name}, m, n, place) == (-(-wanted // 16384), wanted), (m, n)


def test_workgroups_at_their_bound() -> None:
    assert [sizes({"zero": "acc"}, m, 1)[0] for m in (1, 4096, 4097, 8192, 8193)] == [1, 1, 2, 2, 3]


def test_the_workspace() -> None:
    assert sizes({"zero": "workspace"}, 6, 40, workspace="M + N * 1000") == (3, 40006)
    found, _ = attempt({"zero": "workspace"}, workspace="M")
    assert found is not None and found.recipe.steps[0].args[0].kind == ARG_WORKSPACE


def test_a_fill_only_where_it_is_needed() -> None:
    step = {"zero": "acc", "if": "N > 3 or M > 3"}
    assert [sizes(step, m, n)[0] for m, n in ((1, 3), (1, 4), (4, 1), (5000, 9))] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("step", "changes", "line"),
    [
        ({"zero": "workspace"}, {}, "steps[0].zero: the kernel has no workspace to fill"),
        ({"zero": "x"}, {}, "steps[0].zero: 'x' is only read"),
        ({"zero": "oud"}, {}, "steps[0].zero: 'oud' is not a tensor of the operator (did you mean 'out'?)"),
        ({"zero": "zz"}, {},
         "steps[0].zero: 'zz' is not a tensor of the operator (known: acc, code, out, some, workspace, x)"),
        ({"zero": "some"}, {},
         "steps[0].zero: 'some' need not be contiguous: bytes between its elements are not the operator's"),
    ],
)  # fmt: skip
def test_what_cannot_be_filled(step: dict[str, Any], changes: dict[str, Any], line: str) -> None:
    """The step is left out, the next one stays."""
    found, said = attempt(step, **changes)
    assert said == [line] and found is not None and [job.symbol for job in found.jobs] == ["k"]


@pytest.mark.parametrize(
    "given",
    [
        {"symbol": "k"}, {"demangled": "k"}, {"backend": "hip"}, {"source": "k.hip"}, {"grid": [1]}, {"block": [1]}, {"lds": 0},
        {"args": []}, {"slot": 8}, {"uses": []}, {"assume": {"divisible": []}},
    ],
    ids=lambda given: next(iter(given)),
)  # fmt: skip
def test_a_fill_has_no_other_key(given: dict[str, Any]) -> None:
    found, said = attempt({"zero": "out", **given})
    assert said == [f"steps[0].{next(iter(given))}: a step with zero has no other key than if"]
    assert found is not None and len(found.jobs) == 1


def test_what_is_launched_fits_the_source() -> None:
    source = (Path(__file__).resolve().parents[2] / zero.SOURCE).read_text()
    found, _ = attempt({"zero": "acc"})
    assert found is not None and f"AP_KERNEL({found.recipe.steps[0].block_x})\nvoid {zero.SYMBOL}(" in source
    assert "kBlock = 16384;" in source  # as many bytes as test_workgroups_at_their_bound has
