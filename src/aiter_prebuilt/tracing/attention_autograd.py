"""Attention that torch differentiates: the calls of tensors that require a gradient.

Imported by the first such call and by a trace. A call without gradients never comes here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import torch

import aiter_prebuilt
from aiter_prebuilt.errors import NoOperatorError, UnsupportedError
from aiter_prebuilt.ops._common import with_probabilities
from aiter_prebuilt.ops._dropout import largest_kept, new_bytes, new_state
from aiter_prebuilt.ops._ragged import as_f32, skipped, window
from aiter_prebuilt.ops._sequence_lists import with_two_gaps

#: Its functions, which are called with arguments in tuples: too much for a type checker.
_CALLED: Final[Any] = aiter_prebuilt
#: Roundings to bf16 that the backward operators know.
_ROUNDINGS: Final = (0, 1, 2)


def flash_attn_func(
    *,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: float | None,
    causal: bool,
    window_size: Any,
    return_lse: bool,
    return_attn_probs: bool,
    how_v3_bf16_cvt: int,
    sink_ptr: torch.Tensor | None,
    deterministic: bool = True,
    dropout_p: float = 0.0,
    **_: Any,
) -> Any:
    """Call ``aiter_prebuilt.flash_attn_func`` so that torch records its gradient.

    The public function has checked all other options (``**_``): each has its only supported value.

    Raises:
        UnsupportedError: an option has no backward.
    """
    name = "flash_attn_func"
    left, right = _bounds(name, window_size, q.shape[1], k.shape[1], causal)
    scale = q.shape[3] ** -0.5 if softmax_scale is None else softmax_scale
    tensors = _distinct(q, k, v, sink_ptr)
    options = (scale, left, right, how_v3_bf16_cvt, bool(deterministic), dropout_p, return_attn_probs)
    out, lse, *drawn = _Dense.apply(*tensors, *options)
    return with_probabilities(q, out, lse if return_lse else None, return_attn_probs, *drawn)


def flash_attn_varlen_func(
    *,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    softmax_scale: float | None,
    logits_soft_cap: float,
    causal: bool,
    window_size: Any,
    return_lse: bool,
    return_attn_probs: bool,
    how_v3_bf16_cvt: int,
    block_table: torch.Tensor | None,
    out: torch.Tensor | None,
    cu_seqlens_q_padded: torch.Tensor | None,
    cu_seqlens_k_padded: torch.Tensor | None,
    sink_ptr: torch.Tensor | None,
    deterministic: bool = False,
    dropout_p: float = 0.0,
    **_: Any,
) -> Any:
    """Call ``aiter_prebuilt.flash_attn_varlen_func`` so that torch records its gradient.

    The public function has checked all other options (``**_``): each has its only supported value.

    Raises:
        UnsupportedError: an option has no backward.
    """
    name = "flash_attn_varlen_func"
    if block_table is not None:
        raise _no_backward(name, "block_table=...", "Use block_table=None")
    if logits_soft_cap > 0:
        raise _no_backward(name, f"logits_soft_cap={logits_soft_cap}", "Use logits_soft_cap=0.0")
    if out is not None and out.requires_grad:
        raise _no_backward(name, "out=...", "Use out=None, or a tensor that requires no gradient")
    left, right = _bounds(name, window_size, max_seqlen_q, max_seqlen_k, causal)
    # The assembly, which leaves no sequence alone, has no dropout.
    width = 0 if dropout_p else v.shape[-1]
    if skipped(q, width, (left, right), logits_soft_cap, min_seqlen_q) > 0:
        raise _no_backward(name, f"min_seqlen_q={min_seqlen_q}", "Use min_seqlen_q=0")
    if k.dim() == v.dim() == 4 and k.shape[0] == v.shape[0] == 1:
        k, v = k[0], v[0]
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    starts = (cu_seqlens_q, cu_seqlens_k, cu_seqlens_q_padded, cu_seqlens_k_padded)
    # An autograd function with two results may write whole tensors alone: a view is written through a copy of it, which keeps the
    # rows of no sequence.
    view = out if out is not None and out._is_view() else None  # noqa: SLF001  # torch has no other word for it
    tensors = _distinct(q, k, v, sink_ptr, out if view is None else view.clone(), *starts)
    most = (max_seqlen_q, max_seqlen_k)
    options = (scale, left, right, how_v3_bf16_cvt, bool(deterministic), dropout_p, return_attn_probs)
    made, lse, *drawn = _Ragged.apply(*tensors, *most, *options)
    made = made if view is None else view.copy_(made)
    return with_probabilities(q, made, lse if return_lse else None, return_attn_probs, *drawn)


class _Dense(torch.autograd.Function):
    """Attention of batches that are alike."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        sink: torch.Tensor | None,
        scale: float,
        left: int,
        right: int,
        rounding: int,
        deterministic: bool,
        dropout_p: float,
        wanted: bool,
    ) -> Any:
        """Return the result, the log-sum-exp, and the bytes of dropout if they are wanted; these have no gradient."""
        drawn = state = None
        if dropout_p:
            out = q.new_empty((*q.shape[:3], v.shape[3]))
            made = _dropped("flash_attn_func", (out, q, k, v, sink), dropout_p, scale, left, right, wanted)
            lse, drawn, state = made
        else:
            out, lse = _CALLED.flash_attn_func(
                q, k, v, 0.0, scale, False, (left, right), return_lse=True, how_v3_bf16_cvt=rounding, sink_ptr=sink,
            )  # fmt: skip
        ctx.save_for_backward(q, k, v, sink, out, lse, state)
        ctx.options = (scale, left, right, rounding, deterministic, dropout_p)
        ctx.mark_non_differentiable(*(each for each in (lse, drawn) if each is not None))
        ctx.set_materialize_grads(False)  # the others get none
        return (out, lse) if drawn is None else (out, lse, drawn)

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor | None, *_: Any) -> Any:
        """Return the gradients of the four tensors."""
        if dout is None:
            return (None,) * 11
        saved = ctx.saved_tensors  # once: a checkpoint computes them anew when they are asked for
        with torch.no_grad():
            made = _Dense.gradients(ctx, dout, *saved)
        return (*_first_order("flash_attn_func", made, dout, *saved[:4]), *(None,) * 7)

    @staticmethod
    def gradients(ctx: Any, dout: torch.Tensor, *saved: Any) -> tuple[Any, ...]:
        """Launch the backward kernels."""
        q, k, v, sink, out, lse, state = saved
        scale, left, right, rounding, deterministic, dropout_p = ctx.options
        tensors = (_rows(dout), q, k, v, out, lse)
        how = (dropout_p, scale, False, left, right)
        scores, d_sink = _sinks(sink if ctx.needs_input_grad[3] else None, q.shape[0])
        made = None
        if not (deterministic or dropout_p) and d_sink is None and scale > 0:
            with suppress(NoOperatorError):  # its kernels are AMD's assembly
                made = _CALLED.fmha_v3_bwd(*tensors, *how, False, True, _known(rounding))
        if made is None:
            made = _CALLED.mha_bwd(*tensors, *how, True, rng_state=state, sink=scores, d_sink=d_sink)
        return _requested_gradients(ctx, made, sink, d_sink)


