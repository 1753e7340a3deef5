"""What the runtime cannot read is refused before it is built."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from build_tools.manifest.model import Kernel, Operator
from build_tools.manifest.problems import Problems
from build_tools.manifest.python import PythonSignature
from build_tools.plan import limits
from build_tools.plan.recipe import steps_of
from build_tools.plan.slots import assign_slots

ROOT = Path(__file__).resolve().parents[2]
_OPERATOR = Operator(
    name="x",
    family="made_up",
    python=PythonSignature((), 0),
    module="module_x",
    summary="made up",
    source="nobody",
    notes={},
    covered={},
    epilogue=None,
    ignored=(),
    type_of={},
    into={},
    served_by={},
    plain=(),
    dense=(),
    detached=False,
    first_rows={},
    function=None,
    types={},
    arguments={"out": "out f32[N]"},
    returns={},
    attributes={},
    tuned=None,
    kernels=(),
)


def test_the_limits_are_those_of_the_reader() -> None:
    text = (ROOT / "csrc/runtime/bundle/operator_block.h").read_text()
    native = {name: int(value) for name, value in re.findall(r"size_t kMax(\w+) = (\d+);", text)}
    assert native == {
        "Tensors": limits.TENSORS,
        "Attributes": limits.ATTRIBUTES,
        "Slots": limits.SLOTS,
        "Floats": limits.FLOATS,
        "TypeVariables": limits.TYPE_VARIABLES,
        "Rank": limits.RANK,
        "Steps": limits.STEPS,
        "Kernarg": limits.KERNARG,
    }
    assert f"block_x > {limits.THREADS}" in (ROOT / "csrc/runtime/bundle/operator_block.cpp").read_text()


def _problems(**changes: Any) -> list[str]:
    problems = Problems()
    assign_slots(replace(_OPERATOR, **changes), problems)
    return problems.lines


@pytest.mark.parametrize(
    ("key", "limit", "row", "what"),
    [
        ("arguments", limits.TENSORS, "f32[N]", "arguments: 49 arguments and returns"),
        ("attributes", limits.ATTRIBUTES, "int", "attributes: 49 attributes"),
        ("attributes", limits.FLOATS, "float", "attributes: 17 float attributes"),
        ("types", limits.TYPE_VARIABLES, ["f32"], "types: 17 type variables"),
    ],
)
def test_the_last_that_fits_and_one_more(key: str, limit: int, row: object, what: str) -> None:
    rows = {f"name{place}": row for place in range(limit + 1)}
    assert _problems(**{key: rows}) == [f"{what}, the runtime takes at most {limit}"]
    del rows["name0"]
    assert _problems(**{key: rows}) == []


def test_integer_slots() -> None:
    def tensors(count: int) -> dict[str, str]:  # 18 slots each: 16 dims, the address, and whether it is given
        return {f"t{n}": f"f32[{', '.join(f'd{n}_{dim}' for dim in range(16))}]" for n in range(count)}

    assert _problems(arguments=tensors(28)) == []
    assert _problems(arguments=tensors(29)) == [
        "arguments: 523 dims, strides, attributes and addresses, the runtime takes at most 512"
    ]


def test_steps() -> None:
    step = {"symbol": "k", "grid": [1], "args": []}
    row = {"name": "k", "backend": "hip", "targets": ["gfx942"], "source": "k.hip"}
    for count, said in ((16, []), (17, ["steps: 17 steps, the runtime takes at most 16"])):
        problems = Problems()
        steps_of(Kernel.model_validate({**row, "steps": [step] * count}), problems)
        assert problems.lines == said
