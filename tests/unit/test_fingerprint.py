"""Content keys: the same in every folder, and another one for anything that could change the bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from build_tools.compile.fingerprint import job_key
from build_tools.errors import JobFailedError
from build_tools.records import CompileJob, KernelArg, TargetFacts
from build_tools.tools.clang import Clang
from build_tools.tools.pins import Pins, SourcePin, ToolPin
from build_tools.tools.toolchain import Toolchain

TARGET = TargetFacts(
    name="gfx942", title="CDNA3", vendor="amd", wave=64, lds_bytes=65536, vgprs=512, sgprs=102, fp8="e4m3fnuz", isa_version=9402,
    cus=(304,), devices=("MI300X",), elf_mach=0x4C, distribution="d", extra="e",
)  # fmt: skip
ARGS = (KernelArg("ptr", "out", 0, 8, "f32"), KernelArg("i32", "n", 8, 4))
JOB = CompileJob(
    "job",
    TARGET,
    "hip",
    "k.hip",
    "k",
    (("BLOCK", 64), ("T", "f32")),
    ARGS,
    12,
    (64, 1, 1),
    ("k.hip", "c.hpp"),
)
PINS = Pins(
    {
        "triton": ToolPin("triton", "3.9.0", "", "MIT", (), {}, {}),
        "flydsl": ToolPin("flydsl", "0.4.2", "", "MIT", (), {}, {}),
    },
    {"flash-attn": SourcePin("flash-attn", "2", "", "f", "0" * 64, ())},
)


def tools(kind: str = "hermetic", identity: str = "clang 22") -> Toolchain:
    clang = Clang(("clang",), ("lld",), (), (), identity, ())
    return Toolchain(kind, clang, PINS, "python", Path("nowhere"), None, ())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return sources(tmp_path / "a")


def sources(folder: Path) -> Path:
    folder.mkdir()
    (folder / "k.hip").write_text("kernel")
    (folder / "c.hpp").write_text("header")
    return folder


def test_the_folder_the_id_and_the_tools_place_do_not_matter(root: Path, tmp_path: Path) -> None:
    elsewhere = replace(tools(), python="/usr/bin/python3", cache=Path("elsewhere"))
    assert job_key(JOB, tools(), root) == job_key(
        replace(JOB, id="another"), elsewhere, sources(tmp_path / "b")
    )


@pytest.mark.parametrize(
    "job",
    [
        replace(JOB, symbol="other"),
        replace(JOB, backend="asm"),
        replace(JOB, target=replace(TARGET, name="gfx950")),
        replace(JOB, constants=(("BLOCK", 128), ("T", "f32"))),
        replace(JOB, constants=(("BLOCK", "64"), ("T", "f32"))),
        replace(JOB, constants=(("BLOCK", True), ("T", "f32"))),
        replace(JOB, args=(ARGS[0], replace(ARGS[1], divisible=True))),
        replace(JOB, args=(replace(ARGS[0], dtype="bf16"), ARGS[1])),
        replace(JOB, kernarg_size=16),
        replace(JOB, block=(128, 1, 1)),
        replace(JOB, inputs=("k.hip",)),
    ],
)
def test_a_changed_job_has_another_key(job: CompileJob, root: Path) -> None:
    assert job_key(job, tools(), root) != job_key(JOB, tools(), root)


def test_a_changed_header_has_another_key(root: Path) -> None:
    before = job_key(JOB, tools(), root)
    (root / "c.hpp").write_text("headed")
    assert job_key(JOB, tools(), root) != before


def test_hermetic_and_rocm_never_share_a_key(root: Path) -> None:
    keys = {
        job_key(JOB, tools(kind, identity), root)
        for kind in ("hermetic", "rocm")
        for identity in ("clang 22", "clang 23")
    }
    assert len(keys) == 4


def test_a_missing_input_is_an_error_of_the_job(root: Path) -> None:
    (root / "c.hpp").unlink()
    with pytest.raises(JobFailedError, match=r"c\.hpp"):
        job_key(JOB, tools(), root)
