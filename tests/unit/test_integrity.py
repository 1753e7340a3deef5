"""What ``verify`` finds in a bundle whose hashes are all right and whose content is not: no launch would be right either."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from support import amdgpu_elf
from support.bundles import code, small_root
from support.verified import ARGS, IMAGE, STEP, operator

from aiter_prebuilt.bundles import integrity
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract.records import ARG_INT, ARG_TENSOR, Arg, Operator
from build_tools.pack import writer


def findings(folder: Path, made: Operator, *images: bytes, **root: object) -> list[str]:
    """What ``verify`` says of a bundle with ``made`` and these code objects."""
    path = folder / "gfx942-ck-free.apb"
    facts = replace(small_root(), **root)  # type: ignore[arg-type]
    path.write_bytes(writer.encode(facts, (made,), writer.as_is([IMAGE, *images]).frames))
    verdict = integrity.verify(InstalledBundle(str(path), "gfx942", "ck-free"))
    assert verdict.ok == (not verdict.findings) and verdict.code_objects == 1 + len(images)
    return [finding.problem for finding in verdict.findings]


def test_a_right_bundle_has_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path, operator()) == []


@pytest.mark.parametrize(("block", "threads"), [((65, 1, 1), 65), ((64, 2, 1), 128), ((1, 1, 1024), 1024)])
def test_a_block_that_is_larger_than_the_kernel_allows(
    tmp_path: Path, block: tuple[int, int, int], threads: int
) -> None:
    step = replace(STEP, block_x=block[0], block_y=block[1], block_z=block[2])
    (said,) = findings(tmp_path, operator(step))
    assert said == f"variant small: {threads} threads a workgroup, the kernel allows 64"


def test_a_code_object_of_no_entry(tmp_path: Path) -> None:
    assert findings(tmp_path, operator(), b"\x7fELF whose it is nobody says") == [
        "1 code objects belong to no entry"
    ]


def test_arguments_that_lie_elsewhere(tmp_path: Path) -> None:
    step = replace(STEP, args=(*ARGS[:2], replace(ARGS[2], offset=20), replace(ARGS[3], offset=16)))
    (said,) = findings(tmp_path, operator(step))
    assert said.startswith("variant small: arguments (offset, size) [(0, 8), (8, 8), (16, 4), (20, 4)]")


@pytest.mark.parametrize(
    ("made", "root", "words"),
    [
        (operator(symbol="other"), {}, "the code object has no kernel 'other'"),
        (operator(kernarg_size=32), {}, "kernarg size 24, recorded 32"),
        (operator(), {"wave": 32}, "kernel 'scale' has waves of 64 lanes, gfx942 has 32"),
        (operator(), {"lds_bytes": 255}, "256 bytes of LDS, the target has 255"),
        (operator(), {"profile": "ck-full"}, "its content is for gfx942 (ck-full)"),
        (operator(), {"target": "gfx950"}, "its content is for gfx950 (ck-free)"),
    ],
)
def test_a_kernel_that_is_not_what_its_entry_says(
    tmp_path: Path, made: Operator, root: dict[str, object], words: str
) -> None:
    assert findings(tmp_path, made, **root)[0] == words


def test_all_of_the_memory_may_be_used(tmp_path: Path) -> None:
    assert findings(tmp_path, operator(), lds_bytes=256) == []


def _listing(*args: tuple[int, int, str, str]) -> bytes:
    """A code object whose kernel lists these arguments: (offset, size, kind, name)."""
    rows = [
        {".offset": at, ".size": size, ".value_kind": kind, ".name": name} for at, size, kind, name in args
    ]
    metadata = {
        ".name": "scale", ".symbol": "scale.kd", ".kernarg_segment_size": 24, ".kernarg_segment_align": 8,
        ".group_segment_fixed_size": 0, ".private_segment_fixed_size": 0, ".max_flat_workgroup_size": 64,
        ".wavefront_size": 64, ".sgpr_count": 8, ".vgpr_count": 8, ".args": rows,
    }  # fmt: skip
    return amdgpu_elf.write({"kernels": [{"metadata": metadata, "symbol": {"name": "scale.kd"}}]})


@pytest.mark.parametrize(
    ("name", "kind", "passed", "right"),
    [
        ("_p1", "by_value", False, True),
        ("_p1", "by_value", True, True),
        ("scale", "by_value", False, False),
        ("_p1", "global_buffer", False, False),
    ],
)
def test_bytes_between_arguments_need_not_be_passed(
    tmp_path: Path, name: str, kind: str, passed: bool, right: bool
) -> None:
    """Assemblers list them as arguments; only bytes by value with such a name are meant."""
    image = _listing((0, 8, "global_buffer", "out"), (8, 8, kind, name), (16, 8, "global_buffer", "x"))
    args = [Arg(ARG_TENSOR, 8, at, at // 16, b"") for at in (0, 16)]
    if passed:
        args.insert(1, Arg(ARG_INT, 8, 8, 0, code("N")))
    made = operator(replace(STEP, args=tuple(args)), code_object=1, sha256=hashlib.sha256(image).digest())
    said = [problem for problem in findings(tmp_path, made, image) if "arguments (offset" in problem]
    assert bool(said) != right, said
