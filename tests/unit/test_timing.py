"""What `bench` makes of a described call: the memory, its values, and which of the measured times it tells."""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import aiter_prebuilt
from aiter_prebuilt.commands import bench
from aiter_prebuilt.contract.dtype import BY_NAME, DTYPES
from aiter_prebuilt.errors import ArgumentError, NoDeviceError
from aiter_prebuilt.execute.values import decode
from aiter_prebuilt.inspection import timing

SCHEMA = Path(aiter_prebuilt.__file__).parent / "schemas" / "bench.json"


@pytest.mark.parametrize("kind", [kind.name for kind in DTYPES])
@pytest.mark.parametrize(("elements", "blocks"), [(0, 1), (4095, 1), (4096, 2), (9000, 3)])
def test_values_are_enough_and_small(kind: str, elements: int, blocks: int) -> None:
    random.seed(elements)
    data = timing._values(kind, elements)
    assert len(data) == blocks * 4096 * BY_NAME[kind].itemsize
    assert data[: len(data) // blocks] * blocks == data
    values = decode(kind, data[: 4096 * BY_NAME[kind].itemsize])
    if kind in ("f16", "bf16", "f32", "f64"):
        assert -1 <= min(values) < -0.9 and 0.9 < max(values) <= 1
    elif kind.startswith("e") and kind != "e8m0":
        assert all(2**-9 <= abs(value) <= 1 for value in values) and min(values) < 0 < max(values)
        codes = {code & 0x7F for code in data}
        assert codes == set(range(0x20, 0x38)) and {code & 0x80 for code in data} == {0, 0x80}
    else:
        assert not any(data)


class Memory:
    """Notes what is uploaded."""

    def __init__(self) -> None:
        self.uploads: list[bytes] = []
        self.library: Any = object()
        self.synchronized = self.closed = 0

    def upload(self, data: bytes) -> int:
        self.uploads.append(data)
        return 1 << 20

    def synchronize(self) -> None:
        self.synchronized += 1

    def close(self) -> None:
        self.closed += 1


FACTS = SimpleNamespace(vendor="amd", ordinal=3, arch="gfx942", target="gfx942")


@pytest.mark.parametrize(
    ("described", "shape", "strides", "elements"),
    [
        (0, (3, 5), (5, 1), 15), (256, (3, 5), (9, 1), 23), (2, (3, 5), (0, 2), 9), (255, (2, 0), (1, 1), 0),
        (4, (), (), 1), (512 + 16, (1, 1), (70, 70), 1),
    ],
)  # fmt: skip
def test_a_tensor_is_as_long_and_as_aligned_as_it_is_described(
    described: int, shape: tuple[int, ...], strides: tuple[int, ...], elements: int
) -> None:
    memory: Any = Memory()
    facts: Any = FACTS
    found = timing._allocated(memory, (described, "f16", shape, strides, ("amd", 0)), facts)
    assert found == ((1 << 20) + described % 256, "f16", shape, strides, ("amd", 3))
    (data,) = memory.uploads
    assert len(data) == described % 256 + 2 * elements and not any(data[: described % 256])


def test_negative_strides_are_refused() -> None:
    memory: Any = Memory()
    facts: Any = FACTS
    with pytest.raises(ArgumentError) as refused:
        timing._allocated(memory, (0, "f16", (2, 2), (2, -1), ("amd", 0)), facts)
    assert (refused.value.asked, refused.value.found) == ("bench", "strides must be 0 or more, got (2, -1)")


def test_a_driver_that_does_not_count() -> None:
    calls = []
    library: Any = object()
    assert timing._counted(library, lambda: calls.append(1)) is None and calls == [1]


def test_a_driver_that_counts() -> None:
    order: list[str] = []
    text = ctypes.create_string_buffer(b'{"waves": 4}')

    def function(name: str, result: object = None) -> Any:
        def called(*_: object) -> object:
            order.append(name)
            return result

        return called

    library: Any = SimpleNamespace(
        apb_emulator_counters=function("read", ctypes.addressof(text)),
        apb_emulator_free=function("free"),
        apb_emulator_reset_counters=function("reset"),
    )
    assert timing._counted(library, function("call")) == {"waves": 4}
    assert order == ["reset", "call", "read", "free"]


def test_the_first_vendor_that_has_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = {
        "amd": [SimpleNamespace(ordinal=0, of="amd")],
        "nvidia": [SimpleNamespace(ordinal=n, of="nvidia") for n in (0, 1)],
    }
    monkeypatch.setattr("aiter_prebuilt.devices.device.VENDORS", ("amd", "nvidia"))
    monkeypatch.setattr(
        "aiter_prebuilt.devices.device.probe",
        lambda vendor: SimpleNamespace(devices=devices[vendor], path="lib" + vendor),
    )
    found: Any = timing._device(0, "bench op M=3")
    assert (found[0].of, found[1]) == ("amd", "libamd")
    found = timing._device(1, "bench op M=3")
    assert (found[0].of, found[0].ordinal, found[1]) == ("nvidia", 1, "libnvidia")
    with pytest.raises(NoDeviceError) as refused:
        timing._device(2, "bench op M=3")
    assert (refused.value.asked, refused.value.found) == ("find device 2", "no driver reports it")
    assert "aiter-prebuilt-emulator run -- aiter-prebuilt bench " in refused.value.fix
    assert "..." not in refused.value.fix, "a command to type as it stands"


@pytest.mark.parametrize(
    ("host", "whole", "medians"),
    [([4, 1, 3], [9, 5, 7], (3, 7)), ([4, 2], [6, 9], (4, 9)), ([5], [8], (5, 8))],
)
def test_medians_of_calls_that_were_waited_for(
    host: list[int], whole: list[int], medians: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call, which loads, is not among them. ``None`` stays what it is."""
    memory, ticks, calls = Memory(), [0, 100, 200], []
    for returned, done in zip(host, whole, strict=True):
        ticks += [1000, 1000 + returned, 1000 + done]
    facts: Any = SimpleNamespace(vendor="amd", ordinal=0, arch="gfx942", target="gfx942")
    tensor = (0, "f32", (2,), (1,), ("amd", 0))
    monkeypatch.setattr(timing, "_device", lambda _ordinal, _words: (facts, "lib"))
    monkeypatch.setattr("aiter_prebuilt.bundles.locate.installed", lambda: ())
    monkeypatch.setattr("aiter_prebuilt.bundles.locate.for_target", lambda *_: ())
    monkeypatch.setattr(timing, "find_operator", lambda *_: ("block", 304))
    monkeypatch.setattr(timing, "describe", lambda *_: ([tensor, None], [0.5], {"symbols": {}}))
    monkeypatch.setattr(timing, "DeviceMemory", lambda *_: memory)
    ran = {"kernel": "k", "variant": "v", "backend": "hip"}
    monkeypatch.setattr(
        timing, "_candidate", lambda *_: (lambda *given, stream: calls.append((given, stream)), ran)
    )
    monkeypatch.setattr("time.perf_counter", lambda: ticks.pop(0))
    found = timing.bench("op", {}, repeat=len(host))
    assert (found.host_seconds, found.seconds, found.repeat, found.counters) == (*medians, len(host), None)
    assert found.embedded is False
    assert found.operator == "op" and found.target == "gfx942" and not ticks
    assert (found.kernel, found.variant, found.backend) == ("k", "v", "hip")
    assert len(calls) == memory.synchronized == len(host) + 1 and memory.closed == 1
    assert calls[0] == (((1 << 20, "f32", (2,), (1,), ("amd", 0)), None, 0.5), 0)
    assert len(memory.uploads[0]) == 8 and struct.unpack("<2f", memory.uploads[0])


@pytest.mark.parametrize("embedded", [True, False])
def test_a_time_says_whether_it_is_the_emulators(
    embedded: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts: Any = SimpleNamespace(vendor="amd", ordinal=0, arch="gfx942", target="gfx942")
    call = {"types": {}, "symbols": {"M": 4}, "absent": []}
    monkeypatch.setattr(timing, "_device", lambda _ordinal, _words: (facts, "the driver"))
    monkeypatch.setattr(timing, "embedded", lambda path: embedded and path == "the driver")
    monkeypatch.setattr("aiter_prebuilt.bundles.locate.installed", lambda: ())
    monkeypatch.setattr("aiter_prebuilt.bundles.locate.for_target", lambda *_: ())
    monkeypatch.setattr(timing, "find_operator", lambda *_: ("block", 304))
    monkeypatch.setattr(timing, "describe", lambda *_: ([], [], call))
    monkeypatch.setattr(timing, "DeviceMemory", lambda *_: Memory())
    ran = {"kernel": "k", "variant": "v", "backend": "hip"}
    monkeypatch.setattr(timing, "_candidate", lambda *_: (lambda *, stream: None, ran))
    options = argparse.Namespace(
        operator="op", call=[], device=0, repeat=1, counters=False, json=True, kernel=None, variant=None
    )
    bench.execute(options)
    told = json.loads(capsys.readouterr().out)
    assert told["embedded"] is embedded
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    options.json = False
    bench.execute(options)
    assert ("the emulator" in " ".join(capsys.readouterr().out.split())) is embedded
