"""Show public functions to torch.compile as operators.

It costs an eager call nothing and imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def traced(function: F) -> F:
    """Mark ``function``: Dynamo traces the stand-in that is its attribute; everybody else calls ``function`` as it is.

    The attribute is the one that ``torch.compile`` sets on what it returns, so that a compiled function inside another is traced
    through. Asking ``torch.compiler.is_compiling()`` in each call instead would cost every eager call, and an import of torch.
    """
    name = function.__name__

    def stand_in(*args: Any, **keywords: Any) -> Any:
        # The trace runs this import: it registers the operators.
        from aiter_prebuilt.tracing import functions

        return functions.TRACED[name](*args, **keywords)

    # Its own code: Dynamo keeps graphs by code object, and only so many of each.
    stand_in.__code__ = stand_in.__code__.replace(co_name=name)
    setattr(function, "_torchdynamo_inline", stand_in)  # noqa: B010  # a function has no such attribute to mypy
    return function
