"""Attention without a key: the result is 0 and the log-sum-exp minus infinity, as its note says of a query that sees none."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support import repository
from support.emulator import bundles, library_path

from build_tools.cases import bind, make, words
from build_tools.manifest.problems import Problems
from build_tools.prove import workers

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_queries_without_a_key_give_zeros(target: str) -> None:
    files = bundles(target, "ck-full")
    problems = Problems()
    manifest = repository.manifest()
    known = repository.cases()
    calls = []
    for name in ("mha_fwd", "mha_varlen_fwd"):
        cases = known[name]
        assert cases.golden is not None
        for text in ("SK=0 is_causal=true", "SK=0 is_causal=false"):
            said = words.read(text, cases.subject, [], manifest.targets, problems).over(cases.golden)
            bound = next(bind.bind(cases.subject, said, manifest.targets[target].fp8))
            calls.append(make.call_of(cases, make.question_of(cases, bound, 1), target))
    place = workers.Place(ROOT, files, target, library_path())
    lines = [line for _, line, _ in workers.executed(place, [partial(replace, call) for call in calls], 1)]
    assert len(lines) == len(calls)
    assert [line["problems"] for line in lines] == [[]] * len(lines)
    assert {want.name for call in calls for want in call.wants} == {"out", "softmax_lse"}
