"""``manifests/models.toml`` and ``manifests/clients.toml``: facts of models, the calls that their steps make, sizes from both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

from aiter_prebuilt.contract.bytecode import ExpressionError, evaluate
from aiter_prebuilt.contract.expression import Scope, compile_expression
from build_tools.manifest.problems import suggestion
from build_tools.report.reason_table import STRICT, Table, read_table
from build_tools.shapes.forms import FormError, names

MODELS: Final = "manifests/models.toml"
CLIENTS: Final = "manifests/clients.toml"
#: What a step gives beside a model's facts: tokens of the step, ranks, and the sizes of a linear layer.
TOKENS: Final = "M"
RANKS: Final = "TP"
LINEAR: Final = ("N", "K")


class ClientCall(BaseModel):
    """A call as a client writes it (``forms.py``). ``each``: groups of linear layers of which each is one call; ``phases``,
    ``targets``: only there, everywhere when empty. ``not_served``: why there is no such function here; ``unbound``: why ours does
    not take the call yet; ``host``: it launches nothing; ``through``: it is no operator, but launches these; ``bridge``: AITER's
    function, which the bridge alone serves by ``through``.
    """

    model_config = STRICT

    client: str = Field(min_length=1)
    call: str = Field(min_length=1)
    each: list[str] = []
    phases: list[str] = []
    targets: list[str] = []
    not_served: str = ""
    unbound: str = ""
    host: bool = False
    through: list[str] = []
    bridge: bool = False


class Phase(BaseModel):
    """A kind of step: its numbers of tokens, and sizes that follow from them."""

    model_config = STRICT

    tokens: list[int] = Field(min_length=1)
    sizes: dict[str, str] = {}


class Model(BaseModel):
    """``facts``: of its configuration; ``ranks``: by how many its heads and experts are shared; ``linears``: groups of its linear
    layers; ``parts``: groups of calls that a step makes; ``short``: its name in ``aiter-prebuilt coverage --model``, where it
    has one.
    """

    model_config = STRICT

    facts: dict[str, int]
    reals: dict[str, float] = {}
    ranks: list[int] = Field(min_length=1)
    linears: list[str]
    parts: list[str] = Field(min_length=1)
    short: str = ""


class _Models(Table):
    phases: dict[str, Phase] = Field(default_factory=dict)
    sizes: dict[str, str] = Field(default_factory=dict)
    linears: dict[str, dict[str, list[str]]] = Field(default_factory=dict)
    parts: dict[str, list[str]] = Field(default_factory=dict)
    models: dict[str, Model] = Field(default_factory=dict)


class _Clients(Table):
    calls: dict[str, ClientCall] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Models:
    """Both files. ``sizes``: of one rank, from a model's facts; ``linears``: group -> layer -> its rows and columns."""

    phases: Mapping[str, Phase] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    linears: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    calls: Mapping[str, ClientCall] = field(default_factory=dict)


def read(root: Path) -> Models:
    """Read the models and calls of a repository.

    Empty where it has no such files.

    Raises:
        ManifestError: a file is not of this form.
    """
    models, clients = read_table(root, MODELS, _Models), read_table(root, CLIENTS, _Clients)
    return Models(models.phases, models.sizes, models.linears, models.parts, models.models, clients.calls)


@dataclass(frozen=True)
class Sizes:
    """The sizes of one step of a model: ``known`` as they are, ``derived`` by expressions of them and of each other."""

    known: Mapping[str, int]
    derived: Mapping[str, str]
    reals: Mapping[str, float]

    def value(self, text: str) -> int | float:
        """Evaluate ``text``: a real of the model, or an integer.

        Raises:
            FormError: it names what the step has not, or cannot be computed.
        """
        return self.reals[text] if text in self.reals else self.integer(text, ())

    def integer(self, text: str, through: tuple[str, ...] = ()) -> int:
        """Evaluate an expression to an integer.

        ``through``: the sizes that led to it.

        Raises:
            FormError: it names what the step has not, or cannot be computed.
        """
        if text in self.known:
            return self.known[text]
        found = {}
        for name in sorted(names(text)):
            if name in through:
                raise FormError(f"{' -> '.join([*through, name])} is a circle")
            if name not in self.known and name not in self.derived:
                raise FormError(f"no size is called {name!r}{suggestion(name, [*self.known, *self.derived])}")
            found[name] = (
                self.known[name] if name in self.known else self.integer(self.derived[name], (*through, name))
            )
        try:
            return _computed(text, tuple(found.items()))
        except ExpressionError as error:
            raise FormError(str(error)) from None


@lru_cache(maxsize=1 << 14)
def _computed(text: str, known: tuple[tuple[str, int], ...]) -> int:
    return evaluate(compile_expression(text, Scope({}, dict(known))), ())


def sizes_of(models: Models, model: Model, phase: Phase, ranks: int, tokens: int) -> Sizes:
    """Compute the sizes of a step of ``tokens`` on one of ``ranks``."""
    return Sizes({**model.facts, TOKENS: tokens, RANKS: ranks}, {**models.sizes, **phase.sizes}, model.reals)


def layers(models: Models, model: Model, groups: Collection[str]) -> Iterable[tuple[str, Sequence[str]]]:
    """Its linear layers of ``groups``: name, rows and columns of the weight."""
    for group in model.linears:
        if group in groups:
            yield from models.linears.get(group, {}).items()


def calls_of(models: Models, model: Model) -> Iterable[tuple[str, ClientCall]]:
    """Return the calls of its steps, each once."""
    seen: dict[str, None] = {}
    for part in model.parts:
        seen |= dict.fromkeys(models.parts.get(part, ()))
    for name in seen:
        if name in models.calls:
            yield name, models.calls[name]
