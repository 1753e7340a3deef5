"""A child of ``test_sorted_scales.py``: rows and scales in the order of ``moe_sorting``'s ids, compared with torch on the host.

Prints a line for each check; an assertion ends the program.
"""

from __future__ import annotations

import numpy as np
import torch

import aiter_prebuilt as ap
from aiter_prebuilt_bridge.adapted_experts import fused_dynamic_mxfp4_quant_moe_sort, moe_mxfp4_sort

GFX942 = "gfx942" in torch.cuda.get_device_properties(0).gcnArchName
FP8, MOST = (torch.float8_e4m3fnuz, 240.0) if GFX942 else (torch.float8_e4m3fn, 448.0)
TOKENS, EXPERTS, CHOICES, COLUMNS, BLOCK, POISON = 7, 5, 2, 96, 32, 0xA5
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def sorted_ids() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(choices, ids, experts of blocks, counts) of tokens by ``moe_sorting``."""
    ids = torch.stack([torch.randperm(EXPERTS)[:CHOICES] for _ in range(TOKENS)]).int().cuda()
    weights = torch.rand(TOKENS, CHOICES).cuda()
    made = ap.moe_sorting(ids, weights, EXPERTS, COLUMNS, torch.bfloat16, BLOCK)
    return ids, made[0], made[2], made[3]


def expected(scales: Bytes, ids: Bytes, counted: int, rows: int) -> Bytes:
    """Scales [tokens, choices or 1, groups] in the order of ids, blocks of 32 rows and 8 groups; poison behind them."""
    width = -(-scales.shape[2] // 8) * 8
    plain = np.zeros((rows, width), np.uint8)
    for place in range(counted):
        token, choice = int(ids[place]) & 0xFFFFFF, int(ids[place]) >> 24
        if token < TOKENS:
            plain[place, : scales.shape[2]] = scales[token, choice % scales.shape[1]]
    blocks = plain.reshape(rows // 32, 2, 16, width // 8, 2, 4).transpose(0, 3, 5, 2, 4, 1)
    found = np.ascontiguousarray(blocks).reshape(rows, width)
    found[-(-counted // 32) * 32 :] = POISON
    return found


def check_scales() -> None:
    """``mxfp4_moe_sort_hip`` of a row a token and of one a choice; a count of no dim; what is behind stays."""
    _, ids, _, counts = sorted_ids()
    counted, rows = int(counts[0].item()), -(-ids.shape[0] // 32) * 32
    for shape in ((TOKENS, 1, 3), (TOKENS, CHOICES, 8), (TOKENS, CHOICES, 12)):
        scales = torch.randint(1, 256, shape, dtype=torch.uint8)
        given = scales.squeeze(1).cuda() if shape[1] == 1 else scales.cuda()
        out = torch.full((rows, -(-shape[2] // 8) * 8), POISON, dtype=torch.uint8).cuda()
        ap.mxfp4_moe_sort_hip(out, given, ids, counts[0], TOKENS, shape[2] * 32)
        wanted = expected(scales.numpy(), ids.cpu().numpy(), counted, rows)
        assert np.array_equal(out.cpu().numpy(), wanted), shape
        made = moe_mxfp4_sort(given, ids, counts[0], TOKENS).view(torch.uint8).cpu().numpy()
        done = -(-counted // 32) * 32
        assert np.array_equal(made[:done], wanted[:done]), shape
    print("scales are sorted", flush=True)


def check_codes() -> None:
    """The fused functions are a quantisation and a sort, bit by bit; an id of weight 0 has the scale 0."""
    _, ids, _, counts = sorted_ids()
    counted, rows = int(counts[0].item()), -(-ids.shape[0] // 32) * 32
    done = -(-counted // 32) * 32
    x = torch.randn(TOKENS * CHOICES, COLUMNS).bfloat16().cuda()
    for width, kind in ((COLUMNS // 2, torch.uint8), (COLUMNS, FP8)):
        codes = torch.empty(TOKENS * CHOICES, width, dtype=kind).cuda()
        plain = torch.empty(TOKENS * CHOICES, COLUMNS // 32, dtype=torch.uint8).cuda()
        ap.dynamic_per_group_scaled_quant(codes, x, plain, 32, False)
        out, scales = torch.empty_like(codes), torch.full((rows, 8), POISON, dtype=torch.uint8).cuda()
        weights = torch.ones(ids.shape[0]).cuda()
        weights[0] = 0
        ap.fused_dynamic_mx_quant_moe_sort_hip(
            out, scales, x, ids, counts, TOKENS, BLOCK, 32, sorted_weights=weights
        )
        assert torch.equal(out.view(torch.uint8).cpu(), codes.view(torch.uint8).cpu())
        by_choice = plain.cpu().numpy().reshape(TOKENS, CHOICES, -1)
        without = ids.cpu().numpy().copy()
        without[0] = TOKENS
        assert np.array_equal(scales.cpu().numpy(), expected(by_choice, without, counted, rows)), kind
    made, sorted_scales = fused_dynamic_mxfp4_quant_moe_sort(x, ids, counts, TOKENS, CHOICES)
    packed = torch.empty(TOKENS * CHOICES, COLUMNS // 2, dtype=torch.uint8).cuda()
    plain = torch.empty(TOKENS * CHOICES, COLUMNS // 32, dtype=torch.uint8).cuda()
    ap.quant_mxfp4(x, packed, plain, 32, 4)
    wanted = expected(plain.cpu().numpy().reshape(TOKENS, CHOICES, -1), ids.cpu().numpy(), counted, rows)
    assert torch.equal(made.view(torch.uint8).cpu(), packed.cpu())
    assert np.array_equal(sorted_scales.view(torch.uint8).cpu().numpy()[:done], wanted[:done])
    print("codes are made and scales sorted", flush=True)


def check_rows() -> None:
    """``moe_smooth_per_token_scaled_quant_v2`` of a row a token and of one a choice, in both orders of results."""
    choices, ids, experts, counts = sorted_ids()
    smooth = torch.rand(EXPERTS, 1, COLUMNS) + 0.5
    for transposed in (False, True):
        for shape in ((TOKENS, COLUMNS), (TOKENS, CHOICES, COLUMNS)):
            x = torch.randn(*shape).bfloat16()
            out = torch.empty(TOKENS * CHOICES, COLUMNS, dtype=FP8).cuda()
            scales = torch.full((TOKENS * CHOICES,), float("nan")).cuda()
            ap.moe_smooth_per_token_scaled_quant_v2(
                out, x.cuda(), scales, smooth.cuda(), ids, experts, counts, BLOCK, transpose_out=transposed
            )
            rows = x.double().reshape(TOKENS, -1, COLUMNS).expand(TOKENS, CHOICES, COLUMNS)
            wanted = rows * smooth.double()[choices.cpu().long(), 0]
            wanted = (wanted.transpose(0, 1) if transposed else wanted).reshape(-1, COLUMNS)
            limit = wanted.abs().amax(1) / MOST
            assert torch.allclose(scales.cpu().double(), limit, rtol=1e-6, atol=0)
            found = out.cpu().float().double() * scales.cpu().double()[:, None]
            assert ((found - wanted).abs() <= wanted.abs() / 16 + limit[:, None] * 2.0**-9).all()
    print("rows are smoothed", flush=True)


if __name__ == "__main__":
    torch.manual_seed(1)
    check_scales()
    check_codes()
    check_rows()
