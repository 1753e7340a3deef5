"""Lines about engines' runs, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from engines.vllm_run import Outcome


def line(outcome: Outcome) -> str:
    """Return two lines of one run, within 80 columns where its options are short."""
    judged, run = outcome.judgement, outcome.run
    verdict = "right" if outcome.right else "WRONG"
    first = f"{verdict}  {run.model} on {run.target} ({run.option}): {judged.equal} of {judged.tokens} tokens as float64"
    second = (
        f"       error {judged.error:.3f} of {judged.bound.error} (bf16: {judged.plain_error:.3f}), "
        f"{outcome.launches} launches of {outcome.kernels} kernels, "
        f"{outcome.seconds['start'] + outcome.seconds['answers']:.0f} s, {outcome.peak_mib / 1024:.1f} GB"
    )
    more = f"\n       a compiler was started: {outcome.compiled.splitlines()[0]}" if outcome.compiled else ""
    if outcome.evidence is not None:
        more += f"\n       {run.evidence}: {outcome.evidence}"
    if outcome.missed:
        more += f"\n       planted faults were not found: {', '.join(outcome.missed)}"
    return f"{first}\n{second}{more}"


def closing(outcomes: Sequence[Outcome], problems: int) -> str:
    """Return the last line."""
    right = sum(each.right for each in outcomes)
    return (
        f"{right} of {len(outcomes) + problems} runs right: probabilities within their bounds, planted faults outside, "
        "no compiler of AITER's started"
    )
