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

    def stand_in(*args: Any, **keywords: Any) -> Any:
        # The trace runs this import: it registers the operators.
        from aiter_prebuilt.tracing import functions

        return functions.TRACED["name"](*args, **keywords)

    # Its own code, since Dynamo keeps only so many graphs of each; the name is a constant of it, since Dynamo looks the
    # closure of a method's stand-in up in the method.
    code = stand_in.__code__
    constants = tuple(function.__qualname__ if each == "name" else each for each in code.co_consts)
    stand_in.__code__ = code.replace(co_name=function.__name__, co_consts=constants)
    setattr(function, "_torchdynamo_inline", stand_in)  # noqa: B010  # a function has no such attribute to mypy
    return function
