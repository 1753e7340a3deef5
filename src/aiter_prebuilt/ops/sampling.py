"""Sampling with numbers drawn on the device: the state of the generator is the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._random import default, pair
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_random_sample = operator("random_sample")
_mixed_sample = operator("mixed_sample")
_exponential = operator("exponential")

#: Columns of a row that a block takes at once, and numbers that each of its threads draws for them.
_COLUMNS: Final = 4096
_DRAWN: Final = 4


@traced
def random_sample(
    out: torch.Tensor,
    input: torch.Tensor,
    temperatures: torch.Tensor,
    lambd: float = 1.0,
    generator: Any = None,
    eps: float = 1e-10,
) -> None:
    """A sample of each row's softmax: the place of the largest ``softmax(input / temperature) / (e + eps)``.

    e is drawn from an exponential distribution of the rate ``lambd``, by Philox's generator: thread t of row m draws from
    subsequence 1024 m + t, four numbers for four columns at once. The same state gives the same numbers as AITER's function.

    Args:
        out: [M] int32, written.
        input: [M, N] bf16, fp16 or fp32, the first dim may be strided. Rows of no element leave ``out`` as it is.
        temperatures: [M] fp32, below 1e-5 it is 1e-5.
        lambd: the rate.
        generator: torch's generator of the device, whose offset is moved on by 4 for each 4096 columns that a row has or begins;
            its default generator when None. Or (seed, offset): two integers, which the caller moves on so. A graph that is being
            captured needs the pair, and draws the same numbers in each replay.
        eps: added to each number.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``random_sample``; Salmon et al., Philox4x32-10.
    """
    seed, offset = _state("random_sample", generator, input)
    _random_sample(out, input, temperatures, lambd, eps, seed, offset)


@traced
def mixed_sample(
    out: torch.Tensor,
    input: torch.Tensor,
    temperature: torch.Tensor,
    lambd: float = 1.0,
    generator: Any = None,
    eps: float = 1e-10,
) -> None:
    """As :func:`random_sample`; a row with temperature 0 gives the place of its largest value, as ``greedy_sample``.

    Args:
        out, input, lambd, generator, eps: as of :func:`random_sample`.
        temperature: [M] fp32; 0 takes the largest value.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mixed_sample``.
    """
    seed, offset = _state("mixed_sample", generator, input)
    _mixed_sample(out, input, temperature, lambd, eps, seed, offset)


@traced
def exponential(out: torch.Tensor, lambd: float = 1.0, generator: Any = None, eps: float = 1e-10) -> None:
    """Numbers drawn from an exponential distribution of the rate ``lambd``, plus ``eps``.

    As AITER has it, one uniform number in 2**24 or so, that is rounded to 1, gives -2**-24 / lambd: with ``eps`` below that, the
    result is negative, and in :func:`random_sample` that column cannot win.

    Args:
        out: [M, N] bf16, fp16 or fp32, written; the first dim may be strided.
        lambd, generator, eps: as of :func:`random_sample`.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``exponential``.
    """
    seed, offset = _state("exponential", generator, out)
    _exponential(out, lambd, eps, seed, offset)


def _state(function: str, generator: Any, tensor: Any) -> tuple[int, int]:
    """Seed and offset for a call about the rows of ``tensor``; a generator of torch is moved on.

    Raises:
        ArgumentKindError: it is neither a generator of a device nor two integers.
    """
    if isinstance(generator, tuple | list):
        found = generator
    else:
        try:
            rows, columns = tensor.shape
            chosen = default(tensor) if generator is None else generator
            found = (chosen.initial_seed(), chosen.get_offset())
            if rows * columns:
                chosen.set_offset(found[1] + -(-columns // _COLUMNS) * _DRAWN)
        except NOT_A_TENSOR as error:
            if generator is None:
                raise no_output(function, error) from error
            found = ()
    return pair(function, found, generator)
