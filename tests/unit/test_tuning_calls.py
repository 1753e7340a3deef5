"""Native calls in words, calls of a miss log, and lists that are spread evenly."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.bundles import small_operator

from aiter_prebuilt.contract.records import DIM_BIND, Attribute, Dim
from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.errors import MissLogError, UnsupportedError
from aiter_prebuilt.inspection.decisions import describe
from aiter_prebuilt.tuning import calls
from aiter_prebuilt.tuning.calls import TuneCall, _viewed, of_miss_log, words_of
from aiter_prebuilt.tuning.spread import integers

FACTS = DeviceFacts("amd", 0, "X", "gfx942", "gfx942", frozenset(), 304, 1, 1)
BASE = small_operator("op")
M, N, CUS = (Dim(DIM_BIND, slot, b"") for slot in range(3))


def test_words_say_a_call_and_describe_it_again() -> None:
    settings = {"M": "3", "N": "5", "eps": "0.5", "x.align": "16"}
    tensors, attributes, _ = describe(BASE, settings)
    words = words_of(BASE, tensors, attributes)
    assert words == {"M": "3", "N": "5", "x.align": "16", "eps": "0.5"}
    assert describe(BASE, words)[:2] == (tensors, attributes)


def test_what_is_usual_is_not_said() -> None:
    assert words_of(BASE, *describe(BASE, {"M": "3", "N": "5"})[:2]) == {"M": "3", "N": "5"}


def test_strides_are_said_where_they_are_not_dense() -> None:
    strided = replace(
        BASE, tensors=(BASE.tensors[0], replace(BASE.tensors[1], strides=(CUS, Dim(0, 0, b""))))
    )
    given = {"M": "3", "N": "5", "CUS": "9"}
    assert words_of(strided, *describe(strided, given)[:2]) == given
    assert words_of(strided, *describe(strided, {**given, "CUS": "5"})[:2]) == {"M": "3", "N": "5"}


def test_leading_dims_of_a_starred_tensor_are_one() -> None:
    starred = replace(BASE, tensors=tuple(replace(each, star=1) for each in BASE.tensors))
    tensor = (1 << 40, "f32", (2, 3, 5), (15, 5, 1), ("amd", 0))
    assert words_of(starred, [tensor, tensor], [1.0]) == {"M": "6", "N": "5"}


@pytest.mark.parametrize(
    ("kind", "default", "value", "said"),
    [
        (0, "", 0, {}), (0, "", 7, {"a": "7"}), (1, "true", True, {}), (1, "", True, {"a": "true"}), (2, "", 1.0, {}),
        (3, "", "first", {}), (3, "", "other", {"a": "other"}), (4, "none", None, {}), (4, "none", "t", {"a": "t"}),
    ],
)  # fmt: skip
def test_options_are_said_where_they_are_not_the_default(
    kind: int, default: str, value: Any, said: dict[str, str]
) -> None:
    operator = replace(BASE, attributes=(Attribute("a", default, kind, 0, ("first", "other")),))
    tensors = describe(operator, {"M": "1", "N": "1"})[0]
    assert words_of(operator, tensors, [value]) == {"M": "1", "N": "1", **said}


def test_views_are_looked_through() -> None:
    tensor = (64, "e4m3fn", (2, 3, 8), (24, 8, 1), ("amd", 0))
    assert _viewed([tensor], (("order", 0, 3, (1, -1, 0, 2)),))[0][2:4] == ((3, 1, 2, 8), (8, 1, 24, 1))
    assert _viewed([tensor], (("split", 0, 4),))[0][2:4] == ((2, 3, 2, 4), (24, 8, 4, 1))
    assert _viewed([tensor], (("bytes", 0, "e4m3fn"),))[0][1] == "u8"
    assert _viewed([None], (("split", 0, 4),)) == [None]


def miss(**changes: Any) -> str:
    row = {"version": 1, "operator": "op", "target": "gfx942", "cus": 304, "call": {"M": "3", "N": "5"}}
    return json.dumps({**row, **changes})


def test_a_miss_log_is_read_once_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join([miss(), "", miss(), miss(cus=80), miss(call={"M": "3"})]) + "\n")
    monkeypatch.setattr(calls, "_block", lambda *_: (BASE, 304))
    found, left = of_miss_log(log, FACTS)
    assert found == [TuneCall("op", (("M", "3"), ("N", "5")))] and found[0].words == "op M=3 N=5"
    assert [each.problem.partition(".")[0] for each in left] == [
        "it was called on gfx942 with 80 compute units, not on this device", "op: N must be given",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "it is no miss"), ("[]", "it is no miss"), (miss(version=2), "its version is 2, this program reads 1"),
        (json.dumps({"version": 1, "operator": "op"}), "it has no 'call'"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_miss_is_refused(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "log").write_text(line + "\n")
    with pytest.raises(MissLogError, match=said) as refused:
        of_miss_log(tmp_path / "log", FACTS)
    assert refused.value.asked == f"read the miss log {tmp_path / 'log'}, line 1"


def test_a_log_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissLogError, match="Name a file that AITER_PREBUILT_MISS_LOG wrote"):
        of_miss_log(tmp_path / "none", FACTS)


def lists(
    operator: str, *tensors: tuple[str, str, tuple[int, ...], tuple[str, ...]], **options: int
) -> dict[str, list[int]]:
    """The values of the integer tensors among some, each given as name, element type, shape and the names of its dims."""
    slots = tuple(dict.fromkeys(name for *_, names in tensors for name in names))
    specs = tuple(
        replace(BASE.tensors[1], name=name, dims=tuple(Dim(DIM_BIND, slots.index(dim), b"") for dim in names))
        for name, *_, names in tensors
    )
    attributes = tuple(Attribute(name, "", 0, 0, ()) for name in options)
    block = replace(BASE, name=operator, tensors=specs, slots=slots, attributes=attributes)
    described = [(0, kind, shape, (), ("amd", 0)) for _, kind, shape, _ in tensors]
    made = integers(block, described, list(options.values()))
    return {
        tensors[place][0]: list(struct.unpack(f"<{len(data) // 4}i", data)) for place, data in made.items()
    }


def test_experts_are_chosen_evenly() -> None:
    weights = ("w1", "bf16", (4, 8), ("E", "H"))
    found = lists("fused_experts", ("topk_ids", "i32", (3, 2), ("M", "topk")), weights)
    assert found == {"topk_ids": [0, 1, 2, 3, 0, 1]}


def test_sequences_and_their_pages_are_spread_evenly() -> None:
    found = lists(
        "unified_attention", ("q", "bf16", (8, 2), ("SQ", "HQ")), ("cache", "bf16", (6, 16), ("NB", "PS")),
        ("cu_seqlens_q", "i32", (3,), ("starts",)), ("seqused_k", "i32", (2,), ("S",)),
        ("block_table", "i32", (2, 4), ("S", "MB")),
    )  # fmt: skip
    assert found == {
        "cu_seqlens_q": [0, 4, 8], "seqused_k": [64, 64], "block_table": [0, 1, 2, 3, 4, 5, 0, 1],
    }  # fmt: skip


def test_lengths_are_no_longer_than_an_option_allows() -> None:
    cache, table = ("cache", "bf16", (6, 16), ("NB", "PS")), ("block_table", "i32", (2, 4), ("S", "MB"))
    lengths = ("seqused_k", "i32", (2,), ("S",))
    assert lists("unified_attention", cache, table, lengths, max_seqlen_k=40)["seqused_k"] == [40, 40]
    assert lists("unified_attention", cache, table, lengths, max_seqlen_k=0)["seqused_k"] == [64, 64]


def test_starts_of_pages_are_refused() -> None:
    queries = ("q", "bf16", (8, 2), ("SQ", "HQ"))
    starts, table = ("cu_seqlens_k", "i32", (3,), ("starts",)), ("block_table", "i32", (2, 4), ("S", "MB"))
    keys = ("k", "bf16", (6, 16), ("NB", "SK"))
    assert lists("flash_attn_varlen_func", queries, starts, keys) == {"cu_seqlens_k": [0, 8, 16]}
    with pytest.raises(UnsupportedError, match="cu_seqlens_k"):
        lists("flash_attn_varlen_func", queries, starts, keys, table)


def test_slots_stay_below_their_number() -> None:
    cache = ("cache", "bf16", (2, 4), ("blocks", "block_size"))
    found = lists("reshape_and_cache", cache, ("slot_mapping", "i32", (10,), ("T",)))
    assert found == {"slot_mapping": [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]}


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("any", "other_ids"),
        ("any", "topk_ids"),
        ("rope_thd_fwd_impl", "cu_seqlens"),
        ("fp8_mqa_logits", "cu_ends"),
    ],
)
def test_lists_that_nobody_can_make_are_refused(operator: str, name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"Cannot time {operator}: the values of {name} \(i32\)"):
        lists(operator, (name, "i32", (2, 3), ("M", "topk")))
