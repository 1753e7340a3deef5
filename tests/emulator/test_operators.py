"""Cases of the manifests, other inputs in each run, through the functions that users call, on the embedded device with every
check on. That the cases choose every recipe is asked in ``test_prove.py``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import proof
from support.emulator import bundles, library_path

from build_tools.judge import receipts
from build_tools.prove.known import known

#: What Composable Kernel's kernels alone take, in the words of a call: without them it is refused, by name.
OF_CK = {"mha_fwd": "~shorter_", "mha_varlen_fwd": "_padded~"}

Run = tuple[str, str, list[dict[str, Any]], str]


@pytest.fixture(scope="module", params=proof.RUNS, ids="-".join)
def lines(request: pytest.FixtureRequest) -> Run:
    """One run: target, profile, a line per case, standard error."""
    target, profile = request.param
    return target, profile, *proof.run(library_path(), bundles(target, profile), target, profile)


@pytest.mark.slow
def test_every_case_is_right(lines: Run) -> None:
    target, profile, found, errors = lines
    expected = proof.labels(proof.stream(bundles(target, profile), target, profile))
    assert len(expected) == len(set(expected)) > 30
    assert [(line["operator"], line["label"]) for line in found] == expected, errors[-3000:]
    parts = proof.in_part(tuple(bundles(target, profile)))
    refused = [
        line for line in found if profile == "ck-free" and OF_CK.get(line["operator"], "?") in line["label"]
    ]
    for line in refused:
        assert "NoKernelError" in str(line["problems"]) and not line["launched"], line
    wrong = [
        line
        for line in found
        if line not in refused and line["problems"] and (line["launched"] or line["operator"] not in parts)
    ]
    said = "\n".join(map(json.dumps, wrong[:20]))
    assert not wrong, f"seed {proof.SEED}, {target} {profile}, {len(wrong)} of {len(found)}:\n{said}"
    if profile == "ck-full":
        assert "ck" in {line["backend"] for line in found}


@pytest.mark.slow
def test_what_was_executed_has_its_receipt(lines: Run) -> None:
    executed = {
        digest for line in lines[2] if line["launched"] and not line["problems"] for digest in line["recipes"]
    }
    assert executed
    missing = sorted(executed - known(proof.ROOT).keys())
    assert not missing, (
        f"{len(missing)} recipes are not in manifests/*/{receipts.NAME}: run python -m build_tools prove, "
        "and commit the files"
    )
