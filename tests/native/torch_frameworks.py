"""The parts of ``native.frameworks`` that have torch: tensors of an emulated card for a torch that was built without one."""

# ruff: noqa: PT017  # not run by pytest: this is its child

from __future__ import annotations

import ctypes
import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch

import aiter_prebuilt
from aiter_prebuilt import errors
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator import memory
from aiter_prebuilt_emulator.memory import DeviceArray
from native import exchange
from native.frameworks import COLUMNS, ROWS, VALUES, close, f16, silu_rows
from native.frameworks import read as values_of

NAMES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}


class CardTensor(torch.Tensor):
    """A tensor on ``cuda:0``, as a ROCm build calls it, whose memory is the embedded device's.

    ``__dlpack_c_exchange_api__`` is hidden: so looks a tensor of torch before 2.10.
    """

    __dlpack_c_exchange_api__: Any = None
    array: DeviceArray

    @staticmethod
    def on_card(array: DeviceArray, kind: type[CardTensor] | None = None) -> CardTensor:
        """The tensor over ``array``."""
        dtype = next(each for each, name in NAMES.items() if name == array.dtype)
        made: CardTensor = torch.Tensor._make_wrapper_subclass(
            kind or CardTensor, array.shape, strides=array.strides, dtype=dtype, device=torch.device("cuda:0")
        )
        made.array = array
        return made

    def data_ptr(self) -> int:
        """Where the elements lie."""
        return self.array.address

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the operators' Python functions ask of a tensor: a new one like it."""
        kwargs = kwargs or {}
        assert func in (torch.ops.aten.empty_like.default, torch.ops.aten.new_empty.default), func
        shape = args[1] if len(args) > 1 else args[0].shape
        dtype = kwargs.get("dtype") or args[0].dtype
        return CardTensor.on_card(DeviceArray(NAMES[dtype], tuple(shape)), cls)


def _borrow(instance: CardTensor, out: Any) -> int:
    array = instance.array
    kept = exchange.DeviceTensor(array.address, array.dtype, array.shape, array.strides)
    exchange._KEEP.append(kept)
    return exchange.fill_borrow(kept, out)


class NewCardTensor(CardTensor):
    """The same with the C exchange API, as torch has it from 2.10 on."""


_TABLE = exchange.table(_borrow)
NewCardTensor.__dlpack_c_exchange_api__ = exchange.capsule(ctypes.addressof(_TABLE), b"dlpack_exchange_api")


def _runs(kind: type[CardTensor]) -> None:
    """In place and returning, dense and with strided rows, by values."""
    x = CardTensor.on_card(DeviceArray("f16", (ROWS, 2 * COLUMNS), f16(VALUES)), kind)
    out = x.new_empty((ROWS, COLUMNS))
    assert isinstance(out, kind)
    for _ in range(2):
        aiter_prebuilt.silu_and_mul(out, x)
    close(values_of(out.array), silu_rows(VALUES))
    rows = torch.tensor(VALUES, dtype=torch.float16).view(ROWS, 2 * COLUMNS)
    narrow = DeviceArray("f16", (ROWS, COLUMNS), f16(VALUES)[: -2 * COLUMNS], strides=(2 * COLUMNS, 1))
    weight = CardTensor.on_card(DeviceArray("f16", (COLUMNS,), f16([0.5] * COLUMNS)), kind)
    made = aiter_prebuilt.rms_norm(CardTensor.on_card(narrow, kind), weight, 1e-6)
    assert isinstance(made, kind) and made.is_contiguous() and made.shape == (ROWS, COLUMNS)
    half = rows[:, :COLUMNS].double()
    wanted = half * torch.rsqrt(half.square().mean(-1, keepdim=True) + 1e-6) * 0.5
    close(values_of(made.array), wanted.flatten().tolist())


def _as_rocm_build(stream: int) -> list[int]:
    """Let torch say that it is a ROCm build whose current stream is ``stream``; the list counts how often it was asked."""
    asked: list[int] = []

    def current_stream(ordinal: int) -> Any:
        asked.append(ordinal)
        return types.SimpleNamespace(cuda_stream=stream)

    torch.version.hip = "7.0"
    torch.cuda.current_stream = current_stream  # a stand-in
    return asked


def old_torch() -> None:
    """torch before 2.10: data_ptr(), stride() and torch.cuda.current_stream; values, and the stream is really used."""
    handle = ctypes.c_void_p()
    memory.call("hipStreamCreate", ctypes.byref(handle))
    asked = _as_rocm_build(handle.value or 0)
    _runs(CardTensor)
    assert asked and set(asked) == {0}


def new_torch() -> None:
    """torch from 2.10 on: the exchange API alone; data_ptr() and torch.cuda are never asked."""
    asked = _as_rocm_build(0)

    def never(self: Any) -> int:
        raise AssertionError("data_ptr() was called")

    NewCardTensor.data_ptr = never  # type: ignore[method-assign]  # a stand-in
    _runs(NewCardTensor)
    assert not asked
    stats = dispatch.operator("silu_and_mul").stats()
    assert stats["memo_hits"] == 1 and stats["launches"] == 2, stats


class Hollow(torch.Tensor):
    """A wrapper subclass: a device and a shape, and no memory of its own."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Nothing is computed with it."""
        raise AssertionError(f"{func} was called")


