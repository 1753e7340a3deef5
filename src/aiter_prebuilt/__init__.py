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
    from aiter_prebuilt.ops.activation_silu import fused_silu_mul
    from aiter_prebuilt.ops.asm_moe_tkw1 import asm_moe_tkw1
    from aiter_prebuilt.ops.cache_blocks import swap_blocks
    from aiter_prebuilt.ops.custom_all_reduce import CustomAllreduce
    from aiter_prebuilt.ops.enumerations import ActivationType, GateMode, QuantType
    from aiter_prebuilt.ops.fused_moe import fused_moe
    from aiter_prebuilt.ops.mla_metadata import get_mla_metadata_info_v1
    from aiter_prebuilt.ops.mla_prefill import get_ps_metadata_info_v1
    from aiter_prebuilt.ops.moe_gemm_f4 import moe_gemm_a4w4, moe_gemm_a8w4, moe_gemm_a16w4
    from aiter_prebuilt.ops.moe_routing import routing, routing_from_hash
    from aiter_prebuilt.ops.moe_sorting import moe_sorting
    from aiter_prebuilt.ops.moe_topk import biased_grouped_topk, fused_topk
    from aiter_prebuilt.ops.qk_norm_fused import _fused_qk_rmsnorm, fused_qk_rmsnorm
    from aiter_prebuilt.ops.quant_hip import (
        dynamic_mxfp4_quant,
        get_hip_quant,
        get_triton_quant,
        per_1x32_f4_quant_hip,
        per_1x32_mx_quant_hip,
        per_group_quant_hip,
        per_tensor_quant_hip,
        per_token_quant_hip,
    )
    from aiter_prebuilt.ops.quant_static import downcast_to_static_fp8, downcast_to_static_fp8_3d
    from aiter_prebuilt.ops.quant_torch import (
        get_torch_quant,
        per_1x32_f4_quant,
        per_tensor_quant,
        pertoken_quant,
    )
    from aiter_prebuilt.ops.quick_all_reduce import (
        init_custom_qr,
        qr_all_reduce,
        qr_all_reduce_rmsnorm,
        qr_destroy,
        qr_get_handle,
        qr_max_size,
        qr_open_handles,
    )
    from aiter_prebuilt.ops.rope_gradients import (
        rope_2c_bwd,
        rope_2d_bwd,
        rope_bwd,
        rope_cached_2c_bwd,
        rope_cached_bwd,
        rope_thd_bwd,
    )
    from aiter_prebuilt.ops.rope_in_place import (
        rope_2c_fwd_inplace,
        rope_2d_fwd_inplace,
        rope_cached_2c_fwd_inplace,
        rope_cached_fwd_inplace,
        rope_cached_positions_2c_fwd_inplace,
        rope_cached_positions_fwd_inplace,
        rope_cached_positions_offsets_2c_fwd_inplace,
        rope_cached_positions_offsets_fwd_inplace,
        rope_fwd_inplace,
        rope_thd_fwd_inplace,
    )
    from aiter_prebuilt.ops.rope_out import (
        rope_2d_fwd,
        rope_cached_fwd,
        rope_cached_positions_fwd,
        rope_cached_positions_offsets_fwd,
        rope_fwd,
        rope_thd_fwd,
    )
    from aiter_prebuilt.ops.rope_out_pairs import (
        rope_2c_fwd,
        rope_cached_2c_fwd,
        rope_cached_positions_2c_fwd,
        rope_cached_positions_offsets_2c_fwd,
    )
    from aiter_prebuilt.ops.shuffle import shuffle_weight
    from aiter_prebuilt.ops.shuffle_scales import (
        e8m0_shuffle,
        moe_shuffle_scale,
        moe_shuffle_weight,
        shuffle_scale,
        shuffle_scale_a16w4,
        shuffle_weight_a16w4,
    )
    from aiter_prebuilt.ops.topk_rows import topk
    from aiter_prebuilt.ops.tuned_gemm import tgemm

if "t" in sys.abiflags:
    from aiter_prebuilt.errors import FreeThreadedError

    raise FreeThreadedError(
        f"import aiter_prebuilt in {sys.executable}",
        "this is a free-threaded Python, which cannot load the extension: it uses the stable ABI (abi3)",
        "Use a Python with a GIL, 3.10 or later: python3.14, not python3.14t",
    )

__version__ = VERSION

