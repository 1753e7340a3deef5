"""Golden calls of the product's bundles, many in one child: a new child goes on after a call that ended one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.bundles.files import open_file
from aiter_prebuilt.certificate.child import Say, lines
from aiter_prebuilt.contract.calls import Call, CallsError, read
from aiter_prebuilt.contract.provenance import left_out
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import NoBundleError, NoKernelError, WorkerError
from aiter_prebuilt.execute.golden import is_usable
from aiter_prebuilt.execute.run import failed, named, run
from aiter_prebuilt.launch import dispatch

if TYPE_CHECKING:
    from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
    from aiter_prebuilt.devices.device import DeviceFacts


@dataclass(frozen=True, slots=True)
class Golden:
    """The golden calls of a device. ``missing``: operators without one; ``problems``: of files; ``lacking``: operators of which
    the bundle lacks kernels because it was made of a checkout; ``trees``: own bundles, whose calls are not among them.
    """

    calls: tuple[Call, ...]
    missing: tuple[str, ...]
    problems: tuple[str, ...]
    lacking: frozenset[str]
    trees: int


def product(facts: DeviceFacts) -> tuple[InstalledBundle, ...]:
    """Return the bundles of the product that serve a device; own bundles of the site are not among them.

    Raises:
        NoBundleError: there is none.
    """
    found = tuple(
        each for each in locate.for_target(facts.arch, locate.installed(), str(facts)) if not each.tree
    )
    if not found:
        raise NoBundleError(
            f"certify {facts}",
            "only own bundles serve it",
            "For all that is installed: aiter-prebuilt doctor",
        )
    return found


def golden(facts: DeviceFacts, operators: Sequence[str] = ()) -> Golden:
    """Read the golden calls of a device, each once, sorted by operator.

    Args:
        facts: the device.
        operators: only theirs, where some are named.

    Raises:
        NoBundleError, BundleDamagedError: no bundle of the product serves the device, or one cannot be read.
    """
    serving = product(facts)
    opened = [opening.read_bundle(each) for each in serving]
    names = {name for bundle in opened for name in bundle.names}
    names = names.intersection(operators) if operators else names
    found: dict[tuple[str, str], Call] = {}
    problems = []
    for bundle in serving:
        try:
            with open_file(bundle.calls) as stream:
                for call in read(stream, opening.decompress):
                    if call.operator in names:
                        found.setdefault((call.operator, call.label), call)
        except (OSError, CallsError) as error:
            problems.append(f"the golden calls of {bundle.target} ({bundle.profile}) cannot be read: {error}")
    lacking = frozenset(name for bundle in opened for name in left_out(bundle.root.provenance))
    have = {operator for operator, _ in found}
    trees = {each.tree for each in locate.installed() if each.tree and each.target == facts.target}
    calls = tuple(found[key] for key in sorted(found))
    return Golden(calls, tuple(sorted(names - have)), tuple(problems), lacking, len(trees))


def executed(
    calls: Sequence[Call], facts: DeviceFacts, path: str, over: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """Execute calls one after the other; yield a line for each (``schemas/execute.json``), in their order.

    Args:
        calls: what to execute.
        facts: the device.
        path: of its driver.
        over: is the time spent? No call is begun then.
    """
    place = 0
    while place < len(calls) and not over():
        left, before = calls[place:], place
        try:
            for row in lines(partial(_execute, left, facts, path, over)):
                yield row
                place += 1
        except WorkerError as error:
            # The call that had no line yet ended the child.
            yield failed(
                calls[place], (named(facts, path), facts.target), f"it ended its process: {error.found}"
            ).line()
            place += 1
        if place == before:
            return


def _execute(
    calls: Sequence[Call], facts: DeviceFacts, path: str, over: Callable[[], bool], say: Say
) -> None:
    """Execute calls in this process until the time is spent, or a fault leaves the device unusable for it."""
    device.probe(facts.vendor)
    bundles = opening.usable(product(facts), opening.open_bundle)
    for call in calls:
        if over():
            return
        # As if the device had the compute units that it has: operators are made anew for these bundles alone.
        with dispatch.only(bundles):
            done = run(replace(call, compute_units=call.compute_units or facts.compute_units), facts, path)
        say(done.line())
        if done.problems and not is_usable(facts, path):
            return


def is_left_out(line: dict[str, Any], lacking: frozenset[str]) -> bool:
    """Did no kernel take a call, where a bundle says that it lacks some of the operator's?"""
    refused = any(problem.startswith(f"{NoKernelError.__name__}: ") for problem in line["problems"])
    return refused and line["operator"] in lacking


def operators(facts: DeviceFacts) -> frozenset[str]:
    """Return the operators in the product's bundles of a device."""
    return frozenset(name for each in product(facts) for name in opening.read_bundle(each).names)
