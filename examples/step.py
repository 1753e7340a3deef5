"""What the four models share: ragged batches over a paged cache, drawn weights, and how far from exact a result may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol, TypeAlias

import torch
from torch import Tensor

#: A layer's weights, by name. The layer and its exact model have the same.
Weights: TypeAlias = Mapping[str, Tensor]
#: A number becomes bf16 by moving at most so far, in parts of itself.
ROUNDING: Final = 2.0**-9


@dataclass(frozen=True, slots=True)
class Batch:
    """The tokens of one step, those of a sequence side by side, and where keys and values lie."""

    #: Of each token: its place in its sequence, and where its key goes (page * size + place in the page).
    positions: Tensor
    slots: Tensor
    #: Where the tokens of each sequence start, and where the last end; how many keys each sequence has with them.
    starts: Tensor
    lengths: Tensor
    #: The pages of each sequence in order, as a table and as one list with where each sequence starts in it.
    pages: Tensor
    page_starts: Tensor
    page_list: Tensor
    #: Keys in the last page of each sequence.
    last_page: Tensor
    most_queries: int
    most_keys: int
    #: Are there tokens before these in any sequence?
    decodes: bool


class Sequences:
    """Grows sequences step by step, in pages that lie in the cache in any order."""

    def __init__(self, count: int, longest: int, page: int) -> None:
        self.page = page
        each = -(-longest // page)
        #: One page more than there is need for, which belongs to nobody.
        self.stored = count * each + 1
        order = torch.randperm(self.stored, generator=torch.Generator().manual_seed(page))
        self._pages = order[: count * each].reshape(count, each)
        self._grown = [0] * count

    def step(self, tokens: Sequence[int]) -> Batch:
        """So many more tokens of each sequence."""
        before, self._grown = self._grown, [have + new for have, new in zip(self._grown, tokens, strict=True)]
        places = [torch.arange(first, end) for first, end in zip(before, self._grown, strict=True)]
        slots = [
            own[place // self.page] * self.page + place % self.page
            for own, place in zip(self._pages, places, strict=True)
        ]
        used = [-(-length // self.page) for length in self._grown]
        listed = [own[:count] for own, count in zip(self._pages, used, strict=True)]
        return Batch(
            positions=torch.cat(places), slots=torch.cat(slots), starts=_edges(tokens), lengths=_int32(self._grown),
            pages=self._pages.to(torch.int32), page_starts=_edges(used), page_list=torch.cat(listed).to(torch.int32),
            last_page=_int32([(length - 1) % self.page + 1 for length in self._grown]), most_queries=max(tokens),
            most_keys=max(self._grown), decodes=any(before),
        )  # fmt: skip


def _int32(numbers: Sequence[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def _edges(counts: Sequence[int]) -> Tensor:
    return _int32((0, *accumulate(counts)))


class Layer(Protocol):
    """A decoder layer as a client has it: what it adds to the residual, and the residual, both without the sum."""

    def __call__(self, hidden: Tensor, residual: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor]:
        """The tokens of a step."""


@dataclass(frozen=True, slots=True)
class Model:
    """One of the four."""

    hidden: int
    epsilon: float
    page: int
    prompts: tuple[int, ...]
    #: Roundings to bf16, or what is as far, on the way to what attention adds, and to what the experts or the MLP add.
    roundings: tuple[float, float]
    #: A layer's weights, by its number; the layer, with a cache of so many pages and angles of so many positions.
    weights: Callable[[torch.Generator, int], Weights]
    layer: Callable[[Weights, int, int], Layer]
    #: The weights in float64, and what they make of the hidden states of one whole sequence.
    exact_weights: Callable[[Weights], Weights]
    exact: Callable[[Weights, Tensor], tuple[Tensor, Tensor]]
    #: Of the toy's prompts: with these no two tokens are as close as rounding leads.
    seeds: tuple[int, ...]
    #: With experts: the last columns of hidden states of so many tokens, which say whose they are.
    pattern: Callable[[torch.Generator, int], Tensor] | None = None
    #: Numbers of the layers that are looked at one by one: every kind that a model has.
    kinds: tuple[int, ...] = (0,)

    def added(self, random: torch.Generator, tokens: int) -> Tensor:
        """What a layer adds to them."""
        made = drawn(random, tokens, self.hidden, size=0.5)
        if self.pattern is not None:
            made[:, -self.pattern(random, 0).shape[1] :] = 0
        return made

    def states(self, random: torch.Generator, tokens: int) -> Tensor:
        """Hidden states."""
        drawn_states = drawn(random, tokens, self.hidden)
        if self.pattern is not None:
            columns = self.pattern(random, tokens)
            drawn_states[:, -columns.shape[1] :] = columns
        return drawn_states


def drawn(random: torch.Generator, *shape: int, size: float = 1.0) -> Tensor:
    """Normal numbers in bf16; ``size``: their standard deviation."""
    return (torch.randn(*shape, generator=random) * size).bfloat16()


def linear(random: torch.Generator, rows: int, columns: int, size: float = 1.0) -> Tensor:
    """A weight whose products are about ``size`` times as large as what it is given."""
    return drawn(random, rows, columns, size=size / math.sqrt(columns))


def norm_weight(random: torch.Generator, width: int, plain: int = 0) -> Tensor:
    """Around 1, and 1 in the last ``plain`` columns."""
    weight = (1 + 0.2 * torch.randn(width, generator=random)).bfloat16()
    weight[width - plain :] = 1
    return weight


def chosen_columns(random: torch.Generator, tokens: int, experts: int, chosen: int) -> Tensor:
    """For each token as many columns as there are experts, those of its own clearly the largest.

    The router of these examples reads such columns, and layers leave them alone: where two experts are as close as rounding
    leads, both choices are right, and nothing that follows can be compared.
    """
    order = torch.rand(tokens, experts, generator=random).argsort(-1)
    own = torch.rand(tokens, experts, generator=random)
    return torch.where(order < chosen, 1.6 + 1.4 * own, 2.7 * own - 1.5).bfloat16()


def quiet(weight: Tensor, columns: int) -> Tensor:
    """A weight whose product is zero in the last columns."""
    weight[..., -columns:, :] = 0
    return weight


def router(random: torch.Generator, experts: int, hidden: int, gain: float = 1.5) -> Tensor:
    """Reads each expert's own column, and a little of all others."""
    weight = drawn(random, experts, hidden, size=0.01 / math.sqrt(hidden))
    weight[:, -experts:] = torch.eye(experts) * gain
    return weight


def doubled(weights: Weights) -> Weights:
    """In float64; those of experts where one is used: all of them would be gigabytes."""
    return {
        name: value.double() if value.is_floating_point() and value.ndim < 3 else value
        for name, value in weights.items()
    }


def fp8() -> torch.dtype:
    """The e4m3 of the device that this process has."""
    own = getattr(torch.Tensor, "target", "gfx950") == "gfx942"
    return torch.float8_e4m3fnuz if own else torch.float8_e4m3fn


def distance(found: Tensor, wanted: Tensor, size: Tensor) -> float:
    """The furthest row: the length of its error in parts of the length of its ``size``."""
    error = (found.double() - wanted).norm(dim=-1) / size.norm(dim=-1)
    return float(torch.nan_to_num(error, nan=math.inf).max())
