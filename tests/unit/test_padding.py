"""Bytes between arguments that assemblers list as arguments: which they are, and what becomes of them in ``verify``."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from support import amdgpu_elf

from aiter_prebuilt.bundles import elf, integrity
from aiter_prebuilt.bundles.kernel_image import KernelImage
from aiter_prebuilt.contract.elf import PADDING
from aiter_prebuilt.contract.records import ARG_INT, ARG_TENSOR, Arg, Step

KERNEL: dict[str, Any] = {
    ".name": "k", ".symbol": "k.kd", ".kernarg_segment_size": 64, ".kernarg_segment_align": 8, ".group_segment_fixed_size": 0,
    ".private_segment_fixed_size": 0, ".max_flat_workgroup_size": 64, ".wavefront_size": 64, ".sgpr_count": 8, ".vgpr_count": 8,
}  # fmt: skip


def image(*rows: dict[str, Any]) -> KernelImage:
    metadata = {**KERNEL, ".args": list(rows)}
    found = elf.read(amdgpu_elf.write({"kernels": [{"metadata": metadata, "symbol": {"name": "k.kd"}}]}))
    return found.by_symbol["k"]


def row(offset: int, name: object, kind: str = "by_value", size: int = 4) -> dict[str, Any]:
    given = {".offset": offset, ".size": size, ".value_kind": kind}
    return given if name is None else {**given, ".name": name}


@pytest.mark.parametrize(
    ("name", "kind", "padding"),
    [
        ("_p", "by_value", True), ("p", "by_value", True), ("__pad", "by_value", True), ("padding7", "by_value", True),
        ("_p12", "by_value", True), ("_p", "global_buffer", False), ("_p", "hidden_none", False), ("_", "by_value", False),
        ("q", "by_value", False), ("pads", "by_value", False), ("pad_1", "by_value", False), ("apad", "by_value", False),
        ("P", "by_value", False), (None, "by_value", False), (7, "by_value", False), ("_p\n", "by_value", False),
        ("7", "by_value", False),
    ],
)  # fmt: skip
def test_by_their_name_and_kind(name: object, kind: str, padding: bool) -> None:
    found = image(row(0, "out", "global_buffer", 8), row(8, name, kind))
    assert found.padding == (frozenset({8}) if padding else frozenset())
    assert ((8, 4, kind) in found.args) == (not kind.startswith("hidden_"))


def test_all_that_look_so_and_no_others() -> None:
    names = [random.choice(["_p", "pad", "x", "n", "_pad3"]) for _ in range(12)]
    found = image(*(row(4 * place, name) for place, name in enumerate(names)))
    wanted = {4 * place for place, name in enumerate(names) if PADDING.fullmatch(name)}
    assert found.padding == wanted, names


def said(found: KernelImage, *passed: int, block: tuple[int, int, int] = (64, 1, 1)) -> list[str]:
    """What is wrong with a step that passes arguments at these offsets."""
    args = tuple(Arg(ARG_INT, 4, at, 0, b"") if at % 8 else Arg(ARG_TENSOR, 8, at, 0, b"") for at in passed)
    return list(integrity._check_step(Step(0, 64, *block, b"", b"", b"", b"", args), found, "v"))


def test_a_step_passes_all_but_what_nothing_reads() -> None:
    found = image(
        row(0, "out", "global_buffer", 8), row(12, "_p0"), row(16, "x", "global_buffer", 8), row(28, "_p1")
    )
    assert said(found, 0, 16) == said(found, 0, 12, 16) == said(found, 0, 12, 16, 28) == []
    assert said(found, 0, 12) == [
        "variant v: arguments (offset, size) [(0, 8), (12, 4), (16, 8)] in the code object, [(0, 8), (12, 4)] in the recipe"
    ]
    assert said(found, 0, 16, 20) == [
        "variant v: arguments (offset, size) [(0, 8), (16, 8)] in the code object, [(0, 8), (16, 8), (20, 4)] in the recipe"
    ]


def test_a_pointer_may_be_listed_as_its_lower_half_and_padding() -> None:
    found = image(row(0, "out", "global_buffer", 8), row(8, "starts"), row(12, "pad"))
    assert said(found, 0, 8) == []
    for odd in (
        (row(8, "starts"), row(12, "n")), (row(8, "starts"), row(16, "pad")), (row(8, "starts"), row(12, "pad", size=8)),
    ):  # fmt: skip
        assert said(image(row(0, "out", "global_buffer", 8), *odd), 0, 8) != []


def test_a_struct_is_passed_by_its_fields() -> None:
    step = Step(0, 64, 64, 1, 1, b"", b"", b"", b"", ())

    def told(*places: tuple[int, int], kind: str = "by_value") -> list[str]:
        found = image(row(0, "out", "global_buffer", 8), row(8, "state", kind, 24), row(32, "n"))
        args = (Arg(ARG_TENSOR, 8, 0, 0, b""), *(Arg(ARG_INT, size, at, 0, b"") for at, size in places))
        return list(integrity._check_step(replace(step, args=args), found, "v"))

    assert told((8, 8), (16, 8), (24, 4), (28, 1), (32, 4)) == []
    assert told((8, 4), (12, 4), (16, 4), (20, 4), (24, 8), (32, 4)) == []
    for odd in (
        [(8, 8), (16, 8), (32, 4)], [(8, 8), (16, 4), (24, 4), (32, 4)], [(8, 8), (16, 8), (24, 4), (28, 1)],
        [(8, 8), (16, 8), (24, 8), (32, 8)],
    ):  # fmt: skip
        assert told(*odd) != []
    assert told((8, 8), (16, 8), (24, 4), (28, 1), (32, 4), kind="image") != []


def test_threads_at_their_bound() -> None:
    found = image(row(0, "out", "global_buffer", 8))
    for block in ((64, 1, 1), (1, 64, 1), (4, 4, 4)):
        assert said(found, 0, block=block) == []
    for block in ((65, 1, 1), (13, 5, 1), (1, 13, 5)):
        assert said(found, 0, block=block) == ["variant v: 65 threads a workgroup, the kernel allows 64"]
