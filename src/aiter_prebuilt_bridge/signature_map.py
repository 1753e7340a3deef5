"""Map AITER's parameters to ours where names, places or options differ.

Each row was read in AITER's source: of August 2026, and of November 2025 where that has the name. ``signature_check`` still reads
both signatures. A row explains the parameters that it names; what a later AITER adds beside them stays unexplained.
Names whose meaning depends on the AITER that is installed are in ``semantic_changes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


class _Any:
    """Any value: the option says how AITER gets there, not what comes out."""

    def __repr__(self) -> str:
        return "anything"


ANY: Final = _Any()


@dataclass(frozen=True, slots=True)
class Reading:
    """The mapping of AITER's arguments to ours.

    ``ours``: our function, when it has another name. ``names``: AITER's parameter -> ours. ``nothing``: an option that ours lack
    -> the values with which AITER's does the same as ours. ``differs``: an option of both -> the values that AITER's reads
    otherwise than ours. ``places``: parameters of one name mean the same in both, and places may differ. ``fixed``: a parameter
    of ours -> the value that AITER's uses where it lacks the parameter. ``returns``: our parameters that AITER's gives back,
    where ours returns nothing. ``into``: a tensor of AITER's that takes the result, where ours always makes one.
    """

    ours: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    nothing: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    differs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    places: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    returns: tuple[str, ...] = ()
    into: str = ""


PLAIN: Final = Reading()
_NO_SCALES: Final = {"q_descale": (None,), "k_descale": (None,), "v_descale": (None,)}
#: Without the first tokens that every query sees, without a logit of their own.
_NO_SINK: Final = {"sink_size": (0,), "sink_ptr": (None,)}
#: Whether weights pass by the cache.
_CACHED: Final = {"use_non_temporal_load": (ANY,)}
#: ``dst_type`` counts with a ``splitk`` above 1 only, which leaves sums of parts in fp32.
_ONE_PART: Final = {"splitk": (None, 0, 1), "dst_type": (ANY,)}
_PRODUCT: Final = {"config": (ANY,), "kernel_type": (ANY,), "backend": (ANY,)}
#: Triton's functions take it and do nothing with it.
_LAID_OUT: Final = {"transpose_output": (ANY,)}
_LAID_OUT_OURS: Final = {"transpose_output": (True,)}
_ROPE: Final = ("aiter.ops.triton.rope.rope", "aiter.ops.triton.rope")
#: Given as None, AITER's Triton kernels make bf16 of it, or torch's own type.
_TYPED: Final = {"dtype": (None,)}

#: The modules that a row is for, a name there, and the reading. The same name in other modules is another function.
_ROWS: Final[tuple[tuple[tuple[str, ...], str, Reading], ...]] = (
    # AITER's takes lengths of padded batches, which our packed form serves.
    (("aiter.ops.mha",), "flash_attn_func", Reading(ours="adapted.flash_attn_func")),
    (("aiter.ops.mha",), "mha_fwd", Reading(nothing=_NO_SINK | _NO_SCALES)),
    (("aiter.ops.mha",), "mha_varlen_fwd", Reading(nothing=_NO_SINK | _NO_SCALES)),
    (("aiter.ops.mha",), "fmha_v3_fwd", Reading(nothing=_NO_SCALES)),
    (
        ("aiter.ops.mha",),
        "fmha_v3_varlen_fwd",
        Reading(nothing=_NO_SCALES | {"cu_seqlens_q_padded": (None,), "cu_seqlens_k_padded": (None,)}),
    ),
    (("aiter.ops.moe_op",), "ck_moe_stage1_fwd", Reading(nothing=_CACHED | _ONE_PART)),
    (("aiter.ops.moe_op",), "ck_moe_stage2_fwd", Reading(nothing=_CACHED)),
    # Ours is the kernel for GELU, the only one when there was no option; AITER's default became SiLU.
    (("aiter.ops.moe_op",), "fmoe_int8_g1u0_a16", Reading(nothing={"activation": (1,)})),
    # Ours is gpt-oss's SwiGLU; AITER's default became SiLU. A kernel's name goes past both.
    (
        ("aiter.ops.moe_op",),
        "moe_cktile2stages_gemm1",
        Reading(nothing={"activation": (2,), "split_k": (None, 1), "kernel_name": ("",)}),
    ),
    # The ids are sorted in blocks of 32 for ours, and the call must say that.
    (("aiter.ops.moe_op",), "fmoe_fp8_blockscale_g1u1", Reading(nothing={"block_size_M": (32,)})),
    (("aiter.utility.fp4_utils",), "moe_mxfp4_sort", Reading(ours="adapted.moe_mxfp4_sort")),
    (
        ("aiter.ops.triton.quant.fused_mxfp4_quant",),
        "fused_dynamic_mxfp4_quant_moe_sort",
        Reading(ours="adapted.fused_dynamic_mxfp4_quant_moe_sort"),
    ),
    # AITER's assembly for 2048 of a row, which is what ours takes when nothing else is said.
    *(
        (("aiter.ops.topk",), f"{name}_fast", Reading(ours=name))
        for name in ("top_k_per_row_decode", "top_k_per_row_prefill")
    ),
    (
        ("aiter.ops.sample",),
        "mixed_sample_outer_exponential",
        Reading(names={"temperature": "temperatures"}),
    ),
    # No kernel: AITER asks it for the row of a table, also in functions that stay AITER's.
    (("aiter.ops.gemm_op_common",), "get_padded_m", Reading(ours="adapted.get_padded_m")),
    (("aiter.ops.gemm_op_a4w4",), "gemm_a4w4_blockscale", Reading(nothing={"kernelName": ("",)})),
    *(
        (("aiter.ops.gemm_op_a8w8",), name, Reading(ours=f"adapted.{name}"))
        for name in (
            "gemm_a8w8_blockscale_ck",
            "gemm_a8w8_blockscale_cktile",
            "gemm_a8w8_blockscale_bpreshuffle_ck",
            "gemm_a8w8_blockscale_bpreshuffle_asm",
        )
    ),
    (
        ("aiter.ops.triton.gemm.basic.gemm_a8w8_blockscale",),
        "gemm_a8w8_blockscale_preshuffle",
        Reading(ours="adapted.gemm_a8w8_blockscale_preshuffle", differs=_TYPED),
    ),
    (
        ("aiter.ops.triton.gemm.basic.gemm_a16w16", "aiter.ops.triton.gemm_a16w16"),
        "gemm_a16w16",
        Reading(names={"x": "A", "w": "B"}, differs=_TYPED),
    ),
    (
        (
            "aiter.ops.triton.gemm.basic.gemm_a8w8_blockscale",
            "aiter.ops.triton.gemm_a8w8_blockscale",
            "aiter.ops.triton.gluon.gemm_a8w8_blockscale",
        ),
        "gemm_a8w8_blockscale",
        Reading(names={"x": "XQ", "w": "WQ"}, differs=_TYPED),
    ),
    (
        (
            "aiter.ops.triton.gemm.basic.gemm_a8w8",
            "aiter.ops.triton.gemm_a8w8",
            "aiter.ops.triton.gluon.gemm_a8w8",
        ),
        "gemm_a8w8",
        Reading(names={"x": "XQ", "w": "WQ"}, differs=_TYPED),
    ),
    (
        ("aiter.ops.triton.gemm.batched.batched_gemm_bf16", "aiter.ops.triton.batched_gemm_bf16"),
        "batched_gemm_bf16",
        Reading(ours="batched_gemm_bf16_CK", nothing=_PRODUCT, differs=_TYPED, into="YQ"),
    ),
    (
        ("aiter.ops.triton.gemm.batched.batched_gemm_a8w8", "aiter.ops.triton.batched_gemm_a8w8"),
        "batched_gemm_a8w8",
        Reading(ours="batched_gemm_a8w8_CK", nothing=_PRODUCT, differs=_TYPED, into="YQ"),
    ),
    (
        ("aiter.ops.triton.utils.shuffle",),
        "shuffle_weight",
        Reading(nothing={"arch": (None, "gfx942", "gfx950")}),
    ),
    (
        ("aiter.ops.triton.quant.fused_fp8_quant", "aiter.ops.triton.fused_fp8_quant"),
        "fused_flatten_fp8_group_quant",
        Reading(ours="adapted.fused_flatten_fp8_group_quant"),
    ),
    # Its cache is not taken apart by contexts, which was a number of parts.
    (
        ("aiter.ops.triton.pa_mqa_logits",),
        "deepgemm_fp8_paged_mqa_logits",
        Reading(names={"kv_cache_fp8": "kv_cache"}, nothing={"SplitKV": (ANY,)}),
    ),
    (("aiter.ops.triton.unified_attention",), "unified_attention", Reading(places=True)),
    (("aiter.ops.triton.moe_op_gemm_a8w4",), "moe_gemm_a8w4", Reading(places=True)),
    (
        _ROPE[:1],
        "rope_cached_thd_positions_offsets_2c_fwd_inplace",
        Reading(ours="adapted.rope_cached_thd_positions_offsets_2c_fwd_inplace", nothing=_LAID_OUT),
    ),
    # AITER's public functions that turn back are around this one, and clients call it, too.
    (
        _ROPE[:1],
        "_rope_cached_bwd",
        Reading(ours="adapted.rope_cached_positions_back", nothing={"transpose_output": (False,)}),
    ),
    *(
        (_ROPE, name, Reading(names={"x": "input"}, differs=_LAID_OUT_OURS))
        for name in (
            "rope_fwd",
            "rope_cached_fwd",
            "rope_cached_positions_fwd",
            "rope_cached_positions_offsets_fwd",
        )
    ),
    (_ROPE, "rope_thd_fwd", Reading(names={"x": "input"}, nothing=_LAID_OUT)),
    *(
        (_ROPE, f"{name}_inplace", Reading(names={"x": "input"}, nothing=_LAID_OUT, returns=("input",)))
        for name in (
            "rope_fwd",
            "rope_thd_fwd",
            "rope_cached_fwd",
            "rope_cached_positions_fwd",
            "rope_cached_positions_offsets_fwd",
        )
    ),
    *(
        (_ROPE, name, Reading(names={"x": "output_grads"}, differs=_LAID_OUT_OURS))
        for name in ("rope_bwd", "rope_cached_bwd")
    ),
    (_ROPE, "rope_thd_bwd", Reading(names={"x": "output_grads"}, nothing=_LAID_OUT)),
    # Of November 2025.
    (("aiter.mla",), "mla_decode_fwd", Reading(places=True)),
    (("aiter.ops.attention",), "mla_reduce_v1", Reading(places=True, fixed={"max_seqlen_q": 0})),
    (
        ("aiter.ops.attention",),
        "mla_decode_stage1_asm_fwd",
        Reading(names={"work_metadata": "work_meta_data"}, fixed={"page_size": 1, "nhead_kv": 1}),
    ),
    (("aiter.ops.attention",), "paged_attention_common", Reading(ours="adapted.paged_attention_common")),
    (("aiter.ops.attention",), "get_mla_metadata_v1", Reading(ours="adapted.get_mla_metadata_v1")),
    (("aiter.ops.mha",), "mha_batch_prefill", Reading(places=True, fixed={"sink_size": 0})),
    (("aiter.ops.rmsnorm",), "rmsnorm2d_fwd_with_add", Reading(places=True)),
    (("aiter.ops.gemm_op_a16w16",), "gemm_a16w16", Reading(ours="gemm_a16w16_asm")),
    (("aiter.ops.gemm_op_a4w4",), "gemm_a4w4", Reading(ours="gemm_a4w4_asm", fixed={"kernelName": ""})),
    (("aiter.ops.quick_all_reduce",), "qr_get_handle", Reading(ours="adapted.qr_get_handle")),
    (("aiter.ops.quick_all_reduce",), "qr_open_handles", Reading(ours="adapted.qr_open_handles")),
)


def rows() -> tuple[tuple[tuple[str, ...], str, Reading], ...]:
    """All of them."""
    return _ROWS


def of(module: str, name: str) -> tuple[Reading, ...]:
    """List the ways in which ours may read a call.

    The first one counts first; PLAIN, the last: word by word.
    """
    return (*(row for places, known, row in _ROWS if known == name and module in places), PLAIN)
