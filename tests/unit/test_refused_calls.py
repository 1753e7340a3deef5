"""Calls from which no output can be made, and options that no kernel covers: a named error before anything is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt.errors import ArgumentDeviceError, ArgumentKindError, UnsupportedError

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")


W = torch.ones(8)
Q = torch.ones(1, 4, 2, 64, dtype=torch.bfloat16)


def shuffled() -> Any:
    """A weight in the layout of other products, which says so."""
    return aiter_prebuilt.shuffle_weight(torch.ones(16, 32, dtype=torch.bfloat16), (16, 16))


def wrong(value: object) -> Any:
    """A value of a type that the function does not take: Any, so that mypy lets the call through."""
    return value


@pytest.mark.parametrize(
    "call",
    [
        lambda: aiter_prebuilt.rms_norm(wrong(None), W, 1e-6),
        lambda: aiter_prebuilt.rms_norm(wrong([1.0]), W, 1e-6),
        lambda: aiter_prebuilt.rmsnorm2d_fwd(wrong(3), W, 1e-6),
        lambda: aiter_prebuilt.softmax(wrong("x")),
        lambda: aiter_prebuilt.gemm_a16w16(W, torch.tensor(1.0)),
        lambda: aiter_prebuilt.gemm_a16w16(wrong(None), W),
        lambda: aiter_prebuilt.gemm_a8w8_bpreshuffle(W, wrong(None), W, W),
        lambda: aiter_prebuilt.flash_attn_func(torch.tensor(1.0), Q, Q),
        lambda: aiter_prebuilt.flash_attn_func(Q[..., :0], Q, Q),
        lambda: aiter_prebuilt.flash_attn_func(W, Q, Q, return_lse=True),
    ],
)
def test_no_output_can_be_made(call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentKindError, match="help\\(aiter_prebuilt"):
        call()


def test_a_head_of_no_element_is_named() -> None:
    with pytest.raises(ArgumentKindError, match="a size is 0 that must be at least 1, such as the head size"):
        aiter_prebuilt.flash_attn_func(Q[..., :0], Q, Q)


@pytest.mark.parametrize(
    "call",
    [
        lambda: aiter_prebuilt.rmsnorm2d_fwd(W, W, 1e-6, use_model_sensitive_rmsnorm=2),
        lambda: aiter_prebuilt.gemm_a16w16(W[None], W[None], scale_a=W),
        lambda: aiter_prebuilt.gemm_a8w8_blockscale(
            W[None], W[None], W[None], W[None], torch.bfloat16, wrong(W[None])
        ),
        lambda: aiter_prebuilt.gemm_a16w16(W[None], shuffled()),
        lambda: aiter_prebuilt.gemm_a16w16(W[None], shuffled(), dtype=torch.float32),
        lambda: aiter_prebuilt.gemm_a16w16_fp32(W[None], shuffled()),
        lambda: aiter_prebuilt.tgemm.mm(W[None], shuffled()),
        lambda: aiter_prebuilt.gemm_a16w16(W[None], W[None], otype=torch.float64),
        lambda: aiter_prebuilt.gemm_a16w16(W[None], W[None], otype=wrong("f32")),
        lambda: aiter_prebuilt.gemm_a16w16(W[None], W[None], dtype=wrong("f32")),
        lambda: aiter_prebuilt.tgemm.mm(W[None], W[None], otype=wrong("f32")),
        lambda: aiter_prebuilt.gemm_a16w16(Q[0, 0], Q[0, 0], otype=torch.float32, dtype=torch.bfloat16),
        lambda: aiter_prebuilt.gemm_a16w16(Q[0, 0], Q[0, 0], otype=torch.bfloat16, dtype=torch.float32),
        lambda: aiter_prebuilt.gemm_a8w8_bpreshuffle(W[None], W[None], W, W, bias=W),
        lambda: aiter_prebuilt.flash_attn_func(Q, Q, Q, dropout_p=1.0),
        lambda: aiter_prebuilt.flash_attn_func(Q, Q, Q, dropout_p=-0.1),
        lambda: aiter_prebuilt.flash_attn_func(Q, Q, Q, window_size=(128,)),
        lambda: aiter_prebuilt.flash_attn_func(Q, Q, Q, alibi_slopes=W),
        lambda: aiter_prebuilt.mha_fwd(
            Q.clone().requires_grad_(), Q, Q, 0.0, 1.0, False, -1, -1, True, False
        ),
        lambda: aiter_prebuilt.rms_norm(W[None].clone().requires_grad_(), W, 1e-6),
        lambda: aiter_prebuilt.silu_and_mul(W[None], W[None].clone().requires_grad_()),
        lambda: aiter_prebuilt.topk_gating(W, W, W, score_func="tanh"),
    ],
)
def test_an_option_that_nothing_covers_is_never_ignored(call: Callable[[], Any]) -> None:
    with pytest.raises(UnsupportedError, match="no prebuilt kernel covers it"):
        call()


@pytest.mark.parametrize("share", [None, "", []])
@pytest.mark.parametrize("wanted", [False, True])
def test_a_share_of_dropout_that_is_no_number_is_refused_by_name(share: object, wanted: bool) -> None:
    """Those that Python takes for false, too: they are not 0.0."""
    starts = torch.tensor([0, 4], dtype=torch.int32)
    rest = (False, -1, -1, False, wanted)
    with pytest.raises(ArgumentKindError) as dense:
        aiter_prebuilt.mha_fwd(Q, Q, Q, wrong(share), 0.1, *rest)
    with pytest.raises(ArgumentKindError) as ragged:
        aiter_prebuilt.mha_varlen_fwd(
            Q[0], Q[0], Q[0], starts, starts, 4, 4, 0, wrong(share), 0.1, 0.0, False, *rest
        )
    for caught in (dense, ragged):
        assert f"dropout_p must be a float, got {share!r}" in str(caught.value)


@pytest.mark.parametrize("share", [0, 0.0, -0.0, False])
def test_no_dropout_is_any_zero(share: float) -> None:
    with pytest.raises(ArgumentDeviceError, match=r"^mha_fwd: q must be on the GPU"):
        aiter_prebuilt.mha_fwd(Q, Q, Q, share, 0.1, False, -1, -1, False, False)


@pytest.mark.parametrize("window", [None, 3, (), (-1,), (-1, -1, 0, 0), "no", {}, [[-1], -1]])
def test_a_window_is_refused_by_name_with_what_to_write(window: object) -> None:
    with pytest.raises(UnsupportedError) as caught:
        aiter_prebuilt.flash_attn_func(Q, Q, Q, window_size=wrong(window))
    assert caught.value.asked == f"flash_attn_func(window_size={window!r})"
    assert caught.value.fix.startswith("Use window_size=(left, right) or (left, right, first). ")


@pytest.mark.parametrize(
    "window", [[-1, -1], [-1, -1, 0], (-1.0, -1), torch.tensor([-1, -1]), (128, 0), (9, 3, 4)]
)
def test_a_window_is_what_aiter_reads_as_one(window: object) -> None:
    with pytest.raises(ArgumentDeviceError, match="on the CPU"):
        aiter_prebuilt.flash_attn_func(Q, Q, Q, window_size=wrong(window))


def test_the_values_of_a_refused_tensor_are_not_read() -> None:
    with pytest.raises(UnsupportedError) as caught:
        aiter_prebuilt.gemm_a16w16(W[None], W[None], scale_a=W)
    assert caught.value.asked == "gemm_a16w16(scale_a=...)"
    assert "help(aiter_prebuilt.gemm_a16w16)" in caught.value.fix


def test_tensors_on_the_cpu_are_refused_by_name() -> None:
    with pytest.raises(ArgumentDeviceError, match="on the CPU"):
        aiter_prebuilt.rms_norm(W[None].bfloat16(), W.bfloat16(), 1e-6)
