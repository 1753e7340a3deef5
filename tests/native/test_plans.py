"""``Plans``: what was launched for arguments is launched again without asking, and for all others it is asked."""

from __future__ import annotations

import gc
import struct
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.exchange import CPU, ROCM, GpuTensor
from native.synthetic import A, Op, R, S, T

X = 0x7F0000000000
Asked = list[tuple[Any, ...]]


def pair(blob: str) -> Op:
    """The addresses of two tensors, the second one's rows, and an attribute."""
    args = ["ptr x", "ptr y", "i64 row", "i32 k"]
    return Op(
        "pair",
        [T("x", "f32", ["M", "N"], ["row", "1"]), T("y", "f32", ["L"], optional=True)],
        [A("k", "int", "0")],
        recipes=[R(steps=[S("k", args)], blob=blob)],
    )


def words(x: int, y: int, row: int, k: int) -> bytes:
    """What the kernel of ``pair`` gets."""
    return struct.pack("<QQqi", x, y, row, k)


class Planned:
    """``function(x, y, option, flag)``: launches ``pair`` with what decides about it, which both ways say alike."""

    def __init__(self, native: ModuleType, op: Any) -> None:
        self.op = op
        self.planned: Asked = []
        self.called: Asked = []
        self.made = 0
        self.call: Callable[..., Any] = native.Plans(self.function, self.plan, "tpvv")

    @staticmethod
    def decided(x: Any, y: Any, option: Any, flag: Any) -> int:
        return int(
            x.shape[0] * 1000 + x.strides[0] * 100 + (y is not None) * 10 + int(option or 0) + 5 * flag
        )

    def function(self, x: Any, y: Any, option: Any, flag: Any) -> str:
        self.called.append((x, y, option, flag))
        return "function"

    def plan(self, x: Any, y: Any, option: Any, flag: Any) -> Any:
        self.planned.append((x, y, option, flag))
        if option == 7:
            return None
        number = self.decided(Shown(x), y, option, flag)
        return ((self.make, (4,)),), ((self.op, ((0,), (1,), number)),), (-1,)

    def make(self, size: int) -> Any:
        self.made += 1
        return GpuTensor(X + 0x100000 * self.made, "f32", (size,))

    def check(self, stub: Stub, x: Any, y: Any, option: Any, flag: Any) -> None:
        made = self.made
        result = self.call(x, y, option, flag)
        assert result.tensor.data == X + 0x100000 * (made + 1)
        number = self.decided(Shown(x), y, option, flag)
        address = 0 if y is None else y.tensor.data
        assert stub.kernargs()[:28] == words(x.tensor.data, address, Shown(x).strides[0], number)


class Shown:
    """Sizes and strides as Python reads them."""

    def __init__(self, x: Any) -> None:
        self.shape = tuple(x._shape[d] for d in range(x.tensor.ndim))
        self.strides = tuple(x._strides[d] for d in range(x.tensor.ndim))


@pytest.fixture
def planned(native: ModuleType, serve: Serve, blob: Blob) -> Planned:
    return Planned(native, serve(pair(blob())))


def rows(number: int, step: int = 8, address: int = X, device: tuple[int, int] = (ROCM, 0)) -> Any:
    return GpuTensor(address, "f32", (number, 8), (step, 1), device=device)


def test_calls_in_turn(planned: Planned, stub: Stub) -> None:
    """Shapes, strides, options, a tensor that is there or not, and marks: each call gets what it asks for, whatever came before;
    addresses are no part of it."""
    y = GpuTensor(X + 0x5000, "f32", (3,))
    calls = [
        (number, step, other, option, flag)
        for number in (2, 3)
        for step in (8, 16)
        for other in (None, y)
        for option in (None, 1, 2)
        for flag in (True, False)
    ]
    for turn in range(4):
        for number, step, other, option, flag in calls:
            planned.check(stub, rows(number, step, X + 4096 * turn), other, option, flag)
    assert not planned.called
    first = len(planned.planned)
    for _ in range(3):
        planned.check(stub, rows(2), y, 1, True)
    assert len(planned.planned) <= first + 1, "the same call is planned once"


def test_strides_and_sizes_that_change_in_place(planned: Planned, stub: Stub) -> None:
    """The same tensor object, of other strides and sizes."""
    x = rows(2)
    for step, size in ((8, 2), (16, 2), (8, 2), (8, 3), (16, 3), (8, 2)):
        x._strides[0], x._shape[0] = step, size
        planned.check(stub, x, None, None, False)


def test_options_of_one_value_and_other_types(planned: Planned, stub: Stub) -> None:
    """1, 1.0 and True are different questions; another float is, too."""
    for _ in range(2):
        for option in (1, 1.0, True, 2.0, 0.0, False, None):
            planned.check(stub, rows(2), None, option, False)
    kinds = {(type(each[2]), each[2]) for each in planned.planned}
    assert len(kinds) == 7


def test_of_what_is_only_there_nothing_is_told(planned: Planned, stub: Stub) -> None:
    """A plan cannot hang on the shape of a tensor that is not in its key."""
    for size in (3, 4, 5):
        planned.check(stub, rows(2), GpuTensor(X, "f32", (size,)), None, False)
    assert [each[1] for each in planned.planned] == [True]
    planned.check(stub, rows(2), None, None, False)
    assert [each[1] for each in planned.planned] == [True, None]


