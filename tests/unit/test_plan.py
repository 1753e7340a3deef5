"""The plan: bundles, shared jobs, ids, filters, tuned rows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import planned

from build_tools.errors import UsageError
from build_tools.manifest import model
from build_tools.plan.plan import make_plan, shard_of, target_facts
from build_tools.plan.recipe import RecipeDraft, draft
from build_tools.records import Plan


def inputs_of(backend: str, source: str, symbol: str, constants: dict[str, object]) -> tuple[str, ...]:
    return (source, f"{backend} {symbol} {sorted(constants)}")


def plan(
    *kernels: model.Kernel, prove: bool = True, profiles: dict[str, list[str]] | None = None, **changes: Any
) -> Plan:
    made = planned.manifest(planned.operator(kernels=kernels, **changes), profiles=profiles)
    return make_plan(made, Path("nowhere"), inputs_of, prove=prove)  # fmt: skip


def test_a_draft_with_fewer_jobs_than_steps_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*words: Any) -> RecipeDraft | None:
        made = draft(*words)
        return made and replace(made, jobs=())

    monkeypatch.setattr("build_tools.plan.plan.draft", short)
    with pytest.raises(ValueError, match="shorter"):
        plan(planned.kernel(), prove=False)


def test_a_target_is_its_row() -> None:
    facts = target_facts(planned.manifest())
    assert list(facts) == ["gfx942", "gfx950"]
    assert (facts["gfx942"].cus, facts["gfx942"].devices, facts["gfx950"].fp8) == (
        (304, 228),
        ("MI300X",),
        "e4m3fn",
    )


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "0/0", "-1/2", "1/2/3", ""])
def test_a_shard_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"shard {text!r}: not of the form I/N with 1 <= I <= N")):
        shard_of(Plan((), ()), text)
