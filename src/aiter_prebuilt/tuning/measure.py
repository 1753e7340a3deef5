"""Time the candidates of one call on one card: caches cold and warm, median and spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.errors import AiterPrebuiltError, DriverError, UnsupportedError
from aiter_prebuilt.inspection.candidates import forced, label, type_words
from aiter_prebuilt.inspection.decisions import describe, find_operator
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt.tuning.inputs import Inputs
from aiter_prebuilt.tuning.judged import MOST_BYTES, GoldenJudge, difference
from aiter_prebuilt.tuning.outcome import TRIES, Limits, Measured, Timing, decide
from aiter_prebuilt.tuning.replays import Run, spread_of

if TYPE_CHECKING:
    from aiter_prebuilt._native import DecisionInfo, Operator
    from aiter_prebuilt.tuning.calls import TuneCall
    from aiter_prebuilt.tuning.card import Card

#: Replays of a first timing, which finds who is near the fastest.
_FIRST: Final = 3
#: A candidate this much slower at the first timing is not timed again.
_NEAR: Final = 1.25


class OutOfTimeError(Exception):
    """The budget ended inside a call: nothing of it is kept."""


class Tuner:
    """Times calls on one card."""

    def __init__(self, card: Card, path: str, limits: Limits, say: Callable[[str], None]) -> None:
        """Open the card's bundles.

        Args:
            card: the device.
            path: of its driver.
            limits: when to stop, and what is too much.
            say: hears the name of each candidate before it runs, for who may not survive it.
        """
        facts = card.facts
        self.card, self.limits, self._say = card, limits, say
        self._serving = locate.for_target(facts.arch, locate.installed(), str(facts))
        self._bundles = dispatch.bundles_of(facts.arch, str(facts))
        self._golden = GoldenJudge(card, path, self._bundles)

    def measure(self, call: TuneCall, lost: Mapping[str, str]) -> Measured:
        """Time every candidate that accepts the call and is right.

        Args:
            call: in words.
            lost: candidates that ended a process before -> how.

        Raises:
            OutOfTimeError: the budget ended. DriverError: the device is lost.
        """
        block, _ = find_operator(call.operator, self._serving, "tune")
        tensors, attributes, said = describe(block, dict(call.settings))
        decisions = dispatch.operator(call.operator).explain(
            self._bundles, self.card.facts.compute_units, tensors, attributes
        )
        accepted = [each for each in decisions if each["accepted"]]
        found = Measured(call.words, call.operator, _symbols(block, said, attributes))
        found.types = type_words(accepted[0]) if accepted else ""
        found.candidates = [
            Timing(each["kernel"], each["variant"], each["backend"], type_words(each), each["chosen"])
            for each in accepted
        ]
        if len(accepted) < 2 or not found.types:
            found.problem = _nothing_to_choose(accepted)
            return found
        try:
            inputs = Inputs(self.card, block, tensors, attributes)
        except UnsupportedError as error:
            found.problem = str(error)
            return found
        try:
            self._compare(found, accepted, inputs, attributes, lost)
        finally:
            inputs.close()
        return found

    def _compare(
        self, found: Measured, accepted: list[DecisionInfo], inputs: Inputs, attributes: list[Any], lost: Mapping[str, str]
    ) -> None:  # fmt: skip
        operators = [
            forced(found.operator, each, self._bundles, self.card.facts.compute_units) for each in accepted
        ]
        for timing, decision in zip(found.candidates, accepted, strict=True):
            timing.problem = lost.get(label(decision), "")
        self._throw_out(found, accepted, operators, inputs, attributes)
        runs = [Run(self.card, operator, inputs, attributes) for operator in operators]
        right = [place for place, timing in enumerate(found.candidates) if not timing.problem]
        for place in right:
            self._next(found.candidates[place])
            runs[place].prepare()
            found.candidates[place].cold_us = median(runs[place].cold() for _ in range(_FIRST))
        fastest = min((found.candidates[place].cold_us or 0.0 for place in right), default=0.0)
        near = [
            (timing, runs[place])
            for place in right
            if (timing := found.candidates[place]).default or (timing.cold_us or 0.0) <= _NEAR * fastest
        ]
        self._finals(near)
        for run in runs:
            run.drop()
        decide(found, self.limits)

    def _next(self, timing: Timing) -> None:
        """Say what runs next; stop where the budget is over."""
        if self.limits.deadline is not None and time.monotonic() > self.limits.deadline:
            raise OutOfTimeError
        self._say(f"{timing.kernel}[{timing.variant}]")

    def _throw_out(
        self, found: Measured, accepted: list[DecisionInfo], operators: list[Operator], inputs: Inputs, attributes: list[Any]
    ) -> None:  # fmt: skip
        """Mark each candidate that is wrong.

        One that is right at a golden call, the default before others, judges the rest. Where no golden call is one that any
        candidate takes, the default judges: it was executed and right before it shipped.
        """
        passed: set[int] = set()
        wrong = False
        for place, timing in enumerate(found.candidates):
            if timing.problem:
                continue
            self._next(timing)
            timing.problem, judged = self._golden.verdict(found.operator, accepted[place], operators[place])
            wrong = wrong or bool(timing.problem)
            if judged and not timing.problem:
                passed.add(place)
        if wrong and not passed:
            for timing in found.candidates:
                timing.problem = (
                    timing.problem or "no candidate is right at a golden call, so nothing judges it"
                )
            return
        self._compare_results(found.candidates, passed, operators, inputs, attributes)

    def _compare_results(
        self, timings: list[Timing], passed: set[int], operators: list[Operator], inputs: Inputs, attributes: list[Any]
    ) -> None:  # fmt: skip
        """Run each candidate at the call's own size, and mark those whose results are not those of the first."""
        right: list[tuple[str, str, bytes]] | None = None
        for place in sorted(
            range(len(timings)), key=lambda place: (place not in passed, not timings[place].default)
        ):
            timing = timings[place]
            if timing.problem:
                continue
            self._next(timing)
            inputs.restore()
            try:
                operators[place](*inputs.sets[0], *attributes, stream=0)
                self.card.synchronize()
            except DriverError:
                raise
            except AiterPrebuiltError as error:
                timing.problem = str(error)
                continue
            results = inputs.results(MOST_BYTES)
            if right is None:
                right = results
                continue
            for (name, kind, mine), (_, _, theirs) in zip(results, right, strict=True):
                if apart := difference(kind, mine, theirs):
                    timing.problem = f"wrong: {name}: {apart}"
        inputs.restore()

    def _finals(self, near: list[tuple[Timing, Run]]) -> None:
        """Time the candidates near the fastest in turns, so that all meet the clocks of a card that grows warm.

        All are timed again until each is steady.
        """
        samples = min((run.samples for _, run in near), default=0)
        for _ in range(TRIES):
            spans: list[list[float]] = [[] for _ in near]
            for _ in range(samples):
                for (timing, run), mine in zip(near, spans, strict=True):
                    self._next(timing)
                    mine.append(run.cold())
            for (timing, run), mine in zip(near, spans, strict=True):
                timing.cold_us, timing.spread = median(mine), spread_of(mine)
                timing.warm_us = median(run.warm() for _ in range(_FIRST))
            if all((timing.spread or 0.0) <= self.limits.spread for timing, _ in near):
                return


def _symbols(block: Any, said: Mapping[str, Any], attributes: list[Any]) -> dict[str, int]:
    """Return the values that a tuned row may compare: sizes, and options that are whole numbers."""
    whole = {
        spec.name: int(value)
        for spec, value in zip(block.attributes, attributes, strict=True)
        if isinstance(value, int)
    }
    known: dict[str, int] = {**said["symbols"], **whole}
    if block.tuned_slots:
        return {name: known.get(name, 0) for name in (block.slots[slot] for slot in block.tuned_slots)}
    bound = dict.fromkeys(
        block.slots[dim.slot] for spec in block.tensors for dim in spec.dims if dim.kind == 1
    )
    return {name: known.get(name, 0) for name in (*bound, *(name for name in whole if name not in bound))}


def _nothing_to_choose(accepted: list[DecisionInfo]) -> str:
    if not accepted:
        return "no kernel takes the call"
    if len(accepted) == 1:
        return f"only {label(accepted[0])} takes the call"
    return "the operator has no element types, and a table cannot name its rows"
