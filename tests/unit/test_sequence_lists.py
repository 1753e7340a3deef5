"""Padded sequences and tables of pages, said as the lists that kernels read: traced, with the references as kernels."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import ArgumentShapeError, UnsupportedError  # noqa: E402
from aiter_prebuilt.ops import _sequence_lists as lists  # noqa: E402

BF16 = torch.bfloat16


def numbers(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def starts(lengths: list[int]) -> Any:
    return torch.tensor([0, *lengths]).cumsum(0).int()


def attended(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of one sequence in fp64."""
    scores = torch.einsum("nhd,mhd->hnm", q, k) * q.shape[2] ** -0.5
    ahead = torch.arange(len(k))[None] > torch.arange(len(q))[:, None] + len(k) - len(q)
    return torch.einsum("hnm,mhd->nhd", scores.masked_fill(ahead, -torch.inf).softmax(-1), v)


def test_padding_is_a_sequence_of_its_own() -> None:
    found = lists.padded_starts(numbers(0, 3, 4, 9), numbers(0, 5, 6, 20))
    assert found.tolist() == [0, 3, 5, 6, 6, 11, 20] and found.dtype == torch.int32
    assert lists.padded_starts(numbers(2, 3, 7), None).tolist() == [2, 3, 3, 7, 7]
    assert lists.padded_starts(numbers(0), numbers(4)).tolist() == [4]


def test_a_table_is_one_list_with_what_is_left_of_its_rows() -> None:
    table = torch.arange(10, dtype=torch.int32).reshape(2, 5)[:, :4]
    queries, pages, listed, last = lists.table_lists(numbers(0, 2, 3), table, numbers(9, 4), 4)
    assert queries.tolist() == [0, 2, 2, 3, 3] and listed.tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert pages.tolist() == [0, 3, 4, 5, 8] and last.tolist()[::2] == [1, 4]
    assert {each.dtype for each in (queries, pages, listed, last)} == {torch.int32}


@pytest.mark.parametrize(("keys", "pages", "last"), [(0, 0, 0), (-3, 0, 0), (8, 2, 4), (99, 3, 4)])
def test_keys_are_not_more_than_the_table_has(keys: int, pages: int, last: int) -> None:
    _, found, _, left = lists.table_lists(numbers(0, 1), numbers(1, 2, 3)[None], numbers(keys), 4)
    assert found.tolist() == [0, pages, 3] and left.tolist()[0] == last


@pytest.mark.parametrize(("wide_q", "wide_k"), [([6, 4], [9, 12]), ([6, 4], None), (None, [9, 12])])
def test_padded_sequences_attend_to_their_own_keys(
    compiled: Any, wide_q: list[int] | None, wide_k: list[int] | None
) -> None:
    own, keys = [5, 3], [9, 7]
    q = torch.randn(sum(wide_q or own), 2, 64).to(BF16)
    k, v = (torch.randn(sum(wide_k or keys), 2, 64).to(BF16) for _ in range(2))
    padded = [None if each is None else starts(each) for each in (wide_q, wide_k)]
    out = compiled(
        lambda q, k, v: ap.flash_attn_varlen_func(
            q,
            k,
            v,
            starts(own),
            starts(keys),
            5,
            9,
            causal=True,
            cu_seqlens_q_padded=padded[0],
            cu_seqlens_k_padded=padded[1],
        )
    )(q, k, v)
    at, to = starts(wide_q or own).tolist(), starts(wide_k or keys).tolist()
    for number, (n, m) in enumerate(zip(own, keys, strict=True)):
        rows, seen = slice(at[number], at[number] + n), slice(to[number], to[number] + m)
        right = attended(q[rows].double(), k[seen].double(), v[seen].double())
        torch.testing.assert_close(out[rows].double(), right, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_table_of_pages_names_the_keys(compiled: Any, grouped: bool) -> None:
    own, keys, page = [4, 2], [21, 8], 8
    q, k, v = torch.randn(6, 2, 64).to(BF16), *(torch.randn(7, page, 2, 64).to(BF16) for _ in range(2))
    table = numbers(4, 1, 6, 0, 2, 5).reshape(2, 3)
    nothing = torch.zeros(3, dtype=torch.int32)
    pages = (k, v)
    if grouped:
        pages = (
            k.reshape(7, page, 2, 8, 8).permute(0, 2, 3, 1, 4).contiguous(),
            v.reshape(7, 1, 8, 2, 64).permute(0, 3, 1, 4, 2).contiguous(),
        )
    out, probabilities = compiled(
        lambda q, k, v, table, count: ap.mha_batch_prefill_func(
            q,
            k,
            v,
            starts(own),
            nothing,
            nothing,
            4,
            21,
            causal=True,
            block_table=table,
            seqlen_k=count,
            return_attn_probs=True,
        )
    )(q, *pages, table, numbers(*keys))
    assert probabilities.shape == (0,)
    for number, (n, m) in enumerate(zip(own, keys, strict=True)):
        rows = slice(starts(own)[number], starts(own)[number] + n)
        given = (each[table[number].long()].flatten(0, 1)[:m].double() for each in (k, v))
        torch.testing.assert_close(
            out[rows].double(), attended(q[rows].double(), *given), rtol=0.02, atol=0.02
        )


def test_what_does_not_go_together_is_refused() -> None:
    q, k, list_of = torch.zeros(3, 2, 64).to(BF16), torch.zeros(4, 8, 2, 64).to(BF16), numbers(0, 3)
    table = numbers(0, 1)[None]
    with pytest.raises(
        UnsupportedError, match=r"flash_attn_varlen_func\(block_table=.*Use block_table=None, with cu_seq"
    ):
        ap.flash_attn_varlen_func(
            q, k, k, list_of, list_of, 3, 3, block_table=table, cu_seqlens_q_padded=list_of
        )
    with pytest.raises(UnsupportedError, match=r"mha_batch_prefill_func\(seqlen_k=None\).*with block_table"):
        ap.mha_batch_prefill_func(q, k, k, list_of, list_of, list_of, 3, 3, block_table=table)
    with pytest.raises(ArgumentShapeError, match="argument k: its pages have no keys"):
        ap.mha_batch_prefill_func(
            q, k[:, :0], k[:, :0], list_of, list_of, list_of, 3, 3, block_table=table, seqlen_k=list_of
        )
