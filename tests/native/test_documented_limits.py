"""Each documented limit refuses a call that breaks it, by name, and serves the same call without the change."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from support import repository
from support.emulator import bundles

from build_tools.cases import limits
from build_tools.manifest.model import Manifest
from build_tools.manifest.parse import read
from build_tools.manifest.problems import Problems
from build_tools.prove import workers

pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")
ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
#: What Python raises by itself says no limit, nor does the error for arguments that no output can be made from.
UNNAMED = (
    "TypeError",
    "ValueError",
    "AttributeError",
    "IndexError",
    "KeyError",
    "RuntimeError",
    "ArgumentKindError",
)


@cache
def manifest() -> Manifest:
    problems = Problems()
    found = read(MANIFESTS, problems)
    assert found is not None, problems.lines
    return found


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "sm_90"])
def test_a_call_beyond_a_documented_limit_is_refused_by_name(target: str) -> None:
    files = bundles(target, "ck-free" if target == "sm_90" else "ck-full")
    problems = Problems()
    listed = limits.read(MANIFESTS, problems)
    assert listed is not None
    assert not problems.lines
    facts = manifest().targets
    cases = repository.cases()
    asked = [
        (limit, pair)
        for limit in listed.refused
        if target in cases[limit.operator].subject.targets
        for pair in limits.pairs(cases[limit.operator], limit, target, facts)
    ]
    families = manifest().families.values()
    sampled = {
        each.name
        for family in families
        for each in family.operators
        if all(kernel.profile == "ck-full" for kernel in each.kernels)
    }
    place = workers.Place(ROOT, files, target, Path("none"))
    lines = list(workers.explained(place, [call for _, pair in asked for call in pair]))
    wrong = []
    for (limit, pair), good, bad in zip(asked, lines[::2], lines[1::2], strict=True):
        if (
            good["problems"]
            and good["problems"][0].startswith("NoOperatorError")
            and limit.operator in sampled
        ):
            continue  # the bundles have a sample of Composable Kernel's instances
        where = f"{limit.operator} {pair[1].label!r} ({limit.phrase})"
        if good["problems"]:
            wrong.append(f"{where}: refused without the change: {good['problems'][0]}")
        if not bad["problems"]:
            wrong.append(f"{where}: served by {bad['kernel']}")
        elif bad["problems"][0].partition(":")[0] in UNNAMED:
            wrong.append(f"{where}: not refused by name: {bad['problems'][0]}")
    assert not wrong, "\n".join(wrong)
    assert len(asked) > (20 if target == "sm_90" else 300)
