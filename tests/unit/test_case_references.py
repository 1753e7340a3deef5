"""Draws, references and intervals: what a call gives to a kernel, and what it takes back from one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import toy_operator

from build_tools.cases import draw, interval, make, numbers
from build_tools.cases import reference as references
from build_tools.cases.near import as_near, near
from build_tools.cases.words import Draw
from build_tools.errors import ManifestError

INF, NAN = float("inf"), float("nan")


def _ends(found: interval.Interval) -> tuple[list[float], list[float]]:
    return numbers.decode(found.low, found.dtype).tolist(), numbers.decode(found.high, found.dtype).tolist()


def test_an_exact_result_is_rounded_once() -> None:
    tie = 1 + 2.0**-8  # between two bf16: the even one
    assert (
        _ends(interval.interval(near(np.array([tie, -tie, 0.1])), "bf16"))
        == ([1.0, -1.0, 0.10009765625],) * 2
    )


def test_an_error_reaches_the_neighbour_only_where_it_crosses_a_tie() -> None:
    values = np.array([1 + 2.0**-8 - 2.0**-20, 1.0, 1 + 2.0**-7])
    low, high = _ends(interval.interval(near(values, relative=2.0**-19), "bf16"))
    assert low == [1.0, 1.0, 1 + 2.0**-7]
    assert high == [1 + 2.0**-7, 1.0, 1 + 2.0**-7]


def test_nan_and_infinities_have_no_error() -> None:
    found = interval.interval(near(np.array([NAN, INF, -INF]), absolute=1.0, relative=INF), "f16")
    wrong = found.misses(np.array([0.0, 65504.0, INF]))
    assert wrong.tolist() == [True, True, True]
    assert not found.misses(np.array([NAN, INF, -INF])).any()
    assert found.misses(np.array([NAN, NAN, NAN])).tolist() == [False, True, True]


def test_what_overflows_is_infinite_and_what_saturates_is_cut() -> None:
    values = np.array([65519.0, 1e6, -1e6])
    assert _ends(interval.interval(near(values), "f16"))[0] == [65504.0, INF, -INF]
    assert _ends(interval.interval(near(values), "e4m3fn"))[1] == [448.0, 448.0, -448.0]
    assert _ends(interval.interval(near(values), "e4m3fnuz"))[1] == [240.0, 240.0, -240.0]
    assert _ends(interval.interval(near(values), "i8")) == ([127, 127, -128],) * 2
    # a number that may or may not round to infinity
    low, high = _ends(interval.interval(near(np.array([65519.0]), absolute=2.0), "f16"))
    assert (low, high) == ([65504.0], [INF])


def test_integers_are_exact_and_must_fit() -> None:
    found = interval.interval(as_near(np.array([1, -5])), "i32")
    assert found.misses(np.array([1, -4])).tolist() == [False, True]
    with pytest.raises(ValueError, match="1 to 300 do not fit i8"):
        interval.interval(as_near(np.array([1, 300])), "i8")
    codes = interval.interval(near(np.array([2.4999, 2.7]), absolute=0.001), "i8")
    assert _ends(codes) == ([2, 3], [3, 3])


def test_masked_elements_are_kept() -> None:
    result = near(np.ma.array([1.0, 9.0], mask=[False, True]), relative=0.5)
    want = interval.want("out", result, "f32", returned=False)
    assert want.kept == b"\0\1"
    assert not interval.interval(result, "f32").misses(np.array([1.0, -7.0])).any()
    assert interval.want("out", near(np.ones(2)), "f32", returned=True).kept is None


@pytest.mark.parametrize("error", [{"relative": NAN}, {"absolute": -1.0}])
def test_an_error_is_a_number(error: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="NaN or negative"):
        near(np.ones(2), **error)


def test_a_result_is_numbers() -> None:
    with pytest.raises(TypeError, match="array of numbers"):
        near(np.array(["a"]))


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32", "e4m3fn", "e4m3fnuz"])
@pytest.mark.parametrize(
    "how", ["normal", "edges", "extremes", "nonfinite", "ties", "zero_rows", "zeros", "ones"]
)
def test_draws_are_of_their_type_and_the_same_again(kind: str, how: str) -> None:
    made = [
        draw.draw(Draw(how), {}, draw.generator(1, "op", "label", "input"), (14, 40), kind, {})
        for _ in range(2)
    ]
    assert np.array_equal(made[0], made[1], equal_nan=True)
    assert np.array_equal(numbers.rounded(made[0], kind), made[0], equal_nan=True)
    other = draw.draw(Draw(how), {}, draw.generator(1, "op", "label", "weight"), (14, 40), kind, {})
    assert how in ("zeros", "ones") or not np.array_equal(made[0], other, equal_nan=True)


def test_edges_have_everything_and_some_rows_stay_finite() -> None:
    values = draw.draw(Draw("edges"), {}, draw.generator(1, "op", "x", "t"), (14, 64), "f16", {})
    finite = np.isfinite(values).all(axis=1)
    assert 4 <= finite.sum() < 14
    assert np.isnan(values).any() and (values == INF).any() and (values == -INF).any()
    assert (np.signbit(values) & (values == 0)).any()
    assert {65504.0, 2.0**-14, -(2.0**-24)} <= set(values.ravel().tolist())


def test_draws_of_numbers() -> None:
    rng = np.random.default_rng(0)
    assert draw.draw(Draw("constant", (1.5,)), {}, rng, (3,), "f32", {}).tolist() == [1.5] * 3
    assert set(draw.draw(Draw("ints", (2, 4)), {}, rng, (90,), "i32", {}).tolist()) == {2, 3, 4}
    assert sorted(draw.draw(Draw("permutation"), {}, rng, (5,), "i64", {}).tolist()) == [0, 1, 2, 3, 4]
    uniform = draw.draw(Draw("uniform", (2.0, 3.0)), {}, rng, (90,), "f32", {})
    assert 2 <= uniform.min() < uniform.max() <= 3
    for how in ("edges", "nonfinite", "extremes", "zero_rows"):
        assert draw.draw(Draw(how), {}, rng, (0, 4), "f32", {}).shape == (0, 4)
        assert draw.draw(Draw(how), {}, rng, (3, 1), "f32", {}).shape == (3, 1)


def test_draws_that_cannot_be() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="say TENSOR~DRAW"):
        draw.draw(None, {}, rng, (3,), "i32", {})
    with pytest.raises(ValueError, match="the draw uniform of f32"):
        draw.draw(Draw("uniform", (1.0,)), {}, rng, (3,), "f32", {})
    with pytest.raises(ValueError, match="the draw extremes of i32"):
        draw.draw(Draw("extremes"), {}, rng, (3, 3), "i32", {})


def test_a_family_brings_draws_of_its_own(tmp_path: Path) -> None:
    text = toy_operator.CASES.replace("index~permutation", "").replace(
        '"bias~normal', '"index~upward:0 bias~normal'
    )
    for start in ('"M=1 N=4', '"M=(2', '"M=3', '"otype'):
        text = text.replace(start, start.replace('"', '"index~zeros '))
    cases = toy_operator.cases(tmp_path, text)
    first = next(make.questions(cases, "gfx950", toy_operator.targets()["gfx950"], 1))
    index = first.inputs["index"]
    assert index is not None and index.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("def toy(", "def other(", "no function 'toy' (known: other)"),
        ("def toy(input,", "def toy(inptu, input,", "no reference is given 'inptu' (did you mean 'input'?)"),
        ("def toy(", "def toy(out, ", "no reference is given 'out'"),
        (", told, y.sum(axis=-1, keepdims=True)", ", told", "2 results for out, state, total"),
        ("y.sum(axis=-1, keepdims=True)", "y.sum(axis=-1)", "total has shape (2,), and should have (2, 1)"),
        ("y.sum(axis=-1, keepdims=True)", "None", "the result total is missing"),
        (
            "return near(y, relative=2.0**-20), told, y.sum(axis=-1, keepdims=True)",
            "return {'outt': y}",
            "no result 'outt'",
        ),
        ("y = -y if fast else y", "y = 1 / None", "TypeError"),
    ],
)
def test_what_is_wrong_with_a_reference(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in toy_operator.REFERENCE
    cases = toy_operator.cases(tmp_path, reference=toy_operator.REFERENCE.replace(old, new))
    with pytest.raises(ManifestError) as caught:
        list(make.calls(cases, "gfx950", toy_operator.targets()["gfx950"], 1))
    (line,) = caught.value.problems
    assert line.startswith("manifests/toys/reference.py: toy") or "no function" in line
    assert problem in line


@pytest.mark.parametrize(
    ("text", "problem"), [("import nothing_at_all", "ModuleNotFoundError"), ("def f(:", "SyntaxError")]
)
def test_a_reference_that_cannot_be_imported(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        toy_operator.cases(tmp_path, reference=text)
    assert [line for line in caught.value.problems if "reference.py" in line and problem in line]


def test_references_of_two_families_do_not_meet(tmp_path: Path) -> None:
    for family, number in (("first", 1), ("second", 2)):
        (tmp_path / family).mkdir()
        (tmp_path / family / "reference.py").write_text(f"def toy(): return {number}\n")
    first, second = (references.load(tmp_path / name / "reference.py", name) for name in ("first", "second"))
    assert (first.functions["toy"](), second.functions["toy"]()) == (1, 2)
