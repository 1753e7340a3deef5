"""The golden calls: one or a few small calls of each operator, which travel in a bundle's wheel as a file beside the bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import aiter_prebuilt
from aiter_prebuilt.bundles import locate, opening, own_bundles
from aiter_prebuilt.bundles.files import open_file
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract.calls import Call, CallsError, read
from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import DriverError
from aiter_prebuilt.execute.run import Execution, failed, named, run
from aiter_prebuilt.launch import dispatch

if TYPE_CHECKING:
    from aiter_prebuilt._native import Bundle


def execute(facts: DeviceFacts, path: str) -> Iterator[Execution]:
    """Run the golden calls of every operator that a device's bundles have, one after the other in this process; ``path`` is its
    driver's (``DriverFacts.path``). An operator without one is an :class:`Execution` with a problem, and so is a file of calls
    that is not there, or damaged, when other files have calls of all operators.

    The bundles of the product serve its calls, and those of each tree the tree's, last. A tree whose calls are wrong, or end this
    process, is refused by all processes of this user until this finds it right.

    Raises:
        NoBundleError, BundleDamagedError: no bundle serves the device, or one cannot be read.
    """
    serving = locate.for_target(facts.arch, locate.installed(), str(facts))
    trees = dict.fromkeys(bundle.tree for bundle in serving)
    if not any(trees):
        yield from _group(serving, dispatch.bundles_of(facts.arch, str(facts)), facts, path, None)
        return
    groups = []
    for tree in trees:
        mine = [bundle for bundle in serving if bundle.tree == tree]
        opened = opening.usable(mine, partial(opening.open_bundle, unmarked=True))
        groups.append((any(own_bundles.marked(bundle.header) for bundle in opened), tree, mine, opened))
    lost = ""
    for _, tree, mine, opened in sorted(groups, key=lambda group: (bool(group[1]), group[0])):
        if lost:
            said = f"it was not executed: the golden calls of {lost} left the device unusable. Verify again"
            yield failed(
                Call(f"golden calls of {tree}", "", {}, ()), (named(facts, path), facts.target), said
            )
        elif tree:
            yield from _tree(tree, mine, opened, facts, path)
            lost = "" if is_usable(facts, path) else tree
        else:
            yield from _group(mine, opened, facts, path, opened)


def _tree(
    tree: str, mine: Sequence[InstalledBundle], opened: tuple[Bundle, ...], facts: DeviceFacts, path: str
) -> Iterator[Execution]:
    """Run the golden calls of a tree. What is noted before a call stays where the call ends the process."""
    problems = []
    for bundle in opened:
        own_bundles.mark(bundle.header, "its golden calls ended the process that executed them")
    for run_ in _group(mine, opened, facts, path, opened, _functions(tree)):
        problems += [
            f"its golden call {run_.operator} {run_.label} is wrong: {text}" for text in run_.problems
        ]
        yield run_
    for bundle in opened:
        own_bundles.mark(bundle.header, "; ".join(problems))


def is_usable(facts: DeviceFacts, path: str) -> bool:
    """Can memory of the device still be had? After a fault nothing can."""
    try:
        DeviceMemory(facts, path).close()
    except DriverError:
        return False
    return True


def _group(
    serving: Sequence[InstalledBundle],
    opened: tuple[Bundle, ...],
    facts: DeviceFacts,
    path: str,
    only: tuple[Bundle, ...] | None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Iterator[Execution]:
    """Run the golden calls of some bundles; ``only``: those that may serve them, None: all of the device."""
    names = {name for bundle in opened for name in bundle.names}
    known, missing = _read(serving)
    if missing and names <= {call.operator for call in known}:
        said = f"not all was executed{missing}"
        yield failed(Call("golden calls", "", {}, ()), (named(facts, path), facts.target), said)
    for name in sorted(names):
        mine = [call for call in known if call.operator == name]
        if not mine:
            said = f"it was not executed: no golden call of it is installed{missing}"
            yield failed(Call(name, "", {}, ()), (named(facts, path), facts.target), said)
        for call in mine:
            if only is None:
                yield run(call, facts, path)
                continue
            # As if the device had the compute units that it has: such operators are made anew for these bundles.
            with dispatch.only(only), _published(functions or {}):
                yield run(replace(call, compute_units=call.compute_units or facts.compute_units), facts, path)


@contextmanager
def _published(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Let functions of a tree be found where the package's own are, meanwhile."""
    added = {name: function for name, function in functions.items() if name not in aiter_prebuilt.__all__}
    names = aiter_prebuilt.__all__
    for name, function in added.items():
        setattr(aiter_prebuilt, name, function)
    aiter_prebuilt.__all__ = [*names, *added]
    try:
        yield
    finally:
        aiter_prebuilt.__all__ = names
        for name in added:
            delattr(aiter_prebuilt, name)


def _functions(tree: str) -> Mapping[str, Callable[..., Any]]:
    """Return the functions in the package of a tree's wheel; none where there is no package, as in a tree's build folder."""
    try:
        found: Mapping[str, Callable[..., Any]] = import_module(tree.replace("-", "_")).FUNCTIONS
    except (ImportError, AttributeError):
        return {}
    return found


def _read(serving: Sequence[InstalledBundle]) -> tuple[list[Call], str]:
    """Read the golden calls of some bundles, each once.

    The text says what is wrong with the files.
    """
    found: dict[tuple[str, str], Call] = {}
    problems = []
    for bundle in serving:
        try:
            with open_file(bundle.calls) as stream:
                for call in read(stream, opening.decompress):
                    found.setdefault((call.operator, call.label), call)
        except FileNotFoundError:
            problems.append(f"{bundle.calls} is not there")
        except (OSError, CallsError) as error:
            problems.append(f"{bundle.calls}: {error}")
    return list(found.values()), "".join(f" ({problem})" for problem in problems)
