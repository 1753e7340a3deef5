"""A small call of every public function that is no operator, for tests that go through all of them.

Operators have golden calls (``call_tensors``); a rotary embedding gets its arguments from the operator that it is around.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, Final

import torch

import aiter_prebuilt
from aiter_prebuilt.contract.calls import Call
from aiter_prebuilt.ops.moe_routing import ExptData, RoutingData
from support import call_tensors, repository

BF16, F32, I32, I64, U8 = torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.uint8
#: The target of all calls, and its fp8.
TARGET, FP8 = "gfx950", torch.float8_e4m3fn
#: Every public function, as the package itself lists them.
FUNCTIONS: Final = sorted(
    name for name in aiter_prebuilt.__all__ if isinstance(getattr(aiter_prebuilt, name), FunctionType)
)


@cache
def _ignored() -> set[tuple[str, str]]:
    """Options that generated functions accept and ignore, as their pages say."""
    operators = (each for family in repository.manifest().families.values() for each in family.operators)
    return {(each.name, option) for each in operators if each.function is None for option in each.ignored}


def numbers_of(name: str) -> list[str]:
    """The parameters of a public function that are numbers, never None, and not ignored."""
    parameters = inspect.signature(getattr(aiter_prebuilt, name)).parameters.values()
    kinds = ("float", "int", "int | Enum")
    return [
        each.name for each in parameters if each.annotation in kinds and (name, each.name) not in _ignored()
    ]


def numbers(*shape: int, dtype: Any = BF16) -> Any:
    """The same numbers each time; ids below 8 where they are whole."""
    draw = torch.Generator().manual_seed(sum(shape))
    if dtype in (U8, I32, I64):
        return torch.randint(0, 8, shape, generator=draw).to(dtype)
    return torch.randn(*shape, generator=draw).to(dtype)


def _experts(kind: Any = BF16) -> dict[str, Any]:
    return {
        "hidden_states": numbers(4, 128), "w1": numbers(8, 64, 128).to(kind), "w2": numbers(8, 128, 32).to(kind),
        "topk_weight": numbers(4, 2, dtype=F32).abs(), "topk_ids": numbers(4, 2, dtype=I32),
    }  # fmt: skip


def _routed(rows: Any, x_scales: Any = None, **options: Any) -> dict[str, Any]:
    """Four tokens, each with one of four experts, and MXFP4 weights of 64 columns."""
    experts, columns, block = 4, 64, 16
    counts = torch.tensor([2, 0, 1, 1], dtype=I32)
    starts = torch.tensor([0, 2, 2, 3, 4], dtype=I32)
    tiles = torch.tensor([0, 1, 1, 2, 3], dtype=I32)
    lists = ExptData(counts, starts, tiles, torch.tensor([0, 2, 3, -1], dtype=I32))
    data = RoutingData(block, torch.ones(4, dtype=BF16), counts, experts, 1, lists)
    return {
        "x": rows, "w": numbers(experts, columns, 32, dtype=U8).transpose(1, 2), "x_scales": x_scales,
        "w_scales": torch.full((experts, columns, 2), 127, dtype=U8).transpose(1, 2), "routing_data": data,
        "gather_indx": torch.tensor([1, 3, 0, 2], dtype=I32), **options,
    }  # fmt: skip


def _norms(q_epsilon: str, k_epsilon: str) -> dict[str, Any]:
    given = {"q": numbers(4, 64), "q_weight": numbers(64), "k": numbers(4, 32), "k_weight": numbers(32)}
    return given | {q_epsilon: 1e-6, k_epsilon: 1e-6}


def _scales(**options: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"src": numbers(64, 16, dtype=U8), "experts_cnt": 2, **options}


def _rows(**options: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"x": numbers(4, 256), **options}


_MADE: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "fused_moe": _experts,
    "asm_moe_tkw1": lambda: _experts(FP8) | {"fc1_scale": torch.ones(8, 64), "fc2_scale": torch.ones(8, 128)},
    "fused_topk": lambda: {
        "hidden_states": numbers(4, 64), "gating_output": numbers(4, 8), "topk": 2, "renormalize": True,
    },
    "biased_grouped_topk": lambda: {
        "gating_output": numbers(4, 8), "correction_bias": numbers(8), "topk_weights": torch.ones(4, 2),
        "topk_ids": numbers(4, 2, dtype=I32), "num_expert_group": 2, "topk_group": 1, "need_renorm": True,
    },
    "moe_sorting": lambda: {
        "topk_ids": numbers(4, 2, dtype=I32), "topk_weights": torch.ones(4, 2), "num_experts": 8, "model_dim": 64,
        "moebuf_dtype": BF16,
    },
    "routing": lambda: {"logits": numbers(4, 8), "n_expts_act": 2},
    "routing_from_hash": lambda: {
        "router_logits": numbers(4, 8), "tid2eid": torch.arange(16, dtype=I32).reshape(8, 2) % 8,
        "input_ids": numbers(4, dtype=I32), "n_expts_act": 2, "block_m": 16,
    },
    "moe_gemm_a16w4": lambda: _routed(numbers(4, 64)),
    "moe_gemm_a8w4": lambda: _routed(numbers(4, 64).to(FP8), x_static_scale=torch.ones(1)),
    "moe_gemm_a4w4": lambda: _routed(numbers(4, 32, dtype=U8), torch.full((4, 2), 127, dtype=U8)),
    "_fused_qk_rmsnorm": lambda: _norms("q_eps", "k_eps") | {"q_out": None, "k_out": None},
    "fused_qk_rmsnorm": lambda: _norms("q_epsilon", "k_epsilon"),
    "fused_silu_mul": _rows(),
    "hipb_mm": lambda: {"mat1": numbers(4, 64), "mat2": numbers(48, 64).t(), "solution_index": -1},
    "hipb_create_extension": dict,
    "hipb_destroy_extension": dict,
    "downcast_to_static_fp8": _rows(scale=torch.full((1,), 0.5)),
    "downcast_to_static_fp8_3d": lambda: {"x": numbers(2, 4, 64), "scale": torch.full((1,), 0.5)},
    "topk": lambda: {"x": numbers(4, 64, dtype=F32), "k": 2},
    **{
        f"{name}_hip": _rows(quant_dtype=FP8) for name in ("per_tensor_quant", "per_token_quant", "per_group_quant")
    },
    **{name: _rows(quant_dtype=FP8) for name in ("per_tensor_quant", "pertoken_quant")},
    **{
        name: _rows()
        for name in ("per_1x32_f4_quant", "per_1x32_f4_quant_hip", "per_1x32_mx_quant_hip", "dynamic_mxfp4_quant")
    },
    **{f"get_{way}_quant": lambda: {"qType": 1} for way in ("hip", "torch", "triton")},
    "get_mla_metadata_info_v1": lambda: {
        "batch_size": 2, "max_seqlen_qo": 1, "num_head_qo": 16, "q_dtype": BF16, "kv_dtype": BF16, "is_sparse": 0,
    },
    "get_ps_metadata_info_v1": lambda: {"batch_size": 2, "num_head_k": 1, "max_qlen": 8},
    "shuffle_weight": lambda: {"x": numbers(32, 64)},
    "shuffle_weight_a16w4": lambda: {"src": numbers(2, 32, 64, dtype=U8), "NLane": 16, "gate_up": False},
    "moe_shuffle_weight": lambda: {"src": numbers(2, 32, 64, dtype=U8), "experts_cnt": 2},
    "shuffle_scale": _scales(),
    "moe_shuffle_scale": _scales(),
    "shuffle_scale_a16w4": _scales(gate_up=False),
    "e8m0_shuffle": lambda: {"scale": numbers(64, 16, dtype=U8)},
    "swap_blocks": lambda: {
        "src": numbers(4, 8), "dst": numbers(4, 8), "block_mapping": torch.tensor([[0, 1], [2, 3]]),
    },
    "preload": lambda: {"ops": "rms_norm"},
    "qr_all_reduce": lambda: {"fa": 1, "inp": numbers(4, 64), "out": numbers(4, 64), "quant_level": 0},
    "qr_all_reduce_rmsnorm": lambda: {
        "fa": 1, "inp": numbers(4, 64), "residual_inp": numbers(4, 64), "residual_out": numbers(4, 64),
        "out": numbers(4, 64), "weight": numbers(64), "eps": 1e-6, "hidden_dim": 64, "quant_level": 0,
    },
    "qr_destroy": lambda: {"fa": 1},
    "qr_get_handle": lambda: {"fa": 1},
    "qr_open_handles": lambda: {"fa": 1, "handle_ptrs": [1]},
    "qr_max_size": dict,
    "init_custom_qr": lambda: {"rank": 0, "world_size": 2},
}  # fmt: skip


@cache
def _golden() -> dict[str, Call]:
    """A small call of each operator, of :data:`TARGET` where it has one."""
    calls = [call for target in ("gfx942", TARGET) for call in reversed(call_tensors.small(target))]
    return {call.operator: call for call in calls}


def arguments(name: str) -> dict[str, Any]:
    """Arguments of a public function by name."""
    if name in _MADE:
        return _MADE[name]()
    operator = name if name in aiter_prebuilt.ops.HOMES else f"{name.removesuffix('_inplace')}_impl"
    given = call_tensors.arguments(_golden()[operator])
    return {
        key: given[key] for key in inspect.signature(getattr(aiter_prebuilt, name)).parameters if key in given
    }
