"""Random generators of a device: a seed and an offset, as a Philox generator of a card has them.

The processor draws the numbers. Before each draw its generator is seeded with a digest of seed and offset, and the offset moves
on. So equal states draw equal numbers, and a state that is set again repeats them. The numbers are not those of a card.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import memory, streams

_PLAIN: Final[Any] = torch.Generator
#: Seed of a generator that nobody has seeded, as torch has it.
_DEFAULT_SEED: Final = 67280421310721
_WORD: Final = (1 << 64) - 1
#: Offsets count numbers of 32 bits, four of which a card's generator makes at once.
_STEP: Final = 4
_STATE: Final = struct.Struct("<Qq")
#: Parts of the names of torch's functions that draw numbers. One too many moves an offset, and changes nothing else.
_DRAWS: Final = (
    "rand", "normal", "uniform", "bernoulli", "dropout", "multinomial", "exponential", "cauchy", "geometric", "poisson",
    "binomial", "gumbel", "rrelu", "xavier", "kaiming", "orthogonal", "scaled_dot_product", "dirichlet", "gamma", "sparse_",
)  # fmt: skip


class Generator(_PLAIN):
    """``torch.Generator``, for devices as for the processor."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Make one for ``device``."""
        ordinal = streams.gpu_of(device)
        out = _PLAIN.__new__(cls, "cpu" if ordinal is not None else device)
        out.ordinal, out.started, out.offset = ordinal, _DEFAULT_SEED, 0
        return out

    @property
    def device(self) -> torch.device:
        """The device that the program asked for."""
        return torch.device("cpu") if self.ordinal is None else torch.device("cuda", self.ordinal)

    def manual_seed(self, seed: int) -> Generator:
        """Set the seed, and the offset to 0."""
        if self.ordinal is None:
            _PLAIN.manual_seed(self, seed)
        else:
            self.started, self.offset = int(seed) & _WORD, 0
        return self

    def seed(self) -> int:
        """Set a random seed and return it."""
        if self.ordinal is None:
            return int(_PLAIN.seed(self))
        self.manual_seed(int.from_bytes(os.urandom(6), "little"))
        return self.started

    def initial_seed(self) -> int:
        """Return the seed."""
        return int(_PLAIN.initial_seed(self)) if self.ordinal is None else self.started

    def get_offset(self) -> int:
        """Return the offset of the next number."""
        return int(_PLAIN.get_offset(self)) if self.ordinal is None else self.offset

    def set_offset(self, offset: int) -> Generator:
        """Set the offset of the next number.

        Raises:
            RuntimeError: it is no multiple of four.
        """
        if self.ordinal is None:
            _PLAIN.set_offset(self, offset)
            return self
        if offset < 0 or offset % _STEP:
            raise RuntimeError(f"offset must be a multiple of 4, got {offset}")
        self.offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        """Return the state: of a device's generator 16 bytes, seed and offset."""
        if self.ordinal is None:
            state: torch.Tensor = _PLAIN.get_state(self)
            return state
        with torch._C.DisableTorchFunction():
            return torch.frombuffer(bytearray(_STATE.pack(self.started, self.offset)), dtype=torch.uint8)

    def set_state(self, state: torch.Tensor) -> Generator:
        """Set a state of :meth:`get_state`.

        Raises:
            RuntimeError: it is no tensor of 16 bytes on the processor.
        """
        if self.ordinal is None:
            _PLAIN.set_state(self, state)
            return self
        with torch._C.DisableTorchFunction():
            data = bytes(state.tolist()) if state.dtype is torch.uint8 else b""
        if len(data) != _STATE.size:
            raise RuntimeError(f"RNG state must be a torch.ByteTensor of 16 bytes, got {len(data)}")
        self.started, self.offset = _STATE.unpack(data)
        return self

    def clone_state(self) -> Generator:
        """Return a new generator with the same state."""
        if self.ordinal is None:
            out: Generator = _PLAIN.clone_state(self)
            return out
        out = Generator(self.device)
        out.started, out.offset = self.started, self.offset
        return out

    def graphsafe_get_state(self) -> Generator:
        """Return a new generator with the same state."""
        return self.clone_state()

    def graphsafe_set_state(self, other: Generator) -> Generator:
        """Take the state of another generator."""
        return self.set_state(other.get_state())

    def next_draw(self) -> int:
        """Seed the processor's draw, and move the offset on."""
        digest = hashlib.blake2b(_STATE.pack(self.started, self.offset), digest_size=4).digest()
        self.offset += _STEP
        return int.from_bytes(digest, "little")


@contextmanager
def drawing(name: str, given: Any, ordinal: int) -> Iterator[None]:
    """Let a function of torch's draw from ``given``, or from the device's default generator where its name says that it draws."""
    if isinstance(given, Generator):
        if given.ordinal is not None:
            _PLAIN.manual_seed(given, given.next_draw())
        yield
    elif given is None and any(part in name for part in _DRAWS):
        kept = torch.default_generator.get_state()
        torch.default_generator.manual_seed(of(ordinal).next_draw())
        try:
            yield
        finally:
            torch.default_generator.set_state(kept)
    else:
        yield


def of(device: Any = None) -> Generator:
    """Return the default generator of a device."""
    known: Any = torch.cuda.default_generators
    found: Generator = known[memory.STATE.device if device is None else streams.index_of(device)]
    return found


def _all(seed: int) -> None:
    for each in torch.cuda.default_generators:
        each.manual_seed(seed)


def _states() -> list[torch.Tensor]:
    return [each.get_state() for each in torch.cuda.default_generators]


def _set_states(states: Any) -> None:
    for each, state in zip(torch.cuda.default_generators, states, strict=False):
        each.set_state(state)


def install(count: int) -> None:
    """Replace ``torch.Generator``, and make the default generators of ``count`` devices."""
    torch.Generator = Generator
    cuda: Any = torch.cuda
    cuda.default_generators = tuple(Generator(torch.device("cuda", ordinal)) for ordinal in range(count))
    names = {
        "manual_seed": lambda seed: of().manual_seed(seed),
        "manual_seed_all": _all,
        "seed": lambda: of().seed(),
        "seed_all": lambda: _all(of().seed()),
        "initial_seed": lambda: of().initial_seed(),
        "get_rng_state": lambda device="cuda": of(device).get_state(),
        "get_rng_state_all": _states,
        "set_rng_state": lambda state, device="cuda": of(device).set_state(state),
        "set_rng_state_all": _set_states,
    }
    for name, value in names.items():
        setattr(cuda, name, value)
        if hasattr(torch.cuda.random, name):
            setattr(torch.cuda.random, name, value)
