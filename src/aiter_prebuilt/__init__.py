"""AITER's operators for AMD Instinct GPUs as ready code objects: no compiler, no JIT, no network, no write.

    import aiter_prebuilt
    out = aiter_prebuilt.rms_norm(x, weight, 1e-6)      # x: a torch tensor on an MI300X or MI355X

Importing this package does nothing but define names: no driver is opened, no file read, no torch imported.
An operator is found on first use, its kernel loaded on first launch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.contract.version import VERSION

if TYPE_CHECKING:
    from aiter_prebuilt.loading import preload
    from aiter_prebuilt.ops.activation import gelu_and_mul, gelu_tanh_and_mul, silu_and_mul, swiglu_and_mul
    from aiter_prebuilt.ops.attention import flash_attn_func
    from aiter_prebuilt.ops.gemm import gemm_a8w8_bpreshuffle, gemm_a16w16
    from aiter_prebuilt.ops.kv_cache import reshape_and_cache
    from aiter_prebuilt.ops.norm import rms_norm, rmsnorm2d_fwd, rmsnorm2d_fwd_with_add
    from aiter_prebuilt.ops.quant import dynamic_per_token_scaled_quant, smoothquant_fwd
    from aiter_prebuilt.ops.shuffle import shuffle_weight
    from aiter_prebuilt.ops.softmax import softmax
    from aiter_prebuilt.ops.topk import topk_softmax

__version__ = VERSION

__all__ = [
    "__version__",
    "dynamic_per_token_scaled_quant",
    "flash_attn_func",
    "gelu_and_mul",
    "gelu_tanh_and_mul",
    "gemm_a8w8_bpreshuffle",
    "gemm_a16w16",
    "preload",
    "reshape_and_cache",
    "rms_norm",
    "rmsnorm2d_fwd",
    "rmsnorm2d_fwd_with_add",
    "shuffle_weight",
    "silu_and_mul",
    "smoothquant_fwd",
    "softmax",
    "swiglu_and_mul",
    "topk_softmax",
]

#: Where each public function lives; a test compares it with ``__all__``.
_HOMES = {
    "loading": ("preload",),
    "ops.activation": ("gelu_and_mul", "gelu_tanh_and_mul", "silu_and_mul", "swiglu_and_mul"),
    "ops.attention": ("flash_attn_func",),
    "ops.gemm": ("gemm_a16w16", "gemm_a8w8_bpreshuffle"),
    "ops.kv_cache": ("reshape_and_cache",),
    "ops.norm": ("rms_norm", "rmsnorm2d_fwd", "rmsnorm2d_fwd_with_add"),
    "ops.quant": ("dynamic_per_token_scaled_quant", "smoothquant_fwd"),
    "ops.shuffle": ("shuffle_weight",),
    "ops.softmax": ("softmax",),
    "ops.topk": ("topk_softmax",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            function = getattr(import_module(f"aiter_prebuilt.{home}"), name)
            globals()[name] = function
            return function
    raise AttributeError(f"module 'aiter_prebuilt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
