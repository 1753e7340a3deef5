"""``torch.profiler`` with the activity CUDA: torch's CPU build raises and warns at each operator, which takes minutes.

The profile has the processor's events. It lists no kernels: time on the emulator says nothing of a card.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

_CUDA: Any = torch.profiler.ProfilerActivity.CUDA


def _filtered(activity: Any) -> Any:
    """Keep the processor's part of an activity with filters.

    Such an activity is a mapping.
    """
    if isinstance(activity, dict):
        return {each: names for each, names in activity.items() if each != _CUDA}
    return activity


def _without_device(own: Any) -> Any:
    @wraps(own)
    def begin(profile: Any, *, activities: Any = None, **form: Any) -> None:
        rest = [_filtered(each) for each in activities or () if each != _CUDA]
        own(profile, activities=rest or [torch.profiler.ProfilerActivity.CPU], **form)

    return begin


def _legacy(own: Any) -> Any:
    @wraps(own)
    def begin(profile: Any, enabled: bool = True, *, use_device: Any = None, **form: Any) -> None:
        form.pop("use_cuda", None)
        own(profile, enabled, use_device=None if use_device == "cuda" else use_device, **form)

    return begin


def _with_cuda(own: Any) -> Any:
    return lambda: {each for each in own() if each != _CUDA} | {_CUDA}


def install() -> None:
    """Profile the processor, whatever activities are asked for."""
    base: Any = torch.profiler.profiler._KinetoProfile
    base.__init__ = _without_device(base.__init__)
    legacy: Any = torch.autograd.profiler.profile
    legacy.__init__ = _legacy(legacy.__init__)
    module: Any = torch.profiler
    module.supported_activities = _with_cuda(module.supported_activities)
