"""Numbers as MX formats along any axis, with the reference as the kernel: what comes back is near, in AITER's layout."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import ArgumentKindError, UnsupportedError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402
from aiter_prebuilt.ops import _mxfp  # noqa: E402

KINDS = (torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2)
#: Of a code: its largest number, and how far off a number in its range may be, of the power of two below it.
MOST = {torch.uint8: 6.0, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
OFF = {torch.uint8: 2.0**-2, torch.float8_e4m3fn: 2.0**-4, torch.float8_e5m2: 2.0**-3}
#: The smallest number whose distance to its neighbours grows with it.
LEAST = {torch.uint8: 1.0, torch.float8_e4m3fn: 2.0**-6, torch.float8_e5m2: 2.0**-14}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 96), 1), ((96, 5), 0), ((2, 80, 3), 1), ((2, 3, 80), -1), ((40,), 0)]
)
def test_along_any_axis_and_back(
    library: Any, shape: tuple[int, ...], axis: int, mode: int, kind: Any
) -> None:
    numbers = torch.randn(shape, dtype=torch.bfloat16)
    torch._dynamo.reset()
    called = torch.compile(
        lambda x: ap.downcast_to_mxfp(x, kind, axis, mode), fullgraph=True, backend="eager"
    )
    back = torch.compile(
        lambda x, powers: ap.upcast_from_mxfp(x, powers, torch.bfloat16, axis),
        fullgraph=True,
        backend="eager",
    )
    codes, scales = called(numbers)
    place = axis % len(shape)
    assert codes.dtype == kind and scales.dtype == torch.uint8
    each = 2 if kind == torch.uint8 else 1
    assert codes.shape == (*shape[:place], shape[place] // each, *shape[place + 1 :])
    assert scales.shape == (*shape[:place], -(-shape[place] // 32), *shape[place + 1 :])
    assert codes.stride(place) == 1 or codes.shape[place] == 1  # as AITER's: the axis is innermost in memory
    found = back(codes, scales).float()
    powers = torch.exp2(scales.float() - 127).repeat_interleave(32, place).narrow(place, 0, shape[place])
    top = numbers.float().abs()
    if mode == 0:
        assert (top <= MOST[kind] * powers).all()
    kept = top.clamp(max=MOST[kind] * powers) * numbers.float().sign()
    step = torch.exp2(torch.floor(torch.log2(kept.abs().clamp(min=1e-30))))
    assert ((found - kept).abs() <= OFF[kind] * torch.maximum(step, LEAST[kind] * powers)).all()
    assert (found - kept).abs().max() > 0  # it is no copy


@pytest.mark.parametrize("kind", KINDS[1:])
def test_fp8_is_a_call_of_its_own_operator(kind: Any) -> None:
    tensor = torch.zeros(3, 41)
    seen: list[list[Any]] = []
    with instead(ap.downcast_to_mxfp8, lambda _, tensors, attributes: seen.append([*tensors, *attributes])):
        codes, scales = ap.downcast_to_mxfp(tensor, kind, -1, 1)
    ((given, out, powers, mode),) = seen
    assert given is tensor and out is codes and powers is scales and mode == 1
    assert codes.shape == (3, 41) and codes.dtype == kind and scales.shape == (3, 2)


@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fnuz, "fp4"])
def test_another_type_is_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedError, match="out_quant_type"):
        ap.downcast_to_mxfp(torch.zeros(3, 32, dtype=torch.bfloat16), kind, -1)


@pytest.mark.parametrize("mode", [2, -1, "up"])
def test_another_way_to_a_scale_is_refused(mode: Any) -> None:
    for function in (ap.downcast_to_mxfp, ap.downcast_to_mxfp8):
        with pytest.raises(UnsupportedError, match="DEQUANT_SCALE_ROUNDING_MODE"):
            function(torch.zeros(3, 32), None, -1, mode)


@pytest.mark.parametrize("axis", [2, -3])
def test_no_such_axis_is_refused(axis: int) -> None:
    with pytest.raises(ArgumentKindError, match=f"axis {axis} of 2 dims"):
        ap.downcast_to_mxfp(torch.zeros(3, 16), torch.uint8, axis)


@pytest.mark.parametrize("view", [torch.randn(64, 32).T, torch.randn(64, 64)[:, :32]])
def test_a_matrix_whose_rows_do_not_follow_each_other_is_copied(view: Any) -> None:
    found, back = _mxfp.of_rows(view, -1)
    assert found.is_contiguous() and torch.equal(found, view) and back(found) is found
    codes, scales, _ = _mxfp.rows(view, view, 1)
    assert codes.is_contiguous() and scales.is_contiguous()
