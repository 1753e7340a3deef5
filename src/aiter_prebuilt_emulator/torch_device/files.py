"""``torch.save``, ``torch.load`` and pickle: a storage says on which device it was, and comes back there."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import driver, memory, streams

_BEFORE_THE_PROCESSORS: Final = 5  # whose priority is 10, and to whom all storages belong


def _tag(storage: Any) -> str | None:
    ordinal = memory.BLOCKS.get(storage.data_ptr())
    if ordinal is None or ordinal == memory.PINNED:
        return None
    streams.settle(ordinal)  # its bytes are written next
    return f"cuda:{ordinal}"


def _restore(storage: Any, location: str) -> Any:
    """Memory of the device with the same bytes.

    Raises:
        RuntimeError: there is no such device.
    """
    if not location.startswith("cuda"):
        return None
    ordinal, count = streams.index_of(location), driver.device_count()
    if ordinal >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {ordinal} but torch.cuda.device_count() is {count}. "
            "Please use torch.load with map_location to map your storages to an existing device."
        )
    size = storage.nbytes()
    out = memory.allocate(size, ordinal)
    ctypes.memmove(out.data_ptr(), storage.data_ptr(), size)
    return out


def install() -> None:
    """Beside torch's."""
    torch.serialization.register_package(_BEFORE_THE_PROCESSORS, _tag, _restore)
