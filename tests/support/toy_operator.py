"""A made-up operator with every kind of parameter, its references and its cases, for tests of build_tools/cases."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from build_tools.cases import receipt_state, table
from build_tools.cases.subject import Subject
from build_tools.cases.table import Cases
from build_tools.manifest.grammar import parse_tensor
from build_tools.manifest.model import Target
from build_tools.manifest.operators import ArgumentType
from build_tools.manifest.parse import load
from build_tools.manifest.python import parse_python

ROOT = Path(__file__).resolve().parents[2]
TYPES = {"T": ["bf16", "f16"], "Q": ["fp8", "i8"], "O": ["bf16", "f32"]}
ARGUMENTS = {
    "out": "out Q[*M, N] strides [out_row, 1]",
    "input": "T[*M, N] strides [in_row, 1]",
    "bias": "T[N] optional",
    "index": "i64[N]",
    "state": "inout f32[N]",
}
PYTHON = (
    "(out: Tensor, input: Tensor, bias: Tensor | None, index: Tensor, state: Tensor, epsilon: float, mode: str = 'plain', "
    "shift: int = 0, fast: bool = False, once: bool = True, kind: dtype | None = None, otype: dtype | None = None) -> Tensor"
)

REFERENCE = """
import numpy as np
from build_tools.cases.near import near

def toy(input, bias, index, state, epsilon, mode, shift, fast, kinds):
    y = input[..., index] * (2 if mode == "twice" else 1) + epsilon + shift
    if bias is not None:
        y = y + bias
    y = -y if fast else y
    told = np.ma.array(np.where(index == 0, 7.0, 0.0), mask=index != 0)
    return near(y, relative=2.0**-20), told, y.sum(axis=-1, keepdims=True)

def draw_upward(rng, shape, sizes, first=0.0):
    return first + np.arange(sizes["N"])
"""

CASES = """
[toy]
default = "epsilon=0.5 bias=none index~permutation N=6 M=2"
golden = "M=1 N=4 T=bf16 Q=i8 O=bf16"
calls = [
  "bias~normal epsilon=2.0", "M=(2,2) mode=twice shift=1 fast=true", "M=3 N=5 in_row=8 input@1 kind=none O=bf16",
  "otype=input.dtype once=true",
]
"""


def subject() -> Subject:
    """The operator, as the manifest would say it."""
    types = {name: tuple(allowed) for name, allowed in TYPES.items()}
    arguments = tuple(parse_tensor(name, text, TYPES) for name, text in ARGUMENTS.items())
    return Subject(
        name="toy",
        family="toys",
        parameters=parse_python(PYTHON).parameters,
        types=types,
        arguments=arguments,
        returns=(parse_tensor("total", "O[*M, 1]", TYPES, returned=True),),
        covered={"mode": ("plain", "twice"), "once": (True,), "otype": (None, ArgumentType("input"))},
        type_of={"total": "kind"},
        targets=frozenset(targets()),
        kernels=frozenset({"row"}),
    )


@cache
def targets() -> dict[str, Target]:
    """The targets of this repository."""
    return load(ROOT / "manifests").targets


def cases(folder: Path, text: str = CASES, reference: str = REFERENCE) -> Cases:
    """The cases in ``text``, read from a folder of manifests."""
    place = folder / "manifests" / "toys"
    place.mkdir(parents=True, exist_ok=True)
    (place / receipt_state.CASES).write_text(text)
    (place / receipt_state.REFERENCE).write_text(reference)
    return table.load(folder / "manifests", [subject()], targets())["toy"]
