"""Candidates whose results are wrong are thrown out before any is timed.

Two judges: the golden calls of the operator, whose right answers travel with the bundle, and at the tuned call's own size the
results of a candidate that is right at the golden calls.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import aiter_prebuilt
from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.bundles.files import open_file
from aiter_prebuilt.contract.calls import Call, CallsError, read
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import DriverError
from aiter_prebuilt.execute.record import instead
from aiter_prebuilt.execute.run import judged, uploaded
from aiter_prebuilt.execute.values import decode
from aiter_prebuilt.inspection.candidates import type_words

if TYPE_CHECKING:
    from aiter_prebuilt._native import Bundle, DecisionInfo, Operator
    from aiter_prebuilt.devices.device import DeviceFacts
    from aiter_prebuilt.tuning.card import Card

#: Bytes of a result that are read at most.
MOST_BYTES: Final = 64 << 20
#: Two right kernels round sums of another order: their results differ by less than this share of their norm.
NEAR: Final = 0.02
#: Share of integer results that may differ, as codes next to each other do.
_SHARE: Final = 0.02
#: Elements that are compared: blocks from the first to the last.
_BLOCKS: Final = 128
_BLOCK: Final = 256


class _OtherCandidateError(Exception):
    """The golden call is not one that the candidate takes. What wraps a function may turn it into another error."""


class GoldenJudge:
    """Runs candidates on the golden calls of their operator, each once."""

    def __init__(self, card: Card, path: str, bundles: tuple[Bundle, ...]) -> None:
        self._card, self._path, self._bundles = card, path, bundles
        self._known: dict[tuple[str, ...], tuple[str, bool]] = {}

    def verdict(self, operator: str, decision: DecisionInfo, forced: Operator) -> tuple[str, bool]:
        """Run a candidate on the golden calls that it takes.

        Returns:
            What is wrong with its results, "" where nothing is, and whether there was a golden call that it takes.
        """
        key = (operator, decision["kernel"], decision["variant"], type_words(decision))
        if key not in self._known:
            found = [self._run(call, decision, forced) for call in golden_calls(operator, self._card.facts)]
            ran = [each for each in found if each is not None]
            self._known[key] = next(filter(None, ran), ""), bool(ran)
        return self._known[key]

    def _run(self, call: Call, decision: DecisionInfo, forced: Operator) -> str | None:
        """Say what is wrong at one golden call; None where the candidate does not take it."""
        facts = self._card.facts
        launched: list[str] = []

        def launch(operator: Operator, tensors: list[Any], attributes: list[Any]) -> None:
            if operator.name != call.operator:
                operator(*tensors, *attributes)
                return
            mine = forced.viewing(operator.views) if operator.views else forced
            rows = operator.explain(self._bundles, facts.compute_units, tensors, attributes)
            if not any(row["accepted"] and _same(row, decision) for row in rows):
                raise _OtherCandidateError
            launched.append(operator.name)
            mine(*tensors, *attributes)

        function = getattr(aiter_prebuilt, call.operator)
        memory = DeviceMemory(facts, self._path)
        try:
            arguments = {name: uploaded(value, memory) for name, value in call.arguments.items()}
            with instead(function, launch):
                result = function(**arguments)
            memory.synchronize()
            worst, problems = judged(call, arguments, result)
        except DriverError:
            raise  # the device is lost
        except Exception as error:  # noqa: BLE001  # whatever the function makes of it
            return f"its golden call {call.label!r} cannot be run: {error}"[:400] if launched else None
        finally:
            with suppress(DriverError):
                memory.close()
        if problems or not math.isfinite(worst):
            return f"wrong at the golden call {call.label!r}: {'; '.join(problems) or 'nothing to compare'}"[
                :400
            ]
        return ""


def _same(row: DecisionInfo, decision: DecisionInfo) -> bool:
    return all(row[key] == decision[key] for key in ("kernel", "variant", "types"))


@cache
def golden_calls(operator: str, facts: DeviceFacts) -> tuple[Call, ...]:
    """Read the golden calls of an operator from the files beside the device's bundles; none where a file is missing."""
    found: dict[str, Call] = {}
    for bundle in locate.for_target(facts.arch, locate.installed(), str(facts)):
        with suppress(OSError, CallsError), open_file(bundle.calls) as stream:
            for call in read(stream, opening.decompress):
                if call.operator == operator:
                    found.setdefault(call.label, call)
    return tuple(found.values())


def difference(kind: str, mine: bytes, right: bytes) -> str:
    """Say how a result differs from a right one; "" where both are the same but for rounding.

    Args:
        kind: element type of both.
        mine: the candidate's bytes.
        right: those of a candidate that is right at the golden calls.
    """
    if mine == right:
        return ""
    size = BY_NAME[kind].itemsize
    ours, theirs = decode(kind, sample(mine, size)), decode(kind, sample(right, size))
    if kind in ("bool", "u8", "i8", "i16", "i32", "i64"):
        apart = sum(abs(one - other) > (kind == "i8") for one, other in zip(ours, theirs, strict=True))
        share = apart / max(1, len(ours))
        return f"{share:.1%} of its integers differ" if share > _SHARE else ""
    holes = sum(_hole(one) != _hole(other) for one, other in zip(ours, theirs, strict=True))
    if holes:
        return f"{holes} of {len(ours)} elements are NaN where the others are not, or are not written"
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if not _hole(one)]
    norm = math.hypot(*(other for _, other in pairs)) if pairs else 0.0
    far = math.hypot(*(one - other for one, other in pairs)) if pairs else 0.0
    return f"it is {far / norm if norm else math.inf:.3g} of the norm away" if far > NEAR * norm else ""


def _hole(value: float) -> bool:
    """Is it NaN or infinite, which no difference can be taken of?"""
    return not math.isfinite(value)


def sample(data: bytes, itemsize: int) -> bytes:
    """Return blocks of elements from the first to the last; all where they are few."""
    count = len(data) // itemsize
    if count <= _BLOCKS * _BLOCK:
        return data[: count * itemsize]
    last = count - _BLOCK
    starts = [last * place // (_BLOCKS - 1) for place in range(_BLOCKS)]
    return b"".join(data[start * itemsize : (start + _BLOCK) * itemsize] for start in starts)
