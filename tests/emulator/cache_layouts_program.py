"""A child of ``test_cache_layouts.py``: caches as clients lay them out, on torch of the embedded device."""

# ruff: noqa: PT017  # not run by pytest: this is its child

from __future__ import annotations

import itertools
from typing import Any

import torch

import aiter_prebuilt

BLOCKS, BLOCK, HEADS, SIZE, TOKENS = 4, 16, 2, 64, 5
FP8 = torch.float8_e4m3fnuz


def split(layout: str, kind: Any) -> tuple[Any, Any, Any]:
    """One allocation of keys and values, and both as [blocks, block size, heads, size]."""
    if layout == "blocks":
        both = torch.zeros(BLOCKS, 2, BLOCK, HEADS, SIZE, device="cuda").to(kind)
        return both, both[:, 0], both[:, 1]
    both = torch.zeros(BLOCKS, HEADS, BLOCK, 2 * SIZE, device="cuda").to(kind)
    keys, values = both.transpose(1, 2).split(SIZE, dim=-1)
    return both, keys, values


def norm_and_cache(layout: str, kind: Any, tiles: bool, copies: Any, sections: bool = False) -> None:
    """What is written into parts of one allocation is what is written into two of their own.

    ``sections``: into the parts by the function of three positions, which are the same ones.
    """
    torch.manual_seed(7)
    qkv = torch.randn(TOKENS, 4 * HEADS * SIZE, dtype=torch.bfloat16).cuda()
    # Multiples of 1/64: exact in bf16 with 1 less, too.
    weight = (torch.randint(-64, 65, (SIZE,)) / 64).to(torch.bfloat16).cuda()
    angles = torch.randn(32, SIZE, dtype=torch.bfloat16).cuda()
    positions = torch.randint(0, 32, (TOKENS,)).cuda()
    slots = torch.randperm(BLOCKS * BLOCK)[:TOKENS].cuda()
    width = 8 if kind is torch.bfloat16 else 16

    def write(keys: Any, values: Any, out_kind: Any, sections: bool = False) -> tuple[Any, ...]:
        q_out = torch.zeros(TOKENS, 2 * HEADS, SIZE, dtype=torch.bfloat16, device="cuda")
        k_out, v_out = (torch.zeros(TOKENS, HEADS, SIZE, device="cuda").to(out_kind) for _ in range(2))
        sizes = (TOKENS, 2 * HEADS, HEADS, HEADS, SIZE, True)
        behind = (1e-6, q_out, keys, values, slots, 0.5, 0.25, k_out, v_out, True, tiles, BLOCK, width)
        function: Any = aiter_prebuilt.fused_qk_norm_rope_cache_pts_quant_shuffle
        if sections:
            function = aiter_prebuilt.fused_qk_norm_mrope_3d_cache_pts_quant_shuffle
            thrice, turned = positions.expand(3, TOKENS), ([12, 10, 10], True)
            function(qkv, weight - 1, weight - 1, angles, thrice, *sizes, *turned, *behind, gemma_norm=True)
        else:
            function(qkv, weight, weight, angles, positions, *sizes, *behind)
        return q_out.cpu(), k_out.cpu(), v_out.cpu(), keys.cpu().contiguous(), values.cpu().contiguous()

    own = [torch.zeros(BLOCKS, BLOCK, HEADS, SIZE, device="cuda").to(kind) for _ in range(2)]
    if tiles:
        own[0] = own[0].view(BLOCKS, HEADS, SIZE // width, BLOCK, width)
        own[1] = own[1].view(BLOCKS, HEADS, BLOCK // width, SIZE, width)
    want = write(own[0], own[1], kind)
    _, keys, values = split(layout, kind)
    found = write(keys, values, copies, sections)
    same = [each.view(torch.uint8).reshape(-1) for each in want]
    parts = [each.view(torch.uint8).reshape(-1) for each in found]
    for name, a, b in zip(("q", "k_out", "v_out", "keys", "values"), same, parts, strict=True):
        assert bool(a.any()), name
        assert torch.equal(a, b[: a.numel()]), (layout, kind, tiles, name)
        assert not bool(b[a.numel() :].any()), name


def several_heads() -> None:
    """``fused_qk_rope_concat_and_cache_mla`` with two heads of keys, and with one in each of the shapes that it has."""
    torch.manual_seed(9)
    rank, turned = 32, 16

    def make(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.bfloat16).cuda()

    q_nope, q_pe = make(TOKENS, 3, rank), make(TOKENS, 3, turned)
    cos, sin = make(9, turned // 2), make(9, turned // 2)
    positions, slots = torch.arange(TOKENS).cuda(), torch.randperm(BLOCKS * BLOCK)[:TOKENS].cuda()
    one = torch.tensor(1.0).cuda()

    def write(nope: Any, pe: Any, cache: Any) -> Any:
        q_out = torch.zeros(TOKENS, 3, rank + turned, dtype=torch.bfloat16, device="cuda")
        aiter_prebuilt.fused_qk_rope_concat_and_cache_mla(
            q_nope, q_pe, nope, pe, cache, q_out, slots, one, one, positions, cos, sin, True, True
        )
        return cache.cpu()

    nope, pe = make(TOKENS, 2, rank), make(TOKENS, 2, turned)

    def empty(*heads: int) -> torch.Tensor:
        return torch.zeros(BLOCKS, BLOCK, *heads, rank + turned, dtype=torch.bfloat16, device="cuda")

    both = write(nope, pe, empty(2))
    for head in range(2):
        single, other = nope[:, head].contiguous(), pe[:, head].contiguous()
        assert torch.equal(write(single, other, empty()), both[:, :, head]), head
        assert torch.equal(write(single[:, None], other[:, None], empty(1))[:, :, 0], both[:, :, head]), head
        assert torch.equal(write(single, other, empty(1))[:, :, 0], both[:, :, head]), head
    for keys, cache in ((nope, empty()), (nope[:, 0].contiguous(), empty(2))):
        try:
            write(keys, pe[:, : keys.shape[1]] if keys.dim() == 3 else pe[:, 0].contiguous(), cache)
        except aiter_prebuilt.errors.ArgumentShapeError as error:
            assert "HK is" in str(error), error
        else:
            raise AssertionError("heads of keys and of a cache that differ were accepted")


def numbers_without_dims() -> None:
    """``mla_decode_fwd`` with scales as vLLM has them: tensors without dims."""
    torch.manual_seed(11)
    lengths = torch.tensor([3, 20])
    starts = torch.tensor([0, 3, 23], dtype=torch.int32).cuda()
    found = []
    for shape in ((), (1,)):
        torch.manual_seed(12)
        q = torch.randn(2, 16, 576, dtype=torch.bfloat16).cuda()
        cache = torch.randn(32, 1, 1, 576, dtype=torch.bfloat16).cuda()
        out = torch.zeros(2, 16, 512, dtype=torch.bfloat16, device="cuda")
        scale = torch.full(shape, 1.0).cuda()
        aiter_prebuilt.mla_decode_fwd(
            q, cache, out, torch.arange(3, dtype=torch.int32).cuda(), starts, torch.arange(23, dtype=torch.int32).cuda(),
            torch.ones(len(lengths), dtype=torch.int32).cuda(), 1, sm_scale=0.05, q_scale=scale, kv_scale=scale,
        )  # fmt: skip
        found.append(out.cpu())
    assert bool(found[0].any())
    assert torch.equal(*found)


def blocks_of_no_keys() -> None:
    """A cache whose block size is 0 is refused by name: its kernels divide by it."""
    ones, slots = torch.ones(1).cuda(), torch.arange(3).cuda()
    rows, row = (
        torch.zeros(3, HEADS, SIZE, dtype=torch.bfloat16).cuda(),
        torch.zeros(3, 128, dtype=torch.bfloat16).cuda(),
    )

    def cache(*shape: int, kind: Any = torch.bfloat16) -> Any:
        return torch.zeros(*shape, dtype=kind).cuda()

    byte = torch.uint8
    calls: dict[str, tuple[Any, ...]] = {
        "reshape_and_cache": (rows, rows, cache(4, HEADS, 8, 0, 8), cache(4, HEADS, SIZE, 0), slots, "auto", None, None, False),
        "reshape_and_cache_flash": (rows, rows, cache(4, 0, HEADS, SIZE), cache(4, 0, HEADS, SIZE), slots, "auto", ones, ones),
        "concat_and_cache_mla": (row, row[:, :64], cache(4, 0, 192), slots, "auto", ones),
        "indexer_k_quant_and_cache": (row, cache(4, 0, 132, kind=byte), slots, 128, "ue8m0"),
        "cp_gather_indexer_k_quant_cache": (
            cache(4, 0, 132, kind=byte), cache(3, 128, kind=byte), cache(3, 4, kind=byte),
            torch.zeros(1, 1, dtype=torch.int32).cuda(), torch.tensor([0, 3], dtype=torch.int32).cuda(),
        ),
    }  # fmt: skip
    for name, given in calls.items():
        try:
            getattr(aiter_prebuilt, name)(*given)
            raise AssertionError(f"{name} took a block size of 0")
        except aiter_prebuilt.errors.NoKernelError as error:
            assert "block_size > 0" in str(error), error
    torch.cuda.synchronize()


def main() -> None:
    """Run all of them."""
    for layout, kind in itertools.product(("blocks", "heads"), (torch.bfloat16, FP8)):
        norm_and_cache(layout, kind, False, kind)
        norm_and_cache(layout, kind, False, kind, sections=True)
    for kind in (torch.bfloat16, FP8):
        norm_and_cache("blocks", kind, True, kind)
    norm_and_cache("blocks", FP8, True, torch.bfloat16)
    norm_and_cache("blocks", FP8, True, torch.bfloat16, sections=True)
    several_heads()
    numbers_without_dims()
    blocks_of_no_keys()
    print("done")


main()
