"""A child of ``test_ranks.py``: one rank of ``CustomAllreduce`` whose tensors are torch's, on an embedded device of its own.

Arguments: the world, the folder that ranks meet in, a seed, the rank. What is not made without torch is executed here: MXFP4.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from emulator.ranks_program import Folder

from aiter_prebuilt import CustomAllreduce

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: What a code of fp4 stands for.
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
EPSILON = 1e-5


def decoded(codes: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers that pairs of codes stand for, and the scale of each."""
    pairs = codes.view(torch.uint8)
    each = torch.stack([pairs & 15, pairs >> 4], -1).reshape(len(pairs), -1).long()
    scales = (scale.view(torch.uint8).double() - 127).exp2().repeat_interleave(32, -1)
    return FP4[each & 7] * (1 - 2 * (each >> 3)) * scales, scales


def check(ranks: CustomAllreduce, shape: tuple[int, int], seed: int, rank: int, world: int) -> None:
    """The residual and the norm are near, and each code is one next to its number."""
    random = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(*shape, generator=random).bfloat16() for _ in range(world + 1)]
    weight = torch.randn(shape[1], generator=random).bfloat16()
    found: Any = ranks.custom_fused_ar_rms_mxfp4_quant(
        inputs[rank], inputs[-1], weight, EPSILON, emit_bf16=True
    )
    codes, residual, scale, norm = found
    total = sum(each.double() for each in inputs)
    assert isinstance(total, torch.Tensor)
    right = total / (total.square().mean(-1, keepdim=True) + EPSILON).sqrt() * weight.double()
    assert (residual.double() - total).abs().max() <= 3 * 2.0**-8 * total.abs().max()
    assert (norm.double() - right).abs().max() <= 6 * 2.0**-8 * right.abs().max()
    assert codes.shape == (shape[0], shape[1] // 2) and scale.shape == (shape[0], shape[1] // 32)
    numbers, scales = decoded(codes, scale)
    off = (numbers - norm.double()).abs() / scales
    # From 4 to 6 codes are 2 apart; what is beyond 6 is 6, and no block has 8.
    assert off.max() <= 2 and off.mean() < 0.3 and (numbers != 0).double().mean() > 0.4
    short: Any = ranks.custom_fused_ar_rms_mxfp4_quant(inputs[rank], inputs[-1], weight, EPSILON)
    assert len(short) == 3 and torch.equal(short[0].view(torch.uint8), codes.view(torch.uint8))


def main(words: list[str]) -> int:
    """Of the command line."""
    world, folder, seed, rank = int(words[0]), Path(words[1]), int(words[2]), int(words[3])
    sys.path.insert(0, str(EXAMPLES))
    from embedded import EmbeddedDevice

    EmbeddedDevice("gfx950")
    meeting = Folder(folder, rank, world)
    ranks = CustomAllreduce(meeting, ("amd", 0), max_size=1 << 20)
    with torch.inference_mode():
        for number, shape in enumerate(((5, 2880), (33, 1024), (1, 4096))):
            check(ranks, shape, seed + number, rank, world)
    meeting.exchange(b"through")
    ranks.close()
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
