"""AITER's ``CustomAllreduce``: collectives of 2, 4, 6 or 8 GPUs of one host, over memory that all of them have mapped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final

from aiter_prebuilt.errors import ArgumentShapeError
from aiter_prebuilt.ops._rank_blocks import RankBlocks, kind_of, place_of
from aiter_prebuilt.ops._rank_norms import RankNorms
from aiter_prebuilt.ops._rank_views import aligned, as_rows, as_words, dense, flat, like, nbytes, packed
from aiter_prebuilt.ops._ranks import Ranks, on_one_host, ranks_of

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

#: Bytes of the largest message unless AITER_CUSTOM_AR_MAX_SIZE says otherwise; of a larger one a library's ring is as fast.
_CUTOFF: Final = 64 << 20
_PACK: Final = 16
_SUMMED: Final = ("bf16", "f16", "f32")


def _warn(text: str, *words: object) -> None:
    # Imported here: logging takes a lock of its own around forks, which a fork beside a first import of it would wait for.
    import logging

    logging.getLogger("aiter_prebuilt").warning(text, *words)


def _bound(variable: str, default: int) -> int:
    said = os.environ.get(variable, "").strip()
    if not said:
        return default
    if said.isdigit():
        return int(said)
    _warn("%s=%r is no number of bytes: %d is used", variable, said, default)
    return default


def _misfit(asked: str, found: str, shape: Iterable[int]) -> ArgumentShapeError:
    return ArgumentShapeError(asked, found, f"Pass a contiguous out of {list(shape)}")


class CustomAllreduce(RankNorms):
    """Collectives that a tensor-parallel server calls between layers.

    A method that cannot serve a tensor returns None, and the caller's library takes over.

    Messages are copied inside of the launch, so that nothing is registered: a captured graph replays with any input memory.
    Calls of one communicator must follow each other on the device (one stream, or ordered ones), in the same order in all ranks.
    Sums are in the order of the ranks, in fp32, rounded once: all ranks get the same bits.
    """

    _SUPPORTED_WORLD_SIZES: ClassVar = [2, 4, 6, 8]
    #: Clients ask whether the buffers of a captured graph are to be registered later; here they never are.
    defers_capture_registration: ClassVar = False

    def __init__(
        self,
        group: ProcessGroup | Ranks,
        device: int | str | torch.device,
        max_size: int = 1 << 30,
        enable_register_for_capturing: bool = True,
    ) -> None:
        """All ranks of ``group`` call it. Where they are not on one host, or not 2, 4, 6 or 8, ``disabled`` is True afterwards.

        Args:
            group: torch's process group with a backend of the host (gloo), or anything with ``rank``, ``size`` and
                ``exchange(bytes) -> list[bytes]``.
            device: the GPU of this rank: torch's name, its ordinal, or ("nvidia", ordinal); each rank has its own.
            max_size: bytes of the largest message, AITER_CUSTOM_AR_MAX_SIZE (64 MiB) at most. Some more than twice as many are
                allocated, and 1 MiB at least.
            enable_register_for_capturing: of no effect: nothing is registered.

        Raises:
            UnsupportedError: a group of NCCL's, ranks of another version or with other bounds, or devices that cannot reach each
                other.
            DriverError: memory cannot be had or shared.

        Source: AITER ``CustomAllreduce``.
        """
        self.group, self.max_size = group, max_size
        self.enable_register_for_capturing = enable_register_for_capturing
        self.disabled, self.fully_connected = True, True
        self._IS_CAPTURING = False
        self._pool: RankBlocks | None = None
        ranks = ranks_of(group)
        self.rank, self.world_size = ranks.rank, ranks.size
        self._most = min(max_size, _bound("AITER_CUSTOM_AR_MAX_SIZE", _CUTOFF))
        self._least = _bound("AITER_CUSTOM_AR_MIN_SIZE", 0)
        if self.world_size == 1:
            return
        if self.world_size not in self._SUPPORTED_WORLD_SIZES:
            _warn(
                "CustomAllreduce is off: %d ranks, it serves %s", self.world_size, self._SUPPORTED_WORLD_SIZES
            )
            return
        if not on_one_host(ranks, (self._most, self._least)):
            _warn("CustomAllreduce is off: its ranks are on several hosts")
            return
        if self._most <= 0:
            return
        self.device = device
        self._pool = RankBlocks(self.rank, self.world_size, place_of(device), self._most)
        self._pool.meet(ranks)
        self.disabled = False

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Around the capture of a graph. Calls inside are captured as they are."""
        self._IS_CAPTURING = True
        try:
            yield
        finally:
            self._IS_CAPTURING = False

    def register_input_buffer(self, inp: torch.Tensor) -> None:
        """Nothing: inputs may lie anywhere."""

    def register_output_buffer(self, out: torch.Tensor) -> None:
        """Nothing: results may lie anywhere."""

    def register_graph_buffers(self) -> None:
        """Nothing: a captured graph holds no address of another rank's input."""

    def close(self) -> None:
        """Free the memory. All ranks must be through with their calls. A second time: nothing."""
        self.disabled = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __del__(self) -> None:
        with suppress(Exception):  # at the end of the interpreter the driver may be gone
            self.close()

    def should_custom_ar(self, inp: torch.Tensor, prefill_support: bool = False) -> bool:
        """Would :meth:`custom_all_reduce` serve it? bf16, fp16 or fp32, dense in some order of its dims, a multiple of 16 bytes
        at an address that is one.

        ``prefill_support`` changes nothing: both halves of a block take the largest message.
        """
        return self.should_custom_ar_bytes(inp, prefill_support) and dense(inp) and aligned(inp)

    def should_custom_ar_bytes(self, inp: torch.Tensor, prefill_support: bool = False) -> bool:
        """Tell whether a type and size are supported."""
        del prefill_support
        size = nbytes(inp)
        return (
            not self.disabled
            and size % _PACK == 0
            and self._least < size <= self._most
            and kind_of(inp) in _SUMMED
        )

    def should_custom_ag(self, inp: torch.Tensor) -> bool:
        """Would :meth:`custom_all_gather` serve it along its first dim?"""
        size = nbytes(inp)
        fits = not self.disabled and size % _PACK == 0 and size <= self._most
        return fits and len(inp.shape) > 0 and dense(inp) and aligned(inp)

    def should_custom_rs(self, inp: torch.Tensor, dim: int) -> bool:
        """Would :meth:`custom_reduce_scatter` serve it? A rank's share of ``dim`` and of what lies behind: whole 16 bytes."""
        if not self.should_custom_ar(inp) or not -len(inp.shape) <= dim < len(inp.shape):
            return False
        dim %= len(inp.shape)
        if inp.shape[dim] % self.world_size:
            return False
        inner = prod(inp.shape[dim:]) // self.world_size
        return bool(inner * (nbytes(inp) // max(1, prod(inp.shape))) % _PACK == 0)

    def all_reduce(
        self,
        inp: torch.Tensor,
        *,
        out: torch.Tensor | None = None,
        use_new: bool = True,
        open_fp8_quant: bool = False,
        registered_input: bool = False,
    ) -> torch.Tensor:
        """Sum all ranks' ``inp`` into ``out`` or a new tensor.

        Args:
            inp: bf16, fp16 or fp32, dense, a multiple of 16 bytes.
            out: the same, or None.
            use_new: accepted and ignored.
            open_fp8_quant: of no effect: messages keep their bits.
            registered_input: accepted and ignored.

        Raises:
            ArgumentError: types, shapes or the device do not fit.
            NoKernelError: a message that is too large.

        Source: AITER ``CustomAllreduce.all_reduce``.
        """
        del use_new, open_fp8_quant, registered_input
        result = like(inp) if out is None else out
        if tuple(result.shape) != tuple(inp.shape):
            raise _misfit(
                f"all_reduce(inp {list(inp.shape)}, out {list(result.shape)})",
                "out has another shape",
                inp.shape,
            )
        self._blocks.all_reduce(flat(result), flat(inp), kind_of(inp))
        return result

    def custom_all_reduce(
        self, input: torch.Tensor, use_new: bool = True, open_fp8_quant: bool = False
    ) -> torch.Tensor | None:
        """:meth:`all_reduce`, or None for what it does not serve."""
        if not self.should_custom_ar(input):
            return None
        return self.all_reduce(input, use_new=use_new, open_fp8_quant=open_fp8_quant)

    def moe_out_registered_buffer(self, num_tokens: int, hidden_dim: int, dtype: torch.dtype) -> None:
        """None: the copy that a registered buffer saves is part of the launch. Callers reduce what they have."""

    def custom_all_gather(self, inp: torch.Tensor, dim: int = 0) -> torch.Tensor | None:
        """All ranks' ``inp`` beside each other along ``dim``: any type; None where a row of them is no multiple of 16 bytes.

        Source: AITER ``CustomAllreduce.custom_all_gather``.
        """
        if not self.should_custom_ag(inp):
            return None
        inp = packed(inp)
        shape = tuple(inp.shape)
        dim = range(len(shape))[dim]
        before = prod(shape[:dim])
        row = nbytes(inp) // max(1, before)
        if row % _PACK:
            return None
        out = inp.new_empty((*shape[:dim], shape[dim] * self.world_size, *shape[dim + 1 :]))
        words = row // 4
        self._blocks.all_gather(
            as_words(out, (before, self.world_size, words)), as_words(inp, (before, words))
        )
        return out

    def reduce_scatter(
        self, inp: torch.Tensor, out: torch.Tensor, dim: int = 0, *, registered: bool = False
    ) -> None:
        """Sum all ranks' ``inp`` and keep this rank's part.

        It is the part along ``dim``, written to ``out``. ``registered`` is of no effect.

        Raises:
            ArgumentError: types or shapes do not fit.
            NoKernelError: a part is no multiple of 16 bytes.

        Source: AITER ``CustomAllreduce.reduce_scatter``.
        """
        del registered
        inp = packed(inp)
        shape = tuple(inp.shape)
        dim = range(len(shape))[dim]
        before, inner = prod(shape[:dim]), prod(shape[dim:]) // self.world_size
        part = (*shape[:dim], shape[dim] // self.world_size, *shape[dim + 1 :])
        asked = f"reduce_scatter(inp {list(shape)}, out {list(out.shape)}, dim={dim})"
        if shape[dim] % self.world_size or tuple(out.shape) != part:
            raise _misfit(asked, f"out is no part of {self.world_size} of inp along dim {dim}", part)
        if packed(out) is not out:
            raise _misfit(asked, "out is not contiguous", part)
        rows = as_rows(inp, (before, self.world_size, inner))
        self._blocks.reduce_scatter(as_rows(out, (before, inner)), rows, kind_of(inp))

    def custom_reduce_scatter(
        self, input: torch.Tensor, output: torch.Tensor, dim: int = 0
    ) -> torch.Tensor | None:
        """None, and :meth:`reduce_scatter` where it serves: ask :meth:`should_custom_rs` whether it did, as of AITER's."""
        if self.should_custom_rs(input, dim):
            self.reduce_scatter(input, output, dim)
        return None
