"""An interruption is no answer about an argument: it goes on to the caller, wherever it comes up, and nothing is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.exchange import Capsules, DeviceTensor, GpuTensor
from native.synthetic import A, Op, R, S, T

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator

X = 0x7F0000000100
GOOD = raw(X, "bf16", (4, 8))


class Stop(BaseException):
    """Neither an Exception nor one of Python's own."""


INTERRUPTIONS = (KeyboardInterrupt, SystemExit, GeneratorExit, Stop, MemoryError, RecursionError)


@pytest.fixture
def op(serve: Serve, blob: Blob) -> Operator:
    attributes = [A("k", "int", "3"), A("flag", "bool", "false"), A("eps", "float", "1")]
    tensors = [T("x", "bf16", ["M", "N"], ["s", "1"]), T("y", "bf16", ["M", "N"], optional=True)]
    return serve(Op("o", tensors, attributes, recipes=[R(steps=[S("k", ["ptr x"])], blob=blob())]))


def raising(kind: type[BaseException], seen: list[str]) -> Callable[..., Any]:
    def method(*_: Any, **__: Any) -> Any:
        seen.append("asked")
        raise kind("now")

    return method


def number(name: str, method: Any) -> Any:
    return type("Number", (), {name: method})()


def capsules(name: str, method: Any) -> Any:
    return type("Array", (Capsules,), {name: method})(DeviceTensor(X, "bf16", (4, 8)))


def old_torch(name: str, method: Any) -> Any:
    facts: dict[str, Any] = {
        "data_ptr": lambda self: X,
        "stride": lambda self: (8, 1),
        "shape": (4, 8),
        "dtype": "torch.bfloat16",
        "device": type("Device", (), {"type": "cuda", "index": 0})(),
        name: property(method) if name in ("shape", "dtype", "device", "requires_grad") else method,
    }
    return type("OldTorch", (), facts)()


def exposed(name: str, method: Any) -> Any:
    kind = type("Asked", (GpuTensor,), {name: property(method)})
    return kind(X, "bf16", (4, 8))


PLACES: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "__index__ of an int": lambda method: (GOOD, None, number("__index__", method)),
    "__index__ of a bool": lambda method: (GOOD, None, 3, number("__index__", method)),
    "__float__": lambda method: (GOOD, None, 3, False, number("__float__", method)),
    "__repr__ of what is refused": lambda method: (GOOD, None, number("__repr__", method)),
    "__dlpack__": lambda method: (capsules("__dlpack__", method),),
    "__dlpack__ of the second": lambda method: (GOOD, capsules("__dlpack__", method)),
    "__dlpack_device__": lambda method: (capsules("__dlpack_device__", method),),
    "__getattr__": lambda method: (number("__getattr__", method),),
    "data_ptr": lambda method: (old_torch("data_ptr", method),),
    "stride": lambda method: (old_torch("stride", method),),
    "shape": lambda method: (old_torch("shape", method),),
    "dtype": lambda method: (old_torch("dtype", method),),
    "device": lambda method: (old_torch("device", method),),
    "requires_grad": lambda method: (old_torch("requires_grad", method),),
    "requires_grad behind the exchange API": lambda method: (exposed("requires_grad", method),),
    "a size": lambda method: ((X, "bf16", (4, number("__index__", method)), None, ("amd", 0)),),
    "a stride": lambda method: ((X, "bf16", (4, 8), (8, number("__index__", method)), ("amd", 0)),),
    "a shape": lambda method: ((X, "bf16", number("__iter__", method), None, ("amd", 0)),),
    "an ordinal": lambda method: ((X, "bf16", (4, 8), None, ("amd", number("__index__", method))),),
}


def arguments(where: str, method: Any) -> tuple[Any, ...]:
    given = PLACES[where](method)
    return (*given, None) if len(given) == 1 else given


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_goes_through(op: Operator, stub: Stub, where: str, kind: type[BaseException]) -> None:
    for _ in range(2):  # cold, then with a warm memo
        launches = stub.launches()
        seen: list[str] = []
        with pytest.raises(kind) as caught:
            op(*arguments(where, raising(kind, seen)))
        assert caught.type is kind and caught.value.args == ("now",)
        assert seen == ["asked"] and stub.launches() == launches, "asked once, then left"
        op(GpuTensor(X, "bf16", (4, 8)), None)
        op(GOOD, None)


@pytest.mark.parametrize("where", [where for where in PLACES if "requires_grad" not in where])
def test_other_exceptions_are_answers_about_the_argument(op: Operator, stub: Stub, where: str) -> None:
    op(GOOD, None)
    with pytest.raises(errors.ArgumentKindError):
        op(*arguments(where, raising(ZeroDivisionError, [])))
    assert stub.launches() == 1


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_goes_through_the_search_for_bundles(native: Any, stub: Stub, kind: type[BaseException]) -> None:
    with pytest.raises(kind):
        native.Operator("o", raising(kind, []))(GOOD)


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_goes_through_explain_and_preload(op: Operator, stub: Stub, kind: type[BaseException]) -> None:
    index = number("__index__", raising(kind, []))
    with pytest.raises(kind):
        op.explain((), index, (), ())
    with pytest.raises(kind):
        op.preload("amd", index)
    with pytest.raises(kind):
        op.preload("amd", 0, (GOOD, None), (index,))
    assert stub.launches() == 0
