"""A user's tuned rows: before those of the bundles, first row first, refused rows give way, and what names nothing is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Stub, raw
from native.synthetic import A, Op, R, S, T

if TYPE_CHECKING:
    from aiter_prebuilt._native import DecisionInfo, RawTensor, TunedTable

X = raw(0x7F0000000100, "f32", (64,))
#: Origin, compute units, values, kernel, variant, types.
Row = tuple[str, int, tuple[int, ...], str, str, str]
Decide = Callable[..., "tuple[list[DecisionInfo], DecisionInfo]"]


def row(
    line: int, cus: int, values: tuple[int, ...], variant: str, types: str = "", kernel: str = "k"
) -> Row:
    return f"t.csv:{line}", cus, values, kernel, variant, types


def table(*rows: Row, columns: tuple[str, ...] = ("N",), modelled: bool = False) -> TunedTable:
    return tuple((name, f"t.csv:1:{place}") for place, name in enumerate(columns)), tuple(rows), modelled


@pytest.fixture
def decide(native: ModuleType, stub: Stub, blob: Blob, tmp_path: Path) -> Decide:
    """decide(op, tensors, attributes, tables) -> explain's rows; a live call with the same tables launches what they choose."""
    from native import synthetic

    def run(
        op: Op,
        tensors: list[RawTensor],
        attributes: tuple[object, ...] = (),
        tables: tuple[TunedTable, ...] = (),
        cus: int = 304,
    ) -> tuple[list[DecisionInfo], DecisionInfo]:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.apb"
        path.write_bytes(synthetic.bundle_bytes([op]))
        bundles = (native.Bundle(str(path)),)
        made = native.Operator(op.name, lambda vendor, ordinal: (bundles, cus, tables))
        rows = made.explain(bundles, cus, tensors, list(attributes), tables)
        made(*tensors, *attributes)
        (chosen,) = (r for r in rows if r["chosen"])
        assert stub.launch().symbol.decode() == chosen["steps"][0]["symbol"]
        return rows, chosen

    return run


def operator(blob: Blob, **more: Any) -> Op:
    recipes = [
        R(variant=name, cost=str(cost), when=when, steps=[S(symbol=f"sym_{name}")], blob=blob())
        for name, cost, when in (("a", 1, []), ("b", 9, ["N % 2 == 0"]), ("c", 8, []))
    ]
    return Op(
        "o", [T("x", "f32", ["N"])], [A("k", "int", "0"), A("flag", "bool", "false")], recipes=recipes, **more
    )


def test_a_user_row_goes_before_rows_of_the_bundle_and_the_first_table_wins(
    decide: Decide, blob: Blob
) -> None:
    op = operator(blob, tuned_on=["N"], tuned=[(304, 2, [64])])
    assert decide(op, [X])[1]["variant"] == "c"
    rows, chosen = decide(op, [X], tables=(table(row(2, 304, (64,), "b")),))
    assert (chosen["variant"], chosen["row"], chosen["tuned"]) == ("b", "t.csv:2", True)
    assert chosen["reason"] == "the user row t.csv:2 names it"
    assert [r["tuned"] for r in rows] == [False, True, True] and rows[2]["row"] == ""
    both = (table(row(7, 304, (64,), "a")), table(row(2, 304, (64,), "b")))
    rows, chosen = decide(op, [X], tables=both)
    assert (
        chosen["variant"] == "a"
        and rows[1]["reason"] == "the user row t.csv:2 names it, but another row stands before it"
    )
    assert decide(op, [X], tables=both[::-1])[1]["variant"] == "b"
    assert (
        decide(op, [X], tables=(table(row(2, 304, (64,), "b"), row(3, 304, (64,), "a")),))[1]["variant"]
        == "b"
    )


def test_a_row_that_nobody_measured_goes_behind_measured_ones(decide: Decide, blob: Blob) -> None:
    """Those of the bundle and the user's own; where there is none it goes before the cost."""
    modelled = table(row(2, 304, (64,), "b"), modelled=True)
    measured = operator(blob, tuned_on=["N"], tuned=[(304, 0, [64])])
    rows, chosen = decide(measured, [X], tables=(modelled,))
    assert (chosen["variant"], chosen["row"]) == ("a", "")
    assert rows[1]["reason"] == "the user row t.csv:2 names it, but another row stands before it"
    assert decide(measured, [X], tables=(table(row(3, 304, (64,), "c")), modelled))[1]["variant"] == "c"
    same = table(row(2, 304, (64,), "a"), modelled=True)
    assert decide(measured, [X], tables=(same,))[1]["variant"] == "a"
    _, chosen = decide(operator(blob), [X], tables=(modelled,))
    assert (chosen["variant"], chosen["row"], chosen["tuned"]) == ("b", "t.csv:2", True)


@pytest.mark.parametrize(
    ("columns", "values", "cus", "variant"),
    [
        (("N",), (64,), 304, "b"), (("N",), (65,), 304, "a"), (("N",), (64,), 256, "a"), ((), (), 304, "b"),
        (("N", "k"), (64, 7), 304, "b"), (("k", "N"), (7, 64), 304, "b"), (("N", "k"), (64, 8), 304, "a"),
        (("N", "flag"), (64, 1), 304, "b"), (("N", "flag"), (64, 0), 304, "a"),
    ],
)  # fmt: skip
def test_only_an_equal_key_decides(
    decide: Decide, blob: Blob, columns: tuple[str, ...], values: tuple[int, ...], cus: int, variant: str
) -> None:
    tables = (table(row(2, cus, values, "b"), columns=columns),)
    assert decide(operator(blob), [X], (7, True), tables)[1]["variant"] == variant


