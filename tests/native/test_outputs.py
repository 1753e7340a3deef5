"""``Outputs``: what was made for arguments is made again without asking, and for others it is asked."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def outputs(native: ModuleType) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As ``ops._common.outputs`` has it, on the extension of these tests."""
    from aiter_prebuilt.ops import _common

    def made(make: Callable[..., Any]) -> Callable[..., Any]:
        found: Callable[..., Any] = native.Outputs(make, _common._prototypes)
        return found

    return made


def counted(asked: list[tuple[Any, ...]]) -> Callable[..., Any]:
    """Makes a product's result, and says for what."""

    def make(rows: Any, weight: Any, kind: Any = None) -> Any:
        asked.append((rows.shape, weight.shape, kind))
        return rows.new_empty((*rows.shape[:-1], weight.shape[0]), dtype=kind or rows.dtype)

    return make


def test_the_same_shapes_ask_once(outputs: Any) -> None:
    """New memory each time, of the same shape and type, filled by nobody else."""
    asked: list[tuple[Any, ...]] = []
    new = outputs(counted(asked))
    made = [new(torch.empty(3, 5), torch.empty(7, 5)) for _ in range(4)]
    assert len(asked) == 1
    assert {(tuple(each.shape), each.dtype, each.is_contiguous()) for each in made} == {
        ((3, 7), torch.float32, True)
    }
    assert len({each.data_ptr() for each in made}) == 4
    for number, each in enumerate(made):
        assert each.untyped_storage().nbytes() == 84
        each.fill_(number)
    assert [float(each.sum()) for each in made] == [21.0 * number for number in range(4)]


def test_what_differs_is_asked_for(outputs: Any) -> None:
    """Shapes, element types, ranks, options and ints; what was asked for before is remembered beside it."""
    asked: list[tuple[Any, ...]] = []
    new = outputs(counted(asked))
    calls = [
        (torch.empty(3, 5), torch.empty(7, 5)),
        (torch.empty(4, 5), torch.empty(7, 5)),
        (torch.empty(2, 3, 5), torch.empty(7, 5)),
        (torch.empty(3, 5, dtype=torch.bfloat16), torch.empty(7, 5)),
        (torch.empty(3, 5), torch.empty(7, 5), torch.int8),
        (torch.empty(3, 5), torch.empty(7, 5), torch.float16),
        (torch.empty(3, 5), torch.empty(7, 5), None),
        (torch.nn.Parameter(torch.empty(3, 5), requires_grad=False), torch.empty(7, 5)),
    ]
    for _ in range(3):
        for call in calls:
            rows, weight, *kind = call
            made = new(*call)
            wanted = (*rows.shape[:-1], weight.shape[0])
            assert made.shape == wanted and made.dtype == ((kind and kind[0]) or rows.dtype)
    assert len(asked) == len(calls)
    sizes = outputs(lambda x, size, flag: x.new_empty((size, 2 if flag else 1)))
    for _ in range(2):
        for size in (1, 2, 300, 2**40 % 7):
            for flag in (True, False, 1):
                assert sizes(torch.empty(1), size, flag).shape == (size, 2 if flag else 1)


def test_few_calls_never_push_each_other_out(outputs: Any) -> None:
    """Whichever sets their keys fall into, which depends on addresses: eight calls in turn are asked for once each."""
    asked: list[int] = []

    def make(x: Any, size: int) -> Any:
        asked.append(size)
        return x.new_empty((size,))

    new = outputs(make)
    x = torch.empty(1)
    for first in range(0, 2000, 8):
        for _ in range(3):
            for size in range(first, first + 8):
                assert new(x, size).shape == (size,)
    assert asked == list(range(2000))


def test_a_hot_call_stays_in_a_stream_of_others(outputs: Any) -> None:
    """What was used longest ago goes, so that a call that comes in between each of 3,000 new ones is asked for once."""
    asked: list[int] = []

    def make(x: Any, size: int) -> Any:
        asked.append(size)
        return x.new_empty((size,))

    new = outputs(make)
    x = torch.empty(1)
    for size in range(1, 3000):
        assert new(x, 0).shape == (0,) and new(x, size).shape == (size,)
    assert asked.count(0) == 1 and len(asked) == 3000


def test_several_results(outputs: Any) -> None:
    asked: list[int] = []

    def make(x: Any) -> tuple[Any, ...]:
        asked.append(1)
        return torch.empty(x.shape, dtype=torch.int8), torch.empty(x.shape[0], dtype=torch.float32)

    new = outputs(make)
    for _ in range(3):
        codes, scales = new(torch.empty(4, 6))
        assert (codes.dtype, codes.shape, scales.dtype, scales.shape) == (
            torch.int8,
            (4, 6),
            torch.float32,
            (4,),
        )
    assert len(asked) == 1


def test_numbers_stay_and_one_in_a_tuple_is_one_in_a_tuple(outputs: Any) -> None:
    asked: list[int] = []

    def make(x: Any, parts: Any) -> tuple[Any, ...]:
        asked.append(1)
        return (x.new_empty((2,)),) if parts is None else (x.new_empty((parts, 2)), None, parts, 0.5, True)

    new = outputs(make)
    for _ in range(3):
        (one,) = new(torch.empty(3), None)
        assert one.shape == (2,)
        logits, *rest = new(torch.empty(3), 7)
        assert logits.shape == (7, 2) and rest == [None, 7, 0.5, True]
    assert len(asked) == 2


def test_what_cannot_be_remembered_is_made_each_time(outputs: Any) -> None:
    """Results that are no dense tensors of torch, tensors without a framework, and more arguments than a key holds."""
    asked: list[int] = []

    def turned(x: Any, *more: Any) -> Any:
        asked.append(1)
        return torch.empty(3, 4).t() if hasattr(x, "shape") else x

    new = outputs(turned)
    for call in ((torch.empty(2),), ((1, "f32", (2,), None, ("amd", 0)),), (torch.empty(2), *range(9))):
        asked.clear()
        new(*call)
        new(*call)
        assert len(asked) == 2


def test_errors_go_on(outputs: Any) -> None:
    new = outputs(counted([]))
    with pytest.raises(AttributeError, match="shape"):
        new(3, 4)
    with pytest.raises(TypeError, match="by position"):
        new(rows=torch.empty(2, 2))
    with pytest.raises(IndexError):
        new(torch.empty(2, 2), torch.empty(()))


def test_inference_mode_and_back(outputs: Any) -> None:
    """What was first made under inference mode is no inference tensor outside of it."""
    new = outputs(counted([]))
    call = (torch.empty(3, 5), torch.empty(7, 5))
    with torch.inference_mode():
        assert new(*call).is_inference() and new(*call).is_inference()
    assert not new(*call).is_inference() and not new(*call).requires_grad


def test_a_stream_of_shapes_keeps_nothing(outputs: Any) -> None:
    """Options that stand in a key live no longer than their entry; the table does not grow, and nothing leaks."""

    class Option:
        pass

    new = outputs(lambda x, option: x.new_empty(x.shape))
    option = Option()
    gone = weakref.ref(option)
    new(torch.empty(1), option)
    del option
    assert gone() is not None, "its address must not become another's while the entry is there"
    x = torch.empty(1)
    before = sys.getrefcount(x)
    for size in range(2, 3000):
        assert new(torch.empty(size), None).shape == (size,)
    new(x, None)
    gc.collect()
    assert gone() is None and sys.getrefcount(x) == before
