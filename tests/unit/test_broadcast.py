"""Which three dims a kernel gets of two tensors that broadcast: as few rows as their strides allow, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import aiter_prebuilt
from aiter_prebuilt.errors import ArgumentKindError, ArgumentShapeError, UnsupportedError
from aiter_prebuilt.execute.record import instead

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

Shape = tuple[int, ...]
NOTHING: Any = None


def handed(call: Callable[[], Any], name: str) -> tuple[Any, list[Any]]:
    """What ``call`` returns, and the tensors that the native call gets."""
    seen: list[list[Any]] = []
    with ExitStack() as stack:
        keep = lambda operator, tensors, attributes: seen.append(tensors)  # noqa: E731
        stack.enter_context(instead(getattr(aiter_prebuilt, name), keep))
        result = call()
    (only,) = seen
    return result, only


def counted(*shape: int) -> Any:
    return torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)


@pytest.mark.parametrize(
    ("first", "second", "sizes"),
    [
        ((3, 5, 7), (3, 5, 7), ((1, 1, 105), (1, 1, 105), (1, 1, 105))),
        ((), (), ((1, 1, 1), (1, 1, 1), (1, 1, 1))),
        ((4,), (1,), ((1, 1, 4), (1, 1, 1), (1, 1, 4))),
        ((3, 5, 7), (7,), ((1, 15, 7), (1, 1, 7), (1, 15, 7))),
        ((3, 5, 7), (5, 1), ((3, 5, 7), (1, 5, 1), (3, 5, 7))),
        ((3, 1, 1), (3, 5, 7), ((1, 3, 1), (1, 3, 35), (1, 3, 35))),
        ((2, 3, 4, 5, 6), (2, 3, 1, 5, 6), ((6, 4, 30), (6, 1, 30), (6, 4, 30))),
        ((2, 3, 4, 5, 6), (6,), ((1, 120, 6), (1, 1, 6), (1, 120, 6))),
        ((5, 1), (1, 7), ((1, 5, 1), (1, 1, 7), (1, 5, 7))),
        ((0, 4), (4,), ((1, 0, 4), (1, 1, 4), (1, 0, 4))),
    ],
)
def test_dims_that_lie_behind_one_another_are_one(
    first: Shape, second: Shape, sizes: tuple[Shape, ...]
) -> None:
    one, two = counted(*first), counted(*second)
    out, given = handed(lambda: aiter_prebuilt.add(one, two), "add")
    assert out.shape == torch.broadcast_shapes(first, second) and out.is_contiguous()
    assert tuple(tuple(each.shape) for each in given) == sizes
    assert [each.data_ptr() for each in given] == [one.data_ptr(), two.data_ptr(), out.data_ptr()]
    assert torch.equal((given[0] + given[1]).reshape(out.shape), one + two)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(
    "kinds", list(itertools.permutations((torch.bfloat16, torch.float16, torch.float32), 2))
)
def test_operands_of_two_types_have_an_operator_of_their_own(number: int, kinds: tuple[Any, Any]) -> None:
    one, two = counted(3, 5, 7).to(kinds[0]), counted(5, 1).to(kinds[1])
    function = getattr(aiter_prebuilt, ("add", "sub", "mul", "div")[number])
    seen: list[tuple[list[Any], list[Any]]] = []
    with instead(
        aiter_prebuilt.binary_mixed, lambda _, tensors, attributes: seen.append((tensors, list(attributes)))
    ):
        out = function(one, two)
    (((first, second, written), attributes),) = seen
    assert out.dtype == torch.promote_types(*kinds) == torch.float32 and out.shape == (3, 5, 7)
    assert (first.dtype, second.dtype, attributes) == (*kinds, [number])
    assert [each.data_ptr() for each in (first, second, written)] == [
        each.data_ptr() for each in (one, two, out)
    ]


@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        (lambda: counted(2, 7, 5).transpose(1, 2), (2, 5, 7)),
        (lambda: counted(2, 5, 9)[..., :7], (1, 10, 7)),
        (lambda: counted(2, 1, 7).expand(2, 5, 7), (2, 1, 7)),
        (lambda: counted(1).expand(2, 5, 7), (1, 1, 1)),
        (lambda: counted(2, 10, 7)[:, ::2], (1, 10, 7)),
    ],
)
def test_strides_are_kept(made: Callable[[], Any], sizes: Shape) -> None:
    one, two = made(), counted(2, 5, 7)
    _, given = handed(lambda: aiter_prebuilt.mul(two, one), "mul")
    assert tuple(given[1].shape) == sizes and given[1].data_ptr() == one.data_ptr()
    assert torch.equal((given[0] * given[1]).reshape(2, 5, 7), two * one)


def test_the_input_is_changed_and_returned() -> None:
    one, two = counted(3, 5, 7), counted(7)
    back, given = handed(lambda: aiter_prebuilt.sub_(one, two), "sub_")
    assert back is one and [tuple(each.shape) for each in given] == [(1, 15, 7), (1, 1, 7)]
    assert given[0].data_ptr() == one.data_ptr()


def test_what_is_written_keeps_its_dims() -> None:
    """One that is repeated would be changed once for all its copies: the native side refuses its strides."""
    repeated = counted(1, 8).expand(5, 8)
    _, given = handed(lambda: aiter_prebuilt.add_(repeated, counted(1, 8)), "add_")
    assert tuple(given[0].shape) == (1, 5, 8) and given[0].stride()[1] == 0


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda: aiter_prebuilt.add(counted(3), counted(4)),
            ArgumentShapeError,
            r"input and other must broadcast, got \[3\] and \[4\]",
        ),
        (
            lambda: aiter_prebuilt.add_(counted(3), counted(2, 3)),
            ArgumentShapeError,
            "shape of the result, \\[2, 3\\]",
        ),
        (
            lambda: aiter_prebuilt.div(counted(2, 3, 4, 5), counted(2, 1, 4, 1)),
            UnsupportedError,
            r"in 4 dims",
        ),
        (
            lambda: aiter_prebuilt.div(counted(2), NOTHING),
            ArgumentKindError,
            "other must be a torch.Tensor, got None",
        ),
        (
            lambda: aiter_prebuilt.mul_(counted(2), NOTHING),
            ArgumentKindError,
            "other must be a torch.Tensor, got None",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()
