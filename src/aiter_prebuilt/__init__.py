"""AITER's operators for AMD Instinct GPUs as ready code objects: no compiler, no JIT, no network, no write.

    import aiter_prebuilt
    out = aiter_prebuilt.rms_norm(x, weight, 1e-6)      # x: a torch tensor on an MI300X or MI355X

Importing this package does nothing but define names: no driver is opened, no file read, no torch imported.
An operator is found on first use, its kernel loaded on first launch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from aiter_prebuilt import ops
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.forks import importing

if TYPE_CHECKING:
    from aiter_prebuilt.launch.loading import preload
    from aiter_prebuilt.ops import *  # noqa: F403  # ops lists its names in __all__, for type checkers only
    from aiter_prebuilt.ops.custom_all_reduce import CustomAllreduce
    from aiter_prebuilt.ops.enumerations import ActivationType, GateMode, QuantType
    from aiter_prebuilt.ops.tuned_gemm import tgemm

if "t" in sys.abiflags:
    from aiter_prebuilt.errors import FreeThreadedError

    raise FreeThreadedError(
        f"import aiter_prebuilt in {sys.executable}",
        "this is a free-threaded Python, which cannot load the extension: it uses the stable ABI (abi3)",
        "Use a Python with a GIL, 3.10 or later: python3.14, not python3.14t",
    )

__version__ = VERSION

__all__ = ["ActivationType", "CustomAllreduce", "GateMode", "QuantType", "__version__", "preload", "tgemm"]
__all__ += ops.__all__

#: Public names that are no function of ``ops`` -> their modules.
_OTHERS = {
    "ActivationType": "ops.enumerations",
    "CustomAllreduce": "ops.custom_all_reduce",
    "GateMode": "ops.enumerations",
    "QuantType": "ops.enumerations",
    "preload": "launch.loading",
    "tgemm": "ops.tuned_gemm",
}
#: Modules whose functions take no tensors and name all that they refuse.
_PLAIN = ("launch.loading",)


def __getattr__(name: str) -> Any:
    function_home = ops.HOMES.get(name) or ops.COMPOSED.get(name)
    home = f"ops.{function_home}" if function_home else _OTHERS.get(name)
    if home is None:
        raise AttributeError(f"module 'aiter_prebuilt' has no attribute {name!r}")
    with importing:
        module = import_module(f"aiter_prebuilt.{home}")
        function = getattr(module, name)
        if (
            home not in _PLAIN
            and not home.startswith("ops.generated.")
            and isinstance(function, FunctionType)
        ):
            # Generated functions name their errors themselves, at no cost to a call.
            guarded = import_module("aiter_prebuilt.ops._named_errors").guarded
            function = function if hasattr(function, "__wrapped__") else guarded(function)
            setattr(module, name, function)  # one object under both names: pickle looks it up by its module
        if isinstance(function, FunctionType):
            import_module("aiter_prebuilt.ops._compiled").compiled_as_traced(function)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted(__all__)
