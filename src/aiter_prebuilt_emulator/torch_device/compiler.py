"""``torch.compile``: Dynamo traces graphs as for a GPU, and their operators run one by one.

Inductor, the default backend, would need a compiler for the GPU. The backend ``eager`` takes its place.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import memory

_COMPILE: Final[Any] = torch.compile
_INDUCTOR: Final = "inductor"
_INSTEAD: Final = "eager"


@wraps(_COMPILE)
def compile_graph(*args: Any, backend: Any = _INDUCTOR, **keywords: Any) -> Any:
    """Call ``torch.compile``; Inductor's mode and options are left out with it."""
    if backend == _INDUCTOR:
        backend = _INSTEAD
        for name in ("mode", "options"):
            keywords.pop(name, None)
    _refuse_gradients()
    return _COMPILE(*args, backend=backend, **keywords)


def _refuse_gradients() -> None:
    """Make a trace raise for a tensor that requires a gradient: a CPU build of torch aborts the process there."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # late: it takes a second to import

    kind: Any = FakeTensorMode
    own = kind.from_tensor
    if hasattr(own, "__wrapped__"):
        return

    @wraps(own)
    def from_tensor(mode: Any, tensor: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        if torch.is_grad_enabled() and tensor.requires_grad and memory.ordinal_of(tensor) is not None:
            raise NotImplementedError(
                "torch.compile on the emulator traces no tensor that requires a gradient. "
                "Call the compiled function under torch.no_grad(), or the function itself."
            )
        return own(mode, tensor, *args, **keywords)

    kind.from_tensor = from_tensor


def install() -> None:
    """In the place of torch's."""
    kind: Any = torch
    kind.compile = compile_graph
