"""The target of the GPU on which a tensor lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.devices import device

if TYPE_CHECKING:
    import torch


def target_of(tensor: torch.Tensor) -> str:
    """Its name; empty without a GPU, where nothing is launched."""
    target: str | None = getattr(tensor, "target", None)  # one that is only described says it itself
    if target is not None:
        return target
    place: Any = tensor.device
    ordinal = place[1] if isinstance(place, tuple) else place.index
    return "" if ordinal is None else device.facts("amd", ordinal).target
