"""Tensors without memory, or with memory that does not hold their values: refused by name, and nothing is launched."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native import exchange
from native.conftest import Blob, Serve, Stub
from native.exchange import CUDA, DeviceTensor, GpuTensor
from native.synthetic import Op, R, S, T

if TYPE_CHECKING:
    import torch

X = 0x7F0000000100


def _unfit() -> dict[str, tuple[torch.Tensor, type[errors.ArgumentError], str]]:
    """Tensors that torch gives out and no kernel can use, by label: the tensor, the error and its words."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode

    class Hollow(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(f"{func} was called")

    def batched(tensor: torch.Tensor) -> torch.Tensor:
        seen: list[torch.Tensor] = []

        def keep(each: torch.Tensor) -> torch.Tensor:
            seen.append(each)
            return each

        torch.func.vmap(keep)(tensor[None])
        return seen[0]

    with FakeTensorMode():
        fake = torch.empty(4, 8, dtype=torch.bfloat16, device="cuda:0")
    with FunctionalTensorMode():
        functional = FunctionalTensor.to_functional(fake)
    plain = torch.zeros(4, 8, dtype=torch.bfloat16)
    hollow = torch.Tensor._make_wrapper_subclass(
        Hollow, (4, 8), dtype=torch.bfloat16, device=torch.device("cuda:0")
    )
    device, kind = errors.ArgumentDeviceError, errors.ArgumentKindError
    return {
        "fake": (fake, device, "no memory: it is a fake or meta tensor. Pass a tensor with storage"),
        "wrapper subclass": (
            hollow,
            device,
            "no memory: it is a fake or meta tensor. Pass a tensor with storage",
        ),
        "functional": (
            functional,
            kind,
            "(?s)cannot be exported by its framework.*Pass a dense tensor on the GPU",
        ),
        "batched": (
            batched(plain),
            kind,
            "(?s)cannot be exported by its framework.*Pass a dense tensor on the GPU",
        ),
        "meta": (
            plain.to("meta"),
            device,
            "(?s)is a meta tensor, which has no memory.*Pass a tensor with storage",
        ),
        "sparse": (
            plain.to_sparse(),
            kind,
            "(?s)cannot be exported by its framework.*Pass a dense tensor on the GPU",
        ),
        "nested": (
            torch.nested.nested_tensor([plain[0], plain[1, :3]]),
            kind,
            "cannot be exported by its framework",
        ),
        "cpu": (plain, device, "CPU. Move"),
        "cpu subclass": (torch.nn.Parameter(plain, requires_grad=False), device, "CPU. Move"),
    }


@pytest.mark.filterwarnings("ignore")
def test_tensors_without_usable_memory_launch_nothing(
    serve: Serve, stub: Stub, blob: Blob, native: ModuleType
) -> None:
    """Cold and, where a real call has made the memo warm, in place of each argument; torch calls a ROCm device "cuda" too."""
    pytest.importorskip("torch")
    op = serve(
        Op(
            "o",
            [T("x", "bf16", ["M", "N"]), T("y", "bf16", ["M", "N"], role="out")],
            recipes=[R(blob=blob())],
        ),
        vendor=1,
        target="sm_90",
    )
    good, other = (GpuTensor(X + 4096 * i, "bf16", (4, 8), device=(CUDA, 0)) for i in range(2))
    launched = 0
    for _ in range(2):
        for label, (tensor, kind, words) in _unfit().items():
            for arguments in ((tensor, good), (good, tensor), (tensor, tensor)):
                with pytest.raises(kind, match=words) as raised:
                    op(*arguments)
                assert type(raised.value) is kind, label
                assert stub.launches() == launched and stub.mallocs() == 0, label
        op(good, other)
        launched += 1
    assert stub.launches() == launched


def test_conjugated_and_negated_views(serve: Serve, stub: Stub, blob: Blob) -> None:
    """DLPack has no bit for them. A conjugate is complex, which no operator takes; a negated view is every other element."""
    pytest.importorskip("torch")
    import torch

    op = serve(Op("o", [T("x", "f32", ["N"])], recipes=[R(blob=blob())]), vendor=1, target="sm_90")

    class OnCard(torch.Tensor):
        """A CPU tensor whose table says that it is on the card."""

        __dlpack_c_exchange_api__: Any

    def borrow(tensor: torch.Tensor, out: Any) -> int:
        made = DeviceTensor(
            X, {torch.complex64: "f64"}.get(tensor.dtype, "f32"), tuple(tensor.shape), tensor.stride()
        )
        made.tensor.device_type = CUDA
        if tensor.dtype is torch.complex64:
            made.tensor.code, made.tensor.bits = 5, 64
        exchange._KEEP.append(made)
        return exchange.fill_borrow(made, out)

    table = exchange.table(borrow)
    OnCard.__dlpack_c_exchange_api__ = exchange.capsule(ctypes.addressof(table), b"dlpack_exchange_api")
    conjugate = torch.zeros(4, dtype=torch.complex64).conj()
    assert conjugate.is_conj() and conjugate.imag.is_neg()
    op(torch.zeros(4).as_subclass(OnCard))
    with pytest.raises(errors.ArgumentDTypeError, match=r"must be f32, got [\w ,]+\. Convert it first"):
        op(conjugate.as_subclass(OnCard))
    with pytest.raises(errors.ArgumentStrideError, match=r"x must be contiguous.*Call contiguous"):
        op(conjugate.imag.as_subclass(OnCard))
    assert stub.launches() == 1


def test_no_rows_need_no_memory_and_launch_nothing(serve: Serve, stub: Stub, blob: Blob) -> None:
    step = S("k", ["ptr x", "i64 M"], ["M"])
    op = serve(Op("o", [T("x", "bf16", ["M", "N"])], recipes=[R(steps=[step], blob=blob())]))
    for _ in range(2):
        op(GpuTensor(0, "bf16", (0, 8)))
    assert stub.launches() == 0
    op(GpuTensor(X, "bf16", (4, 8)))
    assert stub.launches() == 1
