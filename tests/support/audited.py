"""A job and the code object that it asked for, to be changed in one point: what the audit's tests judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from build_tools.judge import audit
from build_tools.objects import codeobject
from build_tools.records import (
    AuditReport,
    CodeObjectFacts,
    CompileJob,
    CompileResult,
    KernelArg,
    TargetFacts,
)

FOLDER = Path(__file__).resolve().parents[1] / "data" / "codeobjects"
GFX942 = TargetFacts(
    name="gfx942", title="CDNA3", vendor="amd", wave=64, lds_bytes=65536, vgprs=512, sgprs=102, fp8="e4m3fnuz", isa_version=9402,
    cus=(304,), devices=("MI300X",), elf_mach=0x4C, distribution="d", extra="e",
)  # fmt: skip
ARGS = (
    KernelArg("ptr", "out", 0, 8, "f32"),
    KernelArg("ptr", "x", 8, 8, "f32"),
    KernelArg("i32", "n", 16, 4),
    KernelArg("f32", "factor", 20, 4),
)
JOB = CompileJob("job", GFX942, "hip", "scale.hip", "scale", (), ARGS, 24, (64, 1, 1), ("scale.hip",))
FILE = FOLDER / "scale_gfx942.co"
FACTS = codeobject.read(FILE.read_bytes())


def judge(
    job: CompileJob = JOB, facts: CodeObjectFacts = FACTS, words: tuple[str, ...] = (), **result: Any
) -> AuditReport:
    """The audit's report. ``words``: forbidden ones; ``result``: what else the compile gave."""
    return audit.judge(
        CompileResult(job, "key", True, **{"path": FILE, "symbol": "scale", **result}), facts, words
    )


def with_kernel(**changes: Any) -> CodeObjectFacts:
    """The facts, of a kernel that is another in these."""
    return replace(FACTS, kernels=(replace(FACTS.kernels[0], **changes),))


def with_args(*args: KernelArg) -> CompileJob:
    """The job with other arguments."""
    return replace(JOB, args=args)
