"""Ask the driver what a device is, once per device, on demand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from aiter_prebuilt.devices import hip_library, native
from aiter_prebuilt.errors import DriverError

VENDORS = ("amd", "nvidia")


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One GPU. ``arch`` is the driver's own word (``gfx942:sramecc+:xnack-``); ``target`` its first part;
    ``features`` the rest. ``compute_units`` counts CUs or SMs; memory in bytes.
    """

    vendor: str
    ordinal: int
    name: str
    arch: str
    target: str
    features: frozenset[str]
    compute_units: int
    memory_bytes: int
    driver_version: int

    def __str__(self) -> str:
        return f"device {self.ordinal} ({self.name}, {self.arch}, {self.compute_units} compute units)"


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """One driver library: where it was found and what it reports. ``error`` says why it cannot be used ("" when it can)."""

    vendor: str
    path: str = ""
    version: int = 0
    devices: tuple[DeviceFacts, ...] = ()
    error: str = ""
    problems: tuple[str, ...] = field(default=())


#: Stands for every device while calls are only described.
_DESCRIBED: ContextVar[DeviceFacts | None] = ContextVar("described", default=None)


def split_arch(arch: str) -> tuple[str, frozenset[str]]:
    """``gfx942:sramecc+:xnack-`` to its target and features."""
    target, *features = arch.split(":")
    return target, frozenset(features)


def facts(vendor: str, ordinal: int) -> DeviceFacts:
    """Describe device ``ordinal`` of ``vendor``.

    Raises:
        DriverError: the driver cannot be opened or does not know the device.
    """
    return _DESCRIBED.get() or _facts(vendor, ordinal)


@contextmanager
def described(card: DeviceFacts) -> Iterator[None]:
    """While calls are only described, every device is ``card``, and no driver is opened."""
    before = _DESCRIBED.set(card)
    try:
        yield
    finally:
        _DESCRIBED.reset(before)


def opened(vendor: str) -> dict[str, Any]:
    """Open a vendor's driver, once per process: for AMD, the HIP runtime that pip installed goes before the system's.

    Returns:
        ``path``, ``version`` and the number of ``devices``.

    Raises:
        DriverError: there is none, or it does not start.
    """
    runtime = native.module()
    paths: tuple[str | None, ...] = hip_library.to_open() if vendor == "amd" else ()
    first: DriverError | None = None
    for path in (*paths, None):
        try:
            found: dict[str, Any] = runtime.open_driver(vendor, path)
        except DriverError as error:
            first = first or error
        else:
            return found
    assert first is not None
    raise first


@lru_cache(maxsize=64)
def _facts(vendor: str, ordinal: int) -> DeviceFacts:
    runtime = native.module()
    opened(vendor)
    raw = runtime.device(vendor, ordinal)
    target, features = split_arch(raw["arch"])
    return DeviceFacts(
        vendor=vendor,
        ordinal=ordinal,
        name=raw["name"],
        arch=raw["arch"],
        target=target,
        features=features,
        compute_units=raw["compute_units"],
        memory_bytes=raw["memory_bytes"],
        driver_version=raw["driver_version"],
    )


def probe(vendor: str) -> DriverFacts:
    """Everything there is to know of a vendor's driver and devices; never raises a DriverError.

    One device that cannot be read hides no other: its error stands in ``problems``.
    """
    try:
        found = opened(vendor)
    except DriverError as error:
        return DriverFacts(vendor, error=str(error))
    devices: list[DeviceFacts] = []
    problems: list[str] = []
    for ordinal in range(found["devices"]):
        try:
            devices.append(facts(vendor, ordinal))
        except DriverError as error:
            problems.append(f"device {ordinal}: {error}")
    return DriverFacts(vendor, found["path"], found["version"], tuple(devices), "", tuple(problems))
