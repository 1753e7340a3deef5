"""``aiter-prebuilt certify``: prove and measure a card in about five minutes, and write a file and a page to send back."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.bundles.extras import emulated
from aiter_prebuilt.certificate import ceilings, golden_calls
from aiter_prebuilt.certificate.anonymous import public_version
from aiter_prebuilt.certificate.child import Say, lines
from aiter_prebuilt.certificate.document import INCOMPLETE, WRONG, Certificate, bundles_of, card_of
from aiter_prebuilt.certificate.page import rows_of
from aiter_prebuilt.commands import doctor
from aiter_prebuilt.commands.output import print_json, print_table, wrapped
from aiter_prebuilt.contract.error_text import did_you_mean
from aiter_prebuilt.errors import (
    INTERRUPTED,
    ArgumentError,
    NoDeviceError,
    NoOperatorError,
    UnfinishedError,
    WorkerError,
)
from aiter_prebuilt.launch import user_tables
from aiter_prebuilt.tuning import workers

if TYPE_CHECKING:
    from aiter_prebuilt.devices.device import DeviceFacts

HELP = "prove and measure a card in five minutes, and write a file to send back"
EXAMPLE = "aiter-prebuilt certify --output certificate"
_FOLDER: Final = "certificate"
_SECONDS: Final = 300.0
#: Share of the time after which no golden call begins, so that the card is measured, too.
_GOLDEN_SHARE: Final = 0.7
#: Golden calls after which the file is written again.
_EVERY: Final = 25


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "--output", type=Path, default=Path(_FOLDER), metavar="FOLDER",
        help=f"folder of certify.json and certify.html; an earlier run is continued ({_FOLDER})",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=_SECONDS, help=f"begin nothing after so many seconds ({_SECONDS:g}); run again to go on"
    )  # fmt: skip
    parser.add_argument(
        "--operator", action="append", default=[], metavar="NAME", help="golden calls of this operator only; may be repeated"
    )  # fmt: skip
    parser.add_argument("--device", type=int, metavar="N", help="ordinal of the device; the first otherwise")


def execute(options: argparse.Namespace) -> int:
    """Execute, measure and write; 0 when all is right, 1 when something is wrong, 130 after Ctrl-C.

    Raises:
        NoDeviceError: no GPU that a bundle serves. UnfinishedError: nothing is wrong, and the time ended.
        ArgumentError: a bound is none, or the folder holds the certificate of another card.
    """
    started = time.monotonic()
    if not options.seconds >= 0:
        raise ArgumentError(
            "certify", f"--seconds must be 0 or more, not {options.seconds:g}", f"For example: --seconds {_SECONDS:g}"
        )  # fmt: skip
    # A certificate is about the product: tables of this site would choose other kernels.
    for name in (user_tables.VARIABLE, "AITER_PREBUILT_MISS_LOG", "AITER_PREBUILT_TRACE"):
        os.environ.pop(name, None)
    facts, path = _device(options.device)
    certificate = _begun(options, facts, path)
    before = certificate.seconds
    interrupted = False
    try:
        _fill(certificate, facts, path, started, options.seconds)
    except KeyboardInterrupt:
        interrupted = True
    certificate.seconds = before + time.monotonic() - started
    certificate.write()
    _report(certificate, as_json=options.json)
    if interrupted:
        return INTERRUPTED
    if certificate.verdict == INCOMPLETE:
        raise UnfinishedError(
            "certify", f"not done within {options.seconds:g} seconds: {'; '.join(certificate.not_done)}", _again(options)
        )  # fmt: skip
    return 1 if certificate.verdict == WRONG else 0


def _again(options: argparse.Namespace) -> str:
    folder = "" if options.output == Path(_FOLDER) else f" --output {options.output}"
    return f"Run it again to go on: aiter-prebuilt certify{folder}"


def _device(ordinal: int | None) -> tuple[DeviceFacts, str]:
    """Find the device to certify, without opening a driver in this process."""
    found, path = workers.probe()
    targets = {bundle.target for bundle in locate.installed() if not bundle.tree}
    served = [each for each in found if each.target in targets and ordinal in (None, each.ordinal)]
    if not served:
        raise NoDeviceError(
            "certify a card" if ordinal is None else f"certify device {ordinal}",
            "no driver reports one that an installed bundle serves",
            f"Use the emulator: {emulated('aiter-prebuilt certify')}",
        )
    return served[0], path


def _begun(options: argparse.Namespace, facts: DeviceFacts, path: str) -> Certificate:
    """Make the certificate of a device, with what an earlier run left."""
    known = golden_calls.operators(facts)
    unknown = next((name for name in options.operator if name not in known), None)
    if unknown is not None:
        hint = f"{did_you_mean(unknown, known)}List all: aiter-prebuilt list --target {facts.target}"
        raise NoOperatorError("", f"No operator {unknown!r}", hint)
    golden = golden_calls.golden(facts, options.operator)
    made = Certificate(
        options.output, card_of(facts, path), bundles_of(facts), golden, tuple(sorted(set(options.operator)))
    )
    done = made.resume()
    where = (
        f"{facts}{', the embedded device: its times say nothing of a card' if made.card['embedded'] else ''}"
    )
    text = f"{len(golden.calls)} golden calls and {len(ceilings.names())} measurements on {where}; {done} are done"
    _progress("\n".join(wrapped(text)))
    return made


def _fill(made: Certificate, facts: DeviceFacts, path: str, started: float, seconds: float) -> None:
    """Do all that is left, as far as the time goes."""
    made.doctor = _doctor()
    made.write()
    _golden(made, facts, path, lambda: time.monotonic() > started + _GOLDEN_SHARE * seconds)
    _measure(made, facts, path, lambda: time.monotonic() > started + seconds)
    # What the measurements left of their time.
    _golden(made, facts, path, lambda: time.monotonic() > started + seconds)


def _golden(made: Certificate, facts: DeviceFacts, path: str, over: Callable[[], bool]) -> None:
    left = made.calls_left
    for number, line in enumerate(golden_calls.executed(left, facts, path, over), start=1):
        made.add(line)
        wrong = bool(line["problems"]) and not golden_calls.is_left_out(line, made.golden.lacking)
        if wrong or number % _EVERY == 0 or number == len(left):
            said = f": {line['operator']} {line['label']} is WRONG" if wrong else ""
            _progress(f"[{len(made.lines)}/{len(made.golden.calls)}] golden calls{said}")
            made.write()


def _measure(made: Certificate, facts: DeviceFacts, path: str, over: Callable[[], bool]) -> None:
    """Measure what is left; what ends its process is written down, and the rest goes on in another."""
    while (todo := made.measures_left) and not over():
        begun = ""
        try:
            for line in lines(lambda say, todo=todo: ceilings.measure(facts, path, todo, over, say)):  # type: ignore[misc]
                begun = line.get("begin", begun)
                if "state" in line:
                    made.states.append(line["state"])
                if "name" in line:
                    made.measured[line["name"]] = {"found": line["found"], "problem": line["problem"]}
                    _progress(f"measured {line['name']}")
                    made.write()
        except WorkerError as error:
            # Without a beginning the card itself does not open: nothing can be measured.
            for name in [begun] if begun else todo:
                made.measured[name] = {"found": None, "problem": error.found}
            _progress(f"{begun or 'the card'}: {error.found}")


def _doctor() -> dict[str, Any]:
    """Return what ``doctor`` finds, without paths: in a child, since it opens the drivers."""

    def work(say: Say) -> None:
        found = doctor.examine()
        say({
            "runtime": found["runtime"], "contract": found["contract"], "python": found["python"],
            "torch": public_version(found["torch"]), "system": f"{platform.system()} {platform.machine()}",
            "drivers": [{key: each[key] for key in ("vendor", "version")} for each in found["drivers"] if not each["error"]],
            "devices": [f"{each['name']}, {each['arch']}, {each['compute_units']} CUs" for each in found["devices"]],
            "bridge": bool(found["bridge"]), "settings": sorted(found["environment"]),
            "problems": found["problems"], "warnings": found["warnings"],
        })  # fmt: skip

    with suppress(StopIteration):
        return next(lines(work))
    return {}


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _report(made: Certificate, *, as_json: bool) -> None:
    document = made.as_json()
    if as_json:
        print_json(
            "certify", {key: value for key, value in document.items() if key not in ("version", "verb")}
        )
        return
    print_table(["measured", "result"], rows_of(document))
    for text in (*made.wrong, *(f"not done: {each}" for each in made.not_done)):
        print("\n".join(wrapped(text)))
    print(f"Verdict: {made.verdict}")
    for path in made.files:
        print(f"written: {path}")
