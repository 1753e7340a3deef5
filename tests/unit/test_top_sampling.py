"""Sampling among the most probable tokens: whom the reference takes and how often, and what reaches the operator."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from support import references  # noqa: E402

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import ArgumentKindError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402

TOKENS = 20000
#: Of up to 60 kinds of token, a sum of squares beyond this comes by chance less than once in a thousand times.
UNLIKELY = 100.0
NAMES = ("top_p_sampling_from_probs", "top_k_top_p_sampling_from_probs")


def drawn(probs: Any, k: int | None, p: float, generator: tuple[int, int]) -> Any:
    """Tokens of one row, by the reference: `prove` compares kernels with it token by token."""
    row, indices = np.asarray(probs)[None], np.zeros(TOKENS, np.int64)
    functions = references.functions()
    if k is None:
        return functions[NAMES[0]](row, indices, None, p, generator)
    return functions[NAMES[1]](row, indices, None, k, None, p, generator)


def chosen(probs: Any, k: int, p: float) -> Any:
    """The rule by itself, in exact numbers: fewer than k are larger, and these sum to less than p."""
    exact = [Fraction(float(value)) for value in probs]
    taken = []
    for value in exact:
        larger = [other for other in exact if other > value]
        taken.append(value > 0 and (not larger or (len(larger) < k and sum(larger) < Fraction(p))))
    return np.array(taken)


def halves() -> Any:
    """1/4, 2 of 1/8, 4 of 1/16, 8 of 1/32, and as many zeros, in an order that is none."""
    values = np.repeat([0.25, 0.125, 0.0625, 0.03125, 0.0], [1, 2, 4, 8, 15])
    return np.random.default_rng(5).permutation(values)


def softmax(size: int, spread: float) -> Any:
    weights = np.exp(np.random.default_rng(size).normal(size=size) * spread).astype(np.float32)
    return (weights / weights.sum()).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize(
    ("probs", "k", "p"),
    [
        (halves(), 100, 1.0),
        (halves(), 3, 1.0),  # two equal ones are the second and third
        (halves(), 4, 1.0),  # the fourth has three equals
        (halves(), 100, 0.5),  # the three largest sum to it exactly
        (halves(), 100, 0.5 + 2**-24),
        (halves(), 100, 0.25),
        (halves(), 2, 0.75),
        (halves(), 0, 0.0),  # the largest
        (softmax(50, 2.0), 20, 0.9),
        (softmax(50, 0.5), 50, 0.6),
        (softmax(40, 3.0), None, 0.8),
        (halves(), None, 0.75),
        (halves() * 4, 100, 0.5),  # a row that does not sum to 1: p is of it as it is
    ],
)  # fmt: skip
def test_tokens_come_as_often_as_they_are_probable(probs: Any, k: int | None, p: float) -> None:
    taken = chosen(probs, len(probs) + 1 if k is None else k, p)
    tokens = drawn(probs, k, p, (1234, 8))
    counts = np.bincount(tokens, minlength=len(probs))
    assert not counts[~taken].any()
    wanted = probs * taken / (probs * taken).sum() * TOKENS
    kinds = wanted > 0
    assert (((counts - wanted)[kinds] ** 2) / wanted[kinds]).sum() < UNLIKELY


def test_other_states_draw_other_tokens() -> None:
    probs = softmax(50, 1.0)
    first, second, later = (drawn(probs, None, 1.0, state) for state in ((1, 0), (2, 0), (1, 4)))
    assert (first == second).mean() < 0.2 and (first == later).mean() < 0.2
    assert np.array_equal(first, drawn(probs, None, 1.0, (1, 0)))


def test_probabilities_of_the_most_probable_sum_to_1() -> None:
    probs = np.stack([halves(), np.roll(halves(), 3)])
    renorm = references.functions()["top_k_renorm_probs"]
    for k, total in ((1, 0.25), (2, 0.5), (3, 0.5), (4, 0.75), (0, 1.0), (500, 1.0)):
        wanted = np.array([chosen(row, 50 if k == 0 else k, 2.0) * row / total for row in probs])
        np.testing.assert_allclose(renorm(probs, None, k).values, wanted, rtol=1e-15)


class Generator:
    """As torch's of a device."""

    def __init__(self) -> None:
        self.offset = 12

    def initial_seed(self) -> int:
        return 7

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        self.offset = offset


