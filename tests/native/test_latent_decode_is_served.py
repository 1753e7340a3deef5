"""Several query tokens of a sequence in ``mla_decode_fwd``: numbers of heads, types, pages, with lists of works and without."""

from __future__ import annotations

import itertools

import pytest
from support.emulator import bundles

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.inspection import decisions
from aiter_prebuilt.ops._mla import own_heads, writes_result

KINDS = [("bf16", "bf16"), ("bf16", "fp8"), ("fp8", "fp8"), ("f16", "f16")]
LISTS = ("work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map", "reduce_partial_map")


def described(heads: int, queries: int, kinds: tuple[str, str], page: int, splits: int) -> dict[str, str]:
    """A call of three sequences, the last of which has a token less; no parts of a context mean lists."""
    tokens, narrow = 3 * queries - (queries > 1), kinds[0] == "fp8"
    own = heads if splits else own_heads(heads, queries, page)
    fold = heads // own
    sizes = {
        "T": tokens * fold, "FT": tokens * fold, "H": own, "FH": own, "LH": own, "B": 3, "N": 60, "P": 70, "PS": page,
        "kv_p": 576 * page, "kv_s": 576, "max_seqlen_q": queries, "splits": max(splits, 1), "S": max(splits, 1), "fold": fold,
        "RT": 40 * fold if not splits else tokens, "capped": 0, "logs": 0, "causal": 1,
        "cp_world_size": 1, "cp_rank": 0, "W1": 257, "NW": 40, "G1": 9, "M": 10,
    }  # fmt: skip
    absent: tuple[str, ...] = ("g_kv_indptr", *(LISTS if splits else ()))
    if splits == 1 and writes_result(1, heads, queries, narrow):
        absent = ("g_kv_indptr", *LISTS, "logits")
    unused = {"RT", "S", "LH"} if "logits" in absent else set()
    unused |= {"W1", "NW", "G1", "M"} if splits else set()
    sizes = {name: size for name, size in sizes.items() if name not in unused}
    types = {"TQ": kinds[0], "TK": kinds[1], "TO": "f16" if kinds[0] == "f16" else "bf16"}
    return {name: str(size) for name, size in sizes.items()} | types | dict.fromkeys(absent, "none")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_several_query_tokens_are_served(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = bundles(target, "ck-free")
    monkeypatch.setenv(locate.VARIABLE, ":".join(map(str, paths)))
    monkeypatch.delenv("AITER_PREBUILT_TUNED", raising=False)
    fp8 = "e4m3fnuz" if target == "gfx942" else "e4m3fn"
    # Read once: to read an operator's records for each of its explanations is most of the time.
    read = decisions.find_operator("mla_decode_fwd", locate.installed())
    monkeypatch.setattr(decisions, "find_operator", lambda *_: read)
    every = itertools.product((8, 16, 48, 128), (1, 2, 3, 4), KINDS, (1, 16, 64), (0, 1, 3))
    for heads, queries, kinds, page, splits in every:
        settings = described(heads, queries, kinds, page, splits)
        settings |= {name: fp8 for name, kind in settings.items() if kind == "fp8"}
        found = decisions.explain("mla_decode_fwd", settings, target, 256)
        chosen = [row["kernel"] for row in found.decisions if row["chosen"]]
        assert len(chosen) == 1 and ("listed" in chosen[0]) == (splits == 0), (settings, found.decisions)
