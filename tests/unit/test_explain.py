"""Describing a call by its symbols: what `explain` hands to the native side."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest
from support.bundles import SCOPE, small_operator

from aiter_prebuilt import __main__ as command
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.commands import explain as verb
from aiter_prebuilt.commands.output import wrapped
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.expression import compile_expression
from aiter_prebuilt.contract.records import DIM_EXPRESSION, NONE8, Attribute, Dim, TypeVariable
from aiter_prebuilt.errors import MOST_LINES, AiterPrebuiltError, ArgumentError
from aiter_prebuilt.inspection.decisions import Explanation, describe, refuse_unknown


def test_tensors_follow_the_symbols() -> None:
    tensors, attributes, call = describe(small_operator("x"), {"M": "3", "N": "5", "eps": "0.5"})
    assert [tensor[1:4] for tensor in tensors] == [("f32", (3, 5), (5, 1))] * 2
    assert all(tensor[0] % 256 == 0 for tensor in tensors) and tensors[0][0] != tensors[1][0]
    assert attributes == [0.5]
    assert call["symbols"] == {"M": 3, "N": 5}


def test_alignment_types_and_absence() -> None:
    operator = small_operator("x")
    doubled = Dim(DIM_EXPRESSION, 0, compile_expression("N * 2", SCOPE))
    second = replace(operator.tensors[1], optional=1, type_var=0, dims=(operator.tensors[1].dims[0], doubled))
    operator = replace(
        operator, tensors=(operator.tensors[0], second), type_variables=(TypeVariable("T", (7, 6)),)
    )
    tensors, _, call = describe(operator, {"M": "3", "N": "5", "T": "f16", "out.align": "4"})
    assert tensors[0][0] % 8 == 4
    assert tensors[1][1:3] == ("f16", (3, 10))
    assert call["types"] == {"T": "f16"}
    assert describe(operator, {"M": "3", "N": "5", "x": "none"})[0][1] is None
    assert second.type_var != NONE8


@pytest.mark.parametrize("own", ["e4m3fn", "e4m3fnuz"])
def test_a_type_has_the_words_of_the_documents_of_torch_and_of_the_tables(own: str) -> None:
    """``fp8`` is what the signature says; which that is goes by the target that the operator was built for."""
    made = tuple(dtype.BY_NAME[kind].number for kind in ("bf16", "f16", own))
    operator = replace(small_operator("x"), type_variables=(TypeVariable("T", made),))

    def said(word: str) -> str:
        kind = describe(operator, {"M": "3", "N": "5", "T": word})[2]["types"]["T"]
        assert isinstance(kind, str)
        return kind

    for word in ("fp8", own, f"float8_{own}"):
        assert said(word) == own
    assert [said(word) for word in ("f16", "fp16", "float16", "bf16", "bfloat16", "")] == ["f16"] * 3 + [
        "bf16"
    ] * 3
    other = {"e4m3fn": "e4m3fnuz", "e4m3fnuz": "e4m3fn"}[own]
    for word in (other, "fp4", "FP8"):
        with pytest.raises(
            ArgumentError, match=rf"T must be one of bf16, f16, fp8 \({own}\)\. For example: T=bf16"
        ):
            said(word)
    operator = replace(operator, type_variables=(TypeVariable("T", made[:2]),))
    with pytest.raises(ArgumentError, match=r"T must be one of bf16, f16\."):
        said("fp8")


def decision(place: int, near: int, reason: str) -> dict[str, object]:
    return {
        "kernel": "k", "backend": "hip", "variant": f"v{place}", "types": {}, "rank": 0, "accepted": False, "chosen": False,
        "reason": reason, "near": near, "cost": None, "tuned": False, "row": "", "us": "", "source": "",
        "workspace": 0, "steps": [],
    }  # fmt: skip


@pytest.mark.parametrize("count", [2, 12, 13, 40])
def test_the_nearest_candidate_is_told_first(
    count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stands last in the order here, with a reason of its own."""
    far = [decision(place, place + 1, "needs M > 8, and M = 3") for place in range(count - 1)]
    call = {"types": {}, "symbols": {"M": 3}, "absent": []}
    found = Explanation("op", "gfx942", 304, call, (*far, decision(count - 1, 0, "needs aligned(x, 16)")), ())
    monkeypatch.setattr(verb, "explain", lambda *words: found)
    assert command.main(["explain", "op", "M=3", "--target", "gfx942"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"no kernel fits; the nearest is k[v{count - 1}]: needs aligned(x, 16)"
    if count > MOST_LINES:
        assert lines[-3:-1] == [
            f"  1 of {count} candidates (k[v{count - 1}]): needs aligned(x, 16)",
            f"  {count - 1} of {count} candidates (k[v0], ...): needs M > 8, and M = 3",
        ]
    else:
        assert [line.split()[3] for line in lines[2:-1]] == [f"v{place}" for place in range(count)]


def test_times_of_a_users_rows_stand_beside_the_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = {"types": {}, "symbols": {"M": 3}, "absent": []}
    plain = {**decision(0, -1, "accepted"), "accepted": True}
    timed = {**decision(1, -1, "named"), "accepted": True, "chosen": True, "us": "7.5", "source": "modelled"}
    for decisions, column in (((plain, timed), True), ((plain, {**timed, "us": "", "source": ""}), False)):
        found = Explanation("op", "gfx942", 304, call, decisions, ())
        monkeypatch.setattr(verb, "explain", lambda *words, found=found: found)
        assert command.main(["explain", "op", "M=3", "--target", "gfx942"]) == 0
        header, first, second = capsys.readouterr().out.splitlines()[1:4]
        assert ("us" in header.split()) is ("7.5 modelled" in second) is column
        assert "modelled" not in first


@pytest.mark.parametrize("others", [0, 1])
def test_the_chosen_kernel_is_said_last(
    others: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what its costs compare, where another one would work, and what it launches."""
    call = {"types": {"T": "bf16"}, "symbols": {"M": 3}, "absent": []}
    plain = {**decision(0, -1, "dearer"), "accepted": True, "cost": 9}
    step = {
        "symbol": "k_small",
        "entry": "a1",
        "grid": [3, 1, 1],
        "block": [256, 1, 1],
        "lds": 16,
        "sha256": "8ec6" * 16,
    }
    chosen = {
        **decision(1, -1, "the cheapest"),
        "accepted": True, "chosen": True, "cost": 5, "steps": [step], "workspace": 64,
    }  # fmt: skip
    found = Explanation("op", "gfx942", 304, call, (*[plain] * others, chosen), ())
    monkeypatch.setattr(verb, "explain", lambda *words: found)
    assert command.main(["explain", "op", "M=3", "--target", "gfx942"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "op on gfx942 with 304 compute units: T=bf16 M=3"
    decided = (
        "the cost 5, the lowest of 2 variants of k, which the order puts first"
        if others
        else "nothing else takes the call"
    )
    compared = ["Costs compare variants of one kernel only; between kernels the order decides."]
    assert lines[lines.index("Chosen: k[v1] (hip)") :] == [
        "Chosen: k[v1] (hip)",
        *wrapped(f"Decided by: {decided}"),
        *compared * others,
        "launch k_small (a1): grid 3x1x1, block 256x1x1, LDS 16, sha256 8ec68ec68ec68ec6",
        "workspace 64 bytes",
    ]


def test_enum_and_bool_attributes() -> None:
    attributes = (Attribute("mode", "exact", 3, 0, ("fast", "exact")), Attribute("flag", "false", 1, 0, ()))
    operator = replace(small_operator("x"), attributes=attributes)
    assert describe(operator, {"M": "1", "N": "1"})[1] == ["exact", 0]
    assert describe(operator, {"M": "1", "N": "1", "mode": "fast", "flag": "true"})[1] == ["fast", 1]


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"M": "1"}, "N must be given"),
        ({"M": "1", "N": "1", "Q": "1"}, "it has no symbol Q"),
        ({"M": "one", "N": "1"}, "must be an integer"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, str], part: str) -> None:
    with pytest.raises(ArgumentError, match=part):
        describe(small_operator("x"), settings)


def test_symbols_may_stand_behind_options(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def execute(options: argparse.Namespace) -> int:
        seen.update(vars(options))
        return 0

    monkeypatch.setattr(verb, "execute", execute)
    assert command.main(["explain", "rms_norm", "M=3", "--target", "gfx942", "N=4", "T=f16"]) == 0
    assert seen["call"] == ["M=3", "N=4", "T=f16"] and seen["target"] == "gfx942"
    with pytest.raises(SystemExit):
        command.main(["explain", "rms_norm", "M=3", "--targt=gfx942"])
    with pytest.raises(SystemExit):
        command.main(["list", "M=3"])


def test_a_symbol_is_given_once() -> None:
    assert verb.settings_of("explain", ["M=17", "N=18"]) == {"M": "17", "N": "18"}
    with pytest.raises(ArgumentError, match="M is given twice, as 17 and 18"):
        verb.settings_of("explain", ["M=17", "M=18"])


def test_a_public_name_is_known_without_a_read_of_any_bundle() -> None:
    """A damaged bundle of another target keeps nobody from an explanation."""
    damaged = InstalledBundle("/nowhere/gfx950-ck-free.apb", "gfx950", "ck-free")
    refuse_unknown("rms_norm", [damaged])
    with pytest.raises(AiterPrebuiltError, match="/nowhere"):
        refuse_unknown("rms_nrom", [damaged])
