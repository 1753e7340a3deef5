"""Prepare the lengths from which prompt attention's lists are made."""

from __future__ import annotations

from typing import Any


def beside(tensor: Any, other: Any) -> Any:
    """Copy a tensor of the host to the device of ``other``.

    Anything else stays: the native call says what is wrong with it.
    """
    place, wanted = (getattr(each, "device", None) for each in (tensor, other))
    if getattr(place, "type", None) == "cpu" and getattr(wanted, "type", "cpu") != "cpu":
        return tensor.to(wanted)
    return tensor
