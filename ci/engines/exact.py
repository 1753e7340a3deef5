"""Compare an engine's answers with the same model in float64."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engines import faults
from engines.errors import EngineError


@dataclass(frozen=True)
class Bound:
    """The distance from float64 that answers may have.

    Attributes:
        error: the largest error of a logarithm of a token's probability.
        behind: how far another token may be ahead of the one that was chosen, in the same measure.
    """

    error: float
    behind: float


#: bf16 on the processor, in another order, is off by up to 0.08 on these models.
BF16: Final = Bound(0.15, 0.1)
#: A cache of fp8 rounds keys and values to three bits of mantissa.
FP8_CACHE: Final = Bound(0.3, 0.2)


@dataclass(frozen=True)
class Judgement:
    """Answers, compared with float64.

    Attributes:
        equal: tokens that are the likeliest in float64, too.
        tokens: all of them.
        error: the largest error of a logarithm of a probability.
        plain_error: that of bf16 on the processor.
        behind: how far the likeliest token was ahead at most.
        bound: what is allowed.
    """

    equal: int
    tokens: int
    error: float
    plain_error: float
    behind: float
    bound: Bound

    @property
    def right(self) -> bool:
        """Is each token as likely as float64 says, and the likeliest, or nearly so?"""
        return self.tokens > 0 and self.error <= self.bound.error and self.behind <= self.bound.behind


def judge(
    model: Path, answers: Sequence[Mapping[str, Any]], bound: Bound, environment: Mapping[str, str]
) -> tuple[Judgement, tuple[str, ...]]:
    """Compute the answers' probabilities in float64 and in bf16, by transformers on the processor, and with planted faults.

    Returns:
        The judgement, and the faults that these answers would pass with.

    Raises:
        EngineError: the computation failed.
    """
    planted = {fault: f"float64+{fault}" for fault in faults.FAULTS}
    rows = _rows(model, answers, environment, ["float64", "bfloat16", *planted.values()])
    missed = [fault for fault, how in planted.items() if compared(answers, rows[how], rows[how], bound).right]
    return compared(answers, rows["float64"], rows["bfloat16"], bound), tuple(missed)


def compared(
    answers: Sequence[Mapping[str, Any]], exact: Sequence[Any], plain: Sequence[Any], bound: Bound = BF16
) -> Judgement:
    """Compare answers with rows of :mod:`engines.exact_program`."""
    rows = [
        (token, logprob, wide, narrow)
        for answer, wides, narrows in zip(answers, exact, plain, strict=True)
        for token, logprob, wide, narrow in zip(
            answer["tokens"], answer["logprobs"], wides, narrows, strict=True
        )
    ]
    return Judgement(
        equal=sum(token == wide["best"] for token, _, wide, _ in rows),
        tokens=len(rows),
        error=_largest(logprob - wide["logprob"] for _, logprob, wide, _ in rows),
        plain_error=_largest(narrow["logprob"] - wide["logprob"] for _, _, wide, narrow in rows),
        behind=_largest(wide["best_logprob"] - wide["logprob"] for _, _, wide, _ in rows),
        bound=bound,
    )


def _largest(values: Iterable[float]) -> float:
    """Return the largest magnitude; NaN counts as infinity, which ``max`` would lose."""
    return max((math.inf if math.isnan(each) else abs(each) for each in values), default=0.0)


def _rows(
    model: Path, answers: Sequence[Mapping[str, Any]], environment: Mapping[str, str], hows: Sequence[str]
) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "engines.exact_program", str(model), *hows],
        input=json.dumps(list(answers)),
        env=dict(environment) | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise EngineError(f"The model could not be computed ({', '.join(hows)}): {done.stderr[-2000:]}")
    rows: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return rows
