"""AITER's rotary embeddings that make their output or write their input: what reaches the operator that each is around."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402

MODULES = ("rope_out", "rope_out_pairs", "rope_gradients", "rope_in_place")
NAMES = sorted(name for name, home in ap.ops.COMPOSED.items() if home in MODULES)
#: A value for each option that no other has.
OPTIONS = {
    "rotate_style": 1,
    "reuse_freqs_front_part": True,
    "nope_first": False,
    "img_height": 3,
    "img_width": 5,
}


def arguments(name: str) -> dict[str, Any]:
    """Each tensor of another width; the turned ones with rows that lie apart."""
    found: dict[str, Any] = {}
    for place, parameter in enumerate(inspect.signature(getattr(ap, name)).parameters):
        if parameter.startswith(("input", "output_grads")):
            found[parameter] = torch.zeros(6, 2, 4 + place, 16)[..., :8]
        elif parameter in OPTIONS:
            found[parameter] = OPTIONS[parameter]
        elif parameter != "transpose_output":
            found[parameter] = torch.zeros(3 + place)
    return found


def called(name: str, words: dict[str, Any]) -> tuple[tuple[Any, ...], list[Any], list[Any]]:
    """What is returned, and what the operator is given."""
    seen: list[tuple[list[Any], list[Any]]] = []
    operator = getattr(ap, f"{name.removesuffix('_inplace')}_impl")
    with instead(operator, lambda _, tensors, attributes: seen.append((tensors, attributes))):
        out = getattr(ap, name)(**words)
    ((tensors, attributes),) = seen
    return out if isinstance(out, tuple) else (out,), tensors, attributes


def test_all_of_aiters_are_there() -> None:
    """Each operator has a function that makes the output; each of a forward turn one in place, too."""
    operators = {name for name in ap.ops.HOMES if name.startswith("rope_") and name.endswith("_impl")}
    wanted = {name.removesuffix("_impl") for name in operators}
    assert set(NAMES) == wanted | {f"{name}_inplace" for name in wanted if name.endswith("_fwd")}


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_reaches_the_operator(name: str) -> None:
    words = arguments(name)
    out, tensors, attributes = called(name, words)
    turned = [value for key, value in words.items() if key.startswith(("input", "output_grads"))]
    written, read, tables = (
        tensors[: len(turned)],
        tensors[len(turned) : 2 * len(turned)],
        tensors[2 * len(turned) :],
    )
    assert all(found is given for found, given in zip(read, turned, strict=True))
    assert all(found is words[key] for found, key in zip(tables, _rest(words), strict=True))
    operator = inspect.signature(getattr(ap, f"{name.removesuffix('_inplace')}_impl")).parameters
    assert attributes == [words[key] for key in operator if key in OPTIONS]
    if name.endswith("_inplace"):
        assert out == (None,) and all(found is given for found, given in zip(written, turned, strict=True))
        return
    assert all(found is given for found, given in zip(written, out, strict=True))
    for made, given in zip(out, turned, strict=True):
        assert made.shape == given.shape and made.dtype == given.dtype and made.data_ptr() != given.data_ptr()


def _rest(words: dict[str, Any]) -> list[str]:
    return [key for key in words if key not in OPTIONS and not key.startswith(("input", "output_grads"))]


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "transpose_output" in inspect.signature(getattr(ap, name)).parameters]
)
def test_a_transposed_output_lies_as_batches_of_tokens(name: str) -> None:
    words = arguments(name)
    out, _, _ = called(name, {**words, "transpose_output": True})
    assert all(made.shape[:2] == (6, 2) and made.transpose(0, 1).is_contiguous() for made in out)
    out, _, _ = called(name, words)
    assert not any(made.transpose(0, 1).is_contiguous() for made in out)
