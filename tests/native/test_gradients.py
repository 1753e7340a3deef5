"""No operator has a backward: a tensor that asks for a gradient is refused by name, whatever way it comes in."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt import errors  # noqa: E402
from aiter_prebuilt.launch import dispatch  # noqa: E402
from aiter_prebuilt.tracing import signatures  # noqa: E402
from native import exchange  # noqa: E402
from native.conftest import Blob, Serve, Stub  # noqa: E402
from native.synthetic import A, Op, R, S, T  # noqa: E402

ADDRESS = 0x7F0000000100


def _borrow(instance: Any, out: Any) -> int:
    kept = exchange.DeviceTensor(ADDRESS + instance.data_ptr(), "f32", tuple(instance.shape))
    exchange._KEEP.append(kept)
    return exchange.fill_borrow(kept, out)


def _on_a_card(base: type) -> type:
    """A subclass of one of torch's types whose exchange API says that its memory is a device's."""
    made: type = exchange.exposing(exchange.table(_borrow), "Exposed", base)
    return made


Card = _on_a_card(torch.Tensor)
CardParameter = _on_a_card(torch.nn.Parameter)


def card(requires_grad: bool = False) -> Any:
    return torch.zeros(8).as_subclass(Card).requires_grad_(requires_grad)


def parameter(requires_grad: bool = True) -> Any:
    return CardParameter(torch.zeros(8), requires_grad)


ROLES = {"input": "in", "cache": "inout", "out": "out", "bias": "in"}


@pytest.fixture
def op(serve: Serve, stub: Stub, blob: Blob) -> Any:
    """An operator with a tensor of each role, one of them optional, and a returned one."""
    tensors = [T(name, "f32", ["N"], role=role, optional=name == "bias") for name, role in ROLES.items()]
    step = S("k", [f"ptr {name}" for name in ROLES], ["N"])
    return serve(Op("o", tensors, [A("k", "int", "1")], recipes=[R(steps=[step], blob=blob())]))


def refused(op: Any, arguments: list[Any], name: str, **keywords: Any) -> None:
    with pytest.raises(errors.UnsupportedError, match="no backward") as raised:
        op(*arguments, **keywords)
    assert raised.value.asked == "o(requires_grad=True)"
    assert f"{name} requires a gradient" in raised.value.found
    assert ".detach()" in raised.value.fix and "torch.no_grad()" in raised.value.fix


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("make", [card, parameter])
@pytest.mark.parametrize("role", list(ROLES))
def test_each_argument_is_refused_by_its_name(op: Any, stub: Stub, role: str, make: Any, warm: bool) -> None:
    place = list(ROLES).index(role)
    arguments = [card() for _ in ROLES]
    for _ in range(2 * warm):
        op(*arguments)
    before = stub.launches()
    arguments[place] = make(requires_grad=True)
    refused(op, arguments, role)
    refused(op, arguments, role, stream=0x55)
    assert stub.launches() == before
    arguments[place] = arguments[place].detach().as_subclass(Card)
    op(*arguments)
    assert stub.launches() == before + 1


@pytest.mark.parametrize(
    "guard", [torch.no_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False)]
)
def test_where_torch_records_nothing_it_passes(op: Any, stub: Stub, guard: Any) -> None:
    arguments = [card(), parameter(), card(requires_grad=True), None]
    with guard():
        for _ in range(3):
            op(*arguments)
    assert stub.launches() == 3 and op.stats()["memo_hits"] == 2
    refused(op, arguments, "cache")


def test_an_inference_tensor_passes(op: Any, stub: Stub) -> None:
    with torch.inference_mode():
        made = [torch.zeros(8).as_subclass(Card) for _ in ROLES]
    assert all(tensor.is_inference() for tensor in made)
    op(*made)
    assert stub.launches() == 1


def test_more_types_than_are_remembered(op: Any, stub: Stub) -> None:
    for _ in range(40):
        kind = _on_a_card(torch.Tensor)
        asking = torch.zeros(8).as_subclass(kind).requires_grad_()
        for _ in range(2):
            refused(op, [asking, card(), card(), None], "input")
        op(asking.detach().as_subclass(kind), card(), card(), None)
    assert stub.launches() == 40


class OldTensor:
    """What is read of a tensor of torch before 2.10."""

    def __init__(self, requires_grad: bool) -> None:
        self.requires_grad = requires_grad
        self.device = torch.device("cuda:0")
        self.dtype, self.shape = torch.float32, (8,)

    def stride(self) -> tuple[int, ...]:
        return (1,)

    def data_ptr(self) -> int:
        return ADDRESS + id(self)


def test_a_tensor_of_an_older_torch(op: Any, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "7.0")
    first, second, third, asking = *(OldTensor(False) for _ in range(3)), OldTensor(True)
    op(first, second, third, None, stream=0x55)
    refused(op, [first, second, asking, None], "out", stream=0x55)
    with torch.no_grad():
        op(first, second, asking, None, stream=0x55)
    assert stub.launches() == 2


def test_a_question_that_fails_is_no_way_around(op: Any, stub: Stub) -> None:
    def fail(self: Any) -> bool:
        raise RuntimeError("the question itself fails")

    kind = exchange.exposing(exchange.table(_borrow), "Failing", Card)
    kind.requires_grad = property(fail)
    failing = torch.zeros(8).as_subclass(kind)
    refused(op, [card(), card(), failing, None], "out")
    with torch.no_grad():
        op(card(), card(), failing, None)
    assert stub.launches() == 1


def test_a_framework_that_is_not_torch_is_not_asked(
    op: Any, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = [card(), card(), card(requires_grad=True), None]
    monkeypatch.delitem(sys.modules, "torch")
    op(*asking)
    assert stub.launches() == 1


def test_every_operator_refuses(native: ModuleType, stub: Stub) -> None:
    """Also before any bundle is found: then the argument has a number for a name."""
    for name in signatures.load():
        with pytest.raises(errors.UnsupportedError, match="no backward") as raised:
            dispatch.operator(name)(card(requires_grad=True))
        assert raised.value.asked == f"{name}(requires_grad=True)"


def test_without_a_bundle_it_is_refused_by_name_too(native: ModuleType, stub: Stub) -> None:
    """The package knows the names; without that, the place must do."""
    names = ("out", "input")
    for given, said in (
        ([lambda: names], "input"),
        ([lambda: ("out",)], "2"),
        ([lambda: 1 // 0], "2"),
        ([], "2"),
    ):
        op = native.Operator("o", lambda vendor, ordinal: ((), 304), *given)
        refused(op, [torch.zeros(8), torch.zeros(8, requires_grad=True)], said)
    refused_by_silu = dispatch.operator("silu")
    with pytest.raises(errors.UnsupportedError, match="out requires a gradient"):
        refused_by_silu(torch.zeros(8, requires_grad=True), torch.zeros(8))


def test_an_interrupt_while_the_names_are_asked_for_goes_through(native: ModuleType, stub: Stub) -> None:
    def names() -> tuple[str, ...]:
        raise KeyboardInterrupt

    op = native.Operator("o", lambda vendor, ordinal: ((), 304), names)
    with pytest.raises(KeyboardInterrupt):
        op(torch.zeros(8, requires_grad=True))


def test_a_refused_call_is_said_otherwise(native: ModuleType, stub: Stub) -> None:
    """By what the package says of it: nothing, other arguments, or what is no answer."""
    asked: list[tuple[Any, ...]] = []
    answers: list[Any] = []

    def restated(*arguments: Any) -> Any:
        asked.append(arguments)
        return answers.pop()

    op = native.Operator("o", lambda vendor, ordinal: ((), 304), lambda: ("x",), restated)
    x = torch.zeros(8, requires_grad=True)
    answers.append(None)
    refused(op, [x], "x")
    assert [each is x for each in asked.pop()] == [True]
    for wrong in (1, (x,), ([x], None), ((x, x), None)):
        answers.append(wrong)
        with pytest.raises(TypeError, match="restated must return"):
            op(x)
    answers.append(((x.detach(),), lambda: pytest.fail("the call was refused")))
    with pytest.raises(errors.ArgumentDeviceError):  # not for its gradient any more
        op(x)
    asked.clear()
    with pytest.raises(errors.UnsupportedError):  # a stream of the caller's: copies would be made on another
        op(x, stream=0)
    assert not asked
    with pytest.raises(IndexError):  # its own error goes through
        op(x)


def test_rope_reads_what_asks_for_a_gradient(native: ModuleType, stub: Stub) -> None:
    """As AITER's functions do: it is refused for its device, where every other operator names the gradient."""
    x = torch.zeros(2, 1, 2, 16, requires_grad=True)
    with pytest.raises(errors.AiterPrebuiltError) as refusal:
        aiter_prebuilt.rope_fwd(x, torch.zeros(2, 1, 1, 8), 0, True, False)
    assert "gradient" not in str(refusal.value)
    with pytest.raises(errors.UnsupportedError, match="gradient"):
        aiter_prebuilt.rms_norm(x, torch.zeros(16), 1e-6)


