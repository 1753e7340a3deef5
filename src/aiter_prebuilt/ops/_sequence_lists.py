"""Lists of sequences that lie apart, as lists of sequences that follow one another.

A kernel's list says where each sequence starts, and each ends where the next one starts. What lies between two sequences becomes
a sequence of its own, so that of n there are 2 * n.
"""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.errors import ArgumentShapeError
from aiter_prebuilt.ops._common import refuse


def with_gaps(starts: Any, lengths: Any) -> Any:
    """List n sequences and the gaps behind them.

    Args:
        starts: [n + 1] int32, where each sequence starts, and where the last gap ends.
        lengths: [n] int32, how long each sequence is; the rest, to the next start, is its gap.

    Returns:
        [2 * n + 1] int32, where the sequences and their gaps start in turn.
    """
    made = starts.new_empty((2 * starts.shape[0] - 1,))
    made[0::2] = starts
    made[1::2] = starts[:-1] + lengths
    return made


def padded_starts(starts: Any, padded: Any) -> Any:
    """List sequences whose rows lie in padded places, and the padding.

    Args:
        starts: [n + 1] int32, of which the differences are lengths of sequences.
        padded: [n + 1] int32, where each sequence starts, and where the padding of the last ends; None: as ``starts`` says.

    Returns:
        [2 * n + 1] int32.
    """
    return with_gaps(starts if padded is None else padded, starts[1:] - starts[:-1])


def with_two_gaps(starts_q: Any, starts_k: Any, padded_q: Any, padded_k: Any) -> tuple[Any, Any]:
    """List n padded sequences, each followed by its padding of queries, which has no keys, and its padding of keys, which has no
    queries: neither has a gradient.

    Args:
        starts_q: [n + 1] int32; the differences are the numbers of queries.
        starts_k: [n + 1] int32; the differences are the numbers of keys.
        padded_q: [n + 1] int32, the first row of each sequence of queries; None: as ``starts_q``.
        padded_k: [n + 1] int32, the first row of each sequence of keys; None: as ``starts_k``.

    Returns:
        Where the queries and the keys of 3 * n sequences start, [3 * n + 1] int32.
    """
    made = []
    for starts, padded, of_queries in ((starts_q, padded_q, True), (starts_k, padded_k, False)):
        begins = starts if padded is None else padded
        ends = begins[:-1] + (starts[1:] - starts[:-1])
        found = starts.new_empty((3 * starts.shape[0] - 2,))
        found[0::3] = begins
        found[1::3] = ends
        found[2::3] = begins[1:] if of_queries else ends
        made.append(found)
    return made[0], made[1]


def table_lists(starts: Any, table: Any, keys: Any, page_size: int) -> tuple[Any, Any, Any, Any]:
    """Say a table of pages as one list of pages.

    Args:
        starts: [n + 1] int32, where the queries of each sequence start, and where the last end.
        table: [n, most] int32, the pages of each sequence in order.
        keys: [n] int32, how many keys each sequence has.
        page_size: keys of a page.

    Returns:
        Of 2 * n sequences, whose every second has no queries and the rest of a row of the table: where their queries start, where
        their pages start in the list, the list, and the keys of each last page.
    """
    count, most = table.shape
    seen = keys.clamp(min=0, max=most * page_size)
    pages = (seen + (page_size - 1)) // page_size
    rows = table.new_full((count + 1,), most).cumsum(0, dtype=table.dtype) - most
    last = table.new_full((2 * count,), page_size)
    last[0::2] = seen - (pages - 1).clamp(min=0) * page_size
    return with_gaps(starts, starts[1:] - starts[:-1]), with_gaps(rows, pages), table.reshape(-1), last


def page_of(k: Any) -> int:
    """Count the keys of a page.

    Args:
        k: [pages, keys, heads, width], [pages, heads, width], or [pages, heads, groups, keys, x].
    """
    if len(k.shape) == 3:
        return 1
    size: int = k.shape[3] if len(k.shape) == 5 else k.shape[1]
    return size


def split_padding(
    function: str, starts_q: Any, starts_k: Any, padded_q: Any, padded_k: Any, table: Any
) -> tuple[Any, Any]:
    """Say padded sequences as sequences and padding.

    Args:
        function: whose arguments they are.
        starts_q: [n + 1] int32; where there is padding, the differences are the numbers of queries.
        starts_k: [n + 1] int32; where there is padding, the differences are the numbers of keys.
        padded_q: [n + 1] int32, the first row of each sequence of queries, or None.
        padded_k: [n + 1] int32, the first row of each sequence of keys, or None.
        table: pages of keys, or None.

    Returns:
        Where the queries start, and the keys; what was given without padding.

    Raises:
        UnsupportedError: there is padding and a table.
    """
    if padded_q is None and padded_k is None:
        return starts_q, starts_k
    if table is not None:
        raise refuse(function, "block_table", table, "None, with cu_seqlens_q_padded or cu_seqlens_k_padded")
    return padded_starts(starts_q, padded_q), padded_starts(starts_k, padded_k)


def of_table(
    function: str, k: Any, lists: tuple[Any, ...], last: Any, table: Any, keys: Any
) -> tuple[Any, Any]:
    """Say a table of pages as one list of pages.

    Args:
        function: whose arguments they are.
        k: the pages of keys.
        lists: where queries start, where pages start in the list of pages, that list.
        last: the keys of last pages, or None.
        table: [n, most] int32, the pages of each sequence, or None.
        keys: [n] int32, how many keys each sequence has, or None.

    Returns:
        The three lists, and the keys of last pages; what was given without a table.

    Raises:
        UnsupportedError: there is a table, and nothing says how many keys there are.
        ArgumentShapeError: there is a table, and pages have no keys.
    """
    if table is None:
        return lists, last
    if keys is None:
        raise refuse(function, "seqlen_k", None, "a tensor, with block_table")
    page = page_of(k)
    if page == 0:
        raise ArgumentShapeError(
            function, "argument k: its pages have no keys", "make the cache with a page size of at least 1"
        )
    *made, last = table_lists(lists[0], table, keys, page)
    return tuple(made), last


def most_queries(max_qlen: Any, qo_indptr: Any) -> Any:
    """Return the most queries of a sequence of ``pa_fwd_asm``: one without a list of where they start, whatever is said.

    Raises:
        UnsupportedError: it is less than 1.
    """
    if not isinstance(max_qlen, int):
        return max_qlen  # the native call refuses it
    if max_qlen < 1:
        raise refuse("pa_fwd_asm", "max_qlen", max_qlen, "1 and more")
    return 1 if qo_indptr is None else max_qlen
