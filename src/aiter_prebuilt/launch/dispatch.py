"""From an operator's name to the callable that binds, chooses and launches: one native object per operator.

Nothing is opened here until the object is called with a tensor of some device; then :func:`_served` runs once for that
device. A call that was seen before never comes back to Python.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, lru_cache, partial
from importlib import import_module
from os import environ
from typing import TYPE_CHECKING, Any, Final, cast

from aiter_prebuilt.bundles import extras, locate, opening
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.devices import device, native
from aiter_prebuilt.errors import CHECK, NoOperatorError
from aiter_prebuilt.forks import importing
from aiter_prebuilt.launch import user_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from aiter_prebuilt._native import Bundle, Operator
    from aiter_prebuilt.launch.argument_fallbacks import Restated

#: Torch's operators, with the arguments of the native ones.
_LAUNCHES: Final = "aiter_prebuilt.tracing.launches"


@cache
def operator(name: str) -> Operator:
    """Return the operator called ``name``.

    Whether any bundle has it shows at the first call.

    Raises:
        NativeError: the native extension is missing or of another version.
    """
    made: Operator = native.module().Operator(
        name, partial(_served, name), partial(_names, name), partial(_restated, name)
    )
    return _checked(name, made) if environ.get(CHECK) else made


def _checked(name: str, made: Operator) -> Operator:
    """Wrap an operator that has a contract about values.

    It looks at them before each launch.
    """
    with importing:
        from aiter_prebuilt.launch import value_checks
        from aiter_prebuilt.launch.value_contracts import CONTRACTS

    if not value_checks.enabled() or name not in CONTRACTS:
        return made
    return cast("Operator", value_checks.Checked(name, made))


@cache
def operator_as_if(name: str, compute_units: int) -> Operator:
    """Another object for the operator, which chooses as if every device had so many compute units: for proofs, which must reach
    variants that this device's own number never chooses. Kernels stay right with any number; they are only slower.
    """
    made: Operator = native.module().Operator(name, partial(_served, name, compute_units=compute_units))
    return made


@contextmanager
def only(bundles: tuple[Bundle, ...]) -> Iterator[None]:
    """Let these bundles alone serve the operators of :func:`operator_as_if` meanwhile: for the golden calls of one tree."""
    names = globals()
    before = names["bundles_of"]
    names["bundles_of"] = lambda _target, _what: bundles
    operator_as_if.cache_clear()
    try:
        yield
    finally:
        names["bundles_of"] = before
        operator_as_if.cache_clear()


def _names(name: str) -> tuple[str, ...]:
    """List the tensors of a native call in order.

    It serves errors that come before any bundle is looked at.
    """
    with importing:
        from aiter_prebuilt.tracing.signatures import load

    return tuple(tensor.name for tensor in load()[name].tensors)


def _restated(name: str, *arguments: Any, views: tuple[Any, ...] | None = None) -> Restated | None:
    """Try a refused call with other tensors.

    Args:
        name: the operator.
        *arguments: those of the call.
        views: None, or the operator's views: a tensor is one of a trace or a wrapper, and torch's operator serves the call.
    """
    if views is not None:
        with importing:  # late and by its name: torch's operators call the native ones
            launches = import_module(_LAUNCHES)
        launches.viewed(name, views)(*arguments)
        return None
    with importing:
        from aiter_prebuilt.launch.argument_fallbacks import restated

    return restated(name, *arguments)


def _served(
    name: str, vendor: str, ordinal: int, compute_units: int = 0
) -> tuple[tuple[Bundle, ...], int, tuple[user_tables.NativeTable, ...]]:
    """Find the bundles, compute units and tables for an operator.

    The compute units are the device's own, unless others are given; the tables are the user's. The native side calls it, once per
    operator and device.

    Raises:
        NoOperatorError: its kernels are for other targets, or in a bundle that is not installed.
    """
    bundles, units = _resolve(vendor, ordinal)
    if bundles and not any(name in bundle.names for bundle in bundles):
        missing = absent(f"call {name}", name, bundles[0].target, {bundle.profile for bundle in bundles})
        if missing is not None:
            raise missing
    units = compute_units or units
    tables = tuned_tables(name, bundles[0].target, units, bundles) if bundles else ()
    return bundles, units, tables


def absent(asked: str, name: str, target: str, profiles: Collection[str]) -> NoOperatorError | None:
    """Why bundles of ``target`` and ``profiles`` have no operator ``name``; None if no wheel has one of this name."""
    with importing:
        from aiter_prebuilt.tracing.signatures import load

    signature = load().get(name)
    if signature is None:
        return None
    asked, served = f"{asked} on {target}", signature.targets
    because = f", because {signature.why[target]}" if target in signature.why else ""
    if target not in served:
        only = " and ".join(served)
        return NoOperatorError(
            asked,
            f"it exists only for {only}{because}",
            f"For what {target} has: aiter-prebuilt list --target {target}",
        )
    if served[target] not in profiles:
        return NoOperatorError(
            asked,
            f"its kernels are in the bundle {target} ({served[target]}), which is not installed{because}",
            f"Run: {extras.pip_line(extras.extra_of(target, served[target]))}",
        )
    if locate.VARIABLE in environ:
        return NoOperatorError(
            asked,
            f"it is not in the bundles that {locate.VARIABLE} names, and they hide the installed ones",
            f"Add a bundle that has it to {locate.VARIABLE}, or unset the variable",
        )
    return NoOperatorError(
        asked,
        f"it is not in the installed bundles for {target}",
        f"Run: {extras.pip_line(extras.extra_of(target, served[target]), upgrade=True)}",
    )


def _resolve(vendor: str, ordinal: int) -> tuple[tuple[Bundle, ...], int]:
    """Return the bundles that serve a device, and its compute units."""
    facts = device.facts(vendor, ordinal)
    return bundles_of(facts.arch, str(facts)), facts.compute_units


def tuned_tables(
    name: str, target: str, units: int, bundles: tuple[Bundle, ...]
) -> tuple[user_tables.NativeTable, ...]:
    """Find the user's tables for an operator on a device.

    The device has ``units`` compute units, and ``bundles`` serve it.

    Raises:
        TunedTableError: a table of ``AITER_PREBUILT_TUNED`` is not what it should be.
    """
    if not user_tables.setting():
        return ()
    return user_tables.native_tables(
        name, target, units, {known for bundle in bundles for known in bundle.names}
    )


@lru_cache(maxsize=16)
def bundles_of(target: str, what: str) -> tuple[Bundle, ...]:
    """Return the opened bundles of ``target``.

    ``what`` is how a message calls the device that needs them.
    """
    return _opened(locate.for_target(target, locate.installed(), what))


@lru_cache(maxsize=16)
def _opened(serving: tuple[InstalledBundle, ...]) -> tuple[Bundle, ...]:
    """Open bundles once for all devices of a target.

    Eight cards of one kind share one mapping and one checked index.
    """
    return opening.usable(serving, opening.open_bundle)