def test_another_device_asks_again(planned: Planned, stub: Stub) -> None:
    for _ in range(2):
        planned.check(stub, rows(2), None, None, False)
        with pytest.raises(errors.NoDeviceError):
            planned.call(rows(2, device=(ROCM, 3)), None, None, False)
    assert len(planned.planned) == 2 and stub.launches() == 2


def test_few_calls_never_push_each_other_out(planned: Planned, stub: Stub) -> None:
    """Whichever sets their keys fall into, which depends on addresses: eight calls in turn are planned once each."""
    for first in range(8, 1608, 8):
        for _ in range(3):
            for option in range(first, first + 8):
                planned.check(stub, rows(2), None, option, False)
    assert [each[2] for each in planned.planned] == list(range(8, 1608)) and not planned.called


def test_a_hot_call_stays_in_a_stream_of_others(planned: Planned, stub: Stub) -> None:
    """It is planned once, and its launch chosen once: neither the plans nor the memo behind them forget it."""
    for number in range(3, 3000):
        planned.check(stub, rows(2), None, None, False)
        planned.check(stub, rows(number), None, None, False)
    assert len(planned.planned) == 2998
    assert planned.op.stats()["selections"] == 2998


def test_what_has_no_plan_is_served_by_the_function(planned: Planned, stub: Stub) -> None:
    """Where the plan says None, once; without a framework, on the processor, no tensor or another count, each time unasked."""
    for _ in range(3):
        assert planned.call(rows(2), None, 7, False) == "function"
    assert len(planned.planned) == 1 and len(planned.called) == 3
    calls = [
        (raw(X, "f32", (2, 8), (8, 1)), None, None, False),
        (rows(2), raw(X, "f32", (3,), (1,)), None, False),
        (rows(2, device=(CPU, 0)), None, None, False),
        (rows(2), "no tensor", None, False),
        ([1], None, None, False),
        (rows(2), None, rows(2), False),
        (rows(2), None, 1 << 80, False),
    ]
    for call in calls:
        for _ in range(2):
            assert planned.call(*call) == "function"
            assert all(one is other for one, other in zip(planned.called[-1], call, strict=True))
    assert len(planned.planned) == 1 and stub.launches() == 0
    with pytest.raises(TypeError, match="positional argument"):
        planned.call(rows(2))


def test_errors_of_operators_and_plans_go_on(native: ModuleType, planned: Planned, stub: Stub) -> None:
    planned.check(stub, rows(2), None, None, False)
    with pytest.raises(errors.ArgumentError, match="pair: y "):
        planned.call(rows(2), GpuTensor(X, "f32", (3, 3)), None, False)
    planned.check(stub, rows(2), None, None, False)

    def fails(*args: Any) -> Any:
        raise ZeroDivisionError("plan")

    with pytest.raises(ZeroDivisionError, match="plan"):
        native.Plans(planned.function, fails, "tpvv")(rows(2), None, None, False)
    with pytest.raises(TypeError, match="by position"):
        planned.call(x=rows(2))


@pytest.mark.parametrize(
    "said",
    [
        5,
        ((), ()),
        ((), ((len, ()),), None),
        ((), (("op", ((4,),)),), None),
        ((), (("op", ((-1,),)),), None),
        ((), (), (-1,)),
        (((len,),), (), None),
        (tuple((len, ((),)) for _ in range(9)), (), None),
    ],
)
def test_what_is_no_plan_is_refused(native: ModuleType, planned: Planned, said: Any) -> None:
    """Something else than an operator, and places that nothing is in."""

    def real(said: Any) -> Any:
        if isinstance(said, tuple):
            return tuple(planned.op if each == "op" else real(each) for each in said)
        return said

    plans = native.Plans(planned.function, lambda *_: real(said), "tpvv")
    for _ in range(2):
        with pytest.raises(TypeError, match="a plan is"):
            plans(rows(2), None, None, False)
    for kinds in ("tx", 5, "t" * 65):
        with pytest.raises(TypeError, match="kinds"):
            native.Plans(planned.function, planned.plan, kinds)


def test_a_stream_of_shapes_keeps_nothing(planned: Planned, stub: Stub) -> None:
    """Options that stand in a key live no longer than their entry, and no tensor of a call is kept."""

    class Option:
        def __int__(self) -> int:
            return 3

    option = Option()
    gone = weakref.ref(option)
    x = rows(2)
    before = sys.getrefcount(x)
    planned.check(stub, x, None, option, False)
    planned.planned.clear()
    del option
    gc.collect()
    assert gone() is not None, "its address must not become another's while the entry is there"
    for size in range(3, 2000):
        planned.call(rows(size), None, None, False)
        planned.planned.clear()
    gc.collect()
    assert gone() is None and sys.getrefcount(x) == before


def test_several_results(native: ModuleType, planned: Planned, stub: Stub) -> None:
    """A tuple of two and more: what was made, an argument, or the same object."""
    said = (((planned.make, (4,)),), ((planned.op, ((0,), (-1,), 5)),), ((-1,), (0,), "same"))
    plans = native.Plans(planned.function, lambda *_: said, "tpvv")
    x = rows(2)
    for turn in range(1, 4):
        made, given, same = plans(x, None, None, False)
        assert (given, same) == (x, "same") and made.tensor.data == X + 0x100000 * turn
        assert stub.kernargs()[:28] == words(X, made.tensor.data, 8, 5)
