"""shuffle_weight against an index formula written down element by element, and its refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.ops.shuffle import shuffle_weight


def numbered(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor whose elements differ wherever the type allows it, by a period that no block size divides."""
    count = torch.Size(shape).numel()
    if dtype.itemsize == 1:
        return (torch.arange(count) % 251).to(torch.uint8).view(dtype).reshape(shape)
    return (torch.arange(count) % 2039).to(dtype).reshape(shape)


def blocked_position(n: int, k: int, columns: int, layout: tuple[int, int], pack: int) -> int:
    """Where element (n, k) of one matrix goes: row block, column block, access in the block, row in it, byte
    group."""
    rows, width = layout[0], 2 * layout[1]
    block = (n // rows) * (columns // width) + k // width
    return ((block * (width // pack) + k % width // pack) * rows + n % rows) * pack + k % pack


def expected_blocked(x: torch.Tensor, layout: tuple[int, int], pack: int) -> torch.Tensor:
    rows, columns = x.shape[-2:]
    where = [
        blocked_position(n, k, columns, layout, pack)
        for n, k in itertools.product(range(rows), range(columns))
    ]
    flat = x.reshape(-1, rows * columns)
    out = torch.empty_like(flat)
    out[:, torch.tensor(where)] = flat
    return out.reshape(x.shape)


def raw(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.uint8)


@pytest.mark.parametrize(
    ("dtype", "pack"),
    [
        (torch.float8_e4m3fnuz, 16),
        (torch.float8_e4m3fn, 16),
        (torch.int8, 16),
        (torch.bfloat16, 8),
        (torch.float32, 4),
    ],
)
@pytest.mark.parametrize("shape", [(16, 32), (48, 96), (3, 32, 64), (2, 2, 16, 64)])
def test_every_element_is_where_the_formula_says(
    dtype: torch.dtype, pack: int, shape: tuple[int, ...]
) -> None:
    x = numbered(*shape, dtype=dtype)
    got = shuffle_weight(x)
    assert (got.shape, got.dtype) == (x.shape, dtype)
    assert got.is_contiguous()
    assert torch.equal(raw(got), raw(expected_blocked(x, (16, 16), pack)))


def test_fp8_formula_of_the_docstring() -> None:
    columns = 96
    x = numbered(48, columns, dtype=torch.uint8)
    flat = shuffle_weight(x).flatten()
    for n, k in itertools.product(range(48), range(columns)):
        place = ((((n // 16) * (columns // 32) + k // 32) * 2 + k % 32 // 16) * 16 + n % 16) * 16 + k % 16
        assert flat[place] == x[n, k]


@pytest.mark.parametrize("layout", [(32, 16), (16, 32), (32, 32)])
def test_other_layouts(layout: tuple[int, int]) -> None:
    x = numbered(64, 128, dtype=torch.int8)
    assert torch.equal(shuffle_weight(x, layout=layout), expected_blocked(x, layout, 16))


def test_int4_moves_32_values_together() -> None:
    x = numbered(32, 96, dtype=torch.int8)
    assert torch.equal(shuffle_weight(x, use_int4=True), expected_blocked(x, (16, 16), 32))


def test_result_never_shares_memory() -> None:
    x = numbered(32, 32, dtype=torch.int8)
    got = shuffle_weight(x, use_int4=True)  # one block of columns: the order of the bytes stays as it is
    assert torch.equal(got, x)
    assert got.data_ptr() != x.data_ptr()
    assert not hasattr(x, "is_shuffled")


def test_no_experts_is_no_error() -> None:
    assert shuffle_weight(torch.empty(0, 16, 32, dtype=torch.int8)).shape == (0, 16, 32)


def test_source_may_be_strided_and_is_left_alone() -> None:
    base = numbered(96, 64, dtype=torch.int8)
    view = base.t()[:, :48][:32, :32]
    before = base.clone()
    assert torch.equal(shuffle_weight(view), expected_blocked(view.contiguous(), (16, 16), 16))
    assert torch.equal(base, before)


@pytest.mark.parametrize("gate_up", [False, True])
def test_interleave_of_gate_and_up(gate_up: bool) -> None:
    experts, rows, columns, (lanes_n, pack) = 2, 64, 128, (16, 16)
    x = numbered(experts, rows, columns, dtype=torch.uint8)
    flat = shuffle_weight(x, layout=(lanes_n, pack), is_guinterleave=True, gate_up=gate_up).reshape(
        experts, -1
    )
    lanes_k, halves = 64 // lanes_n, 2 if gate_up else 1
    per_half = rows // halves
    for n, k in itertools.product(range(rows), range(columns)):
        half, row = divmod(n, per_half)
        block = (row // lanes_n * halves + half) * (columns // (lanes_k * pack)) + k // (lanes_k * pack)
        place = ((block * lanes_k + k // pack % lanes_k) * lanes_n + row % lanes_n) * pack + k % pack
        assert torch.equal(flat[:, place], x[:, n, k])


def test_gate_up_without_interleave_changes_nothing() -> None:
    x = numbered(2, 32, 64, dtype=torch.int8)
    assert torch.equal(shuffle_weight(x, gate_up=True), shuffle_weight(x))


def test_padding_appends_zeros_and_remembers() -> None:
    x = numbered(16, 96, dtype=torch.uint8).view(torch.float8_e4m3fnuz)
    got: Any = shuffle_weight(x, pad_k_to=128)  # its marks are attributes that torch's type does not know
    wide = torch.zeros(16, 128, dtype=torch.uint8)
    wide[:, :96] = raw(x)
    assert torch.equal(raw(got), expected_blocked(wide, (16, 16), 16))
    assert (got.is_shuffled, got.aiter_original_k, got.aiter_padded_k) == (True, 96, 128)


def test_padding_that_is_not_needed_still_remembers() -> None:
    got: Any = shuffle_weight(numbered(16, 128, dtype=torch.int8), pad_k_to=128)
    assert (got.aiter_original_k, got.aiter_padded_k, tuple(got.shape)) == (128, 128, (16, 128))


def test_mark_is_set_and_only_padding_adds_more() -> None:
    got: Any = shuffle_weight(numbered(16, 32, dtype=torch.int8))
    assert got.is_shuffled is True
    assert not hasattr(got, "aiter_original_k")


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ((24, 32), {}, ["N is 24", "multiple of 16"]),
        ((16, 48), {}, ["K is 48", "multiple of 32"]),
        ((32,), {}, ["at least 2 dimensions", "got 1"]),
        ((), {}, ["at least 2 dimensions", "got 0"]),
        ((32, 64), {"is_guinterleave": True}, [r"x\[E, N, K\]", "got 2"]),
        ((1, 48, 64), {"is_guinterleave": True, "gate_up": True}, ["N / 2 is 24", "multiple of 16"]),
        ((1, 32, 96), {"is_guinterleave": True}, ["K is 96", "multiple of 64"]),
        ((32, 64), {"pad_k_to": -1}, ["pad_k_to", "-1"]),
        ((32, 64), {"layout": (16, 4)}, [r"2 \* layout\[1\]", "multiple of 16"]),
    ],
)
def test_sizes_that_do_not_divide(shape: tuple[int, ...], options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError, match=".*".join(words)):
        shuffle_weight(torch.zeros(shape, dtype=torch.int8), **options)


@pytest.mark.parametrize("option", ["use_int4", "is_guinterleave"])
def test_padding_with_packed_layouts_is_refused_by_name(option: str) -> None:
    options: dict[str, Any] = {option: True}
    with pytest.raises(UnsupportedError, match=option):
        shuffle_weight(torch.zeros(1, 32, 64, dtype=torch.int8), pad_k_to=128, **options)


def test_fp4_pairs_count_as_bytes() -> None:
    pairs = getattr(torch, "float4_e2m1fn_x2", None)
    if pairs is None:
        pytest.skip("this torch has no float4_e2m1fn_x2")
    x = numbered(32, 64, dtype=torch.uint8)
    got = shuffle_weight(x.view(pairs))
    assert got.dtype is pairs
    assert torch.equal(raw(got), expected_blocked(x, (16, 16), 16))
