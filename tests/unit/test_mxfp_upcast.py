"""Numbers in MX formats along any axis, with the reference as the kernel."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import ArgumentKindError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402

FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def numbers(codes: Any, scales: Any, axis: int) -> Any:
    """What the codes say, one index at a time along the axis."""
    pairs = torch.stack([FP4[(codes & 15).long()], FP4[(codes >> 4).long()]], dim=axis + 1)
    values = pairs.flatten(axis, axis + 1)
    powers = torch.exp2(scales.float() - 127).repeat_interleave(32, dim=axis)
    return values * powers.narrow(axis, 0, values.shape[axis])


@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 48), 1), ((48, 5), 0), ((2, 48, 3), 1), ((2, 3, 48), -1), ((48,), 0)]
)
def test_along_any_axis(library: Any, shape: tuple[int, ...], axis: int) -> None:
    codes = torch.randint(0, 256, shape, dtype=torch.uint8)
    axis %= len(shape)
    groups = list(shape)
    groups[axis] = 3
    scales = torch.randint(120, 134, groups, dtype=torch.uint8)
    torch._dynamo.reset()
    called = torch.compile(
        lambda x, s, kind: ap.upcast_from_mxfp(x, s, kind, axis), fullgraph=True, backend="eager"
    )
    for dtype in (torch.bfloat16, torch.float16, None):
        found = called(codes, scales, dtype)
        wanted = numbers(codes, scales, axis).to(dtype or torch.bfloat16)
        assert found.dtype == wanted.dtype and found.is_contiguous() and torch.equal(found, wanted)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize(("shape", "axis"), [((5, 80), 1), ((80, 5), 0), ((2, 80, 3), -2), ((80,), 0)])
def test_of_fp8_along_any_axis(library: Any, shape: tuple[int, ...], axis: int, kind: Any) -> None:
    tensor = torch.randint(0, 256, shape, dtype=torch.uint8).view(kind)
    axis %= len(shape)
    groups = list(shape)
    groups[axis] = 3
    scales = torch.randint(120, 134, groups, dtype=torch.uint8)
    powers = torch.exp2(scales.float() - 127).repeat_interleave(32, dim=axis).narrow(axis, 0, 80)
    torch._dynamo.reset()
    called = torch.compile(
        lambda x, s, wanted: (
            ap.upcast_from_mxfp(x, s, wanted, axis),
            ap.upcast_from_mxfp8(x, s, wanted, axis),
        ),
        fullgraph=True,
        backend="eager",
    )
    for dtype in (torch.bfloat16, torch.float16, None):
        wanted = (tensor.float() * powers).to(dtype or torch.bfloat16)
        for found in called(tensor, scales, dtype):
            assert found.dtype == wanted.dtype and found.is_contiguous()
            torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_fp8_is_a_call_of_its_own_operator(kind: Any) -> None:
    tensor, scales = torch.zeros(3, 41).to(kind), torch.zeros(3, 2, dtype=torch.uint8)
    seen: list[list[Any]] = []
    with instead(ap.upcast_from_mxfp8, lambda _, tensors, attributes: seen.append(list(tensors))):
        out = ap.upcast_from_mxfp(tensor, scales, torch.float16, -1)
    ((given, powers, written),) = seen
    assert given is tensor and powers is scales and written is out and out.shape == (3, 41)


def test_what_needs_no_turn_is_handed_on_as_it_is() -> None:
    codes, scales = torch.zeros(3, 16, dtype=torch.uint8), torch.zeros(3, 1, dtype=torch.uint8)
    seen: list[list[Any]] = []
    with instead(ap.upcast_from_mxfp, lambda _, tensors, attributes: seen.append(list(tensors))):
        out = ap.upcast_from_mxfp(codes, scales, torch.float16, -1)
    ((given, powers, written),) = seen
    assert given is codes and powers is scales and written is out and out.shape == (3, 32)


@pytest.mark.parametrize(("scales", "axis"), [((3, 1), 2), ((3, 1), -3), ((3, 1, 1), 1)])
def test_no_such_axis_is_refused(scales: tuple[int, ...], axis: int) -> None:
    codes = torch.zeros(3, 16, dtype=torch.uint8)
    with pytest.raises(ArgumentKindError, match=f"axis {axis} of 2 dims, and scales of {len(scales)}"):
        ap.upcast_from_mxfp(codes, torch.zeros(scales, dtype=torch.uint8), torch.bfloat16, axis)
