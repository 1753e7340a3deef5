"""AITER's operators for AMD Instinct GPUs as ready code objects: no compiler, no JIT, no network, no write.

    import aiter_prebuilt
    out = aiter_prebuilt.rms_norm(x, weight, 1e-6)      # x: a torch tensor on an MI300X or MI355X

Importing this package does nothing but define names: no driver is opened, no file read, no torch imported.
An operator is found on first use, its kernel loaded on first launch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiter_prebuilt import ops
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.forks import importing

if TYPE_CHECKING:
    from aiter_prebuilt.loading import preload
    from aiter_prebuilt.ops import *  # noqa: F403  # ops lists its names in __all__, for type checkers only
    from aiter_prebuilt.ops.fused_moe import fused_moe
    from aiter_prebuilt.ops.mla_works import get_mla_metadata_info_v1
    from aiter_prebuilt.ops.prompt_works import get_ps_metadata_info_v1
    from aiter_prebuilt.ops.shuffle import shuffle_weight

__version__ = VERSION

__all__ = [
    "__version__",
    "fused_moe",
    "get_mla_metadata_info_v1",
    "get_ps_metadata_info_v1",
    "preload",
    "shuffle_weight",
]
__all__ += ops.__all__

#: Functions that are no operators, and where they live.
_HOMES = {
    "fused_moe": "ops.fused_moe",
    "get_mla_metadata_info_v1": "ops.mla_works",
    "get_ps_metadata_info_v1": "ops.prompt_works",
    "preload": "loading",
    "shuffle_weight": "ops.shuffle",
}


def __getattr__(name: str) -> Any:
    home = f"ops.{ops.HOMES[name]}" if name in ops.HOMES else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'aiter_prebuilt' has no attribute {name!r}")
    with importing:
        function = getattr(import_module(f"aiter_prebuilt.{home}"), name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted(__all__)
