"""Native operators as torch's: the same arguments in the same order, and nothing is returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.tracing.library import NAMESPACE
from aiter_prebuilt.tracing.signatures import load

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)
#: Name of an operator -> torch's operator with the arguments of the native call.
LAUNCHES: Final[dict[str, Any]] = {
    name: getattr(_OPS, name).out if signature.returns else getattr(_OPS, name).default
    for name, signature in load().items()
}


def launch_of(operator: Any) -> Callable[..., Any]:
    """Return torch's operator for a native one, with the views of that."""
    return viewed(operator.name, operator.views)


def viewed(name: str, views: Sequence[tuple[Any, ...]]) -> Callable[..., Any]:
    """Return torch's operator ``name`` for tensors that it sees through ``views``.

    Args:
        name: the operator.
        views: as ``_native.Operator.viewing`` takes them.
    """
    called: Callable[..., Any] = LAUNCHES[name]
    if not views:
        return called

    def launch(*arguments: Any) -> None:
        given = list(arguments)
        for kind, place, *how in views:
            if given[place] is not None:
                given[place] = _view(given[place], kind, how)
        called(*given)

    return launch


def _view(tensor: Any, kind: str, how: Sequence[Any]) -> Any:
    """View a tensor; one that does not fit stays as it is."""
    if kind == "bytes":
        return tensor.view(torch.uint8) if tensor.dtype is getattr(torch, BY_NAME[how[0]].torch) else tensor
    if kind == "split":
        return tensor.unflatten(-1, (-1, how[0])) if tensor.shape[-1] % how[0] == 0 else tensor
    rank, dims = how
    if tensor.dim() != rank:
        return tensor
    tensor = tensor.permute([dim for dim in dims if dim >= 0])
    for place, dim in enumerate(dims):
        if dim < 0:
            tensor = tensor.unsqueeze(place)
    return tensor
