"""One described call of an operator, run for real: how long it takes, and on the emulator what it did.

The call is described as for :mod:`aiter_prebuilt.inspection.decisions`. Memory comes from the driver; floating-point tensors hold
values between -1 and 1, others zeros (a slot, an index and a count of 0 are valid everywhere).
"""

from __future__ import annotations

import ctypes
import json
import math
import random
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.bundles.extras import emulated
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import ArgumentError, NoDeviceError
from aiter_prebuilt.execute.run import embedded
from aiter_prebuilt.inspection import candidates
from aiter_prebuilt.inspection.decisions import describe, find_operator
from aiter_prebuilt.launch import dispatch

if TYPE_CHECKING:
    from aiter_prebuilt._native import DecisionInfo, Operator

_BLOCK = 4096
#: Letters of :mod:`struct`.
_CODES = {"f16": "e", "f32": "f", "f64": "d"}
_FP8 = frozenset(("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"))


@dataclass(frozen=True, slots=True)
class Benchmark:
    """``host_seconds``: until a call returned, median; ``seconds``: until the device was done, median of calls waited for alone.
    ``counters``: of one call, or None where the driver does not count. ``tensor_bytes``: of the call's tensors together.
    ``embedded``: the device is the embedded one, whose times say nothing of the card that it stands for. ``kernel``, ``variant``,
    ``backend``: what ran.
    """

    operator: str
    device: str
    target: str
    call: dict[str, Any]
    repeat: int
    host_seconds: float
    seconds: float
    tensor_bytes: int
    counters: dict[str, Any] | None
    embedded: bool = False
    kernel: str = ""
    variant: str = ""
    backend: str = ""


def bench(
    name: str,
    settings: Mapping[str, str],
    ordinal: int = 0,
    repeat: int = 10,
    kernel: str | None = None,
    variant: str | None = None,
) -> Benchmark:
    """Run the described call ``repeat`` times on device ``ordinal`` of the first vendor that has devices.

    Args:
        name: the operator.
        settings: the call, as ``explain`` takes it.
        ordinal: the device.
        repeat: calls that are timed.
        kernel: run a candidate of this kernel instead of the chosen one.
        variant: run this variant.

    Raises:
        NoDeviceError: no GPU here. NoBundleError, NoOperatorError, ArgumentError: as in a call, or no candidate has the name.
        NoKernelError: no candidate takes the call, or the named one does not.
    """
    words = " ".join(["bench", name, *(f"{symbol}={value}" for symbol, value in settings.items())])
    facts, path = _device(ordinal, words)
    serving = locate.for_target(facts.arch, locate.installed(), str(facts))
    block, _ = find_operator(name, serving, "bench")
    described, attributes, call = describe(block, settings, "aiter-prebuilt bench {words}")
    memory = DeviceMemory(facts, path)
    try:
        tensors = [tensor and _allocated(memory, tensor, facts) for tensor in described]
        operator, ran = _candidate(name, facts, tensors, attributes, kernel, variant)

        def once() -> tuple[float, float]:
            start = time.perf_counter()
            operator(*tensors, *attributes, stream=0)
            returned = time.perf_counter()
            memory.synchronize()
            return returned - start, time.perf_counter() - start

        counters = _counted(memory.library, once)
        runs = [once() for _ in range(repeat)]
    finally:
        memory.close()
    host, whole = (sorted(column)[len(runs) // 2] for column in zip(*runs, strict=True))
    size = sum(tensor_bytes(tensor) for tensor in described if tensor)
    return Benchmark(
        name, str(facts), facts.target, call, repeat, host, whole, size, counters, embedded(path),
        ran["kernel"], ran["variant"], ran["backend"],
    )  # fmt: skip


def _candidate(
    name: str,
    facts: device.DeviceFacts,
    tensors: list[Any],
    attributes: list[Any],
    kernel: str | None,
    variant: str | None,
) -> tuple[Operator, DecisionInfo]:
    """Find what to run: the operator of live calls, or one that launches the named candidate."""
    operator = dispatch.operator(name)
    bundles = dispatch.bundles_of(facts.arch, str(facts))
    tables = dispatch.tuned_tables(name, facts.target, facts.compute_units, bundles)
    decisions = operator.explain(bundles, facts.compute_units, tensors, attributes, tables)
    found = candidates.pick(name, decisions, kernel, variant)
    if kernel is None and variant is None:
        return operator, found
    return candidates.forced(name, found, bundles, facts.compute_units), found


def tensor_bytes(described: tuple[Any, ...]) -> int:
    """Count the bytes of a tensor's elements, each once.

    A call reads or writes at least that.
    """
    _, kind, shape, _, _ = described
    return int(math.prod(shape)) * dtype.BY_NAME[kind].itemsize


def _device(ordinal: int, words: str) -> tuple[device.DeviceFacts, str]:
    for vendor in device.VENDORS:
        driver = device.probe(vendor)
        for facts in driver.devices:
            if facts.ordinal == ordinal:
                return facts, driver.path
    raise NoDeviceError(
        f"find device {ordinal}",
        "no driver reports it",
        f"Use the emulator: {emulated(f'aiter-prebuilt {words}')}",
    )


def _counted(library: ctypes.CDLL, once: Any) -> dict[str, Any] | None:
    """Run once, first, and read the emulator's counters around it; it loads the code objects as well."""
    if not hasattr(library, "apb_emulator_counters"):
        once()
        return None
    library.apb_emulator_counters.restype = ctypes.c_void_p
    library.apb_emulator_free.argtypes = [ctypes.c_void_p]
    library.apb_emulator_reset_counters()
    once()
    text = library.apb_emulator_counters()
    try:
        found: dict[str, Any] = json.loads(ctypes.string_at(text))
    finally:
        library.apb_emulator_free(text)
    return found


def _allocated(memory: DeviceMemory, tensor: tuple[Any, ...], facts: device.DeviceFacts) -> tuple[Any, ...]:
    described, kind, shape, strides, _ = tensor
    elements = (
        1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if all(shape) else 0
    )
    if any(step < 0 for step in strides):
        raise ArgumentError("bench", f"strides must be 0 or more, got {strides}", "Describe another tensor")
    itemsize = dtype.BY_NAME[kind].itemsize
    # A described address says only how it is aligned: keep that, whatever the allocation's own alignment.
    offset = described % 256
    data = bytes(offset) + _values(kind, elements)[: elements * itemsize]
    return memory.upload(data) + offset, kind, shape, strides, (facts.vendor, facts.ordinal)


def _values(kind: str, elements: int) -> bytes:
    """At least ``elements`` elements: one random block over and over, for its making must not take longer than the call."""
    values = [random.uniform(-1, 1) for _ in range(_BLOCK)]
    if kind in _CODES:
        block = struct.pack(f"<{_BLOCK}{_CODES[kind]}", *values)
    elif kind == "bf16":
        block = b"".join(struct.pack("<f", value)[2:] for value in values)
    elif kind in _FP8:
        # Codes 0x20 to 0x38 and their negatives: between 2^-5 and about 1 in every flavour, no NaN among them.
        block = bytes(random.randrange(0x20, 0x38) | random.choice((0, 0x80)) for _ in values)
    else:
        block = bytes(_BLOCK * dtype.BY_NAME[kind].itemsize)
    return block * (elements // _BLOCK + 1)
