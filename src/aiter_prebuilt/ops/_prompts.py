"""What lists of works for attention of prompts are given."""

from __future__ import annotations

from typing import Any


def beside(tensor: Any, other: Any) -> Any:
    """A tensor of the host on the device of ``other``; anything else as it is: the native call says what is wrong with it."""
    place, wanted = (getattr(each, "device", None) for each in (tensor, other))
    if getattr(place, "type", None) == "cpu" and getattr(wanted, "type", "cpu") != "cpu":
        return tensor.to(wanted)
    return tensor
