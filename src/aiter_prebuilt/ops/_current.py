"""Ask about torch's current GPU, or the GPU of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.contract import targets
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import DriverError
from aiter_prebuilt.ops._common import element_type

if TYPE_CHECKING:
    import torch


def units_here() -> int:
    """Return the compute units of the GPU that torch makes tensors on.

    Raises:
        DriverError: torch has none.
    """
    import torch

    try:
        ordinal = torch.cuda.current_device()
    except (AssertionError, RuntimeError) as error:  # the first of a torch that was built without one
        raise DriverError(
            "get torch's current GPU", str(error), "Check the driver: aiter-prebuilt doctor"
        ) from error
    return device.facts("amd", ordinal).compute_units


def fp8_name(ordinal: int | None) -> str:
    """Return the e4m3 that a GPU computes with.

    Without a GPU, where nothing is launched, the standard one.
    """
    return targets.fp8_of("" if ordinal is None else device.facts("amd", ordinal).target)


def fp8_of(tensor: torch.Tensor) -> torch.dtype:
    """Return the type of fp8 codes where ``tensor`` lies, as AITER's ``dtypes.fp8``."""
    target: str | None = getattr(tensor, "target", None)  # one that is only described says it itself
    if target is not None:
        return element_type(tensor, targets.fp8_of(target))
    place: Any = tensor.device
    return element_type(tensor, fp8_name(place[1] if isinstance(place, tuple) else place.index))
