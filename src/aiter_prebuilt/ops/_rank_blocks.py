"""A rank's view of all ranks' blocks: the tensors that ``peer_*`` operators take, and the calls themselves.

A block is signals ([world + 1, GROUPS] int32), then two halves of GROUPS regions (``csrc/kernels/hip/peers.hip`` says what for).
"""

from __future__ import annotations

from typing import Any, Final

from aiter_prebuilt.contract.dtype import BY_NAME, DTYPES
from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._ranks import Ranks, meet
from aiter_prebuilt.shared_memory import SharedMemory

#: Workgroups that one call has at most, each with a region of its own: enough to keep seven links of a device busy.
GROUPS: Final = 64
#: Bytes that a workgroup takes before another one takes part (a pack for each of 512 lanes), and one pack more for each rank.
_LEAST: Final = (512 + 8) * 16
_SLOTS: Final = 8
_PAGE: Final = 4096
_PACK: Final = 16
_KINDS: Final = {name: kind.name for kind in DTYPES for name in (kind.name, kind.torch)}


def kind_of(tensor: Any) -> str:
    """The element type's name of a tensor, torch's or without a framework."""
    return _KINDS.get(str(tensor.dtype).removeprefix("torch."), "")


def _up(value: int, by: int) -> int:
    return -(-value // by) * by


class RankBlocks:
    """Blocks of ``capacity`` bytes of input; all ranks make theirs at once, with the same capacity."""

    def __init__(self, ranks: Ranks, place: tuple[str, int], capacity: int) -> None:
        """Allocate this rank's block on a device (vendor and ordinal) and map the others'.

        Raises:
            DriverError, UnsupportedError: see :func:`aiter_prebuilt.ops._ranks.meet`.
        """
        self.rank, self.world = ranks.rank, ranks.size
        #: Bytes of one region of one half, a multiple of a pack for each rank.
        self.region = _up(max(-(-capacity // GROUPS), _LEAST), _PACK * self.world)
        self._place = place
        self._signals_bytes = _up((self.world + 1) * GROUPS * 4, _PAGE)
        self._memory = SharedMemory(place, self._signals_bytes + 2 * GROUPS * self.region)
        try:
            self._addresses = meet(ranks, self._memory)
        except BaseException:
            self._memory.close()
            raise
        self._made: dict[str, list[Any]] = {}

    def _blocks(self, kind: str) -> list[Any]:
        """Data and signals of ranks 0 and 1, and of ranks 2 to 7 (None where there is none), data being of an element type."""
        if kind not in self._made:
            shape = (2, GROUPS, self.region // BY_NAME[kind].itemsize)
            data: list[Any] = [
                (at + self._signals_bytes, kind, shape, None, self._place) for at in self._addresses
            ]
            signals: list[Any] = [
                (at, "i32", (self.world + 1, GROUPS), None, self._place) for at in self._addresses
            ]
            rest = [None] * (_SLOTS - self.world)
            self._made[kind] = [*data[:2], *signals[:2], *data[2:], *rest, *signals[2:], *rest]
        return self._made[kind]

    def all_reduce(self, out: Any, inp: Any, kind: str) -> None:
        """The sum of all ranks' ``inp``: bf16, fp16 or fp32, contiguous."""
        operator("peer_all_reduce")(out, inp, *self._blocks(kind), self.rank)

    def all_reduce_rmsnorm(
        self, tensors: tuple[Any, ...], kind: str, epsilon: float, gemma_norm: bool
    ) -> None:
        """Of (out, residual_out, input, residual_in, weight)."""
        operator("peer_all_reduce_rmsnorm")(*tensors, *self._blocks(kind), epsilon, self.rank, gemma_norm)

    def all_gather(self, out: Any, inp: Any) -> None:
        """``out[:, r]`` is rank r's ``inp``: [M, world, K] and [M, K] in words of four bytes."""
        operator("peer_all_gather")(out, inp, *self._blocks("i32"), self.rank)

    def reduce_scatter(self, out: Any, inp: Any, kind: str) -> None:
        """``out`` is the sum of all ranks' ``inp[:, rank]``: [M, K] and [M, world, K]."""
        operator("peer_reduce_scatter")(out, inp, *self._blocks(kind), self.rank)

    def close(self) -> None:
        """Unmap the others' blocks and free this one."""
        self._memory.close()
