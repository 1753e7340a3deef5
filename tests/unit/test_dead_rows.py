"""Whether a measured row can choose its kernel: what is refused is refused by every call of the row, tried one by one."""

from __future__ import annotations

import itertools

import pytest

from aiter_prebuilt.contract.bytecode import ExpressionError, evaluate
from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.records import Condition, Operator, Recipe, TunedRow
from build_tools.report.dead_rows import MOST, refusal

SLOTS = ("M", "N", "R", "S", "CUS")
SCOPE = Scope({name: place for place, name in enumerate(SLOTS)})
TRIED = (-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 31, 64, 1000)


def operator(*when: str) -> Operator:
    conditions = tuple(Condition(text, compile_expression(text, SCOPE)) for text in when)
    recipe = Recipe(0, "default", (), conditions, b"", b"", ())
    return Operator(
        "made_up", "", "", 0, (), (), (), SLOTS, (), (), (recipe,), (), tuned_slots=(0, 1), tuned=()
    )  # fmt: skip


def can(of: Operator, row: TunedRow) -> bool:
    """Is there a call of the row, with what is open among those tried, that all conditions take?"""

    def holds(code: bytes, slots: list[int]) -> bool:
        try:
            return evaluate(code, slots) != 0
        except ExpressionError:
            return False

    ranges = [range(first, last + 1) for first, last in zip(row.values, row.last or row.values, strict=True)]
    codes = [condition.code for condition in of.recipes[0].conditions]
    return any(
        all(holds(code, [m, n, r, s, row.cus]) for code in codes)
        for m, n in itertools.product(*ranges)
        for r, s in itertools.product(TRIED, TRIED)
    )


@pytest.mark.parametrize(
    ("when", "values", "last", "chooses"),
    [
        (("M > 4",), (4, 1), (), False),
        (("M > 4",), (5, 1), (), True),
        (("M > 4",), (2, 1), (4, 1), False),
        (("M > 4",), (2, 1), (5, 1), True),
        (("M % 4 == 0",), (5, 1), (7, 1), False),
        (("M % 4 == 0",), (5, 1), (8, 1), True),
        (("R > 4",), (1, 1), (), True),
        (("R >= M and R * N < 30",), (8, 4), (), False),
        (("R >= M", "4 * R + N <= 30"), (8, 1), (), False),
        (("R >= M and R * N < 30",), (7, 4), (), True),
        (("M == 1 and R == 2 or N > 4",), (2, 4), (), False),
        (("M == 2 and R == 2 or N > 4",), (2, 4), (), True),
        (("(4 if R > 1 else M) > 4",), (4, 1), (), False),
        (("(4 if R > 1 else M) > 4",), (5, 1), (), True),
        (("(R if M > 3 else 0) != 0",), (3, 1), (), False),
        (("not (M == 3 or R == 1)",), (3, 1), (), False),
        (("not (M == 4 or R == 1)",), (3, 1), (), True),
        (("M // N == 1",), (3, 0), (), False),
        (("1 < M < R < 3",), (1, 1), (), False),
        (("log2(M) + -M + max(R, 1) > 0 and CUS == 80",), (3, 1), (), True),
        (("CUS == 304",), (3, 1), (), False),
        (("R >= S and R >= M and S >= 1", "min(R, M) > 2"), (3, 1), (), True),
        ((), (3, 1), (), True),
    ],
)
def test_refused_is_what_no_call_gets(
    when: tuple[str, ...], values: tuple[int, ...], last: tuple[int, ...], chooses: bool
) -> None:
    of, row = operator(*when), TunedRow(80, 0, values, last)
    assert can(of, row) is chooses
    said = refusal(of, [row])
    assert (said == "") is chooses
    assert chooses or said in {f"refused by {text!r}" for text in when}


def test_one_of_a_lines_rows_is_enough() -> None:
    of = operator("M > 4")
    small, large = TunedRow(80, 0, (1, 1), (4, 1)), TunedRow(80, 0, (9, 1), ())
    assert refusal(of, [small, large]) == "" and refusal(of, [small]) == "refused by 'M > 4'"


def test_of_a_long_range_the_first_sizes_and_the_last_are_asked() -> None:
    row = TunedRow(80, 0, (1, 1), (2 * MOST, 1))
    assert refusal(operator(f"M == {2 * MOST}"), [row]) == ""
    assert refusal(operator(f"M == {MOST}"), [row]) == ""
    assert refusal(operator("M * N < 0"), [row]) != ""
