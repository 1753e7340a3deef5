"""Tensors in device memory with everything that a kernel may not touch made visible.

Each tensor is an allocation of exactly its size, so the emulator stops a kernel that reads or writes one byte beyond. Outputs and
padding are poisoned (NaN in every floating type), inputs are compared with what was uploaded.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from aiter_prebuilt_emulator import memory

NAMES = {
    torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.int8: "i8", torch.int32: "i32", torch.int64: "i64",
    torch.float8_e4m3fn: "e4m3fn", torch.float8_e4m3fnuz: "e4m3fnuz", torch.uint8: "u8",
}  # fmt: skip
FP8 = {"gfx942": torch.float8_e4m3fnuz, "gfx950": torch.float8_e4m3fn}
#: What two right roundings of nearly equal values differ by, relative; float32 has what fp32 arithmetic may lose.
ULP = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10, torch.float32: 2.0**-18}
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32

#: (largest error in units of its bound, what is wrong beside it or "")
Verdict = tuple[float, str]


def dense(shape: Sequence[int], pad: int = 0) -> tuple[int, ...]:
    """Contiguous strides, with ``pad`` elements behind every row of the last dimension."""
    strides, step = [], 1
    for place, size in enumerate(reversed(shape)):
        strides.append(step)
        step *= max(size, 1) + (pad if place == 0 else 0)
    return tuple(reversed(strides))


class DeviceTensor:
    """A torch tensor's values in device memory: ``host`` is what was uploaded; None values make a poisoned output."""

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, values: torch.Tensor | None, ordinal: int, *,
                 pad: int = 0, offset: int = 0, strides: Sequence[int] | None = None) -> None:  # fmt: skip
        shape = tuple(shape)
        steps = tuple(strides) if strides is not None else dense(shape, pad)
        last = sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
        self.span = (1 + last if math.prod(shape) else 0) + offset
        self.layout = (shape, steps, offset)
        self.dtype = dtype
        poison = 0x7F if dtype.itemsize == 1 else 0xFF
        flat = torch.full((self.span * dtype.itemsize,), poison, dtype=torch.uint8)
        if values is not None:
            self._view(flat).copy_(values)
        self.uploaded = flat
        self.array = memory.DeviceArray(
            NAMES[dtype], shape, bytes(flat.numpy()), strides=steps, offset=offset, ordinal=ordinal
        )
        self.host = self._view(flat)
        owned = torch.zeros(self.span, dtype=torch.bool)
        if math.prod(shape):
            owned.as_strided(*self.layout).fill_(True)
        self.owned = owned.repeat_interleave(dtype.itemsize)

    def _view(self, flat: torch.Tensor) -> torch.Tensor:
        return flat.view(self.dtype).as_strided(*self.layout)

    @property
    def raw(self) -> Any:
        """The runtime's tuple."""
        return self.array.raw

    def bytes_now(self) -> torch.Tensor:
        """All bytes of the allocation, as they are on the device."""
        data = self.array.read()
        return (
            torch.frombuffer(bytearray(data), dtype=torch.uint8)
            if data
            else torch.empty(0, dtype=torch.uint8)
        )

    def now(self) -> torch.Tensor:
        """The values that are on the device."""
        return self._view(self.bytes_now())

    def untouched(self) -> bool:
        """Is every byte what was uploaded?"""
        return torch.equal(self.bytes_now(), self.uploaded)

    def padding_untouched(self) -> bool:
        """Is every byte that belongs to no element what was uploaded?"""
        return torch.equal(self.bytes_now()[~self.owned], self.uploaded[~self.owned])


@dataclass(frozen=True)
class Call:
    """What a case does: tensors in the order of the operator's signature, attributes, and the judgement of the outputs."""

    tensors: Sequence[DeviceTensor | None]
    attributes: Sequence[Any]
    outputs: Sequence[DeviceTensor | None]
    check: Callable[[], dict[str, Verdict]]


class Maker:
    """Makes the tensors of one case: on one device, from one seed."""

    def __init__(self, target: str, ordinal: int) -> None:
        self.target, self.ordinal = target, ordinal
        self.fp8 = FP8[target]

    def put(self, values: torch.Tensor, **layout: Any) -> DeviceTensor:
        """An input with ``values``."""
        return DeviceTensor(values.shape, values.dtype, values, self.ordinal, **layout)

    def random(
        self, *shape: int, dtype: torch.dtype = BF16, scale: float = 1.0, **layout: Any
    ) -> DeviceTensor:
        """A normally distributed input."""
        return self.put((torch.randn(*shape) * scale).to(dtype), **layout)

    def output(self, shape: Sequence[int], dtype: torch.dtype, **layout: Any) -> DeviceTensor:
        """A poisoned output."""
        return DeviceTensor(shape, dtype, None, self.ordinal, **layout)


@dataclass(frozen=True)
class Case:
    """One call of one operator. ``cus``: compute units of the device (0: the target's own number), which move the choice of
    variant; ``profiles``: with which bundles it runs.
    """

    operator: str
    label: str
    build: Callable[[Maker], Call]
    cus: int = 0
    profiles: tuple[str, ...] = ("ck-free",)
    targets: tuple[str, ...] = field(default=("gfx942", "gfx950"))


#: The words of one case, as the function that makes it takes them.
Row = tuple[Any, ...]


def typed(rows: Sequence[Row], swap: bool) -> list[Row]:
    """The rows as they are, or those with a 16-bit type with bf16 for f16 and f16 for bf16: every layout meets both types."""
    other = {BF16: F16, F16: BF16}
    if not swap:
        return list(rows)
    mixed = [row for row in rows if any(value in other for value in row if isinstance(value, torch.dtype))]
    return [tuple(other.get(v, v) if isinstance(v, torch.dtype) else v for v in row) for row in mixed]


def compare(found: torch.Tensor, right: torch.Tensor, absolute: float, relative: float) -> Verdict:
    """The largest error against ``absolute + relative * |right|``. NaN must stand where NaN is right, infinities are equal."""
    f, r = found.double(), right.double()
    if f.shape != r.shape:
        return math.inf, f"shape {tuple(f.shape)} instead of {tuple(r.shape)}"
    if not torch.equal(torch.isnan(f), torch.isnan(r)):
        return (
            math.inf,
            f"{int(torch.isnan(f).sum())} NaN instead of {int(torch.isnan(r).sum())} of {f.numel()}",
        )
    finite = torch.isfinite(r)
    infinite = ~finite & ~torch.isnan(r)
    if not torch.equal(f[infinite], r[infinite]):
        return math.inf, "infinities differ"
    if not finite.any():
        return 0.0, ""
    error = (f[finite] - r[finite]).abs()
    return float((error / (absolute + relative * r[finite].abs() + 1e-300)).max()), ""


def same_bytes(found: torch.Tensor, right: torch.Tensor) -> Verdict:
    """Bit for bit, NaN included."""
    different = int((found.contiguous().view(torch.uint8) != right.contiguous().view(torch.uint8)).sum())
    return (math.inf, f"{different} bytes differ") if different else (0.0, "")


def device_count() -> int:
    """How many devices the library in this process emulates."""
    count = ctypes.c_int()
    memory.call("hipGetDeviceCount", ctypes.byref(count))
    return count.value
