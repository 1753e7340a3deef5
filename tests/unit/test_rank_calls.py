"""What ``CustomAllreduce`` hands to a launch of torch's tensors whose dims lie in memory in another order, and what it leaves."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt import CustomAllreduce
from aiter_prebuilt.errors import ArgumentShapeError
from aiter_prebuilt.ops import quick_all_reduce

torch: Any = pytest.importorskip("torch")
BF16 = torch.bfloat16


class Blocks:
    """Of two ranks, of which the other one has zeros."""

    world, rank, region = 2, 0, 1 << 20

    def all_reduce(self, out: Any, inp: Any, kind: str) -> None:
        assert kind == "bf16" and out.is_contiguous() and inp.is_contiguous()
        out.copy_(inp)

    def all_reduce_rmsnorm(self, tensors: Any, kind: str, epsilon: float, gemma_norm: bool) -> None:
        assert kind == "bf16" and epsilon > 0 and not gemma_norm
        assert all(each.is_contiguous() for each in tensors)
        _, total, inp, residual, _ = tensors
        total.copy_(inp + residual)

    def all_gather(self, out: Any, inp: Any) -> None:
        assert out.dtype == inp.dtype == torch.int32
        out.zero_()
        out[:, 0] = inp

    def reduce_scatter(self, out: Any, inp: Any, kind: str) -> None:
        assert kind == "bf16"
        out.copy_(inp[:, 0])


@pytest.fixture
def ranks() -> CustomAllreduce:
    """One that met nobody."""
    made: Any = CustomAllreduce.__new__(CustomAllreduce)
    made.disabled, made.world_size, made._pool, made._most, made._least = False, 2, Blocks(), 1 << 20, 0
    made.close = lambda: None
    return made  # type: ignore[no-any-return]


def transposed(rows: int = 16, columns: int = 64) -> Any:
    return torch.randn(columns, rows, dtype=torch.float32).to(BF16).t()


def test_sums_keep_the_order_of_memory(ranks: CustomAllreduce) -> None:
    x = transposed()
    out = ranks.custom_all_reduce(x)
    assert out is not None and out.stride() == x.stride() and torch.equal(out, x)


def test_norms_pack_what_is_not_contiguous(ranks: CustomAllreduce) -> None:
    x, residual, weight = transposed(), transposed(), torch.ones(64, dtype=BF16)
    for method in (ranks.custom_fused_ar_rms, ranks.custom_fused_ar_rms_packed_input):
        found = method(x, residual, weight, 1e-5, True)
        assert found is not None and torch.equal(found[1], x + residual)
    strided = torch.zeros(16, 128, dtype=BF16)[:, :64]
    assert ranks.custom_fused_ar_rms(strided, residual, weight, 1e-5, True) is None
    assert ranks.custom_fused_ar_rms_packed_input(strided, residual, weight, 1e-5, True) is not None


@pytest.mark.parametrize("dim", [0, 1])
def test_moves_pack_what_is_not_contiguous(ranks: CustomAllreduce, dim: int) -> None:
    x = transposed()
    out = ranks.custom_all_gather(x, dim)
    assert out is not None and torch.equal(out, torch.cat([x, torch.zeros_like(x)], dim))
    part = torch.empty([(8, 64), (16, 32)][dim], dtype=BF16)
    ranks.custom_reduce_scatter(x, part, dim)
    assert torch.equal(part, x.chunk(2, dim)[0])


def test_what_does_not_fit_is_left_or_refused(ranks: CustomAllreduce) -> None:
    odd = torch.zeros(129, dtype=BF16)[1:]
    assert ranks.custom_all_reduce(odd) is None and ranks.custom_all_gather(odd) is None
    assert ranks.custom_all_gather(torch.zeros((), dtype=BF16)) is None
    x = torch.zeros(4, 64, dtype=BF16)
    with pytest.raises(ArgumentShapeError, match="another shape"):
        ranks.all_reduce(x, out=torch.zeros(64, 4, dtype=BF16))
    with pytest.raises(ArgumentShapeError, match="no part of 2"):
        ranks.reduce_scatter(x, torch.zeros(64, 2, dtype=BF16))
    with pytest.raises(ArgumentShapeError, match="not contiguous"):
        ranks.reduce_scatter(x, torch.zeros(64, 2, dtype=BF16).t())


class _Exported:
    """Blocks of two ranks of which nothing but handles is asked."""

    world = 2

    def __init__(self) -> None:
        self.opened: list[bytes] = []

    def handle(self) -> bytes:
        return bytes(range(64))

    def open(self, handles: list[bytes]) -> None:
        self.opened = handles


def test_handles_of_quick_reduce_are_addresses_or_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As AITER has them, and as vLLM exchanges them."""
    blocks: Any = _Exported()
    monkeypatch.setitem(quick_all_reduce._COMMUNICATORS, 7, quick_all_reduce._Made(blocks, 1 << 20))
    written = ctypes.create_string_buffer(64)
    assert aiter_prebuilt.qr_get_handle(7, ctypes.addressof(written)) is None
    handle = aiter_prebuilt.qr_get_handle(7)
    assert handle is not None and handle.dtype == torch.uint8 and handle.shape == (64,)
    assert bytes(handle.tolist()) == written.raw == bytes(range(64))
    aiter_prebuilt.qr_open_handles(7, [handle, ctypes.addressof(written)])
    assert blocks.opened == [bytes(range(64))] * 2
    with pytest.raises(ArgumentShapeError, match=r"a handle must have .* bytes, got 32"):
        aiter_prebuilt.qr_open_handles(7, [handle, handle[:32]])
    with pytest.raises(
        ArgumentShapeError, match="handle_ptrs must have one handle for each of 2 ranks, got 1"
    ):
        aiter_prebuilt.qr_open_handles(7, [handle])