def test_a_refused_row_says_why_and_the_next_rule_decides(decide: Decide, blob: Blob) -> None:
    odd = raw(0x7F0000000100, "f32", (65,))
    op = operator(blob, tuned_on=["N"], tuned=[(304, 2, [65])])
    rows, chosen = decide(op, [odd], tables=(table(row(2, 304, (65,), "b")),))
    assert chosen["variant"] == "c" and chosen["reason"] == "a tuned row names it"
    assert (
        rows[1]["reason"]
        == "needs N % 2 == 0, and N = 65; the user row t.csv:2 names it, and the next rule decides"
    )
    assert not rows[1]["accepted"] and rows[1]["row"] == "t.csv:2"
    rows, chosen = decide(
        operator(blob), [odd], tables=(table(row(2, 304, (65,), "b"), row(3, 304, (65,), "c")),)
    )
    assert chosen["variant"] == "c" and chosen["row"] == "t.csv:3", (
        "the next row of the user's is the next rule"
    )


def test_a_row_that_names_nothing_stands_in_the_answer(decide: Decide, blob: Blob) -> None:
    tables = (table(row(2, 304, (64,), "zz"), row(3, 304, (64,), "a", kernel="q"), row(4, 304, (65,), "zz")),)
    rows, chosen = decide(operator(blob), [X], tables=tables)
    assert chosen["variant"] == "a" and chosen["row"] == ""
    missing = rows[3:]
    assert [(r["kernel"], r["variant"], r["row"], r["rank"]) for r in missing] == [
        ("k", "zz", "t.csv:2", -1), ("q", "a", "t.csv:3", -1),
    ]  # fmt: skip
    assert all(
        "no bundle of this device has it" in r["reason"] and not r["accepted"] and not r["steps"]
        for r in missing
    )


def test_rows_are_for_their_types(decide: Decide, blob: Blob) -> None:
    recipes = [
        R(variant=v, types=(t,), cost=c, steps=[S(symbol=f"{v}_{t}")], blob=blob())
        for v, c in (("fast", "1"), ("slow", "2"))
        for t in ("bf16", "f16")
    ]
    op = Op("o", [T("x", "T", ["N"])], types={"T": ["bf16", "f16"]}, recipes=recipes)
    tables = (
        table(
            row(2, 304, (8,), "slow", "bf16"),
            row(3, 304, (8,), "none", "bf16"),
            row(4, 304, (8,), "none", "f32"),
        ),
    )
    rows, chosen = decide(op, [raw(0x1000, "bf16", (8,))], tables=tables)
    assert chosen["variant"] == "slow" and chosen["types"] == {"T": "bf16"}
    assert [r["row"] for r in rows[4:]] == ["t.csv:3", "t.csv:4"] and rows[4]["types"] == {"T": "bf16"}
    rows, chosen = decide(op, [raw(0x1000, "f16", (8,))], tables=tables)
    assert chosen["variant"] == "fast" and [r["row"] for r in rows[4:]] == ["t.csv:4"], (
        "bf16 rows are not about this call"
    )


@pytest.mark.parametrize("name", ["Q", "&x", "?x", ""])
def test_a_column_that_the_operator_lacks(
    native: ModuleType, stub: Stub, tmp_path: Path, blob: Blob, name: str
) -> None:
    from native import synthetic

    path = tmp_path / "b.apb"
    path.write_bytes(synthetic.bundle_bytes([operator(blob)]))
    bundles = (native.Bundle(str(path)),)
    tables = (table(row(2, 304, (64,), "b"), columns=(name,)),)
    made = native.Operator("o", lambda vendor, ordinal: (bundles, 304, tables))
    attempts: tuple[Callable[[], object], ...] = (
        lambda: made(X),
        lambda: made.explain(bundles, 304, [X], [], tables),
        lambda: made(X),
    )
    for attempt in attempts:
        with pytest.raises(
            errors.TunedTableError, match=r"t\.csv:1:0.*no dim, stride or integer attribute of o.*N, k, flag"
        ):
            attempt()
    assert stub.launches() == 0 and stub.load_attempts() == 0


@pytest.mark.parametrize(
    "tables",
    [0, ((),), (((), (), (), ()),), (((), ()),), (table(("t", 304, (64,), "k", "a")),), (table(row(2, 304, (64, 1), "a")),),  # type: ignore[arg-type]  # wrong
     (table(row(2, "304", (64,), "a")),), (table(row(2, 304, ("64",), "a")),), (((("N",),), (), False),)],  # type: ignore[arg-type]  # wrong
)  # fmt: skip
def test_tables_of_another_form_are_a_type_error(
    native: ModuleType, tmp_path: Path, blob: Blob, tables: Any
) -> None:
    from native import synthetic

    path = tmp_path / "b.apb"
    path.write_bytes(synthetic.bundle_bytes([operator(blob)]))
    bundles = (native.Bundle(str(path)),)
    made = native.Operator("o", lambda vendor, ordinal: (bundles, 304, tables))
    with pytest.raises(TypeError, match="tuned tables are a tuple"):
        made.explain(bundles, 304, [X], [], tables)
    with pytest.raises(TypeError, match="tuned tables are a tuple"):
        made(X)
