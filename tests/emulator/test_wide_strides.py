"""No stride is cut to 32 bits: golden calls again, and those that a run of the tests draws, one tensor at a time spread over
more than 2^31 elements. No call of the cases can hold such a tensor, since its bytes travel with it; here only its elements do.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from support import proof, repository
from support.emulator import bundles, library_path

from aiter_prebuilt.contract.calls import pack
from build_tools.cases import make
from build_tools.cases.bind import Bound

PROGRAM = Path(__file__).with_name("wide_program.py")


@pytest.mark.slow
@pytest.mark.parametrize("target", proof.TARGETS)
def test_every_tensor_may_be_wide_or_is_refused(target: str) -> None:
    calls, _ = proof.golden(bundles(target, "ck-free")[0])
    environment = proof.surroundings(library_path(), bundles(target, "ck-free"), target)
    drawn = proof.stream(bundles(target, "ck-free"), target, "ck-free")
    command = [sys.executable, str(PROGRAM), str(calls), str(drawn)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr[-3000:]
    wrong = [line for line in lines if line[3] != "right" and not line[3].startswith("refused: ")]
    assert not wrong, f"seed {proof.SEED}:\n" + "\n".join(map(str, wrong))
    served = {(operator, name) for operator, name, _, came in lines if came == "right"}
    named = {
        ("rms_norm", "input"),
        ("silu_and_mul", "input"),
        ("silu_and_mul", "out"),
        ("add", "other"),
        ("pa_fwd_asm", "K"),
    }
    assert named <= served and len(served) > 40, sorted(served)


@pytest.mark.parametrize("target", proof.TARGETS)
def test_a_paged_cache_may_be_larger_than_2_gib(target: str, tmp_path: Path) -> None:
    cases = repository.cases()["pa_fwd_asm"]
    kinds: dict[tuple[str, str, bool], list[Bound]] = {}
    for bound in make.bounds(cases, target, repository.manifest().targets[target]):
        words = dict(word.partition("=")[::2] for word in bound.label.split())
        if words.keys().isdisjoint(("kernelName", "kv_b", "kv_h")):
            kind = (words["T"], words["C"], "max_qlen" in words)
            kinds.setdefault(kind, []).append(bound)
    assert len(kinds) == 12  # 2 types of queries, 3 of caches, one query and several
    chosen = tmp_path / "some.calls"
    rng = random.Random(proof.SEED)
    # Only what was drawn is computed: the answers of all calls take 15 s of a core.
    drawn = (make.question_of(cases, rng.choice(bounds), proof.SEED) for bounds in kinds.values())
    chosen.write_bytes(b"".join(pack(make.call_of(cases, question, target)) for question in drawn))
    environment = proof.surroundings(library_path(), bundles(target, "ck-free"), target)
    command = [sys.executable, str(PROGRAM), "--tensor", "K", str(chosen)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr[-3000:]
    wrong = [line for line in lines if line[3] != "right"]
    assert not wrong and len(lines) == len(kinds), f"seed {proof.SEED}:\n" + "\n".join(map(str, wrong))


@pytest.mark.parametrize("target", proof.TARGETS)
def test_lists_of_works_mean_the_same_above_2_gib(target: str, tmp_path: Path) -> None:
    """AITER's objects take lists of works of caches below 2 GiB; larger ones are a kernel of ours, which reads more of a work."""
    cases, chosen, labels = repository.cases()["mla_decode_fwd"], tmp_path / "some.calls", []
    with chosen.open("wb") as kept:
        for bound in make.bounds(cases, target, repository.manifest().targets[target]):
            words = dict(word.partition("=")[::2] for word in bound.label.split())
            listed = "work_info_set~works" in words  # drawn for AITER's objects
            if listed and words.keys().isdisjoint(("kv_p", "sm_scale", "return_lse")):
                kept.write(pack(make.call_of(cases, make.question_of(cases, bound, proof.SEED), target)))
                labels.append(bound.label)
    assert len(labels) == 6 and sum("H=128" in label for label in labels) == 1
    environment = proof.surroundings(library_path(), bundles(target, "ck-free"), target)
    command = [sys.executable, str(PROGRAM), "--tensor", "kv_buffer", str(chosen)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line[3] for line in lines] == ["right"] * 6, f"seed {proof.SEED}:\n" + "\n".join(map(str, lines))
