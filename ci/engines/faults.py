"""Faults that the bound must find: the same answers, judged by a model in which one thing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final


def _as_it_is(model: Any) -> None:
    del model


def _scaled(model: Any) -> None:
    model.model.layers[0].self_attn.o_proj.weight.data *= 1.5


def _turned(model: Any) -> None:
    model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq * 2


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        plant: changes a model of transformers.
        hidden: a token that attention does not see; None: it sees all.
    """

    plant: Callable[[Any], None] = _as_it_is
    hidden: int | None = None


#: A wrong scale of a product, wrong angles of rotary embeddings, a wrong slot of the cache.
FAULTS: Final[Mapping[str, Fault]] = {
    "scaled": Fault(_scaled),
    "turned": Fault(_turned),
    "forgotten": Fault(hidden=1),
}
