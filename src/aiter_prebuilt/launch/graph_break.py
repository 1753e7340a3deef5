"""Mark public functions that no graph of torch.compile can hold, and read the marks of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def graph_break(reason: str) -> Callable[[F], F]:
    """Let torch.compile run the function outside of its graphs; with ``fullgraph=True`` its error names ``reason``.

    The two attributes are those that ``torch.compiler.disable`` sets, without an import of torch.

    Args:
        reason: what no graph can hold, as a clause: "it reads the mapping on the host".
    """

    def mark(function: F) -> F:
        function.__dict__.update(_torchdynamo_disable=True, _torchdynamo_disable_msg=reason)
        return function

    return mark


def break_reason(function: Callable[..., Any]) -> str | None:
    """Return why a graph breaks at ``function``, or None where torch.compile traces it."""
    reason: str | None = function.__dict__.get("_torchdynamo_disable_msg")
    return reason


def is_traced(function: Callable[..., Any]) -> bool:
    """Tell whether a function has the mark of ``ops._traced``."""
    return "_torchdynamo_inline" in function.__dict__
