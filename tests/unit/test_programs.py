"""Bytecode that is compiled once: for whom it is kept, and for whom not."""

from __future__ import annotations

from typing import Any

import pytest
from support import planned

from aiter_prebuilt.contract.bytecode import evaluate
from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.real import compile_real
from build_tools.manifest.problems import Problems
from build_tools.plan import programs
from build_tools.plan.programs import code_of, constant_of


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str | int]:
    """The texts that were compiled."""
    made: list[str | int] = []

    def counted(text: str | int, scope: Scope) -> bytes:
        made.append(text)
        return compile_expression(text, scope)

    monkeypatch.setattr(programs, "compile_expression", counted)
    monkeypatch.setattr(programs, "_COMPILED", {})
    return made


def code(text: str | int | None, scope: Scope) -> bytes:
    problems = Problems()
    made = code_of(text, scope, problems)
    assert problems.lines == []
    return made


def test_one_text_of_one_signature_is_compiled_once(asked: list[str | int]) -> None:
    for constants in ({"B": 1, "C": 1}, {"B": 1, "C": 2}, {"B": 2, "C": 1}, {"B": 1}):
        assert evaluate(code("M * B", Scope({"M": 0}, constants, key="one")), (7,)) == 7 * constants["B"]
    assert asked == ["M * B"] * 2, "C does not stand in the text"
    assert evaluate(code("M * B", Scope({"N": 0, "M": 1}, {"B": 1}, key="two")), (7, 9)) == 9
    strings = [Scope({}, strings={"T": word}, key="one") for word in ("a", "b", "a")]
    assert [evaluate(code("T == 'a'", scope), ()) for scope in strings] == [1, 0, 1]
    assert len(asked) == 5


def test_what_has_no_key_is_compiled_each_time(asked: list[str | int]) -> None:
    """Nobody knows that the next one has the same slots."""
    scopes = [Scope({"M": 0, "N": 1}), Scope({"N": 0, "M": 1}), Scope({"M": 0, "N": 1})]
    assert [evaluate(code("M", scope), (5, 6)) for scope in scopes] == [5, 6, 5]
    assert asked == ["M"] * 3


def test_numbers_and_nothing(asked: list[str | int]) -> None:
    assert code(None, Scope({})) == b"" and asked == []
    assert constant_of(5, code(5, Scope({}, key="one")), Problems()) == 5
    problems = Problems()
    assert code_of("Z", Scope({"M": 0}, key="one"), problems, "when", 1) == b""
    assert problems.lines == ["when[1]: unknown name 'Z' (known: M) in 'Z'"]
    assert constant_of("1 // 0", code("1 // 0", Scope({})), problems, "lds") is None
    assert problems.lines[1] == "lds: '1 // 0' cannot be computed: division by zero"


def test_a_computed_float_of_one_signature_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = planned.slots(attributes={"epsilon": "float"})
    made: list[str] = []

    def counted(text: str, *words: Any) -> bytes:
        made.append(text)
        return compile_real(text, *words)

    monkeypatch.setattr(programs, "compile_real", counted)
    monkeypatch.setattr(programs, "_COMPILED", {})
    for number in (2, 2, 3):
        scope = slots.scope({"B": number}, {})
        assert programs.real_of("epsilon * B", slots, scope, Problems())
    assert made == ["epsilon * B"] * 2


def test_a_computed_float_that_is_wrong() -> None:
    """A name alone was meant for an attribute; what is more than a name was meant for an expression."""
    slots = planned.slots(attributes={"epsilon": "float"})
    for text, words in (
        ("epsilo", "'epsilo' is not a float attribute (did you mean 'epsilon'?)"),
        ("epsilon //", "'epsilon //' is not an expression: "),
    ):
        problems = Problems()
        assert programs.real_of(text, slots, slots.scope({}, {}), problems) == b""
        assert len(problems.lines) == 1 and problems.lines[0].startswith(words)
