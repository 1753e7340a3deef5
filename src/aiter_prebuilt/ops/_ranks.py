"""The ranks of a host that share memory: how they meet, and what each knows of the others."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable
from weakref import WeakValueDictionary

from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.devices.shared_memory import SharedMemory
from aiter_prebuilt.errors import UnsupportedError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

#: Blocks of this process by their handles: a driver opens none of the process that exported it.
_EXPORTED: Final[WeakValueDictionary[bytes, SharedMemory]] = WeakValueDictionary()
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@runtime_checkable
class Ranks(Protocol):
    """A group of ranks as a communicator uses it.

    :func:`ranks_of` makes it of torch's group.
    """

    @property
    def rank(self) -> int:
        """This rank's number."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    def exchange(self, mine: bytes) -> list[bytes]:
        """Send bytes to all ranks and return theirs, by rank.

        It returns when all have sent.
        """


class _TorchRanks:
    """A process group of torch whose backend works on the host."""

    def __init__(self, group: ProcessGroup) -> None:
        import torch.distributed as dist

        backend = str(dist.get_backend(group))
        if backend == "nccl":
            raise UnsupportedError(
                "connect the ranks of this group",
                "its backend is nccl, which only exchanges GPU tensors",
                'Pass a group with a CPU backend: torch.distributed.new_group(backend="gloo")',
            )
        self._group = group
        self.rank: int = dist.get_rank(group)
        self.size: int = dist.get_world_size(group)

    def exchange(self, mine: bytes) -> list[bytes]:
        import torch
        import torch.distributed as dist

        said: list[Any] = [None] * self.size
        # gloo gathers by writing in place, which tensors of inference mode refuse.
        with torch.inference_mode(False):
            dist.all_gather_object(said, mine, group=self._group)
        return said


def ranks_of(group: Ranks | ProcessGroup) -> Ranks:
    """``group`` itself if it exchanges bytes, else torch's process group as one that does.

    Raises:
        UnsupportedError: a group whose backend is NCCL's.
    """
    return group if isinstance(group, Ranks) else _TorchRanks(group)


@dataclass(frozen=True, slots=True)
class _Said:
    """A rank's announcement of its block."""

    process: int
    device: int
    address: int
    handle: str

    @classmethod
    def read(cls, said: bytes) -> _Said:
        return cls(**json.loads(said))

    def written(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()


def on_one_host(ranks: Ranks, bounds: tuple[int, int]) -> bool:
    """Do all ranks run on this host, in whatever containers? All of them get the same answer.

    Raises:
        UnsupportedError: ranks of another version, or with other bounds (bytes of the largest message, and of what is too small):
            one would wait for a call that another leaves to its library.
    """
    mine = [_BOOT.read_text(), VERSION, *bounds]
    said = [json.loads(each) for each in ranks.exchange(json.dumps(mine).encode())]
    for rank, each in enumerate(said):
        if each[1:] != mine[1:]:
            raise UnsupportedError(
                f"connect to rank {rank}",
                f"its version and message sizes are {each[1:]}, and {mine[1:]} here",
                "Use the same aiter-prebuilt, max_size and AITER_CUSTOM_AR_*_SIZE in all ranks",
            )
    return all(each[0] == mine[0] for each in said)


def meet(ranks: Ranks, memory: SharedMemory) -> list[int]:
    """Each rank's block as an address that this rank's device may touch. All ranks call it; none goes on before all have mapped.

    Raises:
        UnsupportedError: devices that cannot reach each other.
        DriverError: a block cannot be exported or mapped.
    """
    process = os.getpid()
    alone = set(ranks.exchange(str(process).encode())) == {str(process).encode()}
    handle = "" if alone else memory.handle().hex()
    mine = _Said(process, memory.facts.ordinal, memory.address, handle)
    said = [_Said.read(each) for each in ranks.exchange(mine.written())]
    addresses = []
    for each in said:
        if each.process == process:
            memory.map_device(each.device)
            addresses.append(each.address)
        else:
            addresses.append(memory.map_process(bytes.fromhex(each.handle)))
    ranks.exchange(b"mapped")
    return addresses


def exported(memory: SharedMemory) -> bytes:
    """Return a block's handle and register it for this process.

    Raises:
        DriverError: it cannot be exported.
    """
    handle = memory.handle()
    _EXPORTED[handle] = memory
    return handle


def opened(memory: SharedMemory, handle: bytes) -> int:
    """Return the address of another rank's block, or of ``memory``.

    It is for the device of ``memory``.

    Raises:
        UnsupportedError: devices that cannot reach each other.
        DriverError: it is no handle of a block that is alive.
    """
    here = _EXPORTED.get(handle)
    if here is None:
        return memory.map_process(handle)
    memory.map_device(here.facts.ordinal)
    return here.address
