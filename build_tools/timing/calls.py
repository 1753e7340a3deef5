"""The predicted time of each candidate of a call: one of its workgroups on the emulator, rounds and memory around it.

A tuned row of a table of our own makes the runtime take a candidate, as a user's would. A sample is executed and no more, so that
a call of any size takes a second or less.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract import tuned_grammar
from build_tools.errors import ExecutorError, UsageError
from build_tools.files.run import converse
from build_tools.timing.model import Constants, Work, matrix, predict, xcds

#: Workgroups of each launch that are executed: the model takes the longest class of them.
SAMPLE: Final = 2
#: Instructions of a wave: a workgroup that waits for one that is not executed would not end.
_LIMIT: Final = 50_000_000
_MEASURED: Final = "a tuned row decides it"
_NO_TYPES: Final = "tuned rows name types, and it has none"


@dataclass(frozen=True, slots=True)
class Place:
    """The sources, bundles and emulator of a prediction."""

    root: Path
    bundles: tuple[Path, ...]
    library: Path

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Build the environment of children."""
        return {
            "PYTHONPATH": str(self.root / "src"),
            "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, self.bundles)),
            "AITER_PREBUILT_HIP": str(self.library),
            **more,
        }


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call: ``settings`` are the words of ``aiter-prebuilt explain``."""

    operator: str
    target: str
    cus: int
    settings: Mapping[str, str]

    @property
    def words(self) -> list[str]:
        """``M=64``."""
        return [f"{name}={value}" for name, value in self.settings.items()]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel's variant that takes the call. ``us``: predicted. ``chosen``: by the cost rule."""

    kernel: str
    variant: str
    us: float
    chosen: bool


@dataclass(frozen=True, slots=True)
class Predicted:
    """``symbols`` and ``types`` of the call; its ``candidates``, the fastest first; none, and ``left``: why nothing is predicted.
    ``failed``: those that did not come to an end, such as kernels whose workgroups wait for others.
    """

    asked: CallRequest
    symbols: Mapping[str, int]
    types: str
    left: str
    candidates: Sequence[Candidate]
    failed: Sequence[str] = ()

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield rows of a tuned table.

        The first one decides, the others are there for the reader.
        """
        head = (self.asked.target, str(self.asked.cus), *map(str, self.symbols.values()))
        for each in self.candidates:
            note = f"{tuned_grammar.MODELLED}; the cost rule's" if each.chosen else tuned_grammar.MODELLED
            yield (*head, each.kernel, each.variant, self.types, f"{each.us:.1f}", note)


def explained(place: Place, asked: CallRequest) -> dict[str, Any]:
    """Explain a call with ``aiter-prebuilt explain``.

    Raises:
        ExecutorError: the runtime refuses the call.
    """
    words = [asked.operator, *asked.words, "--target", asked.target, "--cus", str(asked.cus)]
    return _said(place, ["explain", *words], {})


def predicted(place: Place, asked: CallRequest, constants: Constants) -> Predicted:
    """Predict the times of one call's candidates.

    Raises:
        ExecutorError: the runtime refuses the call.
    """
    said = explained(place, asked)
    call, decisions = said["call"], [each for each in said["decisions"] if each["accepted"]]
    types = "_".join(call["types"].values())
    if any(each["tuned"] for each in decisions) or not types:
        why = _MEASURED if types else _NO_TYPES
        return Predicted(asked, call["symbols"], types, why, ())
    candidates, failed = [], []
    for each in decisions:
        try:
            us = _time(place, asked, call["symbols"], types, each, constants)
        except ExecutorError as error:
            failed.append(f"{each['kernel']}[{each['variant']}]: {error.found}")
            continue
        candidates.append(Candidate(each["kernel"], each["variant"], us, each["chosen"]))
    candidates.sort(key=lambda each: (each.us, each.kernel, each.variant))
    return Predicted(asked, call["symbols"], types, "", candidates, failed)


def _time(
    place: Place,
    asked: CallRequest,
    symbols: Mapping[str, int],
    types: str,
    decision: Mapping[str, Any],
    constants: Constants,
) -> float:
    with tempfile.TemporaryDirectory() as folder:
        row = (
            asked.target,
            str(asked.cus),
            *map(str, symbols.values()),
            decision["kernel"],
            decision["variant"],
            types,
            "",
        )
        table = Path(folder, f"{asked.operator}.csv")
        table.write_text(tuned_grammar.write(asked.operator, tuple(symbols), [row]), encoding="utf-8")
        timing = Path(folder, "timing.json")
        environment = {
            "AITER_PREBUILT_TUNED": str(table),
            "AITER_PREBUILT_EMULATOR": f"{asked.target}:cus={asked.cus}:memory=64G",
            "AITER_PREBUILT_EMULATOR_CHECKS": "permissive",
            "AITER_PREBUILT_EMULATOR_LIMIT": str(_LIMIT),
            "AITER_PREBUILT_EMULATOR_THREADS": "1",
            "AITER_PREBUILT_EMULATOR_TIMING": str(timing),
            "AITER_PREBUILT_EMULATOR_SAMPLE": str(SAMPLE),
        }
        done = _said(place, ["bench", asked.operator, *asked.words, "--repeat", "1"], environment)
        launches = json.loads(timing.read_text(encoding="utf-8"))["launches"]
    return time_of(launches[: len(launches) // 2], done["tensor_bytes"], constants)  # bench calls twice


def time_of(launches: Sequence[Mapping[str, Any]], tensor_bytes: int, constants: Constants) -> float:
    """Microseconds of a call's launches, one after the other."""
    return float(sum(predict(constants, matrix([_work(launch, tensor_bytes) for launch in launches]))))