#: Torch loads decompositions for a tangent, and warns of its own way to do so.
_LOADS_DECOMPOSITIONS = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


def _dual(tensor: Any) -> Any:
    """The tensor with a tangent of ones."""
    return torch.autograd.forward_ad.make_dual(tensor, torch.ones_like(tensor)).as_subclass(Card)


@_LOADS_DECOMPOSITIONS
@pytest.mark.parametrize("guard", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("role", list(ROLES))
def test_a_tangent_is_refused_by_its_argument(op: Any, stub: Stub, role: str, warm: bool, guard: Any) -> None:
    place = list(ROLES).index(role)
    arguments = [card() for _ in ROLES]
    with guard():
        for _ in range(2 * warm):
            op(*arguments)
        before = stub.launches()
        with torch.autograd.forward_ad.dual_level():
            op(*arguments)
            carrying = [*arguments[:place], _dual(arguments[place]), *arguments[place + 1 :]]
            with pytest.raises(errors.UnsupportedError, match="no forward derivative") as raised:
                op(*carrying)
            assert raised.value.asked == "o(forward-mode AD)"
            assert f"{role} carries a tangent" in raised.value.found
        op(*arguments)
    assert stub.launches() == before + 2


@_LOADS_DECOMPOSITIONS
@pytest.mark.filterwarnings(
    "ignore:Exception ignored on calling ctypes callback"
)  # the wrapper of a transform has no address
def test_a_jvp_is_refused(op: Any, stub: Stub) -> None:
    rest = [card(), card(), None]  # no leaf is made inside of a transform

    def call(tensor: Any) -> Any:
        op(tensor.as_subclass(Card), *rest)
        return tensor

    with pytest.raises(errors.UnsupportedError, match="carries a tangent"):
        torch.func.jvp(call, (torch.zeros(8),), (torch.ones(8),))
    assert stub.launches() == 0