class _Ragged(torch.autograd.Function):
    """Attention of sequences of different lengths."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        sink: torch.Tensor | None,
        out: torch.Tensor | None,
        starts_q: torch.Tensor,
        starts_k: torch.Tensor,
        padded_q: torch.Tensor | None,
        padded_k: torch.Tensor | None,
        most_q: int,
        most_k: int,
        scale: float,
        left: int,
        right: int,
        rounding: int,
        deterministic: bool,
        dropout_p: float,
        wanted: bool,
    ) -> Any:
        """Return the result, the log-sum-exp, and the bytes of dropout if they are wanted; these have no gradient."""
        drawn = state = None
        if dropout_p:
            made = q.new_empty((*q.shape[:2], v.shape[2])) if out is None else out
            starts = (starts_q, starts_k)
            if padded_q is not None or padded_k is not None:
                starts = with_two_gaps(*starts, padded_q, padded_k)
            rows = (*(each[None] for each in (made, q, k, v)), sink)
            how = (dropout_p, scale, left, right, wanted, starts, (most_q, most_k))
            lse, drawn, state = _dropped("flash_attn_varlen_func", rows, *how)
            lse, drawn = lse[0], None if drawn is None else drawn[0]
        else:
            made, lse = _CALLED.flash_attn_varlen_func(
                q, k, v, starts_q, starts_k, most_q, most_k, 0, 0.0, scale, 0.0, False, (left, right), return_lse=True,
                how_v3_bf16_cvt=rounding, out=out, cu_seqlens_q_padded=padded_q, cu_seqlens_k_padded=padded_k, sink_ptr=sink,
            )  # fmt: skip
        ctx.save_for_backward(q, k, v, sink, made, lse, starts_q, starts_k, padded_q, padded_k, state)
        ctx.options = (most_q, most_k, scale, left, right, rounding, deterministic, dropout_p)
        if out is not None:
            ctx.mark_dirty(out)
        ctx.mark_non_differentiable(*(each for each in (lse, drawn) if each is not None))
        ctx.set_materialize_grads(False)  # the others get none
        return (made, lse) if drawn is None else (made, lse, drawn)

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor | None, *_: Any) -> Any:
        """Return the gradients of the four tensors. Rows of no sequence have gradients of 0."""
        if dout is None:
            return (None,) * 18
        saved = ctx.saved_tensors  # once: a checkpoint computes them anew when they are asked for
        with torch.no_grad():
            made = _Ragged.gradients(ctx, dout, *saved)
        return (*_first_order("flash_attn_varlen_func", made, dout, *saved[:4]), *(None,) * 14)

    @staticmethod
    def gradients(ctx: Any, dout: torch.Tensor, *saved: Any) -> tuple[Any, ...]:
        """Launch the backward kernels."""
        q, k, v, sink, out, lse, starts_q, starts_k, padded_q, padded_k, state = saved
        most_q, most_k, scale, left, right, rounding, deterministic, dropout_p = ctx.options
        dout = _rows(dout)
        sink_asks = sink is not None and ctx.needs_input_grad[3]
        padded = padded_q is not None or padded_k is not None
        if padded:
            if sink_asks:
                dout, out, lse = _without_padding(dout, out, lse, starts_q, padded_q)
            starts_q, starts_k = with_two_gaps(starts_q, starts_k, padded_q, padded_k)
        tensors = (
            dout,
            q,
            k,
            v,
            out,
            lse,
            starts_q,
            starts_k,
            most_q,
            most_k,
            dropout_p,
            scale,
            False,
            False,
        )
        grads = tuple(torch.zeros_like(each, memory_format=torch.contiguous_format) for each in (q, k, v))
        scores, d_sink = _sinks(sink if sink_asks else None, starts_q.shape[0] - 1)
        made = None
        # The assembly takes no window but that of a causal mask, and multiplies keys of padding with zeros: NaN stays NaN.
        plain = not (deterministic or padded or dropout_p) and left < 0 and right <= 0
        if plain and d_sink is None and scale > 0:
            how = (*tensors[:-1], right == 0, -1, -1, False, True, _known(rounding))
            with suppress(NoOperatorError):  # its kernels are AMD's assembly
                made = _CALLED.fmha_v3_varlen_bwd(*how, *grads)
        if made is None:
            last = {"rng_state": state, "sink": scores, "d_sink": d_sink}
            made = _CALLED.mha_varlen_bwd(*tensors, left, right, True, *grads, **last)
        return _requested_gradients(ctx, made, sink, d_sink)


def _dropped(
    function: str,
    tensors: tuple[Any, ...],
    dropout_p: float,
    scale: float,
    left: int,
    right: int,
    wanted: bool,
    starts: tuple[Any, Any] = (None, None),
    most: tuple[int, int] | None = None,
) -> tuple[Any, Any, Any]:
    """Launch attention with dropout on ``out``, q, k, v and sinks, rows in batches.

    Returns:
        The log-sum-exp, the random bytes if they are ``wanted``, else None, and seed and offset.
    """
    out, q, k, v, sink = tensors
    keep, state = largest_kept(function, dropout_p), new_state(q)
    most_q, most_k = most or (0, k.shape[1])
    lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    drawn = new_bytes(q, most_k) if wanted else None
    how = (dropout_p, keep, scale, left, right, 0, 0.0, *starts, most_q, -1, as_f32(sink), lse, drawn)
    _CALLED.attention_dropout_fwd(out, q, k, v, state, *how)
    return lse, drawn, state


class _FirstOrder(torch.autograd.Function):
    """Gradients that depend on tensors, and have no gradient themselves."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: torch.Tensor | None) -> Any:
        """Return the gradients, which stand behind the ``count`` tensors that they depend on."""
        ctx.function = name
        return tuple(None if each is None else each.detach() for each in tensors[count:])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        """Refuse a backward of the backward."""
        raise UnsupportedError(
            f"{ctx.function}(create_graph=True)",
            "its gradient is differentiated again, and no prebuilt kernel has a backward of the backward",
            "Differentiate once, or write this attention in torch operations",
        )


