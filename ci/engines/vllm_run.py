"""One offline run of vLLM in a process of its own, and what is judged of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engines import exact, models, surroundings, vllm_settings
from engines.errors import EngineError, last

#: Three prompts: shorter than a page of the cache, longer than two, and one with a token again and again.
PROMPTS: Final = ([5, 6, 7, 8, 9, 10], [*range(20, 57)], [3, 9, 3, 8, 3, 7, 3, 6, 3, 5, 3, 4, 3, 2, 3, 1, 3])
_TIMEOUT: Final = 900.0


@dataclass(frozen=True)
class Run:
    """A model on a target, with more of the engine's settings.

    Attributes:
        model: one of :data:`engines.models.CONFIGS`.
        target: of the emulated device.
        option: a name for what differs from the plain run.
        runner: vLLM's ``v1`` or ``v2`` model runner.
        settings: more of ``vllm.LLM``.
        sampling: more of ``vllm.SamplingParams``.
        variables: of the process.
        prompts: tokens of each prompt.
        rounds: how often the prompts are asked.
        bound: the distance from float64 that its answers may have.
        evidence: a count of the program's that shows that the option had an effect: it must not be 0.
    """

    model: str
    target: str
    option: str = "plain"
    runner: str = "v1"
    settings: Mapping[str, Any] | None = None
    sampling: Mapping[str, Any] | None = None
    variables: Mapping[str, str] | None = None
    prompts: Sequence[Sequence[int]] = PROMPTS
    rounds: int = 1
    bound: exact.Bound = exact.BF16
    evidence: str = ""


@dataclass(frozen=True)
class Outcome:
    """Results of a run: its judgement, launches of all kernels, calls of stand-ins, seconds and memory."""

    run: Run
    judgement: exact.Judgement
    launches: int
    kernels: int
    stood_in: Mapping[str, int]
    seconds: Mapping[str, float]
    peak_mib: int
    compiled: str
    missed: tuple[str, ...]
    evidence: int | None = None

    @property
    def right(self) -> bool:
        """Are the answers right, from launches, would planted faults have been found, and was no compiler started?"""
        shown = self.launches > 0 and self.evidence != 0
        return self.judgement.right and shown and not self.missed and not self.compiled


def execute(run: Run, place: surroundings.Place, record: Path | None = None) -> Outcome:
    """Run a model and judge its answers.

    Args:
        run: what is run.
        place: the folders.
        record: write the calls of AITER's functions to this file.

    Raises:
        EngineError: the engine ended without answers.
    """
    folder = models.make(run.model, place.folder / "models")
    place.compilers.unlink(missing_ok=True)
    environment = surroundings.environment(place, os.environ, run.runner, run.variables)
    # One process: an error of the engine's core is then the program's own.
    environment["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    settings = vllm_settings.of(run.model) | dict(run.settings or {})
    command = [
        *surroundings.started(run.target),
        *(sys.executable, "-m", "engines.vllm_program", str(folder)),
        *("--prompts", json.dumps(run.prompts), "--settings", json.dumps(settings)),
        *("--sampling", json.dumps(run.sampling or {})),
        *("--rounds", str(run.rounds), *(("--record", str(record)) if record is not None else ())),
    ]
    told = _told_by(command, environment)
    kernels = told["kernels"]
    judgement, missed = exact.judge(folder, told["answers"], run.bound, environment)
    return Outcome(
        run=run,
        judgement=judgement,
        launches=sum(kernels.values()),
        kernels=len(kernels),
        stood_in=told["stood_in"],
        seconds=told["seconds"],
        peak_mib=told["peak_mib"],
        missed=missed,
        evidence=told[run.evidence] if run.evidence else None,
        compiled=place.compilers.read_text(encoding="utf-8") if place.compilers.is_file() else "",
    )


def _told_by(command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"vLLM gave no answers within {_TIMEOUT:.0f} s") from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines or not lines[-1].startswith("{"):
        raise EngineError(
            f"vLLM ended with {done.returncode} and no answers. Its last lines:\n{last(done.stderr)}"
        )
    told: dict[str, Any] = json.loads(lines[-1])
    return told


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome for ``--json``."""
    judged = outcome.judgement
    return {
        "model": outcome.run.model,
        "target": outcome.run.target,
        "options": outcome.run.option,
        "right": outcome.right,
        "tokens_equal": judged.equal,
        "tokens": judged.tokens,
        "bound": judged.bound.error,
        "largest_error": round(judged.error, 4),
        "largest_error_of_bf16_on_the_processor": round(judged.plain_error, 4),
        "launches": outcome.launches,
        "kernels": outcome.kernels,
        "stood_in": dict(outcome.stood_in),
        "seconds": dict(outcome.seconds),
        "peak_mib": outcome.peak_mib,
        "compiled": outcome.compiled,
        "planted_faults_missed": list(outcome.missed),
        "evidence": {outcome.run.evidence: outcome.evidence} if outcome.run.evidence else {},
    }
