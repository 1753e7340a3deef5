"""``AITER_PREBUILT_CHECK=1``: contracts name what signatures have, and each rule finds what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from aiter_prebuilt import errors  # noqa: E402
from aiter_prebuilt.errors import ArgumentError, ArgumentValueError, UnsupportedError  # noqa: E402
from aiter_prebuilt.launch import dispatch, value_checks  # noqa: E402
from aiter_prebuilt.launch.value_contracts import CONTRACTS, UnknownSizeError  # noqa: E402
from aiter_prebuilt.tracing.signatures import load  # noqa: E402


class _Known:
    """Dims that a signature names; any other is an error that no rule catches."""

    def __init__(self, symbols: set[str]) -> None:
        self._symbols = symbols

    def __getattr__(self, name: str) -> int:
        assert name in self._symbols, name
        return 4


class _AnyCall:
    columns = 4

    def __init__(self, name: str) -> None:
        self._tensors = {tensor.name for tensor in load()[name].tensors}
        self.sizes = _Known({dim for tensor in load()[name].tensors for dim in tensor.dims})

    def values(self, tensor: str) -> list[int] | None:
        assert tensor in self._tensors, tensor
        return None if tensor == "block_table" else [0, 0]


@pytest.mark.parametrize("name", CONTRACTS)
def test_contracts_name_what_signatures_have(name: str) -> None:
    tensors = {tensor.name: tensor for tensor in load()[name].tensors}
    for tensor, rule in CONTRACTS[name].items():
        assert tensors[tensor].role != "out"
        call: Any = _AnyCall(name)
        rule.problem([0, 0], call)
        assert rule.wanted(call)


def given(name: str, **tensors: Any) -> list[Any]:
    """The native call's tensors, None where ``tensors`` names none."""
    return [tensors.get(tensor.name) for tensor in load()[name].tensors]