def _refused(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError(f"accepted; wanted {kind.__name__} about {words}")


def old_torch_refusals() -> None:
    """Without the exchange API each unfit tensor is refused by the class that names the reason, and nothing is launched."""
    del torch.Tensor.__dlpack_c_exchange_api__
    _as_rocm_build(0)
    warnings.simplefilter("ignore")  # FakeTensor warns about data_ptr(), which is what is tried here
    from torch._subclasses.fake_tensor import FakeTensorMode

    card = CardTensor.on_card(DeviceArray("f16", (ROWS, 2 * COLUMNS), f16(VALUES)))
    with FakeTensorMode():
        fake = torch.empty(ROWS, COLUMNS, dtype=torch.float16, device="cuda:0")
    plain = torch.zeros(ROWS, COLUMNS, dtype=torch.float16)
    wide = torch.zeros(ROWS, 2 * COLUMNS, dtype=torch.complex64).conj()
    hollow = torch.Tensor._make_wrapper_subclass(
        Hollow, (ROWS, COLUMNS), dtype=torch.float16, device=torch.device("cuda:0")
    )
    for out, kind, words in (
        (plain, errors.ArgumentDeviceError, "CPU"),
        (plain.to("meta"), errors.ArgumentDeviceError, "meta"),
        # Torch dispatches these, here to the operands' own __torch_dispatch__.
        (fake, AssertionError, "aiter_prebuilt.silu_and_mul"),
        (hollow, AssertionError, "aiter_prebuilt.silu_and_mul"),
        (plain.to_sparse(), errors.ArgumentKindError, "Pass a dense torch tensor"),
        (wide, errors.ArgumentDTypeError, "complex64"),
    ):
        _refused(partial(aiter_prebuilt.silu_and_mul, out, card), kind, words)
        _refused(partial(aiter_prebuilt.silu_and_mul, card, out), kind, words)
    assert dispatch.operator("silu_and_mul").stats()["launches"] == 0


def _moved(tensor: torch.Tensor) -> DeviceArray:
    """A copy of the memory that the tensor's elements span."""
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    data = tensor.as_strided((span,), (1,)).view(torch.uint8).numpy().tobytes()
    return DeviceArray(NAMES[tensor.dtype], tuple(tensor.shape), data, strides=tensor.stride())


def compiled() -> None:
    """A block under torch.compile(fullgraph=True) whose kernels are the shipped code objects, executed by the embedded device.

    torch has no card here, so the operators' kernels for CPU tensors copy to the device, call the native operator, and copy back.
    """
    from support import references

    import aiter_prebuilt.tracing.library as library
    from aiter_prebuilt.tracing import signatures

    def kernel(signature: signatures.Signature) -> Callable[..., Any]:
        native = dispatch.operator(signature.name)

        def launch(*args: Any) -> None:
            moved = [_moved(each) if isinstance(each, torch.Tensor) else each for each in args]
            native(*(each.raw if isinstance(each, DeviceArray) else each for each in moved), stream=0)
            for spec, host, device in zip(signature.tensors, args, moved, strict=False):
                if spec.role != "in" and host is not None:
                    now = torch.frombuffer(bytearray(device.read()), dtype=torch.uint8).view(host.dtype)
                    host.copy_(now.as_strided(host.shape, host.stride()))

        with mock.patch.object(library, "operator", return_value=launch):
            return library._kernel(signature)

    kernels = torch.library.Library("aiter_prebuilt", "IMPL")
    for signature in signatures.load().values():
        kernels.impl(signature.name, kernel(signature), "CPU")
        if signature.returns:
            kernels.impl(f"{signature.name}.out", kernel(signature.into_memory()), "CPU")

    def block(x: Any, residual: Any, gate_up: Any, down: Any, weight: Any) -> Any:
        both = aiter_prebuilt.gemm_a16w16(aiter_prebuilt.rms_norm(x, weight, 1e-6), gate_up)
        gated = both.new_empty((both.shape[0], both.shape[1] // 2))
        aiter_prebuilt.silu_and_mul(gated, both)
        added = aiter_prebuilt.gemm_a16w16(gated, down)
        out, residual_out = torch.empty_like(x), torch.empty_like(x)
        aiter_prebuilt.rmsnorm2d_fwd_with_add(out, added, residual, residual_out, weight, 1e-6)
        return out

    torch.manual_seed(3)
    names = ("rms_norm", "gemm_a16w16", "silu_and_mul", "rmsnorm2d_fwd_with_add")
    run = torch.compile(block, fullgraph=True, backend="aot_eager")
    for rows in (3, 5):
        shapes = ((rows, 64), (rows, 64), (128, 64), (64, 64), (64,))
        x, residual, gate_up, down, weight = ((torch.randn(*shape) / 4).bfloat16() for shape in shapes)
        run_reference = {name: references.kernel(name) for name in names}
        both = run_reference["gemm_a16w16"](run_reference["rms_norm"](x, weight, 1e-6), gate_up)
        gated, wanted, added = both.new_empty((rows, 64)), torch.empty_like(x), torch.empty_like(x)
        run_reference["silu_and_mul"](gated, both)
        product = run_reference["gemm_a16w16"](gated, down)
        run_reference["rmsnorm2d_fwd_with_add"](wanted, product, residual, added, weight, 1e-6)
        found = run(x, residual, gate_up, down, weight)
        # Each of the five steps rounds to bf16 once; a step's last bit may fall the other way than the reference's.
        assert torch.allclose(found.float(), wanted.float(), rtol=2**-6, atol=2**-6), (
            (found - wanted).abs().max()
        )
    launches = {name: dispatch.operator(name).stats()["launches"] for name in names}
    assert all(launches[name] >= 2 for name in names), launches


PARTS: dict[str, Callable[[], None]] = {
    "old_torch": old_torch,
    "new_torch": new_torch,
    "old_torch_refusals": old_torch_refusals,
    "compiled": compiled,
}
