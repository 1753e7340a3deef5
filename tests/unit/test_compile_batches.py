"""How jobs are split into what one child does: which share a compile, and how many at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support import planned
from support.compiling import job, separate_job, triton

from build_tools.compile.compile import batches
from build_tools.records import KernelArg


def sizes(count: int, workers: int, sources: Sequence[str] = ("t.py",)) -> list[int]:
    pairs = [(triton(f"{source}{n}", source), "") for source in sources for n in range(count)]
    split = batches(pairs, workers)
    assert sorted(one.id for batch in split for one, _ in batch) == sorted(one.id for one, _ in pairs)
    assert all(len({one.source for one, _ in batch}) == 1 for batch in split)
    return [len(batch) for batch in split]


def test_batches_are_small_enough_for_every_worker_and_never_large() -> None:
    assert sizes(120, 1) == [48, 48, 24]
    assert sizes(96, 2) == [48, 48] and sizes(97, 2) == [48, 48, 1] and sizes(96, 1) == [48, 48]
    assert sizes(20, 4) == [5, 5, 5, 5] and sizes(21, 4) == [6, 6, 6, 3] and sizes(19, 4) == [5, 5, 5, 4]
    assert sizes(3, 8) == [1, 1, 1] and sizes(4, 0) == [4]
    assert sizes(3, 2, ("t.py", "u.py")) == [3, 3] and sizes(5, 5, ("t.py", "u.py")) == [2, 2, 2, 2, 1, 1]


def test_nothing_is_no_batch() -> None:
    assert batches([], 4) == []


def names(*jobs: Any, workers: int = 1) -> list[list[str]]:
    return [[one.id for one, _ in batch] for batch in batches([(each, "") for each in jobs], workers)]


def test_keys_stay_with_their_jobs_and_large_batches_come_first() -> None:
    mixed = batches(
        [(separate_job("a"), "1"), (triton("t0"), "2"), (triton("t1"), "3"), (separate_job("b"), "4")], 1
    )
    assert [[(one.id, key) for one, key in batch] for batch in mixed] == [
        [("t0", "2"), ("t1", "3")], [("a", "1")], [("b", "4")]
    ]  # fmt: skip
    other = replace(triton("x"), backend="flydsl")
    assert names(triton("t"), other) == [["t"], ["x"]]


def test_what_a_worker_gets_of_one_source_is_not_counted_by_other_backends() -> None:
    """The cores are shared by the jobs that are split, not by those that are one compile anyhow."""
    jobs = [triton(f"t{number}") for number in range(4)]
    assert names(*jobs, *(separate_job(f"h{number}") for number in range(4)), workers=2)[:2] == [
        ["t0", "t1"],
        ["t2", "t3"],
    ]


@pytest.mark.parametrize(
    ("changes", "together"),
    [
        ({"symbol": "another"}, True), ({"args": (KernelArg("i32", "N", 0, 4),)}, True), ({"kernarg_size": 8}, True),
        ({"block": (1, 1, 1)}, True), ({"demangled": "k<1>"}, True), ({"constants": (("B", 1),)}, False),
        ({"source": "l.hip"}, False), ({"inputs": ("k.hip", "k.hpp")}, False), ({"backend": "ck"}, False),
        ({"target": planned.target("gfx950")}, False),
    ],
)  # fmt: skip
def test_jobs_that_differ_in_the_kernel_alone_are_one_compile(
    changes: dict[str, Any], together: bool
) -> None:
    first, second = job("a", "k"), replace(job("b", "k"), **changes)
    assert names(first, second, workers=8) == ([["a", "b"]] if together else [["a"], ["b"]])
