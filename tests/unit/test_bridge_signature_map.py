"""Calls of AITER's that ours reads in other words: the table, the guard that reads both signatures, and what goes to whom."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt_bridge import argument_mapping, lookup_log, serving, signature_map
from aiter_prebuilt_bridge.signature_check import Cover, among, compare
from aiter_prebuilt_bridge.signature_map import ANY, Reading
from aiter_prebuilt_bridge_hook import VARIABLE


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    lookup_log._LOGGED.clear()
    yield
    lookup_log._LOGGED.clear()


def signature(text: str) -> inspect.Signature:
    names: dict[str, Any] = {}
    exec(f"def f({text}): ...", names)
    return inspect.signature(names["f"])


@pytest.mark.parametrize(("places", "name", "row"), signature_map.rows())
def test_each_row_explains_what_ours_is(places: tuple[str, ...], name: str, row: Reading) -> None:
    """Else it is no longer needed, or explains a function that we do not have."""
    ours = inspect.signature(serving.ours(row.ours or name)[0]).parameters
    assert {*row.names.values()} <= ours.keys() and not row.names.keys() & ours.keys()
    assert not row.nothing.keys() & ours.keys()
    assert {row.names.get(each, each) for each in row.differs} <= ours.keys()
    assert {*row.fixed, *row.returns} <= ours.keys() and row.into not in ours
    assert all(signature_map.of(place, name) == (row, signature_map.PLAIN) for place in places)
    assert signature_map.of("aiter.other", name) == (signature_map.PLAIN,)


@pytest.mark.parametrize(
    ("rows", "columns", "level", "padded"),
    [
        (1, 1280, 0, 16),
        (256, 1280, 0, 256),
        (257, 1280, 0, 288),
        (1025, 1280, 0, 1088),
        (4097, 1280, 0, 4224),
        (0, 1280, 0, 0),
        (0, 1280, 1, 1),
        (1, 1280, 1, 1),
        (2, 1280, 1, 2),
        (33, 1280, 1, 64),
        (9000, 4096, 1, 16384),
        (9000, 4097, 1, 8192),
        (8192, 8192, 1, 8192),
        (77, 1280, 2, 77),
    ],
)
def test_rows_of_tuned_tables_are_rounded_as_aiter_does(
    rows: int, columns: int, level: int, padded: int
) -> None:
    """The numbers of csrc/py_itfs_cu/gemm_common.cu, at the borders of each range."""
    found = serving.decide("aiter.ops.gemm_op_common", ("get_padded_m",), signature("M, N, K, gl"))[0]
    assert found(rows, columns, 512, level) == padded


READ = Reading(names={"w": "B"}, nothing={"sink": (0, None), "how": (ANY,)}, differs={"dtype": (None,)})


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        ("x, w, sink=0, y=1, dtype=5", ""),
        ("x, B, sink, y=1, *, how='fast'", ""),
        ("y, w, x", ""),
        ("x, w, sink=0, other=1", "ours has no parameter other, which has dtype in that place"),
        ("x, B, sink, dtype=None, y=1, other=2", "ours has no parameter other"),
        ("x, sink=0", "ours needs B, which AITER's has not"),
    ],
)
def test_a_row_explains_its_own_parameters_and_no_others(theirs: str, why: str) -> None:
    assert compare(signature(theirs), signature("x, B, y=1, dtype=None"), READ).why == why


def test_places_are_kept_where_no_name_is_another() -> None:
    """An option of AITER's that ours lack moves the places behind it, and no others."""
    ours, row = signature("x, y=1, z=2"), Reading(nothing={"sink": (0,)})
    assert not compare(signature("x, sink, y=1, z=2"), ours, row).why
    assert (
        compare(signature("x, sink, z=2, y=1"), ours, row).why
        == "z is parameter 3 of AITER's, and not of ours"
    )
    none = compare(signature("x, y=1, z=2, sink=0"), ours, Reading(nothing={"sink": ()}))
    assert none.why == "ours has no parameter sink, and no value of it makes AITER's do what ours does"


