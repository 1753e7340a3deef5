"""Sampling among the most probable tokens, and their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, as_type, like, no_output
from aiter_prebuilt.ops._random import default, pair, tokens
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_top_k_renorm_probs = operator("top_k_renorm_probs")
_top_p_sampling_from_probs = operator("top_p_sampling_from_probs")
_top_k_top_p_sampling_from_probs = operator("top_k_top_p_sampling_from_probs")

#: By how much AITER moves the generator on for each token.
_MOVED: Final = 32


@traced
def top_k_renorm_probs(
    probs: torch.Tensor, maybe_top_k_arr: torch.Tensor | None, top_k_val: int
) -> torch.Tensor:
    """Keep each row's k largest probabilities, renormalised.

    The k largest and all that equal the last of them, divided by their sum; 0 for the others.

    Args:
        probs: [M, N] fp32 (other types are turned into it), rows may be strided, N below 2**20. NaN, infinities and numbers below
            0 count as 0.
        maybe_top_k_arr: [M] int32 (other integers are turned into it): k of each row; below 1 it is 1.
        top_k_val: k of all rows, where no tensor is given; below 1 it is 50, as AITER has it.

    Returns:
        New, contiguous: [M, N] fp32. A sum below 1e-8 is 1e-8.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``top_k_renorm_probs``.
    """
    try:
        given, ks = as_type(probs, "f32"), as_type(maybe_top_k_arr, "i32")
        out = like(given)
    except NOT_A_TENSOR as error:
        raise no_output("top_k_renorm_probs", error) from error
    _top_k_renorm_probs(given, ks, out, top_k_val)
    return out


@traced
def top_p_sampling_from_probs(
    probs: torch.Tensor,
    indices: torch.Tensor | None,
    maybe_top_p_arr: torch.Tensor | None,
    top_p_val: float,
    deterministic: bool = False,
    generator: Any = None,
) -> torch.Tensor:
    """Sample a token of each row's top p.

    Drawn among the tokens for which the more probable ones sum to less than p.

    Equal probabilities are taken together. Sums decide in fp64; the row's sum counts as it is, 1 or not. For token b one number
    is drawn from subsequence b of Philox's generator; the distribution is that of AITER's function, the token that a state gives
    is not, since AITER draws again and again. The same state gives the same tokens.

    Args:
        probs: [M, N] fp32 (other types are turned into it), rows may be strided, N below 2**20. NaN, infinities and numbers below
            0 count as 0.
        indices: [B] int32 (other integers are turned into it): the row of each token. Without it each row has one.
        maybe_top_p_arr: [M] fp32 (other types are turned into it): p of each row.
        top_p_val: p of all rows, where no tensor is given; 0 and below takes the largest and its equals.
        deterministic: any value: results always are.
        generator: torch's generator of the device, whose offset is moved on by 32 for each token; its default generator when
            None. Or (seed, offset): two integers, which the caller moves on. A graph that is being captured needs the pair, and
            draws the same numbers in each replay.

    Returns:
        New: [B] int32; 0 for a row with nothing above 0, -1 for a token of no row.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``top_p_sampling_from_probs``; Salmon et al., Philox4x32-10.
    """
    del deterministic
    name = "top_p_sampling_from_probs"
    given, rows, ps, out = _prepared(name, probs, indices, maybe_top_p_arr)
    seed, offset = _state(name, generator, probs, out)
    _top_p_sampling_from_probs(given, rows, ps, out, top_p_val, seed, offset)
    return out


@traced
def top_k_top_p_sampling_from_probs(
    probs: torch.Tensor,
    indices: torch.Tensor | None,
    maybe_top_k_arr: torch.Tensor | None,
    top_k_val: int,
    maybe_top_p_arr: torch.Tensor | None,
    top_p_val: float,
    deterministic: bool = False,
    generator: Any = None,
) -> torch.Tensor:
    """Sample a token of each row's top k and p.

    Drawn among the tokens for which fewer than k are more probable, and these sum to less than p.

    p is of the row as it is, not of its k largest. All else is as of :func:`top_p_sampling_from_probs`.

    Args:
        probs: [M, N] fp32, rows may be strided; of fewer than 2^20 columns; NaN, infinities and numbers below 0 count as 0; a row
            with nothing above 0 gives 0.
        indices: [I] int32, or None; the row of each token, -1 for one of no row; without it each row has one token.
        maybe_top_k_arr: [M] int32 (other integers are turned into it): k of each row; below 1 it is 1.
        top_k_val: k of all rows, where no tensor is given.
        maybe_top_p_arr: [M] fp32, or None; p of each row; p is of the row as it is, not of its k largest.
        top_p_val: p of all rows, where no tensor is given; 0 and below takes the largest and its equals.
        deterministic: any value: results always are.
        generator: torch's, or (seed, offset).

    Returns:
        New: [B] int32; 0 for a row with nothing above 0, -1 for a token of no row.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``top_k_top_p_sampling_from_probs``; Salmon et al., Philox4x32-10.
    """
    del deterministic
    name = "top_k_top_p_sampling_from_probs"
    given, rows, ps, out = _prepared(name, probs, indices, maybe_top_p_arr)
    try:
        ks = as_type(maybe_top_k_arr, "i32")
    except NOT_A_TENSOR as error:
        raise no_output(name, error) from error
    seed, offset = _state(name, generator, probs, out)
    _top_k_top_p_sampling_from_probs(given, rows, ks, ps, out, top_k_val, top_p_val, seed, offset)
    return out


def _prepared(function: str, probs: Any, indices: Any, ps: Any) -> tuple[Any, Any, Any, Any]:
    """Probabilities, rows of tokens, p of rows, and what is written.

    Raises:
        ArgumentKindError: they are no tensors.
    """
    try:
        rows = as_type(indices, "i32")
        return as_type(probs, "f32"), rows, as_type(ps, "f32"), tokens(probs, rows)
    except NOT_A_TENSOR as error:
        raise no_output(function, error) from error


def _state(function: str, generator: Any, probs: Any, out: Any) -> tuple[int, int]:
    """Seed and offset; a generator of torch is moved on.

    Raises:
        ArgumentKindError: it is neither a generator of a device nor two integers.
    """
    found = generator
    if not isinstance(generator, tuple | list):
        try:
            chosen = default(probs) if generator is None else generator
            found = (chosen.initial_seed(), chosen.get_offset())
            chosen.set_offset(found[1] + _MOVED * out.shape[0])
        except NOT_A_TENSOR as error:
            if generator is None:
                raise no_output(function, error) from error
            found = ()
    return pair(function, found, generator)
