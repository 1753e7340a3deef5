"""Dropout of attention: its state, the bytes that decide, and calls of its operators."""

from __future__ import annotations

import sys
from math import floor
from typing import Any, Final

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import element_type, refuse
from aiter_prebuilt.ops._sequence_lists import with_two_gaps

_attention_dropout_fwd = operator("attention_dropout_fwd")
_attention_dropout_bwd = operator("attention_dropout_bwd")
#: Seeds and offsets are below it: the most that torch draws.
_MOST: Final = 2**63 - 1


def largest_kept(function: str, dropout_p: float) -> int:
    """Return the largest random byte whose probability is kept, as AITER rounds it.

    Raises:
        UnsupportedError: ``dropout_p`` is no share below 1.
    """
    if not 0 <= dropout_p < 1:
        raise refuse(function, "dropout_p", dropout_p, "a number from 0.0 to below 1.0")
    return floor(255.0 * (1.0 - dropout_p))


def new_state(tensor: Any) -> Any:
    """Draw seed and offset, [2] int64, from torch's default generator of the tensor's device.

    Drawn on the device, they differ in each replay of a graph, and a checkpoint draws them again as they were.
    """
    torch: Any = sys.modules["torch"]
    # Not random_(): Dynamo traces no operation that draws in place.
    return torch.randint(_MOST, (2,), dtype=torch.int64, device=tensor.device)


def new_bytes(q: Any, columns: int) -> Any:
    """Allocate the random bytes of queries [b, sq, hq, d], for so many keys."""
    return q.new_empty((q.shape[0], q.shape[2], q.shape[1], columns), dtype=element_type(q, "u8"))


def one_batch(tensor: Any) -> Any:
    """View rows of sequences [s, h, d] as one batch."""
    return tensor.unsqueeze(0)


def attend(
    function: str,
    dropout_p: float,
    tensors: tuple[Any, ...],
    scale: float,
    seen: tuple[int, int, int],
    cap: float = 0.0,
    most: int = 0,
    skip: int = -1,
) -> Any:
    """Launch attention with dropout, forward, and return the state it drew.

    Args:
        function: whose call it is.
        dropout_p: the share of probabilities that is dropped.
        tensors: out, q, k, v, starts of queries, starts of keys, sinks, lse and bytes, as the operator has them.
        scale: what scores are multiplied with.
        seen: keys to the left, keys to the right, first keys.
        cap: of scores, 0: none.
        most: of sequences: the most queries of one.
        skip: of sequences: those with no more queries are left alone.

    Raises:
        UnsupportedError: ``dropout_p`` is no share below 1, or a tensor requires a gradient.
    """
    keep = largest_kept(function, dropout_p)
    _refuse_gradients(function, tensors[1:4], tensors[6])
    state = new_state(tensors[1])
    _attention_dropout_fwd(*tensors[:4], state, *tensors[4:], dropout_p, keep, scale, *seen, cap, most, skip)
    return state


def attend_sequences(
    function: str,
    dropout_p: float,
    rows: tuple[Any, ...],
    lists: tuple[Any, ...],
    scale: float,
    seen: tuple[int, int, int],
    cap: float,
    most: tuple[int, int],
    skip: int,
    wanted: bool,
) -> tuple[Any, Any]:
    """Launch attention of sequences with dropout, forward.

    Args:
        function: whose call it is.
        dropout_p: the share of probabilities that is dropped.
        rows: out, q, keys and values as one batch, sinks and lse.
        lists: starts of queries and keys, their first rows where there is padding, and the table of pages.
        scale: what scores are multiplied with.
        seen: keys to the left, keys to the right, first keys.
        cap: of scores, 0: none.
        most: the most queries and the most keys of a sequence.
        skip: sequences with no more queries are left alone.
        wanted: the random bytes are.

    Returns:
        The random bytes [hq, sq, most keys], None where they are not wanted, and the state that was drawn.

    Raises:
        UnsupportedError: keys lie in pages, ``dropout_p`` is no share below 1, or a tensor requires a gradient.
    """
    out, q, keys, values, sinks, lse = rows
    *starts, padded_q, padded_k, block_table = lists
    if block_table is not None:
        raise refuse(function, "dropout_p", dropout_p, "0.0 with a block_table")
    if padded_q is not None or padded_k is not None:
        first, second = starts
        starts = [*with_two_gaps(first, second, padded_q, padded_k)]
    out, q = one_batch(out), one_batch(q)
    drawn = new_bytes(q, most[1]) if wanted else None
    sums = None if lse is None else one_batch(lse)
    tensors = (out, q, keys, values, *starts, sinks, sums, drawn)
    state = attend(function, dropout_p, tensors, scale, seen, cap, most[0], skip)
    return None if drawn is None else drawn[0], state


def gradients(
    function: str,
    dropout_p: float,
    state: Any,
    tensors: tuple[Any, ...],
    lists: tuple[Any, ...],
    scale: float,
    window: tuple[int, int],
    most: tuple[int, int] = (0, 0),
) -> None:
    """Launch the backward of attention with dropout.

    Args:
        function: whose call it is.
        dropout_p: the share of probabilities that is dropped.
        state: seed and offset of the forward pass.
        tensors: dout, q, k, v, out, lse, dq, dk, dv and softmax_d, as the operator has them.
        lists: starts of queries, starts of keys, sink and d_sink.
        scale: what scores are multiplied with.
        window: keys to the left and to the right.
        most: of sequences: the most queries and the most keys of one.

    Raises:
        UnsupportedError: ``dropout_p`` is no share below 1, or there is no state.
    """
    keep = largest_kept(function, dropout_p)
    if state is None:
        raise refuse(function, "rng_state", None, "the state of the forward pass, [2] int64")
    options = (dropout_p, keep, scale, *window, *most)
    _attention_dropout_bwd(*tensors[:6], state, *tensors[6:], *lists, *options)


def _refuse_gradients(function: str, rows: tuple[Any, ...], sinks: Any) -> None:
    """Refuse tensors that require a gradient under the name of the public function, before a state is drawn.

    Torch records the gradient of a call that ends so.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return
    if any(getattr(each, "requires_grad", False) for each in (*rows, sinks)):
        raise UnsupportedError(
            f"{function}(requires_grad=True)",
            "a tensor requires a gradient, and no prebuilt kernel covers it: there is no backward",
            "Pass it detached (.detach()), or call it under torch.no_grad() or torch.inference_mode()",
        )
