"""A plan of ``mla_decode_fwd`` launches what the function launches."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import UnsupportedError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402

MODULE: Any = sys.modules[ap.mla_decode_fwd.__module__]
BF16, F8 = torch.bfloat16, torch.float8_e4m3fn
NAMES = (
    "q", "kv_buffer", "o", "qo_indptr", "kv_indptr", "kv_indices", "kv_last_page_lens", "max_seqlen_q", "page_size",
    "nhead_kv", "sm_scale", "logit_cap", "num_kv_splits", "work_indptr", "work_info_set", "reduce_indptr",
    "reduce_final_map", "reduce_partial_map", "q_scale", "kv_scale", "g_kv_indptr", "return_lse", "cp_world_size",
    "cp_rank", "causal",
)  # fmt: skip


def asked(heads: int, kind: Any, present: bool, **options: Any) -> dict[str, Any]:
    """Three batches of one query; ``present``: scales and some lists of works are there."""
    maybe = [torch.zeros(size, dtype=torch.int32) if present else None for size in (2, 3)]
    given = {
        "q": torch.zeros(3, heads, 576, dtype=torch.uint8 if kind == F8 else BF16).view(kind),
        "kv_buffer": torch.zeros(9, 1, 1, 576, dtype=BF16), "o": torch.zeros(3, heads, 512, dtype=BF16),
        "qo_indptr": torch.zeros(4, dtype=torch.int32), "kv_indptr": torch.zeros(4, dtype=torch.int32),
        "kv_indices": torch.zeros(9000, dtype=torch.int32), "kv_last_page_lens": torch.zeros(3, dtype=torch.int32),
        "max_seqlen_q": 1, "page_size": 1, "nhead_kv": 1, "sm_scale": None, "logit_cap": 0.0, "num_kv_splits": None,
        "work_indptr": maybe[0], "work_info_set": maybe[1], "reduce_indptr": None, "reduce_final_map": None,
        "reduce_partial_map": None, "q_scale": torch.zeros(1) if present else None,
        "kv_scale": torch.zeros(1) if present else None,
        "g_kv_indptr": torch.zeros(4, dtype=torch.int32) if present else None, "return_lse": False, "cp_world_size": 1,
        "cp_rank": 0, "causal": True,
    } | options  # fmt: skip
    assert tuple(given) == NAMES
    return given


def plan_of(given: dict[str, Any]) -> Any:
    """As the native side asks for it."""
    kinds: str = MODULE._KINDS
    values = [*given.values(), MODULE._mla_decode_fwd]
    assert len(kinds) == len(values)
    hidden = (
        True if kind == "p" and each is not None else each for kind, each in zip(kinds, values, strict=True)
    )
    return MODULE._plan(*hidden)


@pytest.mark.parametrize("heads", [16, 32, 128])
@pytest.mark.parametrize("kind", [BF16, F8])
def test_a_plan_launches_what_the_function_does(
    heads: int, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of contexts, scales, caps and optional tensors in turn."""
    monkeypatch.setattr(MODULE, "compute_units", lambda tensor: 256)
    options: tuple[dict[str, Any], ...] = (
        {}, {"num_kv_splits": 1}, {"num_kv_splits": 7}, {"sm_scale": 0.25}, {"logit_cap": 30.0}, {"logit_cap": -1.0},
        {"return_lse": True}, {"causal": False}, {"max_seqlen_q": 3}, {"cp_rank": 5}, {"cp_world_size": 4, "cp_rank": 3},
    )  # fmt: skip
    for present, more in product((False, True), options):
        if more.get("cp_world_size") and not present:
            continue  # the mask of several ranks needs the lengths of whole sequences
        given = asked(heads, kind, present, **more)
        makings, launches, answers = plan_of(given)
        values = list(given.values())
        made = [function(*arguments) for function, arguments, *_ in makings]

        def item(said: Any, values: Any = values, made: Any = made) -> Any:
            if not isinstance(said, tuple):
                return said
            return values[said[0]] if said[0] >= 0 else made[-1 - said[0]]

        seen: list[Any] = []
        with instead(
            ap.mla_decode_fwd, lambda operator, *more, seen=seen: seen.append((operator.name, *more))
        ):
            results = ap.mla_decode_fwd(**given)
        ((name, tensors, attributes),) = seen
        ((operator, items),) = launches
        assert operator.name == name and len(items) == len(tensors) + len(attributes)
        for own, other in zip(
            [*tensors, *attributes, *results], [*map(item, [*items, *answers])], strict=True
        ):
            if isinstance(own, torch.Tensor):
                theirs = any(own is each for each in values)
                assert own is other if theirs else (own.shape, own.dtype) == (other.shape, other.dtype)
            else:
                assert type(own) is type(other) and own == other
        assert (results[0] is given["o"]) == (item(answers[0]) is given["o"])


def test_works_and_refusals_are_the_function_s() -> None:
    lists = {name: torch.zeros(4, 2, dtype=torch.int32) for name in NAMES[13:18]}
    assert plan_of(asked(16, BF16, False, **lists)) is None
    assert plan_of(asked(16, BF16, False, page_size=4)) is None


@pytest.mark.parametrize(
    ("option", "refused"),
    [
        ({"cp_world_size": 0}, r"cp_world_size=0.*1 to"), ({"cp_world_size": 1 << 30}, r"cp_world_size=1073741824.*1 to"),
        ({"cp_world_size": 4, "cp_rank": 4}, "cp_rank=4.*0 to 3"), ({"cp_world_size": 4, "cp_rank": -1}, "cp_rank=-1.*0 to 3"),
        ({"cp_world_size": 2, "g_kv_indptr": None}, "g_kv_indptr=None.*a tensor, as cp_world_size is 2"),
        ({"cp_world_size": 2, "page_size": 4}, "page_size=4.*1, as cp_world_size is 2"),
    ],
)  # fmt: skip
def test_refuses_ranks_that_have_no_mask(option: dict[str, Any], refused: str) -> None:
    given = asked(16, BF16, True, **option)
    with pytest.raises(UnsupportedError, match=refused):
        ap.mla_decode_fwd(**given)


def test_several_ranks_have_the_plan_of_their_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "compute_units", lambda tensor: 256)
    _, ((_, items),), _ = plan_of(asked(16, BF16, True, cp_world_size=4, cp_rank=3))
    assert items[14] == (20,) and items[-3:] == (4, 3, True)


def test_a_plan_is_of_the_operator_that_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands for it while somebody looks has no plan."""
    monkeypatch.setattr(MODULE, "compute_units", lambda tensor: 256)
    assert plan_of(asked(16, BF16, False)) is not None
    with instead(ap.mla_decode_fwd, lambda *_: None):
        assert plan_of(asked(16, BF16, False)) is None
