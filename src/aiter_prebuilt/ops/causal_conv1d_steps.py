"""Steps of causal convolutions in place: what is given by rows is seen as channels of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._delta import channels_of_tokens, with_silu
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.causal_conv1d_steps import refuse_causal_conv1d_update_in_place

if TYPE_CHECKING:
    import torch

_causal_conv1d_update_in_place = operator("causal_conv1d_update_in_place")


@traced
def causal_conv1d_update_in_place(
    x: torch.Tensor,
    conv_state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | bool | None = None,
    cache_seqlens: torch.Tensor | None = None,
    conv_state_indices: torch.Tensor | None = None,
    num_accepted_tokens: torch.Tensor | None = None,
    intermediate_conv_window: torch.Tensor | None = None,
    pad_slot_id: int = -1,
    metadata: object | None = None,
    validate_data: bool = False,
    query_start_loc: torch.Tensor | None = None,
    max_query_len: int = -1,
) -> torch.Tensor:
    """A step of causal convolutions in the form of AITER's Triton ``causal_conv1d_update``: x becomes the result.

    ``y[c, t] = bias[c] + sum(weight[c, j] * x[c, t - width + 1 + j])``, summed in fp32, where what lies before the first token is
    in the channel's state.

    Args:
        x: [batch, channels] or [batch, channels, tokens] bf16, fp16 or fp32, written; with ``query_start_loc`` [tokens,
            channels], or [1, channels, tokens], of all sequences. Channels that lie side by side are the fast form.
        conv_state: [slots, channels, width - 1 or more], of which the first places are used, in place.
        weight: [channels, width], width 2, 3 or 4; of any of these types, which ``bias`` has, too: [channels] or None.
        activation: "silu", "swish" (the same), or True: ``y / (1 + exp(-y))``; None or False: none.
        cache_seqlens: None; AITER's kernel does not read it.
        conv_state_indices: [sequences] int32, the slot of each; None: the first sequence has the first slot, and so on.
        num_accepted_tokens: [sequences] int32, from 1: how many of the last step's tokens count. The state keeps the newest
            width - 2 inputs that count and all of this step, for which it must have places.
        intermediate_conv_window: [slots, steps, channels, width - 1], written: the inputs before the next token, behind each
            token.
        pad_slot_id: a sequence of this slot, or of none that there is, is skipped: x stays what it is.
        metadata, validate_data, max_query_len: any value.
        query_start_loc: [sequences + 1] int32, where each sequence begins, and where the last ends. AITER's function has it not.

    Returns:
        x.

    Raises:
        UnsupportedError: another activation, ``cache_seqlens``, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER's Triton ``causal_conv1d_update``, vLLM's and SGLang's.
    """
    del metadata, validate_data, max_query_len
    refuse_causal_conv1d_update_in_place(cache_seqlens)
    try:
        seen = channels_of_tokens(x, query_start_loc is not None)
    except NOT_A_TENSOR as error:
        raise no_output("causal_conv1d_update_in_place", error) from error
    tensors = (seen, conv_state, weight, bias, conv_state_indices, num_accepted_tokens)
    silu = with_silu(activation, "causal_conv1d_update_in_place")
    _causal_conv1d_update_in_place(*tensors, intermediate_conv_window, query_start_loc, silu, pad_slot_id)
    return x
