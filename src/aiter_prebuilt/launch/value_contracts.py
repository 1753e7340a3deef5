"""Rules for values of masks, lists, lengths, pages and slots.

They are listed by operator and tensor.

The device reads these tensors, so an ordinary call cannot look at them. ``value_checks.py`` does with ``AITER_PREBUILT_CHECK=1``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias

#: An expression of the dims that the operator's signature names.
Bound: TypeAlias = Callable[[Any], int]


class UnknownSizeError(LookupError):
    """No tensor of the call says how large a dim is."""


class Call(Protocol):
    """The call that is checked."""

    @property
    def sizes(self) -> Any:
        """The dims of the signature, as attributes.

        Raises:
            UnknownSizeError: no tensor of the call has the dim.
        """

    def values(self, tensor: str) -> list[int] | None:
        """Read a tensor's integers in row-major order.

        None where it was left out.
        """

    @property
    def columns(self) -> int:
        """The last dim of the tensor that is checked."""


class Rule(Protocol):
    """One statement about the values of a tensor."""

    def problem(self, values: list[int], call: Call) -> str | None:
        """Say what is wrong with the values, or return None."""

    def wanted(self, call: Call) -> str:
        """Say what the values must be."""


@dataclass(frozen=True, slots=True)
class Mask:
    """0 or 1 each; ``ones``: how many are 1."""

    ones: Bound | None = None

    def problem(self, values: list[int], call: Call) -> str | None:
        """Find the first element that breaks the rule."""
        for place, value in enumerate(values):
            if value not in (0, 1):
                return f"element {place} is {value}"
        if self.ones is not None and sum(values) != self.ones(call.sizes):
            return f"{sum(values)} elements are 1"
        return None

    def wanted(self, call: Call) -> str:
        """Describe the values that the rule allows."""
        return "0 or 1" + ("" if self.ones is None else f", with {self.ones(call.sizes)} ones")


@dataclass(frozen=True, slots=True)
class Within:
    """From ``low`` to ``high``; None: no limit.

    ``plus``: a tensor whose elements are added first, one to each.
    """

    low: int | None
    high: Bound | None
    plus: str = ""

    def problem(self, values: list[int], call: Call) -> str | None:
        """Find the first element that breaks the rule."""
        high = None if self.high is None else self.high(call.sizes)
        others = call.values(self.plus) if self.plus else None
        for place, value in enumerate(values):
            found = value if others is None else value + others[place]
            if (self.low is not None and found < self.low) or (high is not None and found > high):
                return f"element {place} is {value}" + (
                    "" if others is None else f", and {self.plus} has {others[place]}"
                )
        return None

    def wanted(self, call: Call) -> str:
        """Describe the values that the rule allows."""
        low = "" if self.low is None else f"at least {self.low}"
        high = "" if self.high is None else f"at most {self.high(call.sizes)}"
        return " and ".join(part for part in (low, high) if part)


@dataclass(frozen=True, slots=True)
class Starts:
    """Start offsets of sequences, and the end of the last.

    They never fall, and go from 0 to at most ``last``.

    ``unless``: a tensor whose presence says that there is no such limit. ``part``: of a longer list, it may start behind 0.
    """

    last: Bound | None = None
    unless: str = ""
    part: bool = False

    def _last(self, call: Call) -> int | None:
        if self.last is None or (self.unless and call.values(self.unless) is not None):
            return None
        return self.last(call.sizes)

    def problem(self, values: list[int], call: Call) -> str | None:
        """Find the first element that breaks the rule."""
        if values and (values[0] < 0 or (values[0] > 0 and not self.part)):
            return f"element 0 is {values[0]}"
        for place, (one, other) in enumerate(pairwise(values), 1):
            if other < one:
                return f"element {place} is {other}, the one before it {one}"
        last = self._last(call)
        if last is not None and values and values[-1] > last:
            return f"the last element is {values[-1]}"
        return None

    def wanted(self, call: Call) -> str:
        """Describe the values that the rule allows."""
        last = self._last(call)
        first = "from 0 or more" if self.part else "from 0"
        return f"never falling, {first}" + ("" if last is None else f" to at most {last}")


@dataclass(frozen=True, slots=True)
class Pages:
    """Rows of pages, each from 0 to ``pages - 1``, as many as a sequence's length needs; those behind them are not looked at.

    ``lengths``: the tensor with the length of each sequence, or with ``starts`` where each starts.
    """

    lengths: str
    size: Bound
    pages: Bound
    starts: bool = False

    def problem(self, values: list[int], call: Call) -> str | None:
        """Find the first element that breaks the rule."""
        size, pages, columns = self.size(call.sizes), self.pages(call.sizes), call.columns
        lengths = call.values(self.lengths) or []
        if self.starts:
            lengths = [other - one for one, other in pairwise(lengths)]
        for row, length in enumerate(lengths):
            needed = -(-length // max(1, size))
            if needed > columns:
                return f"row {row} has {columns} pages of {size}, and {self.lengths} says {length}"
            for place, page in enumerate(values[row * columns : row * columns + needed]):
                if not 0 <= page < pages:
                    return f"element [{row}, {place}] is {page}"
        return None

    def wanted(self, call: Call) -> str:
        """Describe the values that the rule allows."""
        return f"pages from 0 to {self.pages(call.sizes) - 1}, enough for {self.lengths}"


@dataclass(frozen=True, slots=True)
class LastPages:
    """The number of keys in the last page of each sequence.

    From 1 to ``size``, where ``starts`` gives it a page.
    """

    starts: str
    size: Bound

    def problem(self, values: list[int], call: Call) -> str | None:
        """Find the first element that breaks the rule."""
        starts, size = call.values(self.starts) or [], self.size(call.sizes)
        for place, (value, (first, last)) in enumerate(zip(values, pairwise(starts), strict=False)):
            if not (1 if last > first else 0) <= value <= size:
                return f"element {place} is {value}"
        return None

    def wanted(self, call: Call) -> str:
        """Describe the values that the rule allows."""
        return f"from 1 to {self.size(call.sizes)} where {self.starts} gives pages"


@dataclass(frozen=True, slots=True)
class Listed:
    """Numbers from 0 to ``count - 1``, in the part of the list that ``starts`` names; the rest is not looked at."""

    starts: str
    count: Bound

    def problem(self, values: list[int], call: Call) -> str | None:
        """Find the first element that breaks the rule."""
        starts, count = call.values(self.starts), self.count(call.sizes)
        first, last = (starts[0], starts[-1]) if starts else (0, len(values))
        for place in range(max(first, 0), min(last, len(values))):
            if not 0 <= values[place] < count:
                return f"element {place} is {values[place]}"
        return None

    def wanted(self, call: Call) -> str:
        """Describe the values that the rule allows."""
        return f"from 0 to {self.count(call.sizes) - 1}"


def _slots(sizes: Any) -> int:
    return int(sizes.blocks * sizes.block_size) - 1


def _kernel_slots(sizes: Any) -> int:
    return int(sizes.NB * sizes.PS) - 1


_PAGES: Final[Bound] = lambda sizes: sizes.NB  # noqa: E731
_PAGE: Final[Bound] = lambda sizes: sizes.PS  # noqa: E731
_ONE: Final[Bound] = lambda _: 1  # noqa: E731
#: The rules of mixtures of experts, whose weights are those of the experts that the mask names.
_EXPERTS: Final[dict[str, Rule]] = {
    "expert_mask": Mask(lambda sizes: sizes.E),
    "num_local_tokens": Within(0, lambda sizes: sizes.M),
}
_QUERIES: Final = Starts(lambda sizes: sizes.SQ)
_PACKED: Final[dict[str, Rule]] = {"cu_seqlens_q": _QUERIES, "cu_seqlens_k": Starts(lambda sizes: sizes.SK)}
_SEQUENCES: Final[dict[str, Rule]] = {"cu_seqlens": Starts(lambda sizes: sizes.L)}
_POSITIONS: Final = Within(0, lambda sizes: sizes.P - 1)
_OFFSET_POSITIONS: Final = Within(0, lambda sizes: sizes.P - 1, plus="offsets")
#: Pages by a list for all sequences.
_BATCH: Final[dict[str, Rule]] = {
    "cu_seqlens_q": _QUERIES,
    "kv_indptr": Starts(lambda sizes: sizes.MB, part=True),
    "kv_page_indices": Listed("kv_indptr", _PAGES),
    "kv_last_page_lens": LastPages("kv_indptr", _PAGE),
}


def _latent(queries: str, indices: str, page: Bound) -> dict[str, Rule]:
    """Return the rules of latent attention over a list of pages."""
    return {
        "qo_indptr": Starts(lambda sizes: getattr(sizes, queries), part=True),
        "kv_indptr": Starts(lambda sizes: sizes.N, part=True),
        indices: Listed("kv_indptr", lambda sizes: sizes.P),
        "kv_last_page_lens": LastPages("kv_indptr", page),
    }


#: Operator -> tensor -> its rule.
CONTRACTS: Final[Mapping[str, Mapping[str, Rule]]] = {
    "fused_experts": _EXPERTS,
    "fused_experts_a8w8": _EXPERTS,
    "fused_experts_a8w8_tensor": _EXPERTS,
    "fused_experts_a16w4": _EXPERTS,
    "fused_experts_mxfp4": _EXPERTS,
    "moe_sorting_fwd": {"local_expert_mask": Mask(), "num_local_tokens": Within(0, None)},
    "flash_attn_varlen_func": {
        "cu_seqlens_q": _QUERIES,
        "cu_seqlens_k": Starts(lambda sizes: sizes.SK, unless="block_table"),
        "block_table": Pages("cu_seqlens_k", lambda sizes: sizes.SK, _PAGES, starts=True),
    },
    "flash_attn_varlen_fp8_pertensor_func": _PACKED,
    "fmha_v3_varlen_fwd": _PACKED,
    "fmha_v3_varlen_bwd": _PACKED,
    "mha_varlen_fwd": _PACKED,
    "mha_varlen_bwd": _PACKED,
    "unified_attention": {
        "cu_seqlens_q": _QUERIES,
        "seqused_k": Within(0, None),
        "block_table": Pages("seqused_k", _PAGE, _PAGES),
    },
    "paged_attention_v1": {
        "cu_query_lens": _QUERIES,
        "context_lens": Within(0, None),
        "block_tables": Pages("context_lens", _PAGE, _PAGES),
    },
    "pa_fwd_asm": {
        "context_lens": Within(0, None),
        "block_tables": Pages("context_lens", lambda sizes: sizes.BS, _PAGES),
        "qo_indptr": Starts(lambda sizes: sizes.R, part=True),
    },
    "deepgemm_fp8_paged_mqa_logits": {
        "context_lens": Within(0, None),
        "kv_indices": Pages("context_lens", _PAGE, _PAGES),
    },
    "mha_batch_prefill_func": _BATCH,
    "mha_batch_prefill": _BATCH,
    "paged_attention_ragged": {
        "kv_indptr": Starts(lambda sizes: sizes.MB, part=True),
        "kv_page_indices": Listed("kv_indptr", _PAGES),
    },
    "extend_attention_fwd": {
        "qo_indptr": _QUERIES,
        "kv_indptr": Starts(lambda sizes: sizes.KI, part=True),
        "kv_indices": Listed("kv_indptr", _PAGES),
    },
    "context_attention_fwd": {
        "b_start_loc": Within(0, lambda sizes: sizes.SQ),
        "b_seq_len": Within(0, lambda sizes: sizes.SQ),
    },
    "mla_decode_fwd": {**_latent("T", "kv_indices", _PAGE), "g_kv_indptr": Starts(part=True)},
    "mla_decode_stage1_asm_fwd": _latent("T", "kv_page_indices", _ONE),
    "mla_prefill_fwd": _latent("T", "kv_indices", _ONE),
    "mla_prefill_asm_fwd": _latent("T", "kv_page_indices", _ONE),
    "mla_prefill_ps_asm_fwd": {
        "qo_indptr": Starts(lambda sizes: sizes.TOK, part=True),
        "kv_indptr": Starts(lambda sizes: sizes.N, part=True),
        "kv_page_indices": Listed("kv_indptr", lambda sizes: sizes.P),
    },
    "reshape_and_cache": {"slot_mapping": Within(-1, _slots)},
    "reshape_and_cache_flash": {"slot_mapping": Within(-1, _slots)},
    "reshape_and_cache_with_pertoken_quant": {"slot_mapping": Within(-1, _slots)},
    "reshape_and_cache_with_block_quant": {"slot_mapping": Within(-1, _slots)},
    "reshape_and_cache_with_block_quant_for_asm_pa": {"slot_mapping": Within(-1, _slots)},
    "concat_and_cache_mla": {"slot_mapping": Within(-1, _slots)},
    "indexer_k_quant_and_cache": {"slot_mapping": Within(-1, _slots)},
    "cp_gather_indexer_k_quant_cache": {
        "cu_seq_lens": Starts(lambda sizes: sizes.tokens),
        "block_table": Pages(
            "cu_seq_lens", lambda sizes: sizes.block_size, lambda sizes: sizes.blocks, starts=True
        ),
    },
    "copy_blocks": {"block_mapping": Within(0, lambda sizes: sizes.B - 1)},
    "fused_qk_rope_concat_and_cache_mla": {
        "slot_mapping": Within(-1, lambda sizes: sizes.slots - 1),
        "positions": _POSITIONS,
    },
    "fused_qk_rope_cat_and_cache_mla": {"slot_mapping": Within(-1, _kernel_slots), "pos": _POSITIONS},
    "fused_qk_rope_reshape_and_cache": {"slot_mapping": Within(-1, _kernel_slots)},
    "fused_qk_norm_rope_cache_quant_shuffle": {
        "slot_mapping": Within(-1, _kernel_slots),
        "pos_ids": _POSITIONS,
    },
    "fused_qk_norm_rope_cache_block_quant_shuffle": {
        "slot_mapping": Within(-1, _kernel_slots),
        "pos_ids": _POSITIONS,
    },
    "fused_qk_norm_rope_cache_pts_quant_shuffle": {
        "positions": _POSITIONS,
        "slot_mapping": Within(-1, lambda sizes: sizes.KNB * sizes.KPS - 1),
    },
    "fused_kv_norm_rope_group_quant": {"slot_mapping": Within(-1, _kernel_slots), "positions": _POSITIONS},
    "fused_qk_norm_rope_group_quant": {"positions": _POSITIONS},
    "inverse_rope_group_quant": {"positions": _POSITIONS},
    "minimax_qk_norm_rope": {"positions": _POSITIONS},
    "fused_qk_norm_mrope_3d_cache_pts_quant_shuffle": {
        "positions": _POSITIONS,
        "slot_mapping": Within(-1, lambda sizes: sizes.KNB * sizes.KPS - 1),
    },
    "fused_qknorm_idxrqknorm": {
        "positions": _POSITIONS,
        "slot_mapping": Within(-1, lambda sizes: sizes.KNB * sizes.KPS - 1),
        "index_slot_mapping": Within(-1, lambda sizes: sizes.index_size // 128 - 1),
    },
    "partial_transpose": {"num_rows": Within(0, lambda sizes: sizes.M)},
    "deepgemm": {"group_layout": Within(0, lambda sizes: sizes.M)},
    "top_p_sampling_from_probs": {"indices": Within(-1, lambda sizes: sizes.M - 1)},
    "top_k_top_p_sampling_from_probs": {"indices": Within(-1, lambda sizes: sizes.M - 1)},
    "smooth_per_token_scaled_quant": {"smooth_scale_map": Within(None, lambda sizes: sizes.experts - 1)},
    "batched_rotary_embedding": {
        "positions": Within(0, lambda sizes: sizes.P - 1, plus="cos_sin_cache_offsets")
    },
    "rotary_embedding_fwd": {"positions": _POSITIONS},
    "rope_cached_positions_fwd_impl": {"positions": _POSITIONS},
    "rope_cached_positions_2c_fwd_impl": {"positions": _POSITIONS},
    "rope_cached_positions_offsets_fwd_impl": {"positions": _OFFSET_POSITIONS},
    "rope_cached_positions_offsets_2c_fwd_impl": {"positions": _OFFSET_POSITIONS},
    "rope_thd_fwd_impl": {"cu_seqlens": Starts(lambda sizes: sizes.N)},
    "rope_thd_bwd_impl": {"cu_seqlens": Starts(lambda sizes: sizes.N)},
    "fp8_mqa_logits": {
        "cu_starts": Within(0, lambda sizes: sizes.N),
        "cu_ends": Within(0, lambda sizes: sizes.N),
    },
    "causal_conv1d_fn": {
        "query_start_loc": Starts(lambda sizes: sizes.L),
        "cache_indices": Within(None, lambda sizes: sizes.S - 1),
    },
    "causal_conv1d_update_in_place": {"conv_state_indices": Within(None, lambda sizes: sizes.S - 1)},
    "chunk_gated_delta_rule": _SEQUENCES,
    "fused_recurrent_gated_delta_rule": _SEQUENCES,
    "fused_recurrent_gated_delta_rule_update": {
        **_SEQUENCES,
        "ssm_state_indices": Within(None, lambda sizes: sizes.S - 1),
    },
    "fused_sigmoid_gating_delta_rule_update": {
        **_SEQUENCES,
        "initial_state_indices": Within(None, lambda sizes: sizes.S - 1),
    },
}
