"""Describing a call by its symbols: what `explain` hands to the native side."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest
from support.bundles import SCOPE, small_operator

from aiter_prebuilt.contract.expression import compile_expression
from aiter_prebuilt.contract.records import DIM_EXPRESSION, NONE8, Attribute, Dim, TypeVariable
from aiter_prebuilt.decisions import describe
from aiter_prebuilt.errors import ArgumentError


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


def test_enum_and_bool_attributes() -> None:
    attributes = (Attribute("mode", "exact", 3, 0, ("fast", "exact")), Attribute("flag", "false", 1, 0, ()))
    operator = replace(small_operator("x"), attributes=attributes)
    assert describe(operator, {"M": "1", "N": "1"})[1] == ["exact", 0]
    assert describe(operator, {"M": "1", "N": "1", "mode": "fast", "flag": "true"})[1] == ["fast", 1]


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"M": "1"}, "N is missing"),
        ({"M": "1", "N": "1", "Q": "1"}, "Q is not a symbol"),
        ({"M": "one", "N": "1"}, "not an integer"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, str], part: str) -> None:
    with pytest.raises(ArgumentError, match=part):
        describe(small_operator("x"), settings)


def test_symbols_may_stand_behind_options(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiter_prebuilt import __main__ as command
    from aiter_prebuilt.commands import explain as verb

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
