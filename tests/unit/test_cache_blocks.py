"""Copying blocks of caches: what reaches the operator, and the copies that torch makes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import ArgumentKindError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402

PAIRS = torch.tensor([[0, 3], [2, 1]])


def copied(*arguments: Any) -> list[list[Any]]:
    """The tensors of each launch."""
    seen: list[list[Any]] = []
    with instead(ap.copy_blocks, lambda _, tensors, attributes: seen.append(list(tensors))):
        ap.copy_blocks(*arguments)
    return seen


def test_layers_in_one_tensor_are_one_launch() -> None:
    keys, values = (
        torch.zeros(2, 4, 3, 8, dtype=torch.bfloat16),
        torch.zeros(2, 4, 8, 3, dtype=torch.bfloat16),
    )
    ((key, value, pairs),) = copied(keys, values, PAIRS)
    assert key.shape == value.shape == (2, 4, 48) and key.dtype == torch.uint8 and pairs is PAIRS
    assert (key.data_ptr(), value.data_ptr()) == (keys.data_ptr(), values.data_ptr())


def test_a_list_is_a_launch_for_each_layer() -> None:
    whole = torch.zeros(5, 3, 8)
    keys, values = [whole[:4], torch.zeros(4, 3, 8)], (torch.zeros(4, 24), torch.zeros(4, 2, 12))
    launches = copied(keys, values, PAIRS)
    assert [key.shape for key, _, _ in launches] == [(1, 4, 96)] * 2
    assert [(key.data_ptr(), value.data_ptr()) for key, value, _ in launches] == [
        (key.data_ptr(), value.data_ptr()) for key, value in zip(keys, values, strict=True)
    ]
    assert copied([], [], PAIRS) == []


def test_blocks_may_lie_apart() -> None:
    keys = torch.zeros(2, 9, 3, 8)[:, ::2]
    ((key, _, _),) = copied(keys, keys, PAIRS)
    assert key.shape == (2, 5, 96) and key.stride() == (864, 192, 1)


@pytest.mark.parametrize(
    "caches",
    [
        ([torch.zeros(4, 8)], []),
        ([torch.zeros(4, 8)], torch.zeros(1, 4, 8)),
        (torch.zeros(2, 4, 8, 6)[..., :3],) * 2,
    ],
)
def test_what_has_no_blocks_is_refused(caches: tuple[Any, Any]) -> None:
    with pytest.raises(ArgumentKindError, match=r"copy_blocks: (key_caches and value_caches|a cache) must"):
        ap.copy_blocks(*caches, PAIRS)


def test_swapped_blocks_are_those_of_the_pairs() -> None:
    source, target = torch.randn(9, 2, 3), torch.randn(7, 2, 3)
    before = target.clone()
    pairs = [(1, 2), (2, 3), (3, 4), (8, 0), (0, 6)]
    ap.swap_blocks(source, target, torch.tensor(pairs))
    for block in range(7):
        wanted = {to: source[start] for start, to in pairs}.get(block, before[block])
        assert torch.equal(target[block], wanted)
    ap.swap_blocks(source, target, torch.zeros(0, 2, dtype=torch.int64))


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1), (4, 0), (0, 5)])
def test_blocks_that_are_not_there_are_refused(pair: tuple[int, int]) -> None:
    source, target = torch.zeros(4, 2), torch.ones(5, 2)
    with pytest.raises(ArgumentKindError, match=f"below 4 and 5, got {pair[0]} to {pair[1]}"):
        ap.swap_blocks(source, target, torch.tensor([pair]))
    assert torch.equal(target, torch.ones(5, 2))


def test_a_mapping_on_a_device_is_refused() -> None:
    with pytest.raises(ArgumentKindError, match="must be on the CPU, got meta"):
        ap.swap_blocks(
            torch.zeros(4, 2), torch.zeros(4, 2), torch.zeros(1, 2, dtype=torch.int64, device="meta")
        )
