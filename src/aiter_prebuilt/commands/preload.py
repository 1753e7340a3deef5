"""``aiter-prebuilt preload``: load every kernel on the devices here, and say how long it took and what failed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.commands.output import print_json, print_table, wrapped
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import AiterPrebuiltError, NoDeviceError
from aiter_prebuilt.launch import dispatch, loading

HELP = "load every kernel on the devices here, and time it"
EXAMPLE = "aiter-prebuilt preload rms_norm tgemm"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One operator on one device. ``code_objects``: new ones; those that an earlier operator has too are counted there."""

    operator: str
    device: str
    target: str
    code_objects: int
    seconds: float
    problem: str

    @property
    def ok(self) -> bool:
        """True when everything was loaded."""
        return not self.problem


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="functions or operators; every operator when none is named"
    )
    parser.add_argument("--target", help="only devices of this target")
    parser.add_argument("--operator", help="only this operator")


def execute(options: argparse.Namespace) -> int:
    """Print what was loaded; 0 when all was, 1 when something was refused, 3 when no device here is served by a bundle."""
    served = list(_served(options.target))
    names = (*options.names, *((options.operator,) if options.operator else ()))
    rows = list(load_all(served, options.names, options.operator))
    code = NoDeviceError.exit_code if not served else 0 if all(row.ok for row in rows) else 1
    if options.json:
        print_json("preload", {"ok": code == 0, "loaded": [{**asdict(row), "ok": row.ok} for row in rows]})
        return code
    if served and not rows:
        print(f"{', '.join(names)}: nothing to load, since these launch no kernel")
    if not served:
        print(
            "No GPU is here that an installed bundle serves. Nothing was loaded.\nSee: aiter-prebuilt doctor"
        )
    for where in dict.fromkeys(row.device for row in rows):
        mine = [row for row in rows if row.device == where]
        count, seconds = sum(row.code_objects for row in mine), sum(row.seconds for row in mine)
        print("\n".join(wrapped(f"{where}: {count} code objects in {seconds:.3f} s")))
        print_table(
            ["operator", "code objects", "ms", "verdict"],
            [
                (
                    row.operator,
                    row.code_objects,
                    f"{row.seconds * 1e3:.1f}",
                    "loaded" if row.ok else row.problem,
                )
                for row in mine
            ],
        )
    return code


def load_all(
    devices: Iterable[device.DeviceFacts], names: Sequence[str], operator: str | None
) -> Iterator[Loaded]:
    """Load what the names stand for and the one operator, all when neither is given; one that fails hides no other."""
    for facts in devices:
        alone = (operator,) if operator else ()
        behind = () if alone and not names else loading.wanted(names, facts.vendor, facts.ordinal)
        for name in dict.fromkeys((*behind, *alone)):
            yield _load(name, facts)


def _served(target: str | None) -> Iterator[device.DeviceFacts]:
    """Yield the devices here that an installed bundle serves.

    Of one target when it is named.
    """
    served = locate.served_targets(locate.installed())
    for vendor in device.VENDORS:
        for facts in device.probe(vendor).devices:
            if facts.target in served and target in (None, facts.target):
                yield facts


def _load(name: str, facts: device.DeviceFacts) -> Loaded:
    made = dispatch.operator(name)
    before = made.stats()["modules_loaded"]
    problem = ""
    start = time.perf_counter()
    try:
        made.preload(facts.vendor, facts.ordinal)
    except AiterPrebuiltError as error:
        problem = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    return Loaded(name, str(facts), facts.target, made.stats()["modules_loaded"] - before, seconds, problem)
