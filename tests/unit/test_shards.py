"""Parts of a plan for the machines of a CI matrix: a partition, balanced by seconds, no compile in two parts."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import pytest
from support.compiling import job, separate_job, triton

from build_tools.compile.shards import (
    RECORD,
    RECORD_VERSION,
    Recorded,
    even_batches,
    record_of,
    recorded,
    seconds_of,
    shard_of,
)
from build_tools.errors import UsageError
from build_tools.records import CompileJob, Plan


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "0/0", "-1/2", "1/2/3", ""])
def test_a_shard_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"shard {text!r}: not of the form I/N with 1 <= I <= N")):
        shard_of(Plan((), ()), text)


def _parts(jobs: list[CompileJob], count: int, known: Recorded) -> list[list[str]]:
    plan = Plan(tuple(jobs), ())
    return [[each.id for each in shard_of(plan, f"{n + 1}/{count}", known).jobs] for n in range(count)]


def test_every_job_lies_in_one_shard_in_the_order_of_the_plan() -> None:
    jobs = [triton(f"t{number}") for number in range(17)] + [
        separate_job(f"a{number}") for number in range(6)
    ]
    random.shuffle(jobs)
    order = [each.id for each in jobs]
    for count in (1, 2, 5, 40):
        parts = _parts(jobs, count, Recorded())
        assert sorted(name for part in parts for name in part) == sorted(order)
        assert all(part == [name for name in order if name in part] for part in parts)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1  # all of the same unknown seconds
    assert _parts(jobs, 1, Recorded()) == [order]


def test_seconds_decide_and_not_counts() -> None:
    known = Recorded({"amd long.py": 9.0, "amd short.py": 1.0})
    jobs = [triton("long", "long.py"), *(triton(f"s{number}", "short.py") for number in range(9))]
    parts = _parts(jobs, 2, known)
    assert sorted(map(len, parts)) == [1, 9] and ["long"] in parts
    assert seconds_of(jobs, known) == 18.0


def test_jobs_of_one_compile_stay_together_and_count_once() -> None:
    known = Recorded({"amd k.hip": 5.0, "amd aiter:a.cu": 7.0})
    alike = [job(f"k{number}") for number in range(4)]  # of one source, without constants: one compile
    tree = [
        replace(separate_job(f"f{number}"), source="aiter:a.cu", symbol=f"f{number}") for number in range(3)
    ]
    # What a compile of the tree's file is made with decides the file's object: other constants, another compile.
    tree = [replace(each, constants=()) for each in tree]
    parts = _parts([*alike, *tree], 2, known)
    assert sorted(parts) == [["f0", "f1", "f2"], ["k0", "k1", "k2", "k3"]]
    assert seconds_of([*alike, *tree], known) == 12.0


def test_units_of_a_farm_are_no_longer_than_a_workers_part() -> None:
    known = Recorded({"amd long.py": 9.0, "amd short.py": 1.0, "amd k.hip": 20.0})
    jobs = [
        *(triton(f"l{number}", "long.py") for number in range(6)),
        *(triton(f"s{number}", "short.py") for number in range(6)),
    ]
    jobs += [job("k1"), job("k2")]  # one compile, however long it takes
    units = even_batches([(each, each.id) for each in jobs], 4, known)
    names = [[each.id for each, _ in unit] for unit in units]
    assert sorted(name for unit in names for name in unit) == sorted(each.id for each in jobs)
    assert names[0] == ["k1", "k2"] and all(len(unit) <= 2 for unit in names if unit[0].startswith("l"))
    seconds = [seconds_of((each for each, _ in unit), known) for unit in units]
    assert seconds == sorted(seconds, reverse=True) and max(seconds) == 20.0
    assert even_batches([], 4, known) == [] and len(even_batches([(jobs[0], "")], 200, known)) == 1


def test_a_source_that_nobody_recorded_costs_what_its_backend_does() -> None:
    known = Recorded({"amd t.py": 2.0}, {"amd triton": 0.5, "nvidia triton": 4.0})
    assert seconds_of([triton("a"), triton("b", "new.py"), separate_job("c")], known) == 2.0 + 0.5 + 1.0


def test_a_record_holds_means_of_compiles() -> None:
    jobs = [triton("a"), triton("b"), triton("c", "u.py"), job("k1"), job("k2"), triton("not built")]
    told = record_of(jobs, {"a": 1.0, "b": 2.0, "c": 4.5, "k1": 3.0, "k2": 3.0})
    assert told == {
        "version": RECORD_VERSION,
        "backends": {"amd hip": 3.0, "amd triton": 2.5},
        "sources": {"amd t.py": 1.5, "amd u.py": 4.5},  # k.hip is what its backend says
    }
    known = Recorded(told["sources"], told["backends"])
    assert seconds_of(jobs[:5], known) == 1.5 + 1.5 + 4.5 + 3.0


def test_the_committed_record_names_vendors_and_sources_that_are_there() -> None:
    told = json.loads(RECORD.read_text(encoding="utf-8"))
    assert told["version"] == RECORD_VERSION and recorded().sources == told["sources"]
    root = RECORD.parents[2]
    for name in told["sources"]:
        vendor, _, source = name.partition(" ")
        assert vendor in ("amd", "nvidia") and (":" in source or (root / source).is_file()), name
