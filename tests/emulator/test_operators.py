"""Every operator, through the runtime's production path, on the embedded device with every check on: see ``operators/``."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from typing import Any

import pytest
from emulator.operators import runs, worker
from support.emulator import bundles, library_path

from build_tools.judge import receipts

SEED = int(os.environ.get("AITER_PREBUILT_TEST_SEED") or random.randrange(2**31))


@pytest.fixture(scope="module", params=runs.RUNS, ids="-".join)
def lines(request: pytest.FixtureRequest) -> tuple[str, str, list[dict[str, Any]], str]:
    """One run: target, profile, a line per case, standard error."""
    target, profile = request.param
    return target, profile, *runs.run(library_path(), bundles(target, profile), target, profile, SEED)


@pytest.mark.slow
def test_every_case_is_right(lines: tuple[str, str, list[dict[str, Any]], str]) -> None:
    target, profile, found, errors = lines
    expected = [(case.operator, case.label) for case in worker.cases(profile)]
    assert len(expected) == len(set(expected))
    assert [(line["operator"], line["label"]) for line in found] == expected, errors[-3000:]
    wrong = [line for line in found if line["problems"]]
    assert not wrong, f"seed {SEED}, {target} {profile}, {len(wrong)} of {len(found)}:\n" + "\n".join(
        map(json.dumps, wrong[:20])
    )
    if profile == "ck-full":
        assert "ck" in {line["backend"] for line in found}


@pytest.mark.slow
def test_what_was_executed_has_its_receipt(lines: tuple[str, str, list[dict[str, Any]], str]) -> None:
    proved: Mapping[str, str] = receipts.load(runs.ROOT)
    executed = {digest for line in lines[2] for digest in line.get("launched", ()) if not line["problems"]}
    assert executed
    missing = sorted(executed - proved.keys())
    assert not missing, (
        f"{len(missing)} code objects are not in {receipts.FILE}: run nox -s prove, and commit the file"
    )
