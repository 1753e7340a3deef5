"""A rank's view of all ranks' blocks: the tensors that ``peer_*`` operators take, and the calls themselves.

A block is signals ([world + 1, GROUPS] int32), then two halves of GROUPS regions (``csrc/kernels/hip/peers.hip`` says what for).
"""

from __future__ import annotations

import sys
from typing import Any, Final

from aiter_prebuilt.contract.dtype import BY_NAME, DTYPES
from aiter_prebuilt.devices.shared_memory import SharedMemory
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._ranks import Ranks, exported, meet, opened

#: Workgroups that one call has at most, each with a region of its own: enough to keep seven links of a device busy.
GROUPS: Final = 64
#: Bytes that a workgroup takes before another one takes part (a pack for each of 512 lanes), and one pack more for each rank.
_LEAST: Final = (512 + 8) * 16
_SLOTS: Final = 8
_PAGE: Final = 4096
_PACK: Final = 16
_KINDS: Final = {name: kind.name for kind in DTYPES for name in (kind.name, kind.torch)}


def kind_of(tensor: Any) -> str:
    """Return the name of a tensor's element type.

    The tensor is torch's, or without a framework.
    """
    return kind_named(tensor.dtype)


def kind_named(dtype: Any) -> str:
    """Return the name of an element type, torch's or a name."""
    return _KINDS.get(str(dtype).removeprefix("torch."), "")


def place_of(device: Any) -> tuple[str, int]:
    """Vendor and ordinal of 1, "cuda:1", torch.device("cuda", 1) or ("amd", 1); without a number, or None, torch's current one.

    torch calls devices of both vendors cuda; whose they are its build says, and without torch they are AMD's.
    """
    if isinstance(device, tuple):
        return str(device[0]), int(device[1])
    torch = sys.modules.get("torch")
    vendor = "nvidia" if torch is not None and torch.version.cuda else "amd"
    number = device if isinstance(device, int) else str(device).partition(":")[2]
    if number != "":
        return vendor, int(number)
    import torch as imported

    return place_of(imported.cuda.current_device())


def _up(value: int, by: int) -> int:
    return -(-value // by) * by


class RankBlocks:
    """Blocks of ``capacity`` bytes of input, the same in all ranks: each makes its own, then maps the others'."""

    def __init__(self, rank: int, world: int, place: tuple[str, int], capacity: int) -> None:
        """Allocate this rank's block on a device (vendor and ordinal).

        Raises:
            DriverError: see :class:`aiter_prebuilt.devices.shared_memory.SharedMemory`.
        """
        self.rank, self.world = rank, world
        #: Bytes of the largest message, in whole packs.
        self.capacity = max(_PACK, capacity // _PACK * _PACK)
        #: Bytes of one region of one half, a multiple of a pack for each rank.
        self.region = _up(max(-(-capacity // GROUPS), _LEAST), _PACK * self.world)
        self._place = place
        self._signals_bytes = _up((self.world + 1) * GROUPS * 4, _PAGE)
        self._memory = SharedMemory(place, self._signals_bytes + 2 * GROUPS * self.region)
        self._addresses: list[int] = []
        self._made: dict[str, list[Any]] = {}

    def meet(self, ranks: Ranks) -> None:
        """Map the others' blocks; all ranks call it.

        Raises:
            DriverError, UnsupportedError: see :func:`aiter_prebuilt.ops._ranks.meet`; the block is freed.
        """
        try:
            self._addresses = meet(ranks, self._memory)
        except BaseException:
            self._memory.close()
            raise

    def handle(self) -> bytes:
        """Return the handle by which other ranks map this block."""
        return exported(self._memory)

    def open(self, handles: list[bytes]) -> None:
        """Map the blocks of all ranks, this one's own among them.

        Raises:
            DriverError, UnsupportedError: see :func:`aiter_prebuilt.ops._ranks.opened`.
        """
        self._addresses = [opened(self._memory, handle) for handle in handles]
        self._made.clear()

    def _blocks(self, kind: str) -> list[Any]:
        """List the data and signals of all ranks.

        Of ranks 0 and 1, and of ranks 2 to 7 (None where there is none), data being of an element type.
        """
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
        """Sum all ranks' ``inp``: bf16, fp16 or fp32, contiguous."""
        operator("peer_all_reduce")(out, inp, *self._blocks(kind), self.rank)

    def all_reduce_codes(self, out: Any, inp: Any, bits: int) -> None:
        """Sum all ranks' ``inp``, sent as integers of few bits.

        bf16 or fp16; 8, 6, 4 or 3 bits.
        """
        operator("peer_all_reduce_codes")(out, inp, *self._blocks("i32"), self.rank, bits)

    def all_reduce_rmsnorm(
        self, tensors: tuple[Any, ...], kind: str, epsilon: float, gemma_norm: bool
    ) -> None:
        """Reduce over all ranks, add the residual and normalise.

        ``tensors``: out, residual_out, input, residual_in, weight.
        """
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
