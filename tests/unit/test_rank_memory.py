"""Memory that ranks share, by vendor: which functions of the driver are called, in which context, and what their answers mean."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.shared_memory import SharedMemory
from aiter_prebuilt.errors import DriverError, UnsupportedError
from aiter_prebuilt.ops import _rank_blocks

NVIDIA_CONTEXT = 0x1000


class Driver:
    """A driver library that notes its calls; ``answers`` are the statuses that are not 0."""

    def __init__(self, **answers: int) -> None:
        self.answers, self.reachable = answers, 1
        self.calls: list[str] = []
        self.given: dict[str, tuple[Any, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            self.given[name] = arguments
            first: Any = arguments[0]._obj if arguments and hasattr(arguments[0], "_obj") else None
            if name in ("cuMemAlloc_v2", "hipExtMallocWithFlags"):
                first.value = 0x5000
            elif name.endswith("CanAccessPeer"):
                first.value = self.reachable
            elif name == "cuDevicePrimaryCtxRetain":
                first.value = NVIDIA_CONTEXT + arguments[1]
            elif name in ("hipIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"):
                first.value = 0x9000
            elif name in ("hipIpcGetMemHandle", "cuIpcGetMemHandle"):
                ctypes.memmove(ctypes.addressof(first), b"h" * 64, 64)
            return self.answers.get(name, 0)

        return call


def memory(monkeypatch: pytest.MonkeyPatch, vendor: str, driver: Driver, nbytes: int = 100) -> SharedMemory:
    monkeypatch.setattr(device, "facts", lambda vendor, at: SimpleNamespace(vendor=vendor, ordinal=at))
    monkeypatch.setattr(device, "probe", lambda _vendor: SimpleNamespace(path="a driver"))
    monkeypatch.setattr(ctypes, "CDLL", lambda _path: driver)
    return SharedMemory((vendor, 1), nbytes)


def test_nothing_is_called_that_is_another_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor, prefix in (("amd", "hip"), ("nvidia", "cu")):
        driver = Driver()
        made = memory(monkeypatch, vendor, driver)
        assert made.address == 0x5000 and made.handle() == b"h" * 64
        assert made.map_process(b"g" * 64) == 0x9000
        made.map_device(0)
        made.close()
        made.close()
        assert {name[: len(prefix)] for name in driver.calls} == {prefix}
        assert sum("Free" in name for name in driver.calls) == 1
        assert sum("CloseMemHandle" in name for name in driver.calls) == 1


def test_nvidia_s_context_is_current_during_each_call_and_not_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    made = memory(monkeypatch, "nvidia", driver)
    made.handle()
    made.map_process(b"g" * 64)
    made.map_device(0)
    made.close()
    depth = 0
    for name in driver.calls:
        depth += {"cuCtxPushCurrent_v2": 1, "cuCtxPopCurrent_v2": -1}.get(name, 0)
        free = ("cuInit", "cuDevicePrimaryCtxRetain", "cuDeviceCanAccessPeer", "cuCtxPopCurrent_v2")
        assert name in free or depth == 1, name
    assert depth == 0
    assert driver.given["cuCtxPushCurrent_v2"][0].value == NVIDIA_CONTEXT + 1
    assert driver.given["cuCtxEnablePeerAccess"][0].value == NVIDIA_CONTEXT + 0


@pytest.mark.parametrize(("asked", "taken"), [(100, 2 << 20), (2 << 20, 2 << 20), ((2 << 20) + 1, 4 << 20)])
def test_nvidia_s_driver_exports_whole_pages(monkeypatch: pytest.MonkeyPatch, asked: int, taken: int) -> None:
    driver = Driver()
    memory(monkeypatch, "nvidia", driver, asked)
    assert driver.given["cuMemAlloc_v2"][1].value == taken
    assert driver.given["cuMemsetD8_v2"][1:2] == (0,) and driver.given["cuMemsetD8_v2"][2].value == asked


def test_amd_s_memory_is_uncached_and_the_device_stays_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    memory(monkeypatch, "amd", driver)
    assert driver.given["hipExtMallocWithFlags"][1].value == 100
    assert driver.given["hipExtMallocWithFlags"][2] == 3
    assert driver.calls[0] == "hipGetDevice" and driver.given["hipSetDevice"] == (0,)


@pytest.mark.parametrize(("vendor", "name"), [("amd", "hipDevice"), ("nvidia", "cuCtx")])
def test_access_that_is_there_already_is_none_the_worse(
    monkeypatch: pytest.MonkeyPatch, vendor: str, name: str
) -> None:
    memory(monkeypatch, vendor, Driver(**{f"{name}EnablePeerAccess": 704})).map_device(0)
    with pytest.raises(DriverError, match="EnablePeerAccess"):
        memory(monkeypatch, vendor, Driver(**{f"{name}EnablePeerAccess": 1})).map_device(0)


@pytest.mark.parametrize(
    ("vendor", "tool"), [("amd", "rocm-smi --showtopo"), ("nvidia", "nvidia-smi topo -m")]
)
def test_devices_that_are_not_connected(monkeypatch: pytest.MonkeyPatch, vendor: str, tool: str) -> None:
    driver = Driver()
    made = memory(monkeypatch, vendor, driver)
    driver.reachable = 0
    with pytest.raises(UnsupportedError, match=tool):
        made.map_device(0)


@pytest.mark.parametrize(
    ("said", "cuda", "place"),
    [
        (1, None, ("amd", 1)), (1, "13.0", ("nvidia", 1)), ("cuda:3", "13.0", ("nvidia", 3)), ("cuda:3", None, ("amd", 3)),
        ("cuda", "13.0", ("nvidia", 5)), (("nvidia", 2), None, ("nvidia", 2)), (("amd", 2), "13.0", ("amd", 2)),
    ],
)  # fmt: skip
def test_whose_device_it_is(
    monkeypatch: pytest.MonkeyPatch, said: Any, cuda: str | None, place: tuple[str, int]
) -> None:
    """torch's build says it, since torch calls devices of both vendors cuda."""
    current = SimpleNamespace(current_device=lambda: 5)
    torch = SimpleNamespace(version=SimpleNamespace(cuda=cuda), cuda=current)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert _rank_blocks.place_of(said) == place


def test_without_torch_an_ordinal_is_amd_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert _rank_blocks.place_of(4) == ("amd", 4)