__all__ = [
    "ActivationType",
    "CustomAllreduce",
    "GateMode",
    "QuantType",
    "__version__",
    "_fused_qk_rmsnorm",
    "asm_moe_tkw1",
    "biased_grouped_topk",
    "downcast_to_static_fp8",
    "downcast_to_static_fp8_3d",
    "dynamic_mxfp4_quant",
    "e8m0_shuffle",
    "fused_moe",
    "fused_qk_rmsnorm",
    "fused_silu_mul",
    "fused_topk",
    "get_hip_quant",
    "get_mla_metadata_info_v1",
    "get_ps_metadata_info_v1",
    "get_torch_quant",
    "get_triton_quant",
    "init_custom_qr",
    "moe_gemm_a4w4",
    "moe_gemm_a8w4",
    "moe_gemm_a16w4",
    "moe_shuffle_scale",
    "moe_shuffle_weight",
    "moe_sorting",
    "per_1x32_f4_quant",
    "per_1x32_f4_quant_hip",
    "per_1x32_mx_quant_hip",
    "per_group_quant_hip",
    "per_tensor_quant",
    "per_tensor_quant_hip",
    "per_token_quant_hip",
    "pertoken_quant",
    "preload",
    "qr_all_reduce",
    "qr_all_reduce_rmsnorm",
    "qr_destroy",
    "qr_get_handle",
    "qr_max_size",
    "qr_open_handles",
    "rope_2c_bwd",
    "rope_2c_fwd",
    "rope_2c_fwd_inplace",
    "rope_2d_bwd",
    "rope_2d_fwd",
    "rope_2d_fwd_inplace",
    "rope_bwd",
    "rope_cached_2c_bwd",
    "rope_cached_2c_fwd",
    "rope_cached_2c_fwd_inplace",
    "rope_cached_bwd",
    "rope_cached_fwd",
    "rope_cached_fwd_inplace",
    "rope_cached_positions_2c_fwd",
    "rope_cached_positions_2c_fwd_inplace",
    "rope_cached_positions_fwd",
    "rope_cached_positions_fwd_inplace",
    "rope_cached_positions_offsets_2c_fwd",
    "rope_cached_positions_offsets_2c_fwd_inplace",
    "rope_cached_positions_offsets_fwd",
    "rope_cached_positions_offsets_fwd_inplace",
    "rope_fwd",
    "rope_fwd_inplace",
    "rope_thd_bwd",
    "rope_thd_fwd",
    "rope_thd_fwd_inplace",
    "routing",
    "routing_from_hash",
    "shuffle_scale",
    "shuffle_scale_a16w4",
    "shuffle_weight",
    "shuffle_weight_a16w4",
    "swap_blocks",
    "tgemm",
    "topk",
]
__all__ += ops.__all__

#: What is no operator, by where it lives: functions around operators or without a kernel, enumerations, an object.
_AROUND = {
    "launch.loading": ("preload",),
    "ops.cache_blocks": ("swap_blocks",),
    "ops.custom_all_reduce": ("CustomAllreduce",),
    "ops.enumerations": ("ActivationType", "GateMode", "QuantType"),
    "ops.moe_topk": ("biased_grouped_topk", "fused_topk"),
    "ops.fused_moe": ("fused_moe",),
    "ops.mla_metadata": ("get_mla_metadata_info_v1",),
    "ops.moe_gemm_f4": ("moe_gemm_a4w4", "moe_gemm_a8w4", "moe_gemm_a16w4"),
    "ops.moe_routing": ("routing", "routing_from_hash"),
    "ops.asm_moe_tkw1": ("asm_moe_tkw1",),
    "ops.topk_rows": ("topk",),
    "ops.mla_prefill": ("get_ps_metadata_info_v1",),
    "ops.qk_norm_fused": ("_fused_qk_rmsnorm", "fused_qk_rmsnorm"),
    "ops.quant_hip": (
        "dynamic_mxfp4_quant", "get_hip_quant", "get_triton_quant", "per_1x32_f4_quant_hip", "per_1x32_mx_quant_hip",
        "per_group_quant_hip", "per_tensor_quant_hip", "per_token_quant_hip",
    ),
    "ops.quant_torch": ("get_torch_quant", "per_1x32_f4_quant", "per_tensor_quant", "pertoken_quant"),
    "ops.quick_all_reduce": (
        "init_custom_qr", "qr_all_reduce", "qr_all_reduce_rmsnorm", "qr_destroy", "qr_get_handle", "qr_max_size",
        "qr_open_handles",
    ),
    "ops.rope_gradients": (
        "rope_2c_bwd", "rope_2d_bwd", "rope_bwd", "rope_cached_2c_bwd", "rope_cached_bwd", "rope_thd_bwd",
    ),
    "ops.rope_in_place": (
        "rope_2c_fwd_inplace", "rope_2d_fwd_inplace", "rope_cached_2c_fwd_inplace", "rope_cached_fwd_inplace",
        "rope_cached_positions_2c_fwd_inplace", "rope_cached_positions_fwd_inplace",
        "rope_cached_positions_offsets_2c_fwd_inplace", "rope_cached_positions_offsets_fwd_inplace",
        "rope_fwd_inplace", "rope_thd_fwd_inplace",
    ),
    "ops.rope_out": (
        "rope_2d_fwd", "rope_cached_fwd", "rope_cached_positions_fwd", "rope_cached_positions_offsets_fwd",
        "rope_fwd", "rope_thd_fwd",
    ),
    "ops.rope_out_pairs": (
        "rope_2c_fwd", "rope_cached_2c_fwd", "rope_cached_positions_2c_fwd", "rope_cached_positions_offsets_2c_fwd",
    ),
    "ops.shuffle": ("shuffle_weight",),
    "ops.shuffle_scales": (
        "e8m0_shuffle", "moe_shuffle_scale", "moe_shuffle_weight", "shuffle_scale", "shuffle_scale_a16w4",
        "shuffle_weight_a16w4",
    ),
    "ops.activation_silu": ("fused_silu_mul",),
    "ops.moe_sorting": ("moe_sorting",),
    "ops.quant_static": ("downcast_to_static_fp8", "downcast_to_static_fp8_3d"),
    "ops.tuned_gemm": ("tgemm",),
}  # fmt: skip
_HOMES = {name: home for home, names in _AROUND.items() for name in names}
#: Modules whose functions take no tensors and name all that they refuse.
_PLAIN = ("launch.loading",)


def __getattr__(name: str) -> Any:
    home = f"ops.{ops.HOMES[name]}" if name in ops.HOMES else _HOMES.get(name)
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
