"""``fused_qk_rmsnorm``: which of three operators it is, traced by torch.compile, with the references as kernels; older calls."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support import torch_kernels  # noqa: E402

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import UnsupportedError  # noqa: E402

BF16, FP8 = torch.bfloat16, torch_kernels.FP8
ROWS, Q, K = 3, 256, 64


def _tensors() -> dict[str, Any]:
    draw = torch.Generator().manual_seed(5)
    both = torch.randn(ROWS, Q + K, generator=draw).to(BF16)
    q_weight, k_weight = (torch.rand(size, generator=draw).to(BF16) for size in (Q, K))
    return {"q": both[:, :Q], "q_weight": q_weight, "k": both[:, Q:], "k_weight": k_weight}


def _norm(x: Any, weight: Any, epsilon: float) -> Any:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight.float()


def _close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found.float(), wanted, rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize("older", ["by name", "by position", "no"])
def test_without_codes_both_norms_come_back(compiled: Any, older: str) -> None:
    words, outs = _tensors(), [torch.zeros(ROWS, size, dtype=BF16) for size in (Q, K)]
    q, q_weight, k, k_weight = words.values()
    call = compiled(ap.fused_qk_rmsnorm)
    if older == "by name":
        found = call(**words, q_eps=0.5, k_eps=0.25)
    elif older == "by position":
        found = call(None, q, q_weight, 0.5, outs[1], k, k_weight, 0.25)
        assert torch.equal(found[1], outs[1])
    else:
        names = {"q_out_quantized": outs[0], "k_out": outs[1], "q_epsilon": 0.5, "k_epsilon": 0.25}
        found = call(**words, **names, quant_type=ap.QuantType.No)
        assert torch.equal(found[0], outs[0]) and torch.equal(found[1], outs[1])
    _close(found[0], _norm(q, q_weight, 0.5))
    _close(found[1], _norm(k, k_weight, 0.25))
    again = compiled(ap._fused_qk_rmsnorm)(None, q, q_weight, 0.5, None, k, k_weight, 0.25)
    assert torch.equal(again[0], found[0]) and torch.equal(again[1], found[1])


def test_keys_have_the_epsilon_of_queries_unless_told(compiled: Any) -> None:
    words = _tensors()
    found = compiled(ap.fused_qk_rmsnorm)(**words, q_epsilon=0.5)
    _close(found[1], _norm(words["k"], words["k_weight"], 0.5))


@pytest.mark.parametrize(
    ("kind", "size", "columns"),
    [(2, None, Q), (3, None, 32), (4, None, 128), (5, None, 128), (7, 64, 64), (None, 32, 32)],
)
def test_codes_have_scales_as_the_type_says(
    compiled: Any, kind: int | None, size: int | None, columns: int
) -> None:
    words = _tensors()
    codes, scales = torch.zeros(ROWS, Q, dtype=FP8), torch.zeros(ROWS, Q // columns)
    keys = torch.zeros(ROWS, K, dtype=BF16)
    found = compiled(ap.fused_qk_rmsnorm)(
        codes,
        scales,
        **words,
        k_out=keys,
        q_epsilon=0.5,
        k_epsilon=0.25,
        gemma_norm=True,
        quant_type=kind,
        group_size=size,
    )
    assert found is None
    wanted = _norm(words["q"], words["q_weight"] + 1, 0.5)
    most = wanted.reshape(ROWS, -1, columns).abs().amax(-1)
    torch.testing.assert_close(scales, most / torch.finfo(FP8).max, rtol=2**-7, atol=0)
    meant = codes.float() * scales.repeat_interleave(columns, dim=1)
    torch.testing.assert_close(meant, wanted, rtol=2**-3, atol=float(most.max()) / 256)
    _close(keys, _norm(words["k"], words["k_weight"] + 1, 0.25))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"quant_type": 1}, "quant_type=1"),
        ({"quant_type": 9, "group_size": 32}, "quant_type=9"),
        ({"quant_type": None}, "quant_type=None"),
        ({"gemma_norm": True}, "gemma_norm=True"),
        ({"q_residual": 1}, "q_residual"),
        ({"q_res_out": 1}, "q_res_out"),
        ({"q_out_unquantized": 1}, "q_out_unquantized"),
    ],
)
def test_what_is_not_served_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        ap.fused_qk_rmsnorm(**_tensors(), **changes)
