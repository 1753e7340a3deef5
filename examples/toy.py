"""A small language model of four layers: an embedding, the layers, a norm and a head; the likeliest token is the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from step import Batch, Model, Sequences, drawn, norm_weight
from torch import Tensor

import aiter_prebuilt as aiter

LAYERS: Final = 4
#: greedy_sample takes no shorter rows.
VOCABULARY: Final = 16384
LONGEST: Final = 24
#: As in a language, some tokens are frequent: their rows in the head are so much longer. Among as many tokens as there are, the
#: two likeliest would be closer than any rounding.
FREQUENT, OFTEN = 16, 4.0


@dataclass(frozen=True, slots=True)
class Toy:
    """Weights of all of it."""

    model: Model
    embedding: Tensor
    layers: tuple[Any, ...]
    norm: Tensor
    head: Tensor


@dataclass(frozen=True, slots=True)
class Written:
    """Of each sequence the tokens that were written, and of each of them the logits that it was the largest of."""

    tokens: list[list[int]]
    logits: list[list[Tensor]]


def made(model: Model) -> Toy:
    """All weights drawn."""
    random = torch.Generator().manual_seed(1)
    head = drawn(random, VOCABULARY, model.hidden, size=model.hidden**-0.5)
    head[torch.randperm(VOCABULARY, generator=random)[:FREQUENT]] *= OFTEN
    embedding = model.states(random, VOCABULARY)
    layers = tuple(model.weights(random, index) for index in range(LAYERS))
    return Toy(model, embedding, layers, norm_weight(random, model.hidden), head)


def prompt(length: int, seed: int) -> list[int]:
    """Tokens."""
    drawn_tokens = torch.randint(
        VOCABULARY, (min(length, LONGEST),), generator=torch.Generator().manual_seed(seed)
    )
    return [int(token) for token in drawn_tokens]


def prompts(model: Model) -> list[list[int]]:
    """Of different lengths."""
    return [prompt(length, seed) for length, seed in zip(model.prompts, model.seeds, strict=True)]


def written(toy: Toy, given: Sequence[Sequence[int]], count: int) -> Written:
    """By the kernels: a step of all prompts, then a step of one token for each sequence, until ``count`` are there."""
    model = toy.model
    longest = max(map(len, given)) + count
    sequences = Sequences(len(given), longest, model.page)
    layers = [model.layer(weights, sequences.stored, longest) for weights in toy.layers]
    found = Written([[] for _ in given], [[] for _ in given])
    new = [list(prompt) for prompt in given]
    for _ in range(count):
        batch = sequences.step([len(tokens) for tokens in new])
        logits = _step(toy, layers, torch.tensor([token for tokens in new for token in tokens]), batch)
        chosen = torch.empty(len(given), dtype=torch.int32)
        aiter.greedy_sample(chosen, logits)
        new = [[token] for token in chosen.tolist()]
        for place, (token,) in enumerate(new):
            found.tokens[place].append(token)
            found.logits[place].append(logits[place].double())
    return found


def _step(toy: Toy, layers: Sequence[Any], tokens: Tensor, batch: Batch) -> Tensor:
    """The logits behind the last token of each sequence."""
    hidden, residual = toy.embedding[tokens], None
    for layer in layers:
        hidden, residual = layer(hidden, residual, batch)
    last = batch.starts[1:].long() - 1
    assert residual is not None
    hidden, residual = hidden[last], residual[last]
    out, total = torch.empty_like(hidden), torch.empty_like(hidden)
    aiter.rmsnorm2d_fwd_with_add(out, hidden, residual, total, toy.norm, toy.model.epsilon)
    return aiter.tgemm.mm(out, toy.head, None)


def exactly_written(toy: Toy, given: Sequence[Sequence[int]], count: int) -> Written:
    """In float64, each sequence by itself and from its start for every token."""
    found = Written([[] for _ in given], [[] for _ in given])
    norm, head = toy.norm.double(), toy.head.double()
    layers = [toy.model.exact_weights(weights) for weights in toy.layers]
    for place, prompt in enumerate(given):
        tokens = list(prompt)
        for _ in range(count):
            hidden = toy.embedding[torch.tensor(tokens)].double()
            for weights in layers:
                hidden = sum(toy.model.exact(weights, hidden), torch.zeros(()))
            last = hidden[-1]
            logits = head @ (last / (last.square().mean() + toy.model.epsilon).sqrt() * norm)
            tokens.append(int(logits.argmax()))
            found.logits[place].append(logits)
        found.tokens[place].extend(tokens[len(prompt) :])
    return found


def closest(exact: Written) -> float:
    """How far the likeliest token is ahead where it is the least."""
    best = [logits.topk(2).values for each in exact.logits for logits in each]
    return min(float(first - second) for first, second in best)
