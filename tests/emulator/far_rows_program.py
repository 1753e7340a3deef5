"""A child of ``test_far_rows.py``: rows 2**31 elements apart, which no 32-bit stride says, beside the same rows in one piece."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import aiter_prebuilt as ap

ROWS, COLUMNS = 2, 128
FP8 = (
    torch.float8_e4m3fnuz
    if "gfx942" in torch.cuda.get_device_properties(0).gcnArchName
    else torch.float8_e4m3fn
)


#: Elements between two rows. The emulator's memory is sparse, and all far rows that are read lie in one piece of it.
APART = 1 << 31
MEMORY = torch.empty((ROWS - 1) * APART + 64 * COLUMNS, dtype=torch.bfloat16, device="cuda")
OFFSETS = itertools.cycle(range(0, 64 * COLUMNS, COLUMNS))


def far(dense: Any) -> Any:
    """The same rows, far apart."""
    return MEMORY.as_strided(dense.shape, (APART, 1), next(OFFSETS)).copy_(dense)


def normal(*shape: int, kind: Any = torch.bfloat16) -> Any:
    return torch.randn(*shape).to(kind).cuda()


def weight() -> Any:
    return normal(COLUMNS)


#: Functions of one tensor of rows that return their results.
RETURNING: dict[str, Callable[..., Any]] = {
    "rms_norm": lambda x, w, b: ap.rms_norm(x, w, 1e-6),
    "rmsnorm2d_fwd": lambda x, w, b: ap.rmsnorm2d_fwd(x, w, 1e-6),
    "layernorm2d_fwd": ap.layernorm2d_fwd,
    "gemm_a16w16": lambda x, w, b: ap.gemm_a16w16(x, w.expand(48, COLUMNS).contiguous()),
    "per_token_quant_hip": lambda x, w, b: ap.per_token_quant_hip(x, None, FP8),
    "per_group_quant_hip": lambda x, w, b: ap.per_group_quant_hip(x, quant_dtype=FP8, group_size=64),
    "flash_attn_func": lambda x, w, b: ap.flash_attn_func(*[x[:, None, None].expand(-1, 4, -1, -1)] * 3),
}
#: Functions of (first result, inputs, other results): inputs and results that are rows, and what follows the weight.
WRITING: dict[str, tuple[Any, int, int, tuple[Any, ...]]] = {
    "rmsnorm2d_fwd_with_add": (ap.rmsnorm2d_fwd_with_add, 2, 2, (1e-6,)),
    "layernorm2d_fwd_with_add": (ap.layernorm2d_fwd_with_add, 2, 2, (weight(), 1e-6)),
    "add_rmsnorm": (ap.add_rmsnorm, 2, 2, (1e-6,)),
}


def bits(found: Any) -> list[Any]:
    every = found if isinstance(found, tuple) else (found,)
    return [each.cpu().contiguous().view(torch.uint8) for each in every]


@pytest.mark.parametrize("name", RETURNING)
def test_rows_that_are_read(name: str) -> None:
    x, w, b = normal(ROWS, COLUMNS), weight(), weight()
    pairs = zip(bits(RETURNING[name](far(x), w, b)), bits(RETURNING[name](x, w, b)), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("name", WRITING)
def test_rows_that_are_written(name: str) -> None:
    function, inputs, results, rest = WRITING[name]
    given = [normal(ROWS, COLUMNS) for _ in range(inputs)]
    w = weight()
    near, apart = ([torch.zeros_like(given[0]) for _ in range(results)] for _ in range(2))
    # Of memory of its own: rows between those that are read might be theirs.
    apart[0] = torch.empty_strided((ROWS, COLUMNS), (APART, 1), dtype=torch.bfloat16, device="cuda").zero_()
    function(near[0], *given, *near[1:], w, *rest)
    function(apart[0], *map(far, given), *apart[1:], w, *rest)
    assert all(bool(each.any()) for each in near)
    assert all(torch.equal(one.cpu(), other.cpu()) for one, other in zip(near, apart, strict=True))


def test_smoothed_codes_and_their_scales() -> None:
    """Another kernel takes the far rows as they are: a code that lies between two may be either."""
    x, smooth = normal(ROWS, COLUMNS), torch.rand(COLUMNS).cuda() + 0.5
    codes, scales = torch.zeros(ROWS, COLUMNS).to(torch.int8).cuda(), torch.zeros(ROWS, 1).cuda()
    ap.smoothquant_fwd(codes, far(x), smooth, scales)
    exact = x.cpu().double() * smooth.cpu().double()
    wanted = exact.abs().amax(1, keepdim=True) / 127
    assert torch.allclose(scales.cpu().double(), wanted, rtol=1e-6, atol=0)
    assert (codes.cpu().double() - exact / wanted).abs().max() <= 0.5001
