"""Proving for real: one operator of the built bundles, on the embedded device, into the receipts of a copy of the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support import proof, repository
from support.emulator import bundles, library_path

from build_tools.cases import bind, draw, make, words
from build_tools.cases.receipt_state import meanings
from build_tools.cases.subject import subjects
from build_tools.errors import NotReadyError
from build_tools.judge import findings, receipts
from build_tools.judge.findings import EMBEDDED_CHECKS
from build_tools.manifest.parse import load
from build_tools.manifest.problems import Problems
from build_tools.objects.entries import tools_of
from build_tools.objects.unpack import open_bundle
from build_tools.prove import prove as proving
from build_tools.prove import ready, workers
from build_tools.prove.prove import Settings
from build_tools.prove.workers import Place

TARGET, OPERATOR = "gfx942", "silu_and_mul"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The repository, with manifests of its own that have no receipts."""
    for path in proof.ROOT.iterdir():
        if path.name in ("src", "csrc", "hsa"):
            shutil.copytree(
                path, tmp_path / path.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
    missing = shutil.ignore_patterns(receipts.NAME)
    shutil.copytree(proof.ROOT / "manifests", tmp_path / "manifests", ignore=missing)
    return tmp_path


def test_what_is_explained_is_what_is_launched() -> None:
    """For every call of an operator; the child that explains opens no device."""
    manifest = repository.manifest()
    (subject,) = (subject for subject in subjects(manifest) if subject.name == OPERATOR)
    cases = repository.cases()[OPERATOR]
    facts = manifest.targets[TARGET]
    paths = bundles(TARGET, "ck-free")
    outlines = [make.outline(bound) for bound in make.bounds(cases, TARGET, facts)]
    nowhere = Place(proof.ROOT, paths, TARGET, Path(os.devnull))
    told = {line["label"]: line for line in workers.explained(nowhere, outlines)}
    path = proof.calls(TARGET, operator=subject.name)
    assert len(told) == len(proof.labels(path)) > 10
    command = [sys.executable, "-m", "aiter_prebuilt.execute", str(path)]
    environment = proof.surroundings(library_path(), paths, TARGET)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    lines = [json.loads(text) for text in done.stdout.splitlines()]
    assert len(lines) == len(told), done.stderr
    for line in lines:
        assert not line["problems"], line
        words = ("kernel", "variant", "backend", "launched", "recipes", "problems")
        assert {name: line[name] for name in words} == {name: told[line["label"]][name] for name in words}


def test_a_call_that_no_kernel_takes_is_told() -> None:
    """Though nothing of it would be executed. That each call of the cases is taken stands with the receipts, below."""
    manifest = repository.manifest()
    paths, facts = bundles(TARGET, "ck-free"), manifest.targets[TARGET]
    (subject,) = (subject for subject in subjects(manifest) if subject.name == "gemm_a16w16_asm")
    problems = Problems()
    short = words.read("M=1 N=64 K=64 C=f32 bias=none", subject, draw.BUILT_IN, manifest.targets, problems)
    long = words.read("M=5 N=64 K=64 C=f32 bias=none", subject, draw.BUILT_IN, manifest.targets, problems)
    outlines = [
        make.outline(bound) for made in (long, short) for bound in bind.bind(subject, made, facts.fp8)
    ]
    taken, refused = workers.explained(Place(proof.ROOT, paths, TARGET, Path(os.devnull)), outlines)
    assert not problems.lines and not taken["problems"] and taken["recipes"]
    (said,) = refused["problems"]
    assert said.startswith("NoKernelError: no kernel takes the call") and not refused["recipes"]


@pytest.mark.slow
def test_an_operator_is_proved_once(root: Path) -> None:
    folder = bundles(TARGET, "ck-free")[0].parent
    settings = Settings(root, (folder,), (OPERATOR,), (TARGET,))
    try:
        ready.open_target(load(root / "manifests"), root, (folder,), TARGET, (OPERATOR,))
        ready.native_parts(root)
    except NotReadyError as error:
        pytest.skip(str(error))
    proof_ = proving.prove(settings)
    (row,) = proof_.rows
    assert (proof_.wrong, proof_.unproved, row.proved) == ((), (), row.entries)
    assert row.calls > 10 and row.worst is not None and row.worst <= 1
    assert proof_.changed == ("manifests/activation/receipts.json",)
    found = receipts.read(root)
    assert {receipt.target for receipt in found.values()} == {TARGET}
    assert {receipt.checks for receipt in found.values()} == {EMBEDDED_CHECKS}
    committed = receipts.read(proof.ROOT)
    for digest in found.keys() & committed.keys():
        if committed[digest].kernel.startswith(OPERATOR):
            # The same seed, the same receipt; of the tools, it keeps those that were there when it was made.
            assert replace(found[digest], tools={}) == replace(committed[digest], tools={})
            assert found[digest].tools == tools_of(open_bundle(folder / f"{TARGET}-ck-free.apb"))
            assert found[digest].tools.keys() == committed[digest].tools.keys()
    again = proving.prove(settings)
    assert (again.rows[0].calls, again.changed) == (0, ())
    everything = proving.prove(Settings(root, (folder,), (OPERATOR,), (TARGET,), everything=True))
    assert everything.rows[0].calls == row.calls  # those that launch nothing were there, too
    assert everything.changed == ()
    formula = root / "manifests/activation/reference.py"
    formula.write_text(formula.read_text().replace("1 / (1 + np.exp(-x))", "1 / (np.exp(-x) + 1)"))
    assert receipts.holding(found, meanings(root / "manifests"), ()) == {}
    changed = proving.prove(settings)  # the same result by another formula: executed again
    assert (changed.rows[0].calls, changed.rows[0].proved, changed.wrong) == (row.calls, row.entries, ())
    assert {receipt.reference for receipt in receipts.read(root).values()}.isdisjoint(
        receipt.reference for receipt in found.values()
    )


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "sm_90"])
def test_receipts_are_about_the_calls_of_now_and_these_walk_every_dim_and_option(target: str) -> None:
    """Nothing is executed: what would be launched is said."""
    root = proof.ROOT
    manifest = repository.manifest()
    operators = repository.cases()
    operators = {name: each for name, each in operators.items() if target in each.subject.targets}
    folder = bundles(target, "ck-free")[0].parent
    try:
        built = ready.open_target(manifest, root, (folder,), target, operators)
    except NotReadyError as error:
        pytest.skip(str(error))
    places = {name: Place(root, built.serving(name), target, Path(os.devnull)) for name in built.bundles}
    choice = proving.chosen(built, operators, manifest, places, None)
    # Nothing of Composable Kernel is for NVIDIA's.
    partly = frozenset() if target == "sm_90" else proof.in_part(tuple(bundles(target, "ck-full")))
    assert choice.labels.keys() == built.recipes.keys()
    assert [line for line in choice.refused if line["operator"] not in partly] == []
    narrow = choice.walked.narrow()
    assert [words for digest, words in narrow.items() if built.recipes[digest].operator not in partly] == []
    partly = proving.operators_in_part(manifest, [built])
    book = proving._Book(receipts.read(root), meanings(root / "manifests"), findings.read(root), partly)
    missing = [built.recipes[digest].kernel for digest in book.outdated(choice.labels)]
    assert not missing, (
        f"{len(missing)} recipes, {missing[:5]}: run python -m build_tools prove (sm_90: python ci/gpu_check.py --record FILE, "
        "then python -m build_tools receipts FILE), and commit the receipts"
    )
