"""Measure a card: launch cost, bytes a second, products a second, through its driver and the kernels of its bundles."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.bundles import opening
from aiter_prebuilt.certificate.golden_calls import product
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import AiterPrebuiltError, ArgumentError, DriverError, NoOperatorError
from aiter_prebuilt.inspection.candidates import forced
from aiter_prebuilt.inspection.decisions import describe, find_operator
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt.tuning.calls import tensor_bytes
from aiter_prebuilt.tuning.card import Card
from aiter_prebuilt.tuning.card_state import state_of
from aiter_prebuilt.tuning.inputs import Inputs
from aiter_prebuilt.tuning.replays import Run, spread_of

if TYPE_CHECKING:
    from aiter_prebuilt._native import Bundle, DecisionInfo
    from aiter_prebuilt.certificate.child import Say
    from aiter_prebuilt.devices.device import DeviceFacts

#: Bytes that one copy moves: out of every cache. The embedded device has no cache.
_LARGE: Final = 1 << 30
_SMALL: Final = 8 << 20
_EMBEDDED: Final = 64 << 10
_COPIES: Final = 9
#: Bytes that are moved between two events at least.
_SPAN: Final = 1 << 30
#: Calls that are queued one behind the other, and how often.
_QUEUE: Final = 100
_QUEUES: Final = 11
#: Replays of a first timing, which finds the fastest candidate, and of its timing.
_FIRST: Final = 3
_FULL: Final = 11
#: A candidate whose launch takes so many times as long as the fastest is not timed.
_SLOWER: Final = 2.0


@dataclass(frozen=True, slots=True)
class Task:
    """One call whose rate is measured. ``settings`` on a card, ``small`` on the embedded device; ``flops``: of ``settings`` by
    its sizes, None where bytes are what it moves.
    """

    operator: str
    settings: Mapping[str, str]
    small: Mapping[str, str]
    flops: Callable[[Mapping[str, int]], int] | None = None

    @property
    def name(self) -> str:
        """Name of the document, whatever the device is."""
        return " ".join([self.operator, *(f"{name}={value}" for name, value in self.settings.items())])


def _product(sizes: Mapping[str, int]) -> int:
    return 2 * sizes["M"] * sizes["N"] * sizes["K"]


def _attention(sizes: Mapping[str, int]) -> int:
    return 2 * sizes["B"] * sizes["HQ"] * sizes["SQ"] * sizes["SK"] * (sizes["D"] + sizes["DV"])


def _cube(size: int, **types: str) -> dict[str, str]:
    return {**types, **dict.fromkeys("MNK", str(size))}


def _heads(length: int, heads: int) -> dict[str, str]:
    sizes = {"B": 1, "SQ": length, "SK": length, "HQ": heads, "HK": heads, "D": 128, "DV": 128}
    return {"T": "bf16", **{name: str(size) for name, size in sizes.items()}}


TASKS: Final = (
    Task("rms_norm", {"T": "bf16", "M": "32768", "N": "8192"}, {"T": "bf16", "M": "4", "N": "256"}),
    Task("silu_and_mul", {"T": "bf16", "M": "32768", "d": "8192"}, {"T": "bf16", "M": "4", "d": "256"}),
    *(
        Task("gemm_a16w16", _cube(size, T=kind), _cube(64, T=kind), _product)
        for kind, size in (("bf16", 4096), ("bf16", 8192), ("f16", 8192))
    ),
    *(Task("gemm_a8w8_CK", _cube(size, Q=kind), _cube(128, Q=kind), _product) for kind in ("fp8", "i8") for size in (4096, 8192)),
    Task("flash_attn_func", _heads(8192, 16), _heads(64, 1), _attention),
)  # fmt: skip
#: The smallest call: what is left is what a launch costs.
_TINY: Final = ("rms_norm", {"T": "bf16", "M": "1", "N": "256"})


class Meter:
    """Measures one card in this process, through the product's bundles alone."""

    def __init__(self, facts: DeviceFacts, path: str, over: Callable[[], bool], say: Say) -> None:
        """Open the card.

        Args:
            facts: the device.
            path: of its driver.
            over: is the time spent? No other candidate is tried then.
            say: hears of each candidate before it runs.

        Raises:
            NoBundleError, DriverError: nothing serves the device, or its driver does not answer.
        """
        device.probe(facts.vendor)
        self._over, self._say = over, say
        self.card = Card(facts, path)
        self._serving = product(facts)
        self._bundles: tuple[Bundle, ...] = opening.usable(self._serving, opening.open_bundle)

    def state(self) -> dict[str, Any]:
        """Return the card's clock, and what makes its times worth less."""
        found = state_of(self.card)
        return {"clock_mhz": found.clock_mhz, "notes": list(found.notes)}

    def launch(self) -> dict[str, Any]:
        """Return what a launch costs in microseconds: the host's share, replayed in a graph, and until a lone call is done."""
        operator, settings = _TINY
        inputs, attributes, decisions = self._described(operator, settings)
        chosen = next(each for each in decisions if each["chosen"])
        native = forced(operator, chosen, self._bundles, self.card.facts.compute_units)
        tensors, stream = inputs.sets[0], self.card.stream.value
        queue, queues = (4, 3) if self.card.embedded else (_QUEUE, _QUEUES)
        run = Run(self.card, native, inputs, attributes)
        try:
            run.prepare()
            hosts, alone = [], []
            for _ in range(queues):
                started = time.perf_counter()
                for _ in range(queue):
                    native(*tensors, *attributes, stream=stream)
                hosts.append((time.perf_counter() - started) * 1e6 / queue)
                self.card.wait()
                started = time.perf_counter()
                native(*tensors, *attributes, stream=stream)
                self.card.wait()
                alone.append((time.perf_counter() - started) * 1e6)
            replayed = median(run.warm() for _ in range(_FULL))
        finally:
            run.drop()
            inputs.close()
        words = " ".join([operator, *(f"{name}={value}" for name, value in settings.items())])
        return {
            "call": words, "kernel": chosen["kernel"], "variant": chosen["variant"], "backend": chosen["backend"],
            "host_us": _short(median(hosts)), "replayed_us": _short(replayed), "alone_us": _short(median(alone)),
        }  # fmt: skip

    def bandwidth(self) -> list[dict[str, Any]]:
        """Return bytes a second of the driver's own copies and fills, large ones and such as a cache holds."""
        large = _EMBEDDED if self.card.embedded else min(_LARGE, self.card.facts.memory_bytes // 8)
        found = []
        for size in dict.fromkeys((large, min(large, _SMALL))):
            there, here = self.card.reserve(size), self.card.reserve(size)
            try:
                copy = partial(self.card.queue_copy, there, here, size)
                fill = partial(self.card.set, there, 0, size)
                found += [self._moved("copy", 2 * size, copy), self._moved("fill", size, fill)]
            finally:
                self.card.release(there)
                self.card.release(here)
        return found

    def _moved(self, name: str, moved: int, work: Callable[[], None]) -> dict[str, Any]:
        """Time a copy or a fill; short ones one behind the other, so that the events around them weigh little."""
        times = 1 if self.card.embedded else max(1, _SPAN // moved)

        def several() -> None:
            for _ in range(times):
                work()

        several()
        self.card.wait()
        spans = [self.card.span(several) / times for _ in range(_COPIES)]
        us, spread = _short(median(spans)), _short(spread_of(spans))
        return {
            "what": name,
            "bytes": moved,
            "us": us,
            "spread": spread,
            "gb_s": _short(moved / median(spans) / 1e3),
        }

    def rate(self, task: Task) -> dict[str, Any] | None:
        """Time a task's chosen kernel and, on a card, the fastest of those that take the call.

        Returns:
            A row; None where no bundle has the operator for this device, or no kernel takes the call.
        """
        settings = task.small if self.card.embedded else task.settings
        try:
            inputs, attributes, decisions = self._described(task.operator, settings)
        except (NoOperatorError, ArgumentError):  # of this target there is no such operator, or no such type
            return None
        try:
            accepted = [each for each in decisions if each["accepted"]]
            chosen = next((each for each in accepted if each["chosen"]), None)
            if chosen is None:
                return None
            rows = [self._timed(task, settings, chosen, inputs, attributes)]
            fastest = self._fastest(task.operator, chosen, accepted, inputs, attributes)
            if fastest is not chosen:
                rows.append(self._timed(task, settings, fastest, inputs, attributes))
        finally:
            inputs.close()
        words = " ".join([task.operator, *(f"{name}={value}" for name, value in settings.items())])
        return {"call": words, "candidates": len(accepted), "chosen": rows[0], "fastest": rows[-1]}

    def _fastest(
        self,
        operator: str,
        chosen: DecisionInfo,
        accepted: Sequence[DecisionInfo],
        inputs: Inputs,
        attributes: list[Any],
    ) -> DecisionInfo:
        """Find the fastest candidate by short timings. One that is far slower than the best so far is launched twice only."""
        if self.card.embedded:  # its times choose nothing
            return chosen
        best, found = self._once(operator, chosen, inputs, attributes, _FIRST)[0], chosen
        for each in accepted:
            if each is chosen or self._over():
                continue
            self._say({"at": f"{each['kernel']}[{each['variant']}]"})
            if self._single(operator, each, inputs, attributes) > _SLOWER * best:
                continue
            us = self._once(operator, each, inputs, attributes, _FIRST)[0]
            best, found = (us, each) if us < best else (best, found)
        return found

    def _single(self, operator: str, decision: DecisionInfo, inputs: Inputs, attributes: list[Any]) -> float:
        """Return the microseconds of a second launch: the first one loads the kernel."""
        native = forced(operator, decision, self._bundles, self.card.facts.compute_units)
        stream = self.card.stream.value
        for _ in range(2):
            us = self.card.span(lambda: native(*inputs.sets[0], *attributes, stream=stream))
        return us

    def _described(
        self, operator: str, settings: Mapping[str, str]
    ) -> tuple[Inputs, list[Any], Sequence[DecisionInfo]]:
        block, _ = find_operator(operator, list(self._serving), "certify")
        tensors, attributes, _ = describe(block, settings)
        decisions = dispatch.operator(operator).explain(
            self._bundles, self.card.facts.compute_units, list(tensors), list(attributes)
        )
        return Inputs(self.card, block, tensors, attributes), list(attributes), decisions

    def _once(
        self, operator: str, decision: DecisionInfo, inputs: Inputs, attributes: list[Any], replays: int
    ) -> tuple[float, float]:
        """Return median and spread of a candidate's time in microseconds, its inputs in no cache."""
        native = forced(operator, decision, self._bundles, self.card.facts.compute_units)
        run = Run(self.card, native, inputs, attributes)
        try:
            run.prepare()
            spans = [run.cold() for _ in range(replays)]
        finally:
            run.drop()
        return median(spans), spread_of(spans)

    def _timed(
        self, task: Task, settings: Mapping[str, str], decision: DecisionInfo, inputs: Inputs, attributes: list[Any]
    ) -> dict[str, Any]:  # fmt: skip
        us, spread = self._once(task.operator, decision, inputs, attributes, _FULL)
        sizes = {name: int(value) for name, value in settings.items() if value.isdecimal()}
        moved = tensor_bytes(inputs.sets[0])
        row = {
            "kernel": decision["kernel"], "variant": decision["variant"], "backend": decision["backend"], "us": _short(us),
            "spread": _short(spread), "gb_s": _short(moved / us / 1e3),
        }  # fmt: skip
        return row | {"tflops": _short(task.flops(sizes) / us / 1e6) if task.flops else None}


def _short(number: float) -> float:
    """Four digits: a time has no more that mean anything."""
    return float(f"{number:.4g}")


def measure(facts: DeviceFacts, path: str, todo: Sequence[str], over: Callable[[], bool], say: Say) -> None:
    """Measure what is named and say each result; whatever cannot be measured is said, too.

    Args:
        facts: the device.
        path: of its driver.
        todo: ``launch``, ``bandwidth``, and names of :data:`TASKS`.
        over: is the time spent? Nothing is begun then.
        say: hears ``{"state": ...}`` first and last, and ``{"name": ..., "found": ..., "problem": ...}`` for each.
    """
    meter = Meter(facts, path, over, say)
    say({"state": meter.state()})
    for name, work in _works(meter, todo):
        if over():
            return
        say({"begin": name})
        try:
            say({"name": name, "found": work(), "problem": ""})
        except DriverError:
            raise  # the device is lost for this process
        except AiterPrebuiltError as error:
            say({"name": name, "found": None, "problem": str(error)})
    say({"state": meter.state()})


def _works(meter: Meter, todo: Sequence[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    works: dict[str, Callable[[], Any]] = {"launch": meter.launch, "bandwidth": meter.bandwidth}
    works |= {task.name: (lambda task=task: meter.rate(task)) for task in TASKS}  # type: ignore[misc]
    yield from ((name, works[name]) for name in todo)


def names() -> tuple[str, ...]:
    """Return everything that can be measured, in the order of a certificate."""
    return ("launch", "bandwidth", *(task.name for task in TASKS))