def _work(launch: Mapping[str, Any], tensor_bytes: int) -> Work:
    """Take the longest of the executed workgroups for all."""
    longest = max(launch["classes"], key=lambda each: each["cycles"])
    across, down, deep = launch["grid"]
    groups, cus = across * down * deep, launch["compute_units"]
    resident = min(groups, cus)
    own = longest["missed_bytes"]
    on_first = -(-resident // min(xcds(cus), resident))
    return Work(
        rounds=-(-groups // (cus * launch["resident"])),
        cycles=longest["cycles"],
        near=own * groups / resident * on_first,
        shared=min(own * _panels(launch["grid"], resident, xcds(cus)) / 2, tensor_bytes) * groups / resident,
        memory=min(own * groups, tensor_bytes),
        added=0,
        split=0,
        load=resident / cus,
    )


def _panels(grid: Sequence[int], resident: int, every: int) -> float:
    """Estimate the operand panels that an XCD reads in a round.

    Each workgroup asks for one of each operand: neighbours in a row share one, those in a column the other. A grid of one
    dimension is dealt out as squares.
    """
    across, down, deep = grid
    ids = range(0, resident, every)
    if across == 1 or down == 1:
        return 2.0 * (len(ids) / deep) ** 0.5 * deep if len(ids) > deep else 2.0 * len(ids)
    return len({each // across for each in ids}) + len(
        {(each % across, each // across // down) for each in ids}
    )


def _said(place: Place, words: Sequence[str], more: Mapping[str, str]) -> dict[str, Any]:
    """Run a verb of ``aiter-prebuilt`` with ``--json``."""
    lines = []
    with converse(
        [sys.executable, "-m", "aiter_prebuilt", *words, "--json"],
        cwd=place.root,
        env=place.environment(more),
    ) as child:
        while (line := child.ask(b"")) is not None:
            lines.append(line)
        last = child.last_words()
    try:
        document: dict[str, Any] = json.loads("".join(lines))
    except ValueError:
        raise ExecutorError(
            f"run aiter-prebuilt {' '.join(words)}", last or "nothing was printed", "Correct the call"
        ) from None
    return document


def asked_of(call: str, target: str, cus: int) -> CallRequest:
    """``gemm_a4w4_asm M=64 N=4096``.

    Raises:
        UsageError: it is not of this form.
    """
    name, *words = call.split() or [""]
    pairs = [word.partition("=") for word in words]
    if not name or "=" in name or not all(equals and value for _, equals, value in pairs):
        raise UsageError(
            f"read the call {call!r}",
            "it is not OPERATOR SYMBOL=VALUE...",
            "Write 'gemm_a16w16 M=17 N=4096 T=bf16'",
        )
    return CallRequest(name, target, cus, {symbol: value for symbol, _, value in pairs})


def tables(made: Iterable[Predicted]) -> Iterator[tuple[str, str]]:
    """(file, text) of each operator that has rows; operators whose calls have other symbols than the first are refused.

    Raises:
        UsageError: calls of one operator say different symbols.
    """
    groups: dict[str, list[Predicted]] = {}
    for each in made:
        if each.candidates:
            groups.setdefault(each.asked.operator, []).append(each)
    for operator, calls in sorted(groups.items()):
        symbols = tuple(calls[0].symbols)
        if any(tuple(each.symbols) != symbols for each in calls):
            raise UsageError(
                f"write a table of {operator}",
                "its calls say different symbols",
                "Write them in runs of their own",
            )
        rows = list(dict.fromkeys(row for each in calls for row in each.rows))
        yield f"{operator}.csv", tuned_grammar.write(operator, symbols, rows, tuned_grammar.NOTES)
