"""Tensors on the embedded device for the programs that count work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Tensors:
    """Makes tensors on the embedded device, and adds up their bytes."""

    def __init__(self) -> None:
        import numpy as np

        from aiter_prebuilt.devices import device
        from aiter_prebuilt.devices.device_memory import DeviceMemory

        (facts,) = (driver := device.probe("amd")).devices
        self.memory, self.bytes, self._random = DeviceMemory(facts, driver.path), 0, np.random.default_rng(1)
        self.target: str = facts.target

    def _put(self, kind: str, shape: Sequence[int], data: bytes) -> Any:
        from aiter_prebuilt.execute.array import DeviceArray

        self.bytes += len(data)
        return DeviceArray(self.memory, kind, shape, data)

    def normal(self, kind: str, *shape: int) -> Any:
        """Numbers about 0; bf16 by truncation."""
        values = self._random.standard_normal(shape).astype("f4")
        data = (
            (values.view("u4") >> 16).astype("u2")
            if kind == "bf16"
            else values.astype({"f16": "f2", "f32": "f4"}[kind])
        )
        return self._put(kind, shape, data.tobytes())

    def codes(self, kind: str, *shape: int) -> Any:
        """8-bit numbers of which none is a NaN or an infinity."""
        return self._put(kind, shape, self._random.integers(0, 0x70, shape, "u1").tobytes())

    def whole(self, values: Any) -> Any:
        """int32."""
        import numpy as np

        data = np.asarray(values, "i4")
        return self._put("i32", data.shape, data.tobytes())


Call = Callable[[Tensors], None]