def handed(name: str, call: Callable[..., Any], *args: Any, **words: Any) -> tuple[Any, list[Any], list[Any]]:
    """What is returned, and the tensors and attributes that go to the native side."""
    seen: list[tuple[list[Any], list[Any]]] = []
    with instead(getattr(ap, name), lambda _, tensors, attributes: seen.append((tensors, attributes))):
        out = call(*args, **words)
    ((tensors, attributes),) = seen
    return out, tensors, attributes


def test_the_generator_moves_on_as_aiters_does() -> None:
    """By 32 numbers for each token."""
    probs, generator = torch.zeros(3, 8), Generator()
    for rows, count in (
        (None, 3),
        (torch.zeros(5, dtype=torch.int32), 5),
        (torch.zeros(0, dtype=torch.int32), 0),
    ):
        generator.offset = 12
        out, _, attributes = handed(
            NAMES[0], ap.top_p_sampling_from_probs, probs, rows, None, 0.5, generator=generator
        )
        assert out.shape == (count,) and out.dtype == torch.int32
        assert attributes == [0.5, 7, 12] and generator.offset == 12 + 32 * count


def test_the_default_is_the_devices_own(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = Generator()
    cuda = SimpleNamespace(default_generators=[generator], current_device=lambda: 0)
    monkeypatch.setattr(torch, "cuda", cuda)
    _, _, attributes = handed(
        NAMES[1], ap.top_k_top_p_sampling_from_probs, torch.zeros(2, 8), None, None, 4, None, 0.5, True
    )
    assert attributes == [4, 0.5, 7, 12] and generator.offset == 76


def test_other_types_are_turned_into_those_that_the_kernel_reads() -> None:
    probs, k, p = torch.rand(2, 8).bfloat16(), torch.tensor([3, 4]), torch.rand(2, dtype=torch.float64)
    rows = torch.tensor([1, 0, 1])
    _, tensors, _ = handed(
        NAMES[1], ap.top_k_top_p_sampling_from_probs, probs, rows, k, 0, p, 1.0, generator=(1, 2)
    )
    assert [tensor.dtype for tensor in tensors] == [
        torch.float32,
        torch.int32,
        torch.int32,
        torch.float32,
        torch.int32,
    ]
    for given, found in zip((probs, rows, k, p), tensors, strict=False):
        assert torch.equal(given.to(found.dtype), found)
    out, tensors, _ = handed("top_k_renorm_probs", ap.top_k_renorm_probs, probs, k, 0)
    assert [tensor.dtype for tensor in tensors] == [torch.float32, torch.int32, torch.float32]
    assert out.shape == (2, 8) and torch.equal(tensors[0], probs.float())


def test_what_has_the_type_is_handed_on_as_it_is() -> None:
    probs, k = torch.rand(4, 16)[:, :8], torch.tensor([3, 4, 1, 2], dtype=torch.int32)
    _, tensors, _ = handed("top_k_renorm_probs", ap.top_k_renorm_probs, probs, k, 0)
    assert tensors[0] is probs and tensors[1] is k


@pytest.mark.parametrize("generator", [5, (1,), (1.0, 2)])
def test_what_is_no_state_is_refused(generator: Any) -> None:
    with pytest.raises(ArgumentKindError, match=r"generator must be .* two integers \(seed, offset\), got"):
        ap.top_p_sampling_from_probs(torch.zeros(2, 8), None, None, 0.5, generator=generator)


def test_what_is_no_tensor_is_named() -> None:
    with pytest.raises(ArgumentKindError, match="top_k_renorm_probs"):
        ap.top_k_renorm_probs(torch.zeros(2, 8), 5, 3)
    with pytest.raises(ArgumentKindError, match="top_k_top_p_sampling_from_probs"):
        ap.top_k_top_p_sampling_from_probs(None, None, None, 3, None, 0.5)
