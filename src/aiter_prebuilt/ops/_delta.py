"""Prepare arguments of causal convolutions and of the gated delta rule."""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.ops._common import element_type, integers, like, refuse


def with_silu(activation: str | bool | None, function: str = "causal_conv1d_fn") -> bool:
    """Is silu asked for? AITER takes a bool for its name, too.

    Raises:
        UnsupportedError: another activation.
    """
    if activation in ("silu", "swish", True):
        return True
    if activation is None or activation is False:
        return False
    raise refuse(function, "activation", activation, '"silu", "swish" or None')


def longest(lengths: Any, tokens: int) -> int:
    """Return the largest of the lengths.

    0 if there are none; all tokens where there is no list of lengths.

    Raises:
        UnsupportedError: they are no integers.
    """
    found = (tokens,) if lengths is None else integers(lengths)
    if found is None:
        raise refuse("causal_conv1d_fn", "seq_lens_cpu", lengths, "a list of integers")
    return max(found, default=0)


def as_it_lies(x: Any) -> Any:
    """Allocate a matrix like x.

    Its channels lie side by side if those of x do and there is a framework.
    """
    channels, tokens = x.shape
    if isinstance(x.dtype, str) or x.stride()[0] != 1:
        return like(x)
    return x.new_empty((tokens, channels)).t()


def gates(a: Any) -> tuple[Any, Any]:
    """Two new tensors in fp32 of the shape of a."""
    kind = element_type(a, "f32")
    return a.new_empty(a.shape, dtype=kind), a.new_empty(a.shape, dtype=kind)


def results(q: Any, v: Any, cu_seqlens: Any, with_states: bool) -> tuple[Any, Any]:
    """Allocate the results.

    A row for each row of v, and the states behind each sequence's last token, or None.
    """
    out = like(v)
    if not with_states:
        return out, None
    sequences = q.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    shape = (sequences, v.shape[2], q.shape[3], v.shape[3])
    return out, q.new_empty(shape, dtype=element_type(q, "f32"))


def rows_of_slots(indices: Any) -> Any:
    """View slots as rows of one.

    A slot for each sequence; rows of several stay.
    """
    return indices.unsqueeze(-1) if len(indices.shape) == 1 and hasattr(indices, "unsqueeze") else indices


def channels_of_tokens(x: Any, one_behind_the_other: bool) -> Any:
    """X as [batch, channels, tokens]; as it is where it has three dims."""
    if len(x.shape) != 2 or not hasattr(x, "unsqueeze"):
        return x
    return x.t().unsqueeze(0) if one_behind_the_other else x.unsqueeze(-1)
