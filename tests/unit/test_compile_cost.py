"""What a build's report says of its compiles: each counted once, the large ones named."""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.contract.records import Operator
from build_tools.compile import cost
from build_tools.records import CompileJob, CompileResult, PlannedBundle, PlannedOperator, TargetFacts

GIB = 2**30
FACTS = TargetFacts("gfx950", "", "amd", 64, 163840, 512, 102, "e4m3fn", 9500, (256,), (), 0x4F, "d", "e")
NOTHING = Operator("o", "", "", 0, (), (), (), (), (), (), (), (), (), ())


def of(name: str, backend: Any = "hip", symbol: str = "k", **words: Any) -> CompileResult:
    job = CompileJob(name, FACTS, backend, "k.hip", symbol, (), (), 0, (64, 1, 1), ("k.hip",))
    return CompileResult(job=job, key="", ok=True, **words)


def test_a_compile_of_many_kernels_counts_once() -> None:
    """Those of one source that differ in the kernel; a compiler that makes one after the other says the seconds of each."""
    results = [
        of("a", symbol="one", seconds=40.0, peak=GIB), of("b", symbol="two", seconds=40.0, peak=GIB),
        of("c", backend="triton", seconds=1.5), of("d", backend="triton", seconds=2.0, peak=3 * GIB),
        of("e", seconds=100.0, peak=9 * GIB),
    ]  # fmt: skip
    planned = PlannedBundle(FACTS, "ck-free", (PlannedOperator(NOTHING, ("a", "b", "c", "d")),))
    assert cost.cost_of(planned, results) == {"compile_seconds": 43.5, "peak_bytes": 3 * GIB}
    assert cost.cost_of(PlannedBundle(FACTS, "ck-full", ()), results) == {
        "compile_seconds": 0,
        "peak_bytes": 0,
    }


def test_a_compile_that_needs_much_says_so() -> None:
    jobs = [
        {"id": name, "peak_bytes": peak} for name, peak in (("a", GIB), ("b", 2 * GIB), ("c", cost.MUCH), ("d", 3 * GIB))
    ]  # fmt: skip
    said = [f"{name} needed {size} GiB of memory to compile" for name, size in (("d", "3.0"), ("b", "2.0"))]
    assert cost.large({"jobs": jobs}) == said
