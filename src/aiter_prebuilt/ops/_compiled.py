"""Let ``torch.compile`` compile a public function that it is given."""

from __future__ import annotations

from types import FunctionType


def compiled_as_traced(function: FunctionType) -> None:
    """Let ``torch.compile(function)`` compile what a trace through ``function`` would show.

    ``torch.compile`` compiles the code of its argument, unless that says that it stands for another callable. The two attributes
    are those of ``torch.compile``'s own wrappers; the second tells a copy of them (``functools.wraps``) from the wrapper itself.
    """
    shown = function.__dict__.get("_torchdynamo_inline")
    if shown is not None:
        function.__dict__.update(_torchdynamo_orig_callable=shown, _torchdynamo_wrapper_id=id(function))
