"""A child of ``test_value_checks.py``, with ``AITER_PREBUILT_CHECK=1``: it refuses an index map in a mask's place."""

from __future__ import annotations

import sys

import torch

import aiter_prebuilt as ap
from aiter_prebuilt.errors import ArgumentValueError


def main() -> int:
    """Serve two of four experts by a mask, then give the map that vLLM calls ``expert_map``."""
    torch.manual_seed(3)
    w1, w2 = torch.randn(2, 128, 64).bfloat16().cuda(), torch.randn(2, 64, 64).bfloat16().cuda()
    x, ids = (
        torch.randn(5, 64).bfloat16(),
        torch.tensor([[0, 1], [1, 2], [3, 0], [2, 0], [1, 3]], dtype=torch.int32),
    )
    weights = torch.ones(5, 2)
    places = torch.tensor([-1, 0, -1, 1], dtype=torch.int32)
    found = ap.fused_moe(x.cuda(), w1, w2, weights.cuda(), ids.cuda(), (places >= 0).int().cuda())
    wanted = torch.zeros(5, 64, dtype=torch.float64)
    for token, row in enumerate(ids.tolist()):
        for place in (int(places[expert]) for expert in row if places[expert] >= 0):
            gate, up = (w1[place].cpu().double() @ x[token].double()).chunk(2)
            wanted[token] += w2[place].cpu().double() @ (torch.nn.functional.silu(gate) * up)
    assert (found.cpu().double() - wanted).abs().max() < 2**-6 * wanted.abs().max()
    assert not found[3].any()
    try:
        ap.fused_moe(x.cuda(), w1, w2, weights.cuda(), ids.cuda(), places.cuda())
    except ArgumentValueError as error:
        print(error)
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
