"""Operators of torch whose kernels AITER compiles from templates when they are called (``csrc.cpp_itfs``): vLLM's decode step
calls the first by ``torch.ops.aiter``, its sampler the second.
"""

from __future__ import annotations

import importlib
from typing import Any

from emulator.client_tools import Calls, Tools


def templates(t: Tools) -> Calls:
    """Calls with 20 places, as vLLM writes them."""
    importlib.import_module("aiter.ops.sampling")
    operators: Any = t.torch.ops.aiter

    def decode(_: Any) -> list[str]:
        seqs, few, heads, size, block = 2, 2, 8, 128, 16
        q = t.bf16(seqs, heads, size)
        # As vLLM 0.33 has them: keys and values of a head side by side, starts of queries without the end, scales without dims.
        keys, values = t.bf16(8, few, block, 2 * size).transpose(1, 2).split(size, dim=-1)
        tables = t.torch.tensor([[3, 1], [0, 5]], dtype=t.torch.int32)
        lengths = t.torch.tensor([20, 31], dtype=t.torch.int32)
        starts = t.torch.arange(seqs + 1, dtype=t.torch.int32)[:seqs]
        out, workspace = t.torch.full_like(q, float("nan")), t.torch.empty(1 << 20, dtype=t.torch.uint8)
        one = t.torch.tensor(1.0)
        operators.paged_attention_v1(
            out, workspace, q, keys, values, size**-0.5, tables, starts, lengths, 31, None, "auto", "NHD", 0.0, one, one,
            None, 256, 1, 0,
        )  # fmt: skip
        want = t.torch.zeros(seqs, heads, size, dtype=t.torch.float64)
        for row in range(seqs):
            length = int(lengths[row])
            some, rest = (
                each[tables[row].long()]
                .reshape(-1, few, size)[:length]
                .double()
                .repeat_interleave(heads // few, 1)
                for each in (keys, values)
            )
            scores = t.torch.einsum("hd,jhd->hj", q[row].double(), some) * size**-0.5
            want[row] = t.torch.einsum("hj,jhd->hd", scores.softmax(-1), rest)
        return t.far("out", out, want)

    def cut(_: Any) -> list[str]:
        probabilities = t.torch.randn(4, 300).softmax(-1)
        found = operators.top_k_renorm_probs(probabilities, None, 7)
        best = probabilities.double().topk(7, -1)
        want = t.torch.zeros(4, 300, dtype=t.torch.float64)
        want.scatter_(-1, best.indices, best.values / best.values.sum(-1, keepdim=True))
        return t.far("kept", found, want, 1e-5)

    return {"torch.ops.aiter.paged_attention_v1": decode, "torch.ops.aiter.top_k_renorm_probs": cut}
