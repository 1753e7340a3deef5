"""``aiter-prebuilt tune``: time the candidates of calls on the cards here, and write the tables that a server reads."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.bundles.extras import emulated
from aiter_prebuilt.commands.coverage import model_calls
from aiter_prebuilt.commands.explain import settings_of
from aiter_prebuilt.commands.output import print_json, print_table, wrapped
from aiter_prebuilt.errors import INTERRUPTED, ArgumentError, NoDeviceError, by_reason
from aiter_prebuilt.execute.run import embedded
from aiter_prebuilt.inspection import call_forms
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt.tuning import calls as tune_calls
from aiter_prebuilt.tuning import workers
from aiter_prebuilt.tuning.outcome import Limits
from aiter_prebuilt.tuning.tables import TableFolder, place_of

if TYPE_CHECKING:
    from aiter_prebuilt.devices.device import DeviceFacts
    from aiter_prebuilt.tuning.calls import LeftOut, TuneCall
    from aiter_prebuilt.tuning.outcome import Measured

HELP = "time every kernel that takes a call, and write the table that AITER_PREBUILT_TUNED reads"
EXAMPLE = "aiter-prebuilt tune rms_norm M=7 N=2880"
_FOLDER: Final = "tuned"
_SPREAD: Final = 5.0


@dataclass(slots=True)
class _Report:
    """The outcome of a run. ``rows``: calls that were measured; ``left``: how many were not; ``wrong``: one has no row that
    should have one; ``interrupted``: by Ctrl-C.
    """

    left_out: list[LeftOut]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    left: int = 0
    wrong: bool = False
    interrupted: bool = False


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "operator", nargs="?", help="gemm_a16w16, for example; left out with --misses or --model"
    )
    parser.add_argument(
        "call", nargs="*", metavar="SYMBOL=VALUE", help="as for explain: M=17 N=4096 K=4096 T=bf16 bias=none"
    )
    parser.add_argument(
        "--misses", type=Path, metavar="FILE", help="the calls of a file that AITER_PREBUILT_MISS_LOG wrote"
    )
    parser.add_argument(
        "--model", help="the calls of a model's steps: llama3, qwen3moe, deepseek_v3 or gptoss"
    )
    parser.add_argument(
        "--tp", type=int, default=1, help="with --model: GPUs that share the model; 1 when left out"
    )
    parser.add_argument("--engine", help="with --model: only calls of vllm or sglang")
    parser.add_argument(
        "--output", type=Path, default=Path(_FOLDER), metavar="FOLDER",
        help=f"folder of the tables; an earlier run's are continued ({_FOLDER})",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, help="begin no call after so many seconds; run again to go on"
    )
    parser.add_argument(
        "--spread", type=float, default=_SPREAD, help="percent that the times of a winner may spread (5)"
    )
    parser.add_argument(
        "--warm", action="store_true", help="rank by times with inputs in the cache, not out of it"
    )
    parser.add_argument(
        "--device",
        type=int,
        action="append",
        metavar="N",
        help="ordinal of a device; may be repeated; all equal ones otherwise",
    )


def execute(options: argparse.Namespace) -> int:
    """Measure and write; 0 when each call that was begun has its row or nothing to choose, 1 when one could not be finished,
    130 after Ctrl-C.

    Raises:
        NoDeviceError: no GPU that a bundle serves. ArgumentError: no call is named, or one that does not exist; a bound is none.
        OtherTableError: the folder has a table of another device, driver or bundle.
    """
    started = time.monotonic()
    _refuse_bounds(options.seconds, options.spread)
    devices, path = _devices(options.device)
    facts = devices[0]
    calls, left_out = _calls(options, facts)
    bundles = dispatch.bundles_of(facts.arch, str(facts))
    tables = TableFolder(options.output, place_of(facts, bundles))
    todo = [call for call in calls if call.words not in tables.done]
    begin = f"{len(calls)} calls on {_where(devices, path)}; {len(calls) - len(todo)} have a row already"
    _progress("\n".join(wrapped(begin)))
    deadline = None if options.seconds is None else started + options.seconds
    # Every time of the embedded device spreads, and says nothing.
    limits = Limits(math.inf if embedded(path) else options.spread / 100, deadline, not options.warm)
    report = _Report(left_out)
    _measure(report, todo, [workers.Worker(each, path, limits) for each in devices], tables)
    if options.json:
        _print_document(report, tables, devices, path, len(calls) - len(todo))
    else:
        _print(report, tables, options.output)
    return INTERRUPTED if report.interrupted else 1 if report.wrong else 0


def _refuse_bounds(seconds: float | None, spread: float) -> None:
    """Refuse bounds below 0 and those that nothing is compared with.

    Raises:
        ArgumentError: it is one of them.
    """
    for option, value, example in (("seconds", seconds, "600"), ("spread", spread, f"{_SPREAD:g}")):
        if value is not None and not value >= 0:
            raise ArgumentError(
                "tune", f"--{option} must be 0 or more, not {value:g}", f"For example: --{option} {example}"
            )


def _devices(asked: Sequence[int] | None) -> tuple[list[DeviceFacts], str]:
    """Find the devices to share the work: those that were named, or all that are as the first one that a bundle serves."""
    found, path = workers.probe()
    targets = {bundle.target for bundle in locate.installed()}
    served = [each for each in found if each.target in targets]
    if asked:
        missing = sorted(set(asked) - {each.ordinal for each in served})
        if missing:
            raise NoDeviceError(
                f"tune on device {missing[0]}",
                "no driver reports it, or no bundle serves it",
                "For all: aiter-prebuilt doctor",
            )
        served = [each for each in served if each.ordinal in asked]
    if not served:
        raise NoDeviceError(
            "find a device", "no driver reports one that an installed bundle serves",
            f"Use the emulator: {emulated('aiter-prebuilt tune ...')}",
        )  # fmt: skip
    alike = [each for each in served if _kind(each) == _kind(served[0])]
    if asked and len(alike) < len(served):
        other = next(each for each in served if each not in alike)
        raise ArgumentError(
            "tune",
            f"{served[0]} and {other} are not alike, and a table is of one kind",
            "Name devices of one kind",
        )
    return alike, path


def _kind(facts: DeviceFacts) -> tuple[str, str, int]:
    return facts.name, facts.arch, facts.compute_units


def _calls(options: argparse.Namespace, facts: DeviceFacts) -> tuple[list[TuneCall], list[LeftOut]]:
    """Return the calls to tune, and those that cannot be."""
    given = [bool(options.operator), options.misses is not None, options.model is not None]
    if sum(given) != 1:
        raise ArgumentError(
            "tune", "it takes one of a call, --misses and --model" + ("" if any(given) else "; none was given"),
            f"For example: {EXAMPLE}",
        )  # fmt: skip
    if options.operator:
        return [tune_calls.described(options.operator, settings_of("tune", options.call), facts)], []
    if options.misses is not None:
        return tune_calls.of_miss_log(options.misses, facts)
    forms = call_forms.load()
    ranks = forms.models[options.model].ranks if options.model in forms.models else (options.tp,)
    if options.tp not in ranks:
        raise ArgumentError(
            "tune",
            f"{options.model} is not shared by {options.tp} GPUs",
            f"Write one of: --tp {', '.join(map(str, ranks))}",
        )
    chosen = [
        each for each in model_calls(forms, options.model, options.engine)
        if not (each.form.missing or each.form.through or each.form.host)
        and (not each.form.targets or facts.target in each.form.targets)
    ]  # fmt: skip
    public = [forms.call(each, facts.target, options.tp) for each in chosen]
    return tune_calls.of_public_calls(public, facts)


def _measure(
    report: _Report, todo: Sequence[TuneCall], cards: Sequence[workers.Worker], tables: TableFolder
) -> None:
    """Add each call to the report, and its row to its table, as soon as it is measured. Ctrl-C ends this early."""
    report.left = len(todo)
    try:
        _add_each(report, todo, cards, tables)
    except KeyboardInterrupt:
        report.interrupted = True


def _add_each(
    report: _Report, todo: Sequence[TuneCall], cards: Sequence[workers.Worker], tables: TableFolder
) -> None:
    deadline = cards[0].limits.deadline if cards else None
    for done in workers.measured(todo, cards, lambda: deadline is not None and time.monotonic() > deadline):
        if done.late:
            continue
        report.left -= 1
        note = ""
        if done.found.best is not None:
            note = tables.add(done.found, done.state.clock_mhz)
        elif not _nothing_to_choose(done.found):
            report.wrong = True
        report.notes.update(dict.fromkeys(done.state.notes))
        report.rows.append({**asdict(done.found), "clock_mhz": done.state.clock_mhz, "note": note})
        _progress(f"[{len(report.rows)}/{len(todo)}] {_line(done.found)}")


def _nothing_to_choose(found: Measured) -> bool:
    return (
        len(found.candidates) < 2
        and not any(each.problem for each in found.candidates)
        and bool(found.symbols)
    )


def _line(found: Measured) -> str:
    """One call in a line: the winner, and what it won."""
    if found.best is None:
        return f"{found.words}: {found.problem}"
    best, default = found.candidates[found.best], found.default
    text = f"{found.words}: {best.kernel}[{best.variant}] {best.cold_us:.1f} us"
    if best.default:
        return f"{text}, the default"
    if default is None or not default.cold_us or default.problem:
        return f"{text}; the default {'is ' + default.problem if default and default.problem else 'was not timed'}"
    return f"{text}, {default.cold_us / (best.cold_us or 1.0):.2f} times as fast as {default.kernel}[{default.variant}]"


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _where(devices: Sequence[DeviceFacts], path: str) -> str:
    first = devices[0]
    name = f"{len(devices)} times {first.name}" if len(devices) > 1 else str(first)
    return f"{name}, the embedded device: its times say nothing of a card" if embedded(path) else name


def _print_document(
    report: _Report, tables: TableFolder, devices: Sequence[DeviceFacts], path: str, before: int
) -> None:
    first = devices[0]
    print_json(
        "tune",
        {
            "device": first.name, "target": first.target, "cus": first.compute_units, "cards": len(devices),
            "embedded": embedded(path), "driver": str(first.driver_version), "tables": tables.files, "before": before,
            "left": report.left, "notes": list(report.notes), "calls": report.rows,
            "left_out": [asdict(each) for each in report.left_out],
        },
    )  # fmt: skip


def _print(report: _Report, tables: TableFolder, folder: Path) -> None:
    rows = [_winner(row) for row in report.rows if row["best"] is not None]
    if rows:
        print_table(["call", "default us", "best us", "ratio", "kernel"], rows)
    for line in (*_thrown_out(report), *_left_out(report), *(f"Note: {note}" for note in report.notes)):
        print("\n".join(wrapped(line)))
    if report.interrupted:
        count = len(report.rows)
        print(f"Interrupted after {count} of {count + report.left} calls. What was measured is written.")
    if report.left:
        print(f"{_calls_are(report.left)} left. Run the same command again to go on.")
    for path in tables.files:
        print(f"table: {path}")
    if tables.files:
        print(f"Use them: AITER_PREBUILT_TUNED={folder}")


def _calls_are(count: int) -> str:
    return "1 call is" if count == 1 else f"{count} calls are"


def _winner(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Build the table's line of a finished call."""
    best = row["candidates"][row["best"]]
    default = next((each for each in row["candidates"] if each["default"]), None)
    was = default["cold_us"] if default and not default["problem"] else None
    ratio = f"{was / best['cold_us']:.2f}" if was else ""
    kernel = f"{best['kernel']}[{best['variant']}]"
    return row["words"], f"{was:.1f}" if was else "", f"{best['cold_us']:.1f}", ratio, kernel


def _thrown_out(report: _Report) -> Iterator[str]:
    """Yield a line for each wrong candidate, each call without a row, and each row that says too little."""
    for row in report.rows:
        for each in row["candidates"]:
            if each["problem"]:
                yield f"thrown out for {row['words']}: {each['kernel']}[{each['variant']}]: {each['problem']}"
        for text in filter(None, (row["problem"], row["note"])):
            yield f"{row['words']}: {text}"


def _left_out(report: _Report) -> Iterator[str]:
    """Yield the calls that cannot be tuned, or a line for each reason where they are many."""
    for line in by_reason([(each.words, each.problem) for each in report.left_out]):
        yield f"left out: {line.replace('candidates', 'calls')}"
