"""The choice: order, cost, tuned rows, conditions with their reasons; explain and the live call agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.synthetic import A, Op, R, S, T

if TYPE_CHECKING:
    from aiter_prebuilt._native import DecisionInfo, RawTensor

X = 0x7F0000000100
#: All decisions, and the chosen one; None where there is none.
Both = Callable[..., "tuple[list[DecisionInfo], Any]"]


@pytest.fixture
def both(native: ModuleType, tmp_path: Path, stub: Stub) -> Both:
    """Explains and calls; checks that the chosen decision is what was launched."""
    from native import synthetic

    def run(
        op: Op, tensors: list[RawTensor | None], attributes: tuple[object, ...] = (), cus: int = 304
    ) -> tuple[list[DecisionInfo], Any]:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.apb"
        path.write_bytes(synthetic.bundle_bytes([op]))
        bundles = (native.Bundle(str(path)),)
        made = native.Operator(op.name, lambda vendor, ordinal: (bundles, cus))
        before = stub.launches()
        rows = made.explain(bundles, cus, tensors, list(attributes))
        assert stub.launches() == before, "explain launches nothing"
        chosen = [row for row in rows if row["chosen"]]
        if not chosen:
            with pytest.raises((errors.NoKernelError, errors.ArgumentDTypeError)):
                made(*tensors, *attributes)
            assert stub.launches() == before
            return rows, None
        (row,) = chosen
        made(*tensors, *attributes)
        record = stub.launch()
        step = row["steps"][-1]
        assert step["symbol"].encode() == record.symbol and step["grid"] == list(record.grid)
        assert (
            step["block"] == list(record.block)
            and step["lds"] == record.lds
            and step["kernarg_size"] == record.kernarg_size
        )
        return rows, row

    return run


def recipe(kernel: str, variant: str, blob: str, **more: Any) -> R:
    return R(kernel=kernel, variant=variant, steps=[S(symbol=f"{kernel}_{variant}")], blob=blob, **more)


def vector(n: int, address: int = X, kind: str = "f32") -> list[RawTensor]:
    return [raw(address, kind, (n,))]


def test_order_goes_before_cost_and_cost_within_a_kernel(both: Both, blob: Blob) -> None:
    name = blob()
    recipes = [
        recipe("late", "cheap", name, cost="0"),
        recipe("first", "big", name, cost="N", when=["N > 10"]),
        recipe("first", "small", name, cost="N // 2", when=["N > 20"]),
        recipe("first", "twin", name, cost="N // 2", when=["N > 20"]),
    ]
    op = Op("o", [T("x", "f32", ["N"])], recipes=recipes, kernels=["first", "late"])
    rows, row = both(op, vector(100))
    assert (row["kernel"], row["variant"], row["cost"]) == ("first", "small", 50)
    assert [r["kernel"] for r in rows] == ["first", "first", "first", "late"] and [
        r["rank"] for r in rows
    ] == [0, 0, 0, 1]
    assert "lowest cost 50" in row["reason"]
    assert [r["accepted"] for r in rows] == [True] * 4
    assert all("another stands before it" in r["reason"] for r in rows if not r["chosen"])
    assert both(op, vector(15))[1]["variant"] == "big"
    rows, row = both(op, vector(5))
    assert row["kernel"] == "late"
    assert (
        rows[0]["reason"] == "needs N > 10, and N = 5" and rows[0]["cost"] is None and rows[0]["steps"] == []
    )


def test_negative_costs_order_too(both: Both, blob: Blob) -> None:
    name = blob()
    op = Op(
        "o",
        [T("x", "f32", ["N"])],
        recipes=[recipe("k", "a", name, cost="-1"), recipe("k", "b", name, cost="-N")],
    )
    assert both(op, vector(9))[1]["variant"] == "b"


def test_tuned_row_wins_only_when_exact_and_accepted(both: Both, blob: Blob) -> None:
    name = blob()
    recipes = [
        recipe("first", "a", name, cost="1"),
        recipe("second", "b", name, cost="9", when=["N % 2 == 0"]),
        recipe("second", "c", name, cost="8"),
    ]
    tuned = [(304, 1, [64, 7]), (304, 1, [65, 7]), (256, 2, [64, 7])]
    op = Op(
        "o",
        [T("x", "f32", ["N"])],
        [A("k", "int")],
        recipes=recipes,
        kernels=["first", "second"],
        tuned_on=["N", "k"],
        tuned=tuned,
    )
    rows, row = both(op, vector(64), (7,))
    assert row["variant"] == "b" and row["tuned"] and row["reason"] == "a tuned row names it"
    assert both(op, vector(64), (7,), cus=256)[1]["variant"] == "c"
    assert both(op, vector(64), (8,))[1]["variant"] == "a"
    assert both(op, vector(64), (7,), cus=64)[1]["variant"] == "a"
    rows, row = both(op, vector(65), (7,))
    assert row["variant"] == "a", "the tuned variant's condition does not hold"
    assert [r["tuned"] for r in rows] == [False, True, False] and "needs N % 2 == 0" in rows[1]["reason"]


def test_a_tuned_row_for_a_range_wins_from_its_first_to_its_last(both: Both, blob: Blob) -> None:
    recipes = [recipe("k", "a", blob(), cost="1"), recipe("k", "b", blob(), cost="9")]
    rows = [(304, 1, [33, 7], [64, 7])]
    op = Op("o", [T("x", "f32", ["N"])], [A("k", "int")], recipes=recipes, tuned_on=["N", "k"], tuned=rows)
    found = {n: both(op, vector(n), (7,))[1]["variant"] for n in (32, 33, 50, 64, 65)}
    assert found == {32: "a", 33: "b", 50: "b", 64: "b", 65: "a"}
    assert both(op, vector(50), (6,))[1]["variant"] == "a" and both(op, vector(50), (8,))[1]["variant"] == "a"
    assert both(op, vector(50), (7,), cus=80)[1]["variant"] == "a"


def test_compute_units_and_alignment_in_conditions(both: Both, blob: Blob) -> None:
    name = blob()
    op = Op(
        "o",
        [T("x", "f32", ["N"])],
        recipes=[recipe("k", "v4", name, when=["aligned(x, 16)"]), recipe("k", "v1", name, cost="CUS")],
    )
    assert both(op, vector(8))[1]["variant"] == "v4"
    rows, row = both(op, vector(8, X + 4), cus=80)
    assert row["variant"] == "v1" and row["cost"] == 80
    assert rows[0]["reason"] == "needs aligned(x, 16), and &x = 0x7f0000000104"


def test_conditions_that_cannot_be_computed_refuse_with_the_reason(both: Both, blob: Blob) -> None:
    name = blob()
    recipes = [
        recipe("k", "division", name, when=["N % k == 0"]),
        recipe("k", "overflow", name, when=["N * 4611686018427387904 > 0"]),
        recipe("k", "cost", name, cost="N // k"),
        recipe("k", "good", name, cost="7"),
    ]
    rows, row = both(Op("o", [T("x", "f32", ["N"])], [A("k", "int")], recipes=recipes), vector(8), (0,))
    assert row["variant"] == "good"
    assert "(division by zero)" in rows[0]["reason"] and "N = 8, k = 0" in rows[0]["reason"]
    assert "(a value does not fit 64 bits)" in rows[1]["reason"]
    assert rows[2]["reason"] == "its cost cannot be computed: division by zero"


@pytest.mark.parametrize(
    ("step", "more", "words"),
    [
        (S(grid=["N * -1"]), {}, "its grid is -8, not between 0 and"),
        (S(grid=["1", "2147483648"]), {}, "its grid is 2147483648"),
        (S(grid=["N // k"]), {}, "its grid cannot be computed: division by zero"),
        (
            S(block=(1024, 1, 1), grid=["4194304 * N // 8"]),
            {},
            "its grid is 4194304, not between 0 and 4194303",
        ),
        (S(lds="65537"), {}, "its dynamic LDS is 65537, not between 0 and 65536"),
        (S(lds="8"), {"lds_static": 65529}, "its dynamic LDS is 8, not between 0 and 7"),
        (S(lds="-8"), {}, "its dynamic LDS is -8"),
        (S(block=(512, 1, 1)), {"max_threads": 256}, "512 threads, the code object allows 256"),
        (S(), {"workspace": "k - 1"}, "its workspace is -1"),
        (
            S(args=["ptr workspace + 65"]),
            {"workspace": "64"},
            "a workspace offset is 65, not between 0 and 64",
        ),
        (S(args=["i32 N * 1000000000"]), {}, "an integer argument is 8000000000"),
        (S(args=["i32 N * 268435456"]), {}, "an integer argument is 2147483648"),
    ],
)
def test_what_cannot_be_launched_gives_way_to_the_next(
    both: Both, blob: Blob, step: S, more: dict[str, Any], words: str
) -> None:
    name = blob()
    recipes = [
        R(kernel="first", variant="bad", steps=[step], blob=name, **more),
        recipe("second", "good", name),
    ]
    op = Op("o", [T("x", "f32", ["N"])], [A("k", "int", "0")], recipes=recipes, kernels=["first", "second"])
    rows, row = both(op, vector(8))
    assert row["variant"] == "good" and words in rows[0]["reason"] and not rows[0]["accepted"]


def test_no_kernel_lists_every_candidate(serve: Serve, stub: Stub, blob: Blob) -> None:
    name = blob()
    op = serve(
        Op(
            "o",
            [T("x", "f32", ["N"])],
            recipes=[recipe("k", f"v{i}", name, when=[f"N > {i * 10}"]) for i in range(3)],
        )
    )
    with pytest.raises(errors.NoKernelError) as caught:
        op(*vector(0))
    assert caught.value.reasons == tuple(f"k[v{i}]: needs N > {i * 10}, and N = 0" for i in range(3))
    assert "all 3 candidates were refused" in str(caught.value) and "k[v2]" in str(caught.value)
    assert stub.launches() == 0 and stub.load_attempts() == 0


def far_and_near(blob: Blob) -> Op:
    """Candidates in an order of which the last but one is the nearest to serving N = 7 with bf16 and no bias."""
    name = blob()
    whens: list[tuple[str, list[str]]] = [
        ("f16", []),
        ("bf16", ["N > 100", "N % 2 == 0", "aligned(x, 16)"]),
        ("bf16", ["aligned(x, 16)", "N > 100", "N % 4 == 0", "N // (N - 7) > 0"]),
        ("bf16", ["N % 2 == 0", "given(b)"]),
        ("bf16", ["N < 100", "aligned(x, 16)", "given(b)"]),
        ("bf16", ["N % 2 == 0"]),
    ]
    recipes = [recipe("k", f"v{i}", name, when=when, types=(kind,)) for i, (kind, when) in enumerate(whens)]
    recipes.append(recipe("k", "grid", name, types=("bf16",), cost="N // (N - 7)"))
    tensors = [T("x", "A", ["N"]), T("b", "f32", ["N"], optional=True)]
    return Op("o", tensors, types={"A": ["bf16", "f16"]}, recipes=recipes)


def test_the_nearest_to_serving_is_told_first(serve: Serve, both: Both, blob: Blob) -> None:
    """The fewest types, then the fewest conditions; of equals the first. Refused behind its conditions is before all."""
    op, x = far_and_near(blob), raw(X, "bf16", (7,))
    with pytest.raises(errors.NoKernelError) as caught:
        serve(op)(x, None)
    names = [line.partition(" ")[0] for line in caught.value.reasons]
    assert names == ["k[grid]", "k[v4]", "k[v5]", "k[v1]", "k[v3]", "k[v2]", "k[v0]"]
    assert str(caught.value).splitlines()[1].startswith("  k[grid] A=bf16: its cost cannot be computed")
    rows, _ = both(op, [x, None])
    assert [row["near"] for row in rows] == [6, 3, 5, 4, 1, 2, 0]
    assert rows[4]["reason"] == "needs given(b), and b is not given"
    rows, chosen = both(op, [x, raw(X + 4096, "f32", (7,))])
    assert chosen["variant"] == "v4" and chosen["near"] == -1
    assert [row["near"] for row in rows] == [5, 3, 4, 1, -1, 2, 0]


def test_the_types_nearest_to_those_of_the_call_are_told_first(serve: Serve, blob: Blob) -> None:
    name = blob()
    kinds = [("f16", "i8")] * 20 + [("bf16", "bf16")] * 2 + [("f16", "bf16")] * 3
    recipes = [recipe("k", f"v{i}", name, types=kind) for i, kind in enumerate(kinds)]
    types = {"A": ["bf16", "f16"], "B": ["bf16", "i8", "f32"]}
    op = serve(Op("o", [T("x", "A", ["N"]), T("y", "B", ["N"])], types=types, recipes=recipes))
    with pytest.raises(errors.ArgumentDTypeError) as caught:
        op(raw(X, "bf16", (8,)), raw(X + 4096, "f32", (8,)))
    counts = [part.strip("( ").partition(" of ")[0] for part in caught.value.found.split(";")]
    assert counts[0].endswith("2") and counts[1:] == ["20", "3"]


def test_the_own_fp8_has_the_word_of_the_signature(both: Both, blob: Blob) -> None:
    name = blob()
    types = {"A": ["f16", "e4m3fnuz", "e4m3fn"]}  # a made-up bundle is for gfx942
    op = Op("o", [T("x", "A", ["N"])], types=types, recipes=[recipe("k", "v", name, types=("f16",))])
    for kind, said in (("e4m3fnuz", "fp8 (e4m3fnuz)"), ("e4m3fn", "e4m3fn")):
        rows, _ = both(op, [raw(X, kind, (8,))])
        assert rows[0]["reason"] == f"made for other types: A is {said} in this call"


def test_types_that_no_kernel_combines(serve: Serve, both: Both, stub: Stub, blob: Blob) -> None:
    name = blob()
    spec = Op(
        "o", [T("x", "A", ["N"]), T("y", "B", ["N"], optional=True)], types={"A": ["bf16", "f16"], "B": ["bf16", "i8"]},
        recipes=[recipe("k", "v", name, types=("bf16", "i8")), recipe("k", "w", name, types=("f16", "bf16"))],
    )  # fmt: skip
    x, y = raw(X, "bf16", (8,)), raw(X, "bf16", (8,))
    with pytest.raises(
        errors.ArgumentDTypeError, match=r"no kernel takes these types.*A=bf16,B=i8.*B is bf16"
    ):
        serve(spec)(x, y)
    assert stub.launches() == 0
    rows, row = both(spec, [x, raw(X, "i8", (8,))])
    assert row["types"] == {"A": "bf16", "B": "i8"} and "made for other types" in rows[1]["reason"]
    assert both(spec, [raw(X, "f16", (8,)), None])[1]["variant"] == "w", (
        "a variable that no tensor names fits any"
    )


@pytest.mark.parametrize("count", [errors.MOST_LINES, errors.MOST_LINES + 1, 40])
def test_many_kernels_for_other_types_are_told_by_their_types(serve: Serve, blob: Blob, count: int) -> None:
    name = blob()
    made = ["bf16" if i % 4 else "f16" for i in range(count)]
    recipes = [recipe("k", f"v{i}", name, types=(kind,)) for i, kind in enumerate(made)]
    op = serve(Op("o", [T("x", "A", ["N"])], types={"A": ["bf16", "f16", "f32"]}, recipes=recipes))
    with pytest.raises(errors.ArgumentDTypeError, match="no kernel takes these types") as caught:
        op(raw(X, "f32", (8,)))
    why = "made for other types: A is f32 in this call"
    each = [f"k[v{i}] A={kind}: {why}" for i, kind in enumerate(made)]
    bf16, f16 = made.count("bf16"), made.count("f16")
    grouped = f"({bf16} of {count}, e.g. {each[1]}; {f16} of {count}, e.g. {each[0]})"
    assert (grouped in caught.value.found) == (count > errors.MOST_LINES)
    shown = sum(line in caught.value.found for line in each)
    assert shown == (2 if count > errors.MOST_LINES else count)


def test_given_and_enum_in_conditions(both: Both, blob: Blob) -> None:
    name = blob()
    recipes = [
        recipe("k", "bias", name, when=["given(b)"]),
        recipe("k", "fast", name, when=["mode == 'fast'"]),
        recipe("k", "plain", name),
    ]
    tensors = [T("x", "f32", ["N"]), T("b", "f32", ["N"], optional=True)]
    op = Op("o", tensors, [A("mode", "enum", "", ("plain", "fast"))], recipes=recipes)
    x = vector(4)[0]
    assert both(op, [x, x], ("fast",))[1]["variant"] == "bias"
    assert both(op, [x, None], ("fast",))[1]["variant"] == "fast"
    assert both(op, [x, None], ("plain",))[1]["variant"] == "plain"


NAMES = ("_ZN5aiter4asm1E", "a", "\u03bb kernel", "x" * 300)


def named(blob: Blob) -> Op:
    """An operator of four kernels, each of which may be asked for by its name; a fifth only so."""
    name = blob()
    recipes = [
        recipe("k", f"v{place}", name, when=[f"kernelName == '' or kernelName == {text!r}"], cost=str(place))
        for place, text in enumerate(NAMES)
    ]
    recipes.append(recipe("k", "hidden", name, when=["kernelName == 'hidden'"], cost="0"))
    return Op("o", [T("x", "f32", ["N"])], [A("kernelName", "text", "none")], recipes=recipes)


def test_a_text_names_a_kernel(both: Both, blob: Blob) -> None:
    """Both sides compute the same number of a text; none, an empty one and the default are the same."""
    op, x = named(blob), vector(4)[0]
    for place, text in enumerate(NAMES):
        assert both(op, [x], (text,))[1]["variant"] == f"v{place}"
    assert both(op, [x], ("hidden",))[1]["variant"] == "hidden"
    for nothing in ((), (None,), ("",)):
        assert both(op, [x], nothing)[1]["variant"] == "v0"


def test_a_text_that_names_nothing_is_quoted(both: Both, serve: Serve, blob: Blob) -> None:
    op, x = named(blob), vector(4)[0]
    rows, chosen = both(op, [x], ("_ZN5aiter4asm2E",))
    assert chosen is None
    assert {row["reason"] for row in rows[1:2]} == {
        "needs kernelName == '' or kernelName == 'a', and kernelName = '_ZN5aiter4asm2E'"
    }
    for wrong in (3, b"a", "\ud800"):
        with pytest.raises(errors.ArgumentKindError, match=r"kernelName must be a str or None, got "):
            serve(op)(x, wrong)


def test_explain_needs_no_driver_and_reports_argument_errors(native: ModuleType, tmp_path: Path) -> None:
    from native import synthetic

    path = tmp_path / "b.apb"
    path.write_bytes(
        synthetic.bundle_bytes([Op("o", [T("x", "f32", ["N"])], recipes=[R(workspace="N * 4")])])
    )
    bundle = native.Bundle(str(path))
    op = native.Operator("o", lambda vendor, ordinal: pytest.fail("explain resolves nothing"))
    (row,) = op.explain((bundle,), 1, [raw(4096, "f32", (7,), device=("amd", 99))], [])
    assert row["workspace"] == 28 and row["backend"] == "hip" and len(row["steps"][0]["sha256"]) == 64
    with pytest.raises(errors.ArgumentShapeError):
        op.explain((bundle,), 1, [raw(4096, "f32", (7, 1))], [])
    with pytest.raises(TypeError, match="tuple of Bundle"):
        op.explain([bundle], 1, [raw(4096, "f32", (7,))], [])
