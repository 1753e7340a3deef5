"""Every case of the manifests, through the functions that users call, on the embedded device with every check on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from support import proof
from support.emulator import bundles, library_path

from aiter_prebuilt.contract.bundle import Bundle
from build_tools.judge import receipts
from build_tools.objects.unpack import decompress

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
    assert len(expected) == len(set(expected)) > 50
    assert [(line["operator"], line["label"]) for line in found] == expected, errors[-3000:]
    wrong = [line for line in found if line["problems"]]
    said = "\n".join(map(json.dumps, wrong[:20]))
    assert not wrong, f"seed {proof.SEED}, {target} {profile}, {len(wrong)} of {len(found)}:\n{said}"
    if profile == "ck-full":
        assert "ck" in {line["backend"] for line in found}


@pytest.mark.slow
def test_every_entry_was_launched(lines: Run) -> None:
    """The cases reach every code object of the bundle that the run is about."""
    target, profile, found, _ = lines
    (path,) = (path for path in bundles(target, profile) if path.stem == f"{target}-{profile}")
    bundle = Bundle(path.read_bytes(), decompress)
    launched = {digest for line in found for digest in line["launched"]}
    entries = [entry for name in bundle.names for entry in bundle.operator(name).entries]
    assert entries
    missing = [entry.name for entry in entries if entry.sha256.hex() not in launched]
    assert not missing, f"{len(missing)} of {len(entries)} entries: add cases that choose {missing[:10]}"


@pytest.mark.slow
def test_what_was_executed_has_its_receipt(lines: Run) -> None:
    proved: Mapping[str, str] = receipts.load(proof.ROOT)
    executed = {digest for line in lines[2] for digest in line["launched"] if not line["problems"]}
    assert executed
    missing = sorted(executed - proved.keys())
    assert not missing, (
        f"{len(missing)} code objects are not in manifests/*/{receipts.NAME}: run python -m build_tools prove, "
        "and commit the files"
    )
