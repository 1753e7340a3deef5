"""Calls of models' steps as their clients write them, with sizes: what ``aiter-prebuilt coverage`` asks about.

``call_forms.json`` is written from the manifests (``python -m build_tools generate``) and travels with the runtime, which decides
about each call as it does about a live one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.bundles.extras import pip_line
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.calls import Argument, Array, Call, ElementType
from aiter_prebuilt.contract.model_steps import ENGINES, RANKS
from aiter_prebuilt.errors import NativeError
from aiter_prebuilt.execute.layout import dense

_FILE: Final = Path(__file__).with_name("call_forms.json")
_EDITION: Final = 1


@dataclass(frozen=True, slots=True)
class Form:
    """A call as ``client`` writes it: ``text``, with the names of sizes. ``targets``: only there, everywhere when empty;
    ``through``: the function is no operator and calls these; ``host``: it launches nothing; ``missing``: why there is no such
    function, or why it does not take the call.
    """

    name: str
    client: str
    function: str
    text: str
    targets: tuple[str, ...]
    through: tuple[str, ...]
    host: bool
    missing: str

    def of(self, engine: str) -> bool:
        """Is it a call of this engine?"""
        return ENGINES[engine] in self.client


@dataclass(frozen=True, slots=True)
class SizedCall:
    """A form with the sizes of one step: ``step`` is decode or prefill, of so many ``tokens``; ``layer``: the linear layer that
    it computes, if any. ``arguments`` by name, with ``fp8`` for the target's own type. ``shared``: number of ranks -> arguments
    that are others there.
    """

    form: Form
    step: str
    tokens: int
    layer: str
    arguments: Mapping[str, Any]
    shared: Mapping[str, Mapping[str, Any]]

    def on(self, ranks: int) -> Mapping[str, Any]:
        """Return the arguments on one of ``ranks``."""
        return {**self.arguments, **self.shared.get(str(ranks), {})}


@dataclass(frozen=True, slots=True)
class Model:
    """``name``: of its published configuration; ``ranks``: numbers of GPUs that can share it."""

    name: str
    ranks: tuple[int, ...]
    calls: tuple[SizedCall, ...]


@dataclass(frozen=True, slots=True)
class CallForms:
    """All of the file. ``fp8``: the own type of each target."""

    models: Mapping[str, Model]
    fp8: Mapping[str, str]

    def call(self, asked: SizedCall, target: str, ranks: int = RANKS) -> Call:
        """Build the call that the native choice is asked about.

        Tensors have no data.

        Args:
            asked: the call.
            target: whose own fp8 it has; one without its own has OCP's.
            ranks: GPUs that share the model.
        """
        fp8 = self.fp8.get(target.partition(":")[0], "e4m3fn")
        arguments = {name: _argument(value, fp8) for name, value in asked.on(ranks).items()}
        return Call(asked.form.function, f"{asked.form.name} M={asked.tokens}", arguments, ())


@cache
def load() -> CallForms:
    """Load the call forms that this package ships.

    Raises:
        NativeError: the file is not of this package's layout.
    """
    try:
        found = json.loads(_FILE.read_text(encoding="utf-8"))
        edition = found["edition"]
        if edition != _EDITION:
            raise ValueError(f"it is of edition {edition}, and {_EDITION} is read here")
        forms = {name: _form(name, record) for name, record in found["forms"].items()}
        models = {
            short: Model(
                record["name"],
                tuple(record["ranks"]),
                tuple(_sized_call(each, forms) for each in record["calls"]),
            )
            for short, record in found["models"].items()
        }
        return CallForms(models, found["fp8"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NativeError(
            f"read {_FILE}",
            f"{type(error).__name__}: {error}",
            f"Install it again: {pip_line(reinstall=True)}",
        ) from error


def _form(name: str, record: Mapping[str, Any]) -> Form:
    return Form(
        name, record["client"], record["function"], record["text"], tuple(record.get("targets", ())),
        tuple(record.get("through", ())), record.get("host", False), record.get("missing", ""),
    )  # fmt: skip


def _sized_call(record: Mapping[str, Any], forms: Mapping[str, Form]) -> SizedCall:
    return SizedCall(
        forms[record["form"]], record["step"], record["tokens"], record.get("layer", ""), record.get("arguments", {}),
        record.get("shared", {}),
    )  # fmt: skip


def _argument(value: Any, fp8: str) -> Argument:
    """[type, dims] or [type, dims, strides] is a tensor, [type] an element type; anything else is a value."""
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        return value  # type: ignore[no-any-return]
    kind = dtype.resolve(value[0], fp8).name
    if len(value) == 1:
        return ElementType(kind)
    shape = tuple(value[1])
    return Array(kind, shape, tuple(value[2]) if value[2:] else dense(shape), 0, None)