def test_places_may_be_others_where_a_row_says_so() -> None:
    """Then ours is called by name; where they are the same it is not, which is faster."""
    ours, row = signature("x, y=1, z=2"), Reading(places=True, fixed={"z": 7})
    assert compare(signature("y, x"), ours).why == "y is parameter 1 of AITER's, and not of ours"
    other = compare(signature("y, x, z"), ours, row).words
    assert other is not None and other.order == ("y", "x", "z") and not other.fixed
    assert compare(signature("x, y, z"), ours, row).words is None
    lacks = compare(signature("x, y"), ours, row).words
    assert lacks is not None and lacks.fixed == (("z", 7),)


def test_what_aiters_lacks_is_told_to_ours_and_what_it_returns_is_returned() -> None:
    def turn(x: list[int], by: int, way: int) -> None:
        x.append(by * way)

    there = signature("y, by")
    row = Reading(names={"y": "x"}, fixed={"way": 3}, returns=("x",))
    cover = compare(there, inspect.signature(turn), row)
    given: Any = serving.through(
        turn, lambda *_: pytest.fail("theirs"), "aiter.ops.x", cover.omitted, cover.words
    )
    turned = [1]
    assert given(turned, 2) is turned == [1, 6] and given.__signature__ == there


class Kind(Enum):
    SILU = 0
    GELU = 1


class Tensor:
    """Compares as torch's does."""

    def __eq__(self, other: object) -> Any:
        raise AssertionError("a tensor was compared")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "values", "is_one"),
    [
        (None, (None,), True), (0, (0,), True), (1, (0,), False), (False, (0,), False), (True, (1,), False), ("", ("",), True),
        (Kind.GELU, (1,), True), (Kind.SILU, (1,), False), (Tensor(), (None, 0, ""), False), (Tensor(), (ANY,), True),
        (5, (), False),
    ],
)  # fmt: skip
def test_what_is_one_of_the_values(value: Any, values: tuple[Any, ...], is_one: bool) -> None:
    assert among(value, values) is is_one


def made(theirs: str) -> tuple[Callable[..., Any], list[Any]]:
    """A replacement by a function of ours with its own words, and what reached AITER's."""
    went: list[Any] = []

    def product(x: Any, B: Any, y: Any = 1, dtype: Any = None) -> Any:
        return x, B, y, dtype

    there = signature(theirs)
    cover: Cover = compare(there, inspect.signature(product), READ)
    assert not cover.why

    def own(*args: Any, **keywords: Any) -> str:
        went.append((args, keywords))
        return "theirs"

    given: Any = serving.through(product, own, "aiter.ops.x", cover.omitted, cover.words)
    assert given.__signature__ == there
    return given, went


def test_a_call_reaches_ours_in_ours_words() -> None:
    product, went = made("x, w, sink, y=7, dtype=5, how='fast'")
    assert product(1, 2, 0) == (1, 2, 7, 5)
    assert product(1, 2, None, 3, how=Tensor()) == (1, 2, 3, 5)
    assert product(w=2, x=1, sink=0, y=4, dtype=6) == (1, 2, 4, 6)
    assert not went


