"""A call that ``Plans`` knows whole is launched without asking a bundle or a memo, while everything that decides is the same."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType
from typing import Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub
from native.exchange import ROCM, DeviceTensor, GpuTensor
from native.synthetic import A, Op, R, S, T

X = 0x7F0000000000
Y = X + 0x100000
OUT = X + 0x800000


def choosing(blob: str) -> Op:
    """Which kernel it is hangs on alignments of all three tensors, and on sizes and strides of each; ``out`` may not be ``y``."""
    args = ["ptr x", "ptr y", "ptr out", "i64 row", "i64 L", "i32 k", "i32 WHICH"]
    conditions = ["aligned(x, 16)", "aligned(y, 32)", "aligned(out, 64)", "L % 2 == 0"]
    recipes = [
        R(f"k{which}", when=conditions[which:], constants={"WHICH": which}, steps=[S("k", args)], blob=blob)
        for which in range(len(conditions) + 1)
    ]
    tensors = [
        T("x", "f32", ["M", "N"], ["row", "1"]), T("y", "f32", ["L"]), T("out", "f32", ["P"], role="out"),
    ]  # fmt: skip
    return Op(
        "choosing", tensors, [A("k", "int", "0")], recipes=recipes, kernels=[each.kernel for each in recipes]
    )


class Known:
    """``function(x, y, option)``: launches with x told whole, y by its presence, and memory that is made."""

    def __init__(self, native: ModuleType, op: Any) -> None:
        self.native, self.op, self.out = native, op, OUT
        self.meanwhile: Callable[[], object] = lambda: None
        self.planned = 0
        self.call: Callable[..., Any] = native.Plans(lambda *given: given, self.plan, "tpv")

    def plan(self, x: Any, y: Any, option: Any) -> Any:
        self.planned += 1
        return ((self.make, ()),), ((self.op, ((0,), (1,), (-1,), len(str(option)))),), (-1,)

    def make(self) -> Any:
        self.meanwhile()
        return GpuTensor(self.out, "f32", (4,))

    def selections(self) -> int:
        return int(self.op.stats()["selections"])

    def check(self, stub: Stub, x: Any, y: Any, option: Any = "") -> None:
        """It launches what the operator alone chooses for the same."""
        self.op(x, y, GpuTensor(self.out, "f32", (4,)), len(str(option)))
        wanted = stub.kernargs()[:48]
        before = stub.launches()
        assert self.call(x, y, option).tensor.data == self.out
        assert stub.launches() == before + 1 and stub.kernargs()[:48] == wanted
        assert struct.unpack_from("<3Q", wanted) == (x.tensor.data, y.tensor.data, self.out)


@pytest.fixture
def known(native: ModuleType, serve: Serve, blob: Blob) -> Iterator[Known]:
    yield Known(native, serve(choosing(blob())))
    DeviceTensor.stream = 0


def matrix(address: int = X, rows: int = 2, row: int = 8) -> Any:
    return GpuTensor(address, "f32", (rows, 8), (row, 1))


def vector(address: int = Y, size: int = 4) -> Any:
    return GpuTensor(address, "f32", (size,))


def test_whatever_decides_is_looked_at_in_each_call(known: Known, stub: Stub) -> None:
    """Addresses, alignments of what is told, of what is only there and of what is made, sizes and strides: in each order."""
    steps = list(product((X, X + 4, X + 32), (Y, Y + 16), (OUT, OUT + 8), (3, 4), (8, 16)))
    for order in (steps, steps[::-1], [each for each in steps for _ in range(3)]):
        for x, y, known.out, size, row in order:
            known.check(stub, matrix(x, 2, row), vector(y, size))
    assert known.planned < 3 * len(steps), "what is only there asks no plan"


def test_a_known_call_asks_nobody(known: Known, stub: Stub) -> None:
    for turn in range(8):
        known.check(stub, matrix(X + 0x1000 * turn), vector(Y + 0x1000 * turn))
    assert known.planned == 1 and known.selections() == 1


def test_a_plan_made_of_another_plan(known: Known, stub: Stub) -> None:
    """While memory is made, other threads and finalisers may call: what was known of this call is still launched for it."""
    x, y = matrix(), vector()
    for _ in range(3):
        known.check(stub, x, y)

    def others() -> None:
        known.meanwhile = lambda: None
        for rows in range(3, 300):
            known.call(matrix(X, rows), vector(Y, rows % 7 + 1), rows)

    known.meanwhile = others
    before = stub.launches()
    assert known.call(x, y, "").tensor.data == OUT
    assert stub.launches() == before + 298
    assert struct.unpack_from("<3Q2q2i", stub.kernargs()) == (X, Y, OUT, 8, 4, 0, 0)


def test_dims_that_change_while_memory_is_made(known: Known, stub: Stub) -> None:
    """A tensor is read once: what is launched is what it was when the call began."""
    for before, (field, size) in product((1, 3), (("_shape", 3), ("_strides", 64))):
        known.call = known.native.Plans(lambda *given: given, known.plan, "tpv")
        x, y = matrix(), vector()
        for _ in range(before):
            known.check(stub, x, y)
        dims, sizes = getattr(x, field), y._shape

        def change(dims: Any = dims, sizes: Any = sizes, size: int = size) -> None:
            dims[0], sizes[0] = size, 3

        known.meanwhile = change
        known.call(x, y, "")
        known.meanwhile = lambda: None
        assert struct.unpack_from("<3Q2q2i", stub.kernargs()) == (X, Y, OUT, 8, 4, 0, 0)
        known.check(stub, x, y)


def test_launches_that_a_memo_forgot(known: Known, stub: Stub) -> None:
    """Other calls of the operator push a launch out of its memo: it is chosen afresh, and not read where it was."""
    x, y = matrix(), vector()
    for turn in range(3):
        for _ in range(3):
            known.check(stub, x, y)
        for rows in range(3, 2500):
            known.op(matrix(X, rows + turn), y, vector(OUT), 0)
    assert known.op.stats()["memo_size"] > 1000
    chosen = known.selections()
    known.call(x, y, "")
    assert struct.unpack_from("<3Q2q2i", stub.kernargs()) == (X, Y, OUT, 8, 4, 0, 0)
    assert known.selections() == chosen + 1, "it is in no memo any more"


def test_memory_that_meets_what_is_written_is_refused(known: Known, stub: Stub) -> None:
    """Addresses are compared in each call."""
    for _ in range(4):
        known.check(stub, matrix(), vector())
    launches = stub.launches()
    for _ in range(2):
        with pytest.raises(errors.ArgumentStrideError, match=r"choosing: out is written.*overlaps y"):
            known.call(matrix(), vector(OUT), "")
    assert stub.launches() == launches
    known.check(stub, matrix(), vector())


def test_other_devices_types_and_streams(known: Known, stub: Stub) -> None:
    for stream in (0, 5, 7, 5):
        DeviceTensor.stream = stream
        for _ in range(3):
            known.check(stub, matrix(), vector())
            assert (stub.launch(-1).stream or 0) == stream
    launches = stub.launches()
    for _ in range(2):
        with pytest.raises(errors.ArgumentError, match="choosing: y must"):
            known.call(matrix(), GpuTensor(Y, "f16", (4,)), "")
        with pytest.raises(errors.ArgumentError, match="choosing: y must"):
            known.call(matrix(), GpuTensor(Y, "f32", (2, 2)), "")
        with pytest.raises(errors.AiterPrebuiltError):
            known.call(matrix(), GpuTensor(Y, "f32", (4,), device=(ROCM, 1)), "")
        with pytest.raises(errors.ArgumentError):
            known.call(matrix(), None, "")
    assert stub.launches() == launches
    known.check(stub, matrix(), vector())


def test_texts_are_told_by_what_they_say(known: Known, stub: Stub) -> None:
    """Not by which object says it; another text, or another type that says the same, asks again."""
    said = ("a", "ab", "a" * 8, "a" * 9, "a" * 8 + "b", "é", "a\0")
    for text in said:
        for _ in range(4):
            known.check(stub, matrix(), vector(), "".join(list(text)))
    assert known.planned == len(said)


def test_a_launch_that_the_driver_refuses(known: Known, stub: Stub) -> None:
    for _ in range(3):
        known.check(stub, matrix(), vector())
    stub.fault("launch", 1)
    with pytest.raises(errors.LaunchError, match="choosing"):
        known.call(matrix(), vector(), "")
    stub.fault("launch", 0)
    known.check(stub, matrix(), vector())


def test_a_tensor_that_asks_for_a_gradient(native: ModuleType, serve: Serve, blob: Blob, stub: Stub) -> None:
    """Also where a call like it is known, and only while torch records."""
    torch = pytest.importorskip("torch")
    from native.test_gradients import card, parameter

    tensors = [T("x", "f32", ["N"]), T("y", "f32", ["N"], optional=True)]
    op = serve(Op("asked", tensors, recipes=[R(steps=[S("k", ["ptr x", "ptr y"])], blob=blob())]))
    call = native.Plans(lambda *given: given, lambda *_: ((), ((op, ((0,), (1,))),), None), "tp")
    for x, y in ((parameter(True), card()), (card(True), card()), (card(), card(True))):
        with torch.no_grad():
            for _ in range(4):
                assert call(x, y) is None
        launches = stub.launches()
        for _ in range(2):
            with pytest.raises(errors.UnsupportedError, match="no backward"):
                call(x, y)
        assert stub.launches() == launches


def test_memory_is_made_near_on_the_current_device_alone(
    native: ModuleType, known: Known, stub: Stub
) -> None:
    """``near`` makes it on the device that is current: where another one is, or may be, the other way is taken."""
    known.check(stub, matrix(), vector())  # the driver is open
    made: list[str] = []

    def say(word: str) -> Any:
        made.append(word)
        return GpuTensor(OUT, "f32", (4,))

    def making(device: Any) -> Any:
        said = (say, ("slow",), say, ("near",), device)
        return native.Plans(lambda *given: given, lambda *_: ((said,), (), (-1,)), "t")

    wanted = {None: "near", ("amd", 0): "near", ("amd", 7): "slow", ("nvidia", 7): "slow"}
    for device, word in wanted.items():
        plans = making(device)
        for _ in range(3):
            plans(matrix())
        assert made == [word] * 3
        made.clear()
    for wrong in (5, ("amd",), ("intel", 0), ("amd", -1), ("amd", "0")):
        with pytest.raises(TypeError, match="a plan is"):
            making(wrong)(matrix())
