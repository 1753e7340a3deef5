"""``slack``: memory behind the end of a tensor that a kernel may read: in a record, in what is allocated, in what is asked."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import planned

from aiter_prebuilt.contract.calls import Array, Call, pack, read
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.execute.run import judged
from build_tools.cases import make
from build_tools.cases.bind import Layout
from build_tools.cases.receipt_state import meanings


def call(slack: int) -> Call:
    return Call("op", "label", {"x": Array("f32", (2,), (1,), 0, b"\1" * 8, slack)}, ())


def test_a_record_keeps_the_slack_and_says_nothing_without_one() -> None:
    (back,) = read(io.BytesIO(pack(call(256))))
    assert back == call(256)
    (plain,) = read(io.BytesIO(pack(call(0))))
    assert plain == call(0) and b"slack" not in pack(call(0))


def test_calls_are_made_with_it() -> None:
    layout = Layout("x", "in", "f32", (2,), (1,), 0, False)
    assert make.array(layout, None, 64).slack == 64 and make.array(layout, None).slack == 0


@dataclass
class Memory:
    """A device's memory as one row of bytes."""

    device: tuple[str, int] = ("amd", 0)
    held: bytearray = field(default_factory=bytearray)

    def upload(self, data: bytes) -> int:
        self.held = bytearray(data)
        return 0

    def download(self, address: int, size: int) -> bytes:
        return bytes(self.held[address : address + size])


@pytest.mark.parametrize("slack", [0, 12])
def test_so_much_more_is_allocated_and_must_not_be_written(slack: int) -> None:
    memory: Any = Memory()
    tensor = DeviceArray(memory, "f32", (2,), b"\1" * 8, slack=slack)
    assert len(memory.held) == 8 + slack and tensor.read() == b"\1" * 8
    assert not tensor.changed_behind()
    if slack:
        assert judged(call(slack), {"x": tensor}, None)[1] == ["the call wants nothing"]
        memory.held[-1] ^= 1
        assert tensor.changed_behind()
        assert judged(call(slack), {"x": tensor}, None)[1] == ["x: written behind its end"]


def test_the_most_that_a_kernel_may_read_counts() -> None:
    first, second = planned.kernel(slack={"x": 64, "out": 8}), planned.kernel(name="more", slack={"x": 16})
    for kernels in ((first, second), (second, first)):
        assert planned.operator(kernels=kernels).slack() == {"x": 64, "out": 8}
    assert planned.operator(kernels=(planned.kernel(),)).slack() == {}


@pytest.mark.parametrize("slack", [0, 1, 12])
def test_every_byte_behind_the_end_counts_and_none_before(slack: int) -> None:
    memory: Any = Memory()
    tensor = DeviceArray(memory, "f32", (2,), bytes(8), slack=slack)
    whole = bytes(memory.held)
    for at in range(8 + slack):
        memory.held[at] ^= 1 << random.randrange(8)
        assert tensor.changed_behind() == (at >= 8), at
        memory.held[:] = whole
    assert not tensor.changed_behind()


def test_what_may_be_read_is_part_of_what_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "manifests" / "family"
    folder.mkdir(parents=True)
    (folder.parent / "targets.toml").write_text("[gfx942]\n")
    (folder / "reference.py").write_text("def op(x):\n    return x\n")
    (folder / "cases.toml").write_text('[op]\ncalls = ["M=1"]\n')

    def state(text: str) -> str:
        (folder / "operators.toml").write_text(f"[operators.op]\n[kernels.k]\n{text}\n")
        return meanings(tmp_path / "manifests")["family", "op", "gfx942"]

    plain = state("")
    assert state("slack = {}") == plain
    assert len({plain, state("slack = { x = 64 }"), state("slack = { x = 128 }")}) == 3
