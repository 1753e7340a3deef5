"""Causal convolutions of prompts: the longest sequence is taken from the lengths on the host, the output is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, no_output
from aiter_prebuilt.ops._delta import as_it_lies, longest, with_silu
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_causal_conv1d_fn = operator("causal_conv1d_fn")


@traced
def causal_conv1d_fn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens_cpu: Sequence[int] | None = None,
    cache_indices: torch.Tensor | None = None,
    has_initial_state: torch.Tensor | None = None,
    activation: str | bool | None = "silu",
    pad_slot_id: int = -1,
    validate_data: bool = False,
    out: torch.Tensor | None = None,
    metadata: object | None = None,
) -> torch.Tensor:
    """A causal convolution of each channel along the tokens of each sequence, behind the inputs that its slot holds.

    ``y[c, t] = bias[c] + sum(weight[c, j] * x[c, t - width + 1 + j])``, summed in fp32. A slot holds the last width - 1 inputs
    afterwards.

    Args:
        x: [channels, tokens of all sequences, one behind the other] bf16, fp16 or fp32; channels that lie side by side, as a
            transposed [tokens, channels] has them, are the fast form.
        weight: [channels, width], width 2, 3 or 4; of any of these types, which ``bias`` has, too: [channels] or None.
        conv_states: [slots, channels, width - 1 or more], in place; its first width - 1 places hold inputs, the newest last.
        query_start_loc: [sequences + 1] int32, where each sequence begins, and where the last ends.
        seq_lens_cpu: the lengths on the host, of which the largest is used alone; None, as vLLM has it: any up to all tokens.
        cache_indices: [sequences] int32, the slot of each; None: the first sequence has the first slot, and so on. A sequence
            whose slot is ``pad_slot_id``, or none that there is, is skipped: its results are not written.
        has_initial_state: [sequences] bool or uint8: does the slot hold inputs before the first? None: of no sequence.
        activation: "silu", "swish" (the same), or True: ``y / (1 + exp(-y))``; None or False: none.
        pad_slot_id: a slot that stands for none.
        validate_data: any value: what a kernel asks for is asked always.
        out: [channels, tokens], written; made when None, as x lies in memory. AITER's function has it not.
        metadata: any value, of vLLM's function.

    Returns:
        out.

    Raises:
        UnsupportedError: another activation, lengths that are no integers, or a tensor that requires grad. ArgumentError,
            NoKernelError: the call does not fit.

    Source: AITER's Triton ``causal_conv1d_fn``.
    """
    del validate_data, metadata
    try:
        out = as_it_lies(x) if out is None else out
        flags, tokens = codes(has_initial_state, "bool"), x.shape[1]
    except NOT_A_TENSOR as error:
        raise no_output("causal_conv1d_fn", error) from error
    tensors = (x, weight, bias, conv_states, query_start_loc, cache_indices, flags, out)
    _causal_conv1d_fn(*tensors, longest(seq_lens_cpu, tokens), with_silu(activation), pad_slot_id)
    return out
