"""Names in the tuning keys of AITER's Triton kernels that are no arguments of the kernel.

Triton 3.8 passes over them. Triton 3.9 refuses them while the module is imported, and so all modules that import it, such as
``unified_attention`` of August 2026. For AITER's kernels the bridge keeps what Triton 3.8 does.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiter_prebuilt_bridge import lookup_log

_TRITON: Final = "triton"
_PACKAGE: Final = "aiter."
_MARK: Final = "_aiter_prebuilt_bridge_keys"


def install() -> None:
    """Wrap ``triton.autotune``, once. Without Triton nothing happens: the module that needs it says so itself."""
    try:
        triton: Any = importlib.import_module(_TRITON)
    except ImportError:
        return
    if not hasattr(triton.autotune, _MARK):
        triton.autotune = _wrapped(triton.autotune)


def _wrapped(autotune: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(autotune)
    def with_known_keys(configs: Any, key: Sequence[str], *args: Any, **keywords: Any) -> Any:
        def decorator(kernel: Any) -> Any:
            return autotune(configs, _known(kernel, key), *args, **keywords)(kernel)

        return decorator

    setattr(with_known_keys, _MARK, True)
    return with_known_keys


def _known(kernel: Any, key: Sequence[str]) -> Sequence[str]:
    """Return the names in ``key`` that are arguments; of a kernel that is not AITER's, all of them."""
    arguments = getattr(kernel, "arg_names", None)
    function = kernel
    while hasattr(function, "fn"):  # heuristics and the kernel itself stand around a function
        function = function.fn
    if arguments is None or not str(getattr(function, "__module__", "")).startswith(_PACKAGE):
        return key
    unknown = [name for name in key if name not in arguments]
    if not unknown:
        return key
    lookup_log.LOGGER.info(
        "%s: its tuning key names %s, which are no arguments. Triton 3.8 passes over them, and so does the bridge",
        getattr(function, "__name__", "a kernel"),
        ", ".join(unknown),
    )
    return [each for each in key if each in arguments]