def _first_order(name: str, made: tuple[Any, ...], *sources: torch.Tensor | None) -> tuple[Any, ...]:
    """Give gradients a history that refuses to be differentiated, where torch records one (``create_graph=True``)."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return made
    found: tuple[Any, ...] = _FirstOrder.apply(name, len(sources), *sources, *made)
    return found


def _distinct(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    """View a tensor that comes again.

    Dynamo traces no call that has one twice.
    """
    found: list[torch.Tensor | None] = []
    for each in tensors:
        again = each is not None and any(each is other for other in found)
        found.append(each.view_as(each) if each is not None and again else each)
    return found


def _no_backward(function: str, option: str, fix: str) -> UnsupportedError:
    """Build the error for an option of forward kernels alone."""
    return UnsupportedError(
        f"{function}({option})",
        "a tensor requires a gradient, and this option has no backward",
        f"{fix}, or call it under torch.no_grad()",
    )


def _bounds(function: str, window_size: Any, queries: int, keys: int, causal: bool) -> tuple[int, int]:
    """Count the keys that a query sees to its left and right.

    -1: all.

    Raises:
        UnsupportedError: the first keys are seen from behind the window.
    """
    left, right, first = window(function, window_size, queries, keys, causal)
    if first > 0 and left >= 0:
        raise _no_backward(function, f"window_size={window_size!r}", "Use window_size=(left, right)")
    return max(left, -1), max(right, -1)


def _known(rounding: int) -> int:
    """Return the rounding of the backward operators.

    The forward ones also take other numbers, which count as the first.
    """
    return rounding if rounding in _ROUNDINGS else 0


def _rows(dout: torch.Tensor) -> torch.Tensor:
    """Make the rows of a gradient dense, as kernels read them.

    That of a sum is one number in all places.
    """
    return dout if dout.stride(-1) == 1 else dout.contiguous()


def _sinks(sink: torch.Tensor | None, count: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Allocate the sinks of ``count`` batches and their gradients.

    None twice where nobody asks for it.
    """
    if sink is None:
        return None, None
    scores = sink.float()
    return scores.expand(count, -1).contiguous(), torch.zeros_like(scores)


def _requested_gradients(
    ctx: Any, made: Any, sink: torch.Tensor | None, d_sink: torch.Tensor | None
) -> tuple[Any, ...]:
    """Return the requested gradients, None for the others."""
    found = (*made[:3], None if sink is None or d_sink is None else d_sink.to(sink.dtype))
    return tuple(each if asks else None for each, asks in zip(found, ctx.needs_input_grad, strict=False))


def _without_padding(
    dout: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    starts: torch.Tensor,
    padded: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradient, result and log-sum-exp whose rows of padding add nothing to the gradient of a sink."""
    begins = starts if padded is None else padded
    rows = torch.arange(out.shape[0], device=out.device, dtype=begins.dtype)
    number = torch.searchsorted(begins[1:-1].contiguous(), rows, right=True)
    place = rows - begins[number]
    padding = (place < 0) | (place >= (starts[1:] - starts[:-1])[number])
    rest = padding[:, None, None]
    return dout.masked_fill(rest, 0), out.masked_fill(rest, 0), lse.masked_fill(padding, float("inf"))
