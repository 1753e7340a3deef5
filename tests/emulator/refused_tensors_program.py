"""A child of ``test_refused_tensors.py``: tensors without strides, and pages of no keys, on the emulator's torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import aiter_prebuilt as ap
from aiter_prebuilt.errors import AiterPrebuiltError, ArgumentKindError

#: Tensors that torch does not export.
ODD: dict[str, Callable[[Any], Any]] = {
    "sparse": lambda x: x.to_sparse(),
    "mkldnn": lambda x: x.to_mkldnn(),
    "quantised": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    "nested": lambda x: torch.nested.nested_tensor([x[0], x[1, :3]]),
}


@pytest.mark.filterwarnings("ignore")  # of torch, about quantised and nested tensors
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("kind", ODD)
def test_a_tensor_that_is_not_exported_is_never_the_one_before(kind: str, place: int) -> None:
    x, weight = torch.randn(4, 64).bfloat16().cuda(), torch.ones(64).bfloat16().cuda()
    before = ap.rms_norm(x, weight, 1e-6)
    odd = ODD[kind](torch.randn(4, 64))
    first, second = (odd, weight) if place == 0 else (x, odd)
    for _ in range(3):
        with pytest.raises(ArgumentKindError, match=r"rms_norm: (weight|input|the output) cannot be "):
            ap.rms_norm(first, second, 1e-6)
    assert torch.equal(ap.rms_norm(x, weight, 1e-6), before)


def zeros(*shape: int) -> Any:
    return torch.zeros(*shape, dtype=torch.bfloat16).cuda()


def ints(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.int32).cuda()


def decoded(layout: str, *pages: int) -> None:
    q, one = zeros(2, 2, 64), torch.ones(1).cuda()
    table, lengths = ints([1, 3], [0, 5]), ints(25, 30)
    ap.paged_attention_v1(
        q.clone(), None, q, zeros(*pages), zeros(*pages), 0.125, table, None, lengths, 30, None, "auto", layout, 0.0,
        one, one,
    )  # fmt: skip


def prompted() -> None:
    pages = zeros(6, 0, 2, 64)
    ap.mha_batch_prefill_func(
        zeros(5, 2, 64), pages, pages, ints(0, 3, 5), ints(0, 2, 4), ints(1, 3, 0, 5), 3, 30, causal=True,
        kv_last_page_lens=ints(9, 14),
    )  # fmt: skip


def listed() -> None:
    pages, table = zeros(6, 0, 2, 64), ints([1, 3], [0, 5])
    ap.flash_attn_varlen_func(
        zeros(5, 2, 64), pages, pages, ints(0, 3, 5), ints(0, 25, 55), 3, 30, block_table=table
    )


def unified() -> None:
    q, pages, table = zeros(5, 2, 64), zeros(6, 0, 2, 64), ints([1, 3], [0, 5])
    ap.unified_attention(
        q, pages, pages, q.clone(), ints(0, 3, 5), 3, ints(25, 30), 30, 0.125, True, (-1, -1), table, 0.0,
        None, None, None,
    )  # fmt: skip


def latent() -> None:
    ap.mla_decode_fwd(
        zeros(2, 16, 576), zeros(6, 0, 1, 576), zeros(2, 16, 512), ints(0, 1, 2), ints(0, 2, 4), ints(1, 3, 0, 5),
        ints(1, 1), 1, page_size=0,
    )  # fmt: skip


def assembled() -> None:
    keys, values, table = zeros(6, 1, 16, 0, 8), zeros(6, 1, 0, 128, 8), ints([1, 3], [0, 5])
    ap.pa_fwd_asm(zeros(2, 8, 128), keys, values, table, ints(25, 30), 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: decoded("NHD", 6, 0, 2, 64),
        lambda: decoded("HND", 6, 2, 0, 64),
        prompted,
        listed,
        unified,
        latent,
        assembled,
    ],
)
def test_pages_of_no_keys_are_refused(call: Callable[[], None]) -> None:
    """A kernel that divides by a page's size, or walks a page table without end, would take the device with it."""
    with pytest.raises(AiterPrebuiltError, match=r"no kernel takes this call|page_size=1 and more"):
        call()
    torch.cuda.synchronize()
