"""Where a call of :mod:`emulator.composed_calls` is made, and how its results are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch

import aiter_prebuilt as ap

PACKAGE: Final[Any] = ap
_FP4: Final = torch.tensor(
    [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64
)


class Place:
    """Where a call is made: its device, its target, and its draws."""

    def __init__(self, device: str, target: str, seed: int) -> None:
        self.device, self.target = device, target
        self.draw = torch.Generator().manual_seed(seed)
        self.fp8 = torch.float8_e4m3fn if target == "gfx950" else torch.float8_e4m3fnuz
        self.largest = torch.finfo(self.fp8).max

    def normal(self, *shape: int, kind: torch.dtype = torch.bfloat16) -> torch.Tensor:
        """Numbers on the device."""
        return torch.randn(*shape, generator=self.draw).to(kind).to(self.device)

    def whole(self, high: int, *shape: int, kind: torch.dtype = torch.int32) -> torch.Tensor:
        """Whole numbers on the device."""
        return torch.randint(0, high, shape, generator=self.draw).to(kind).to(self.device)


#: Makes a call, and compares it.
Call: TypeAlias = Callable[[Place], None]


def near(
    found: torch.Tensor, right: torch.Tensor, tolerance: float, like: torch.Tensor | None = None
) -> None:
    """Assert that a device's tensor is near to fp64 numbers of the processor's."""
    assert found.is_cuda and tuple(found.shape) == tuple(right.shape), (
        found.device,
        found.shape,
        right.shape,
    )
    if like is not None:
        assert found.dtype == like.dtype
    torch.testing.assert_close(found.cpu().double(), right.double(), rtol=tolerance, atol=tolerance)


def host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's numbers in fp64 on the processor."""
    return tensor.detach().cpu().double()


def dequantised(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Numbers of pairs of FP4 codes with a scale for 32."""
    pairs = codes.view(torch.uint8).cpu().long()
    values = torch.stack([_FP4[pairs & 15], _FP4[pairs >> 4]], -1).flatten(-2)
    exponents = scales.view(torch.uint8).cpu().double()[..., : values.shape[-1] // 32] - 127
    return values * torch.exp2(exponents).repeat_interleave(32, -1)