@pytest.mark.parametrize("call", [((1, 2, 3), {}), ((1, 2), {"sink": Tensor()}), ((1, 2, 0, 1, None), {})])
def test_a_call_beyond_the_row_goes_to_aiters_once_logged(
    call: tuple[tuple[Any, ...], dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    product, went = made("x, w, sink, y=7, dtype=5")
    args, keywords = call
    assert [product(*args, **keywords) for _ in range(2)] == ["theirs", "theirs"] and went == [call, call]
    (line,) = caplog.messages
    assert line.startswith("product: a call goes to AITER's own function: product("), line
    monkeypatch.setenv(VARIABLE, "strict")
    assert product(*args, **keywords) == "theirs" and len(went) == 3


def test_aiters_own_default_may_be_beyond_the_row() -> None:
    """As fmoe_int8_g1u0_a16's: it was GELU, and is SiLU; ours is GELU."""
    product, went = made("x, w, sink=4")
    assert product(1, 2) == "theirs" and product(1, 2, 0) == (1, 2, 1, None)
    assert went == [((1, 2), {})]


@pytest.mark.parametrize(
    "call", [((1, 2), {}), ((1, 2, 0, 4), {}), ((1, 2, 0), {"x": 1}), ((1, 2, 0), {"z": 1})]
)
def test_a_wrong_call_is_wrong(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    product, went = made("x, w, sink")
    with pytest.raises(TypeError):
        product(*call[0], **call[1])
    assert not went


class Columns:
    """A tensor of so many columns."""

    def __init__(self, columns: int) -> None:
        self.shape = (3, 5, columns)


@pytest.mark.parametrize(
    ("name", "options"),
    [("fused_flatten_fp8_group_quant", (Columns(192), 128)), ("fused_flatten_mxfp4_quant", (Columns(96),))],
)
def test_groups_that_would_cross_a_row_are_aiters(name: str, options: tuple[Any, ...]) -> None:
    with pytest.raises(UnsupportedError):
        serving.ours(f"adapted.{name}")[0](*options)


class Cache:
    """A tensor of such a shape, with elements of so many bytes."""

    dtype = "its type"

    def __init__(self, *shape: int, size: int = 2) -> None:
        self.shape, self.size = shape, size

    def dim(self) -> int:
        return len(self.shape)

    def element_size(self) -> int:
        return self.size

    def contiguous(self) -> str:
        return "contiguous"


@pytest.mark.parametrize(
    ("given", "served"),
    [
        ({}, True),
        ({"scale": 0.1}, False),  # the assembly's scale is D**-0.5
        ({"V": Cache(9, 2, 128, 16)}, False),  # the layout of AITER's other kernel
        ({"kv_cache_tensor_dtype": "another"}, False),
        ({"K": Cache(9, 2, 8, 16, 16, size=1)}, False),  # no scales of keys
        ({"K": Cache(9, 2, 8, 16, 16, size=1), "K_QScale_asm": 1, "V_QScale_asm": 2}, True),
    ],
)
def test_decode_of_groups_is_ours_where_the_assembly_computes_it(
    given: dict[str, Any], served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import aiter_prebuilt

    calls: list[tuple[Any, ...]] = []

    def ours(*args: Any) -> str:
        calls.append(args)
        return "out"

    monkeypatch.setattr(aiter_prebuilt, "pa_fwd_asm", ours, raising=False)
    usual = {
        "Q": Cache(3, 4, 128), "K": Cache(9, 2, 16, 16, 8), "V": Cache(9, 2, 2, 128, 8), "exp_sums": None,
        "max_logits": None, "tmp_out": None, "block_tables": "tables", "context_lens": "lens", "block_tables_stride0": 32,
        "scale": 128**-0.5, "out_": "out",
    }  # fmt: skip
    function = serving.ours("adapted.paged_attention_common")[0]
    if not served:
        with pytest.raises(UnsupportedError):
            function(**usual | given)
        assert not calls
        return
    assert function(**usual | given) == "out"
    scales = given.get("K_QScale_asm"), given.get("V_QScale_asm")
    assert calls[0][0] == "contiguous" and calls[0][3:] == (
        "tables",
        "lens",
        32,
        1,
        *scales,
        "out",
        None,
        1,
        None,
    )


def test_a_result_is_written_where_aiters_caller_wants_it() -> None:
    """Ours makes a tensor; it is copied, if the caller's has that shape and type, and the caller's is returned."""
    torch = pytest.importorskip("torch")

    def ours(x: Any, dtype: Any = None) -> Any:
        return x * 2

    cover = compare(signature("x, y=None, dtype=None"), inspect.signature(ours), Reading(into="y"))
    assert not cover.why and cover.words is not None
    called = argument_mapping.put(ours, cover.omitted, cover.words, None)
    x, turned = torch.arange(6.0).view(2, 3), torch.full((3, 2), 7.0).T
    assert called(x).equal(x * 2) and called(x, turned) is turned and turned.equal(x * 2)
    for wrong in (torch.empty(3, 2), torch.empty(2, 3, dtype=torch.float64)):
        with pytest.raises(UnsupportedError, match="the result is of"):
            called(x, y=wrong)
