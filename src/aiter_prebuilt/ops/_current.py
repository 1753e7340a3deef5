"""The GPU that torch makes tensors on."""

from __future__ import annotations

from aiter_prebuilt import device
from aiter_prebuilt.errors import DriverError


def units_here() -> int:
    """Its compute units.

    Raises:
        DriverError: torch has none.
    """
    import torch

    try:
        ordinal = torch.cuda.current_device()
    except (AssertionError, RuntimeError) as error:  # the first of a torch that was built without one
        raise DriverError(
            "ask torch for its current GPU", str(error), "see: aiter-prebuilt doctor"
        ) from error
    return device.facts("amd", ordinal).compute_units
