"""Memory that an output shares with itself or with another tensor: refused by name, unless the signature says in place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.exchange import Capsules, DeviceTensor, GpuTensor
from native.synthetic import Op, R, S, T

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator

X = 0x7F0000000000
ROW = 64  # elements of a row of the shared buffer, 2 bytes each
Layout = tuple[int, tuple[int, ...], tuple[int, ...]]  # elements from X, shape, strides


def spec(blob: str, in_place: str = "", more: bool = False) -> Op:
    """out[*M, N] written from x[*M, N] and w[N]; ``more`` writes a second one, and reads and writes a cache."""
    tensors = [
        T("out", "bf16", ["*M", "N"], ["out_row", "_"], role="out", in_place=in_place),
        T("x", "bf16", ["*M", "N"], ["x_row", "_"]),
        T("w", "bf16", ["K"], ["_"], optional=True),
    ]
    if more:
        tensors.append(T("second", "bf16", ["*M2", "N2"], ["second_row", "_"], role="out"))
        tensors.append(T("cache", "bf16", ["L"], ["_"], role="inout"))
    return Op("o", tensors, recipes=[R(steps=[S("k", ["ptr out", "ptr x"])], blob=blob)])


@pytest.fixture
def op(serve: Serve, blob: Blob) -> Operator:
    return serve(spec(blob()))


def as_raw(layout: Layout) -> Any:
    return raw(X + 2 * layout[0], "bf16", layout[1], layout[2])


def as_exchange(layout: Layout) -> Any:
    return GpuTensor(X + 2 * layout[0], "bf16", layout[1], layout[2])


def as_capsule(layout: Layout) -> Any:
    return Capsules(DeviceTensor(X + 2 * layout[0], "bf16", layout[1], layout[2]))


FORMS = (as_raw, as_exchange, as_capsule)
Form = Callable[[Layout], Any]

OWN: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((4, 8), (0, 1)),
    ((4, 8), (7, 1)),
    ((4, 8), (8, 0)),
    ((2, 4, 8), (0, 8, 1)),
    ((2, 2, 8), (8, 4, 1)),
    ((4, 8), (1, 3)),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("shape", "strides"), OWN)
def test_outputs_that_overlap_themselves(
    op: Operator, stub: Stub, form: Form, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    good = as_raw((10**6, shape, tuple(DeviceTensor(X, "bf16", shape)._strides)))
    for _ in range(2):
        launches = stub.launches()
        with pytest.raises(errors.ArgumentStrideError, match="out is written and must not overlap itself"):
            op(form((0, shape, strides)), good, None)
        assert stub.launches() == launches
        if len(shape) == 2:
            op(good, form((0, shape, strides)), None)  # an input may repeat what it likes


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((4, 8), (8, 1)), ((4, 8), (1, 4)), ((1, 8), (0, 1)), ((2, 1, 8), (8, 0, 1)), ((0, 8), (0, 0))],
)
def test_outputs_that_do_not(
    op: Operator, stub: Stub, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    op(as_raw((0, shape, strides)), as_raw((10**6, shape, strides)), None)
    assert stub.launches() == 1


ROWS = (4, 16)
SHARED: list[tuple[str, Layout, Layout]] = [
    # what, out, x
    ("the same", (0, ROWS, (16, 1)), (0, ROWS, (16, 1))),
    ("behind by one", (1, ROWS, (16, 1)), (0, ROWS, (16, 1))),
    ("in front by one", (0, ROWS, (16, 1)), (1, ROWS, (16, 1))),
    ("the last element", (63, ROWS, (16, 1)), (0, ROWS, (16, 1))),
    ("the first element", (0, ROWS, (16, 1)), (63, ROWS, (16, 1))),
    ("one of its rows", (10 * ROW, ROWS, (16, 1)), (0, ROWS, (10 * ROW, 1))),
    ("columns that meet", (0, ROWS, (ROW, 1)), (15, ROWS, (ROW, 1))),
    ("columns that meet from the left", (15, ROWS, (ROW, 1)), (0, ROWS, (ROW, 1))),
    ("columns that meet at the end of a row", (0, ROWS, (ROW, 1)), (ROW - 15, ROWS, (ROW, 1))),
    ("the same, other rows", (0, ROWS, (ROW, 1)), (0, ROWS, (16, 1))),
]
APART: list[tuple[str, Layout, Layout]] = [
    ("behind", (64, ROWS, (16, 1)), (0, ROWS, (16, 1))),
    ("in front", (0, ROWS, (16, 1)), (64, ROWS, (16, 1))),
    ("columns", (0, ROWS, (ROW, 1)), (16, ROWS, (ROW, 1))),
    ("columns from the left", (16, ROWS, (ROW, 1)), (0, ROWS, (ROW, 1))),
    ("columns at the end of a row", (0, ROWS, (ROW, 1)), (ROW - 16, ROWS, (ROW, 1))),
    ("columns, a row further", (0, ROWS, (ROW, 1)), (ROW + 16, ROWS, (ROW, 1))),
    ("every other row", (0, ROWS, (2 * ROW, 1)), (ROW, ROWS, (2 * ROW, 1))),
    ("heads of packed rows", (0, (2, 2, 16), (4 * ROW, 2 * ROW, 1)), (16, (2, 2, 16), (4 * ROW, 2 * ROW, 1))),
    ("between two rows", (ROW, ROWS, (16, 1)), (0, ROWS, (10 * ROW, 1))),
    ("no elements", (0, (0, 16), (16, 1)), (0, (0, 16), (16, 1))),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("out", "x"), [case[1:] for case in SHARED], ids=[case[0] for case in SHARED])
def test_an_input_in_the_way(op: Operator, stub: Stub, form: Form, out: Layout, x: Layout) -> None:
    far = (10**6, *x[1:])
    for _ in range(2):
        launches = stub.launches()
        with pytest.raises(
            errors.ArgumentStrideError,
            match=r"o: out is written, and its memory .* overlaps x \(.*Pass memory of its own",
        ):
            op(form(out), form(x), None)
        assert stub.launches() == launches
        op(form(out), form(far), None)  # the same layouts elsewhere: the memo knows them from now on
        assert stub.launches() == launches + 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("out", "x"), [case[1:] for case in APART], ids=[case[0] for case in APART])
def test_neighbours(op: Operator, stub: Stub, form: Form, out: Layout, x: Layout) -> None:
    for _ in range(3):
        op(form(out), form(x), None)
    assert stub.launches() == 3 or 0 in out[1]


def test_every_written_tensor_against_every_other(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(spec(blob(), more=True))
    free: dict[str, Layout] = {
        name: (
            10**6 * place,
            (64,) if name in ("w", "cache") else ROWS,
            (1,) if name in ("w", "cache") else (16, 1),
        )
        for place, name in enumerate(("out", "x", "w", "second", "cache"))
    }
    op(*(as_raw(layout) for layout in free.values()))
    for name in free:
        for other in free:
            moved = {**free, name: (free[other][0] + 3, *free[name][1:])}
            if name == other or (name in "xw" and other in "xw"):  # inputs may share
                op(*(as_raw(layout) for layout in moved.values()))
                continue
            with pytest.raises(errors.ArgumentStrideError, match="overlaps") as caught:
                op(*(as_raw(layout) for layout in moved.values()))
            assert name in str(caught.value) and other in str(caught.value)


IN_PLACE: list[tuple[Layout, Layout]] = [
    ((0, ROWS, (16, 1)), (0, ROWS, (16, 1))),
    ((0, ROWS, (ROW, 1)), (0, ROWS, (ROW, 1))),
    ((0, ROWS, (16, 1)), (0, (2, 2, 16), (32, 16, 1))),  # leading dims are taken as one
    ((0, (1, 16), (5, 1)), (0, (16,), (1,))),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("out", "x"), IN_PLACE)
def test_in_place_where_the_signature_says_so(
    serve: Serve, stub: Stub, blob: Blob, form: Form, out: Layout, x: Layout
) -> None:
    op = serve(spec(blob(), in_place="x"))
    for _ in range(3):
        op(form(out), form(x), None)
    assert stub.launches() == 3
    with pytest.raises(errors.ArgumentStrideError, match=r"overlaps x.*Pass x itself, with the same address"):
        op(form((out[0] + 1, *out[1:])), form(x), None)
    with pytest.raises(errors.ArgumentStrideError, match=r"overlaps w.*Pass memory of its own"):
        op(form(out), form(x), form((0, (4,), (1,))))
    assert stub.launches() == 3


def test_in_place_needs_the_same_layout(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(spec(blob(), in_place="x"))
    for name, out, x in SHARED:
        if name == "the same":
            continue
        with pytest.raises(errors.ArgumentStrideError, match="Pass x itself"):
            op(as_raw(out), as_raw(x), None)
    with pytest.raises(errors.ArgumentStrideError, match="Pass x itself"):
        op(as_raw((0, (4, 4), (4, 1))), as_raw((0, (4, 4), (1, 4))), None)
    assert stub.launches() == 0


def test_in_place_needs_the_word_of_every_bundle(serve: Serve, stub: Stub, blob: Blob) -> None:
    """Bundles of one text whose words differ are no bundles of one release: none of them is served, whichever comes first."""

    def both(first: str, second: str) -> Operator:
        more = {"recipes": [R(variant="other", steps=[S("k", ["ptr out", "ptr x"])], blob=blob())]}
        return serve(spec(blob(), in_place=first), Op(**{**vars(spec(blob(), in_place=second)), **more}))

    memory = [as_raw(layout) for layout in IN_PLACE[0]]
    for first, second in (("x", ""), ("", "x")):
        with pytest.raises(errors.BundleConflictError, match="Cannot combine the bundles of o") as refused:
            both(first, second)(*memory, None)
        # The text is the same in both: it stands there once, with what differs.
        said = "have the signature '[^']+' and differ in the argument that out may be in place of\\. "
        assert re.search(said, str(refused.value))
    with pytest.raises(errors.ArgumentStrideError, match="overlaps x"):
        both("", "")(*memory, None)
    assert stub.launches() == 0
    both("x", "x")(*memory, None)
    assert stub.launches() == 1