def ints(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def experts(mask: Any, local: Any = None) -> list[Any]:
    """Of six experts four are here."""
    return given(
        "fused_experts", hidden_states=torch.zeros(3, 64), w1=torch.zeros(4, 64, 64), w2=torch.zeros(4, 64, 32),
        topk_ids=torch.zeros(3, 2, dtype=torch.int32), expert_mask=mask, num_local_tokens=local,
    )  # fmt: skip


def pages(table: list[list[int]], lengths: list[int]) -> list[Any]:
    """Five pages of four keys."""
    cache = torch.zeros(5, 4, 1, 8)
    return given(
        "paged_attention_v1", query=torch.zeros(len(lengths), 1, 8), key_cache=cache, value_cache=cache,
        block_tables=torch.tensor(table, dtype=torch.int32), context_lens=ints(*lengths),
    )  # fmt: skip


def listed(starts: list[int], numbers: list[int]) -> list[Any]:
    cache = torch.zeros(5, 4, 1, 8)
    return given(
        "paged_attention_ragged", query=torch.zeros(len(starts) - 1, 1, 8), key_cache=cache, value_cache=cache,
        kv_indptr=ints(*starts), kv_page_indices=ints(*numbers), kv_last_page_lens=ints(*[1] * (len(starts) - 1)),
    )  # fmt: skip


def slots(*values: int) -> list[Any]:
    return given(
        "reshape_and_cache_flash", key=torch.zeros(len(values), 1, 8), key_cache=torch.zeros(5, 4, 1, 8),
        slot_mapping=torch.tensor(values, dtype=torch.int64),
    )  # fmt: skip


def rope_slots(*values: int, name: str = "fused_qk_norm_rope_cache_pts_quant_shuffle") -> list[Any]:
    """Three blocks of 16 tokens, as tiles."""
    return given(
        name, k_cache=torch.zeros(3, 2, 8, 16, 8),
        v_cache=torch.zeros(3, 2, 2, 64, 8), slot_mapping=torch.tensor(values, dtype=torch.int64),
    )  # fmt: skip


def index_slots(*values: int, indexer: tuple[int, ...] = (0,)) -> list[Any]:
    """Three blocks of 16 tokens, as tiles, and 40 rows of an indexer's cache."""
    return given(
        "fused_qknorm_idxrqknorm", kv_cache_k=torch.zeros(3, 2, 16, 16, 8), kv_cache_v=torch.zeros(3, 2, 2, 128, 8),
        index_cache=torch.zeros(40, 128), slot_mapping=torch.tensor(values, dtype=torch.int64),
        index_slot_mapping=torch.tensor(indexer, dtype=torch.int64),
    )  # fmt: skip


def latent(starts: list[int], last: list[int]) -> list[Any]:
    """Two sequences, of pages of four keys."""
    return given(
        "mla_decode_fwd", q=torch.zeros(2, 1, 8), kv_buffer=torch.zeros(5, 4, 1, 8), qo_indptr=ints(0, 1, 2),
        kv_indptr=ints(*starts), kv_indices=ints(0, 1, 2), kv_last_page_lens=ints(*last),
    )  # fmt: skip


def smoothed(*rows: int) -> list[Any]:
    """Two rows of smooth_scale."""
    return given(
        "smooth_per_token_scaled_quant", input=torch.zeros(len(rows), 64), smooth_scale=torch.zeros(2, 64),
        smooth_scale_map=ints(*rows),
    )  # fmt: skip


def batched(positions: list[int], offsets: list[int]) -> list[Any]:
    """A table of ten rows."""
    return given(
        "batched_rotary_embedding", query=torch.zeros(len(positions), 8), cos_cache=torch.zeros(10, 4),
        positions=torch.tensor(positions), cos_sin_cache_offsets=torch.tensor(offsets),
    )  # fmt: skip


def offset(positions: list[int], offsets: list[int]) -> list[Any]:
    """A table of ten rows."""

    def rows(values: list[int]) -> Any:
        return torch.tensor(values, dtype=torch.int64).view(-1, 1)

    return given(
        "rope_cached_positions_offsets_fwd_impl",
        cos=torch.zeros(10, 1, 1, 8),
        positions=rows(positions),
        offsets=rows(offsets),
    )


def packed(queries: list[int], keys: list[int]) -> list[Any]:
    return given(
        "fmha_v3_varlen_fwd", q=torch.zeros(7, 1, 8), k=torch.zeros(9, 1, 8), cu_seqlens_q=ints(*queries),
        cu_seqlens_k=ints(*keys),
    )  # fmt: skip


_SECTIONS = "fused_qk_norm_mrope_3d_cache_pts_quant_shuffle"
RIGHT = [
    ("fused_experts", experts(ints(1, 0, 1, 1, 0, 1))), ("fused_experts", experts(None, ints(0))),
    ("paged_attention_v1", pages([[4, 0], [2, 77]], [8, 3])), ("paged_attention_v1", pages([[-9, -9]], [0])),
    ("paged_attention_v1", pages([[]], [0])),
    ("paged_attention_ragged", listed([0, 2, 2], [4, 0, 99])), ("reshape_and_cache_flash", slots(-1, 0, 19)),
    ("fmha_v3_varlen_fwd", packed([0, 3, 7], [0, 0, 8])),
    ("fused_qk_norm_rope_cache_pts_quant_shuffle", rope_slots(-1, 0, 47)),
    (_SECTIONS, rope_slots(-1, 0, 47, name=_SECTIONS)),
    ("fused_qknorm_idxrqknorm", index_slots(-1, 0, 47)),
    ("mla_decode_fwd", latent([0, 2, 3], [1, 4])), ("mla_decode_fwd", latent([1, 1, 3], [0, 4])),
    ("rope_cached_positions_offsets_fwd_impl", offset([0, 9, 12], [9, 0, -3])),
    ("rope_thd_fwd_impl", given("rope_thd_fwd_impl", input=torch.zeros(5, 1, 8), cu_seqlens=ints(0, 3, 5))),
    ("fp8_mqa_logits", given("fp8_mqa_logits", KV=torch.zeros(6, 8), cu_starts=ints(0, 0), cu_ends=ints(0, 6))),
    ("smooth_per_token_scaled_quant", smoothed(0, -1, 1)), ("batched_rotary_embedding", batched([0, 3], [9, 6])),
]  # fmt: skip
WRONG = [
    ("fused_experts", experts(ints(-1, 0, 1, 2, -1, 3)), "expert_mask", "element 0 is -1", "0 or 1, with 4 ones"),
    ("fused_experts", experts(ints(1, 1, 1, 1, 1, 1)), "expert_mask", "6 elements are 1", "with 4 ones"),
    ("fused_experts", experts(None, ints(-1)), "num_local_tokens", "element 0 is -1", "at least 0"),
    ("paged_attention_v1", pages([[4, 5]], [5]), "block_tables", "element [0, 1] is 5", "pages from 0 to 4"),
    ("paged_attention_v1", pages([[4, 0]], [9]), "block_tables", "row 0 has 2 pages of 4", "enough for context_lens"),
    ("paged_attention_v1", pages([[], []], [0, 5]), "block_tables", "row 1 has 0 pages of 4", "enough for context_lens"),
    ("paged_attention_v1", pages([[4, 0]], [-1]), "context_lens", "element 0 is -1", "at least 0"),
    ("paged_attention_ragged", listed([0, 2], [4, -1]), "kv_page_indices", "element 1 is -1", "from 0 to 4"),
    ("paged_attention_ragged", listed([0, 4], [4, 0, 1]), "kv_indptr", "the last element is 4", "to at most 3"),
    ("reshape_and_cache_flash", slots(0, 20), "slot_mapping", "element 1 is 20", "at least -1 and at most 19"),
    (
        "fused_qk_norm_rope_cache_pts_quant_shuffle", rope_slots(0, 48), "slot_mapping", "element 1 is 48",
        "at least -1 and at most 47",
    ),
    (
        _SECTIONS, rope_slots(0, 48, name=_SECTIONS), "slot_mapping", "element 1 is 48", "at least -1 and at most 47",
    ),
    (
        _SECTIONS, given(_SECTIONS, cos_sin=torch.zeros(9, 8), positions=torch.tensor([[0, 8], [1, 2], [3, 9]])),
        "positions", "element 5 is 9", "at least 0 and at most 8",
    ),
    ("fused_qknorm_idxrqknorm", index_slots(0, 48), "slot_mapping", "element 1 is 48", "at least -1 and at most 47"),
    (
        "fused_qknorm_idxrqknorm", index_slots(0, 5, indexer=(3, 40)), "index_slot_mapping", "element 1 is 40",
        "at least -1 and at most 39",
    ),
    ("mla_decode_fwd", latent([0, 2, 3], [0, 4]), "kv_last_page_lens", "element 0 is 0", "from 1 to 4"),
    ("mla_decode_fwd", latent([0, 2, 3], [1, 5]), "kv_last_page_lens", "element 1 is 5", "from 1 to 4"),
    (
        "rope_cached_positions_offsets_fwd_impl", offset([0, 9], [0, 1]), "positions", "element 1 is 9, and offsets has 1",
        "at least 0 and at most 9",
    ),
    (
        "rope_thd_fwd_impl", given("rope_thd_fwd_impl", input=torch.zeros(5, 1, 8), cu_seqlens=ints(0, 3, 6)), "cu_seqlens",
        "the last element is 6", "to at most 5",
    ),
    (
        "fp8_mqa_logits", given("fp8_mqa_logits", KV=torch.zeros(6, 8), cu_starts=ints(0), cu_ends=ints(7)), "cu_ends",
        "element 0 is 7", "at most 6",
    ),
    ("fused_experts", experts(None, ints(4)), "num_local_tokens", "element 0 is 4", "at most 3"),
    (
        "partial_transpose", given("partial_transpose", input=torch.zeros(4, 8), num_rows=ints(5)), "num_rows",
        "element 0 is 5", "at least 0 and at most 4",
    ),
    (
        "deepgemm", given("deepgemm", XQ=torch.zeros(2, 5, 32), group_layout=ints(5, 6)), "group_layout", "element 1 is 6",
        "at least 0 and at most 5",
    ),
    *(
        (name, given(name, probs=torch.zeros(2, 8), indices=ints(0, -1, 2)), "indices", "element 2 is 2", "at most 1")
        for name in ("top_p_sampling_from_probs", "top_k_top_p_sampling_from_probs")
    ),
    ("smooth_per_token_scaled_quant", smoothed(0, 2), "smooth_scale_map", "element 1 is 2", "at most 1"),
    (
        "batched_rotary_embedding", batched([0, 3], [9, 7]), "positions", "element 1 is 3, and cos_sin_cache_offsets has 7",
        "at least 0 and at most 9",
    ),
    ("fmha_v3_varlen_fwd", packed([5, 6, 7], [0, 1, 2]), "cu_seqlens_q", "element 0 is 5", "never falling, from 0"),
    ("fmha_v3_varlen_fwd", packed([0, 4, 3], [0, 1, 2]), "cu_seqlens_q", "element 2 is 3", "never falling"),
    ("fmha_v3_varlen_fwd", packed([0, 4, 7], [0, 1, 10]), "cu_seqlens_k", "the last element is 10", "at most 9"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tensors"), RIGHT)
def test_accepts_what_the_contract_allows(name: str, tensors: list[Any]) -> None:
    value_checks.check(name, tensors)


@pytest.mark.parametrize(("name", "tensors", "tensor", "found", "wanted"), WRONG)
def test_refuses_what_the_contract_does_not_allow(
    name: str, tensors: list[Any], tensor: str, found: str, wanted: str
) -> None:
    with pytest.raises(ArgumentValueError) as error:
        value_checks.check(name, tensors)
    assert error.value.asked == f"{name}({tensor}=...)"
    assert found in error.value.found and wanted in error.value.fix
    assert isinstance(error.value, ArgumentError)


def test_an_operator_is_the_native_one_unless_the_variable_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    native = pytest.importorskip("aiter_prebuilt._native")
    monkeypatch.delenv(errors.CHECK, raising=False)
    make: Any = dispatch.operator.__wrapped__
    assert type(make("fused_experts")) is native.Operator
    monkeypatch.setenv(errors.CHECK, "1")
    assert type(make("fused_experts")) is value_checks.Checked
    assert type(make("silu_and_mul")) is native.Operator


def test_a_view_of_the_operator_is_a_view_of_the_check() -> None:
    """Pages [NB, HK, PS, D] that the native side sees as [NB, PS, HK, D]."""
    tensors = pages([[4, 0]], [8])
    tensors[1] = torch.zeros(5, 3, 4, 8)
    views = (("order", 1, 4, (0, 2, 1, 3)),)
    tensors[2] = None
    value_checks.check("paged_attention_v1", tensors, views)
    with pytest.raises(ArgumentValueError, match="row 0 has 2 pages of 3"):
        value_checks.check("paged_attention_v1", tensors)


def test_a_size_that_no_tensor_has_is_no_error() -> None:
    sizes = value_checks._Sizes({"M": 3})
    assert sizes.M == 3
    with pytest.raises(UnknownSizeError):
        _ = sizes.N
    tensors = given("fused_experts", expert_mask=ints(1, 0))
    value_checks.check("fused_experts", tensors)


@pytest.mark.parametrize(("value", "on"), [("", False), ("0", False), ("1", True), (" 1 ", True)])
def test_the_variable_says_whether(value: str, on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(errors.CHECK, value)
    assert value_checks.enabled() is on


def test_another_value_of_the_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(errors.CHECK, "yes")
    with pytest.raises(UnsupportedError, match="AITER_PREBUILT_CHECK=yes: the value must be 0 or 1"):
        value_checks.enabled()


class _Operator:
    """Stands for a native operator."""

    views: tuple[Any, ...] = ()
    name = "fused_experts"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *args: Any, **options: Any) -> None:
        self.calls += 1

    def viewing(self, views: Any) -> _Operator:
        made = _Operator()
        made.views = views
        return made


def test_nothing_is_launched_where_a_value_is_wrong() -> None:
    native: Any = _Operator()
    checked = value_checks.Checked("fused_experts", native)
    checked(*experts(ints(1, 0, 1, 1, 0, 1)), 0, False, stream=0)
    assert native.calls == 1
    for each in (checked, checked.viewing((("bytes", 1, "u8"),))):
        with pytest.raises(ArgumentValueError):
            each(*experts(ints(0, 1, 2, 3, -1, -1)), 0, False)
    assert native.calls == 1 and checked.name == "fused_experts"
