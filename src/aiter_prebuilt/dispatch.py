"""From an operator's name to the callable that binds, chooses and launches: one native object per operator.

Nothing is opened here until the object is called with a tensor of some device; then :func:`_resolve` runs once for that
device. A call that was seen before never comes back to Python.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from aiter_prebuilt import device, locate, native

if TYPE_CHECKING:
    from aiter_prebuilt._native import Bundle, Operator


@cache
def operator(name: str) -> Operator:
    """The operator called ``name``; whether any bundle has it shows at the first call.

    Raises:
        NativeError: the native extension is missing or of another version.
    """
    made: Operator = native.module().Operator(name, _resolve)
    return made


def _resolve(vendor: str, ordinal: int) -> tuple[tuple[Bundle, ...], int]:
    """The bundles that serve a device, and its compute units. Called by the native side, once per operator and device."""
    facts = device.facts(vendor, ordinal)
    return bundles_of(facts.target, str(facts)), facts.compute_units


@lru_cache(maxsize=16)
def bundles_of(target: str, what: str) -> tuple[Bundle, ...]:
    """The opened bundles of ``target``; ``what`` is how a message calls the device that needs them."""
    return _opened(locate.for_target(target, locate.installed(), what))


@lru_cache(maxsize=16)
def _opened(serving: tuple[locate.InstalledBundle, ...]) -> tuple[Bundle, ...]:
    """Opened once for all devices of a target: eight cards of one kind share one mapping and one checked index."""
    return tuple(locate.open_bundle(bundle) for bundle in serving)


def preload(*names: str, vendor: str | None = None, ordinal: int = 0) -> int:
    """Load the code objects of operators now, so that no call of theirs loads anything later.

    Args:
        names: operators; all that the device's bundles have when none is named.
        vendor: "amd" or "nvidia"; the one that has a device when None. ordinal: the device.

    Returns:
        How many operators were loaded.

    Raises:
        DriverError, NoBundleError, LoadError: the device, its bundle or a code object cannot be used.
    """
    chosen = vendor or next(
        (name for name in device.VENDORS if device.probe(name).devices), device.VENDORS[0]
    )
    bundles, _ = _resolve(chosen, ordinal)
    wanted = names or tuple(sorted({name for bundle in bundles for name in bundle.names}))
    for name in wanted:
        operator(name).preload(chosen, ordinal)
    return len(wanted)
