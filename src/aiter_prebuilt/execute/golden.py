"""The golden calls: one or a few small calls of each operator, which travel in a bundle's wheel as a file beside the bundle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import aiter_prebuilt
from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.bundles.files import open_file
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract.calls import Call, CallsError, read
from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.execute.run import Execution, failed, named, run
from aiter_prebuilt.launch import dispatch


def execute(facts: DeviceFacts, path: str) -> Iterator[Execution]:
    """Run the golden calls of every operator that a device's bundles have, one after the other in this process; ``path`` is its
    driver's (``DriverFacts.path``). An operator without one is an :class:`Execution` with a problem, and so is a file of calls
    that is not there, or damaged, when other files have calls of all operators.

    Raises:
        NoBundleError, BundleDamagedError: no bundle serves the device, or one cannot be read.
    """
    serving = locate.for_target(facts.arch, locate.installed(), str(facts))
    names = {name for bundle in dispatch.bundles_of(facts.arch, str(facts)) for name in bundle.names}
    known, missing = _read(serving)
    own = _own_functions(serving)
    if missing and names <= {call.operator for call in known}:
        said = f"not all was executed{missing}"
        yield failed(Call("golden calls", "", {}, ()), (named(facts, path), facts.target), said)
    for name in sorted(names):
        mine = [call for call in known if call.operator == name]
        if not mine:
            said = f"it was not executed: no golden call of it is installed{missing}"
            yield failed(Call(name, "", {}, ()), (named(facts, path), facts.target), said)
        for call in mine:
            yield run(call, facts, path, function=own.get(call.operator))


def _own_functions(serving: Sequence[InstalledBundle]) -> dict[str, Any]:
    """Return the functions in the packages of own bundles whose operators the package itself has not, by name."""
    found: dict[str, Any] = {}
    for tree in dict.fromkeys(bundle.tree for bundle in serving if bundle.tree):
        try:
            functions = import_module(tree.replace("-", "_")).FUNCTIONS
        except (ImportError, AttributeError):  # a tree's build folder has none: its program sets them
            continue
        found |= {
            name: function for name, function in functions.items() if name not in aiter_prebuilt.__all__
        }
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
