"""What calls of clients on the embedded device share: random inputs, and what is wrong with a result beside float64."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

EPS = 1e-6
#: A call by name: it is given what it calls, and returns what is wrong with its results.
Calls = dict[str, Callable[[Any], list[str]]]


class Tools:
    """Random inputs, and comparisons, for one target."""

    def __init__(self, target: str) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.fp8 = self.torch.float8_e4m3fn if target == "gfx950" else self.torch.float8_e4m3fnuz
        self.largest = self.torch.finfo(self.fp8).max if target == "gfx950" else 240.0
        self.target = target
        self.torch.manual_seed(5)

    def bf16(self, *shape: int, scale: float = 1.0) -> Any:
        return (self.torch.randn(*shape) * scale).bfloat16()

    def quantised(self, *shape: int) -> Any:
        """fp8 values of a size that products do not overflow with."""
        return (self.torch.randn(*shape) * 8).clamp(-100, 100).to(self.fp8)

    def scales(self, *shape: int) -> Any:
        return self.torch.rand(*shape) * 0.05 + 0.01

    def far(self, name: str, found: Any, want: Any, relative: float = 2**-7) -> list[str]:
        """Is ``found`` further from ``want`` than ``relative`` of the largest value?"""
        if tuple(found.shape) != tuple(want.shape):
            return [f"{name}: {tuple(found.shape)} instead of {tuple(want.shape)}"]
        found = found.double()
        worst = (found - want.double()).abs().max().item()
        bound = relative * max(want.double().abs().max().item(), 1e-30)
        return [] if worst <= bound else [f"{name}: off by {worst:.3g}, {bound:.3g} is allowed"]

    def codes(self, name: str, found: Any, scale: Any, want: Any, group: int) -> list[str]:
        """fp8 (or int8) ``found`` times ``scale`` is ``want`` to half a step, and the scales use the whole range."""
        kind = found.dtype
        top = 127.0 if kind == self.torch.int8 else self.largest
        parts = want.double().reshape(*want.shape[:-1], -1, group)
        exact = parts.abs().amax(-1) / top
        problems = self.far(f"{name}'s scale", scale.reshape(exact.shape), exact, 2**-6)
        again = found.double().reshape(parts.shape) * scale.double().reshape(exact.shape)[..., None]
        step = exact[..., None] if kind == self.torch.int8 else parts.abs() * 2**-3 + exact[..., None] * 2**-6
        if ((again - parts).abs() > step).any():
            problems.append(f"{name}: a code is further than a step from its value")
        return problems

    def norm(self, x: Any, weight: Any) -> Any:
        x = x.double()
        return x * (x.pow(2).mean(-1, keepdim=True) + EPS).rsqrt() * weight.double()

    def faked(self, operator: Any, *args: Any) -> list[str]:
        """Do the fake's results look like the operator's?"""
        torch = self.torch
        result = operator(*args)
        mode = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()
        with mode:
            inputs = [mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in args]
            fake = operator(*inputs)
        listed, fakes = (
            [each] if not isinstance(each, (tuple, list)) else [*each] for each in (result, fake)
        )
        looks = [
            [(tuple(each.shape), each.dtype) for each in some if each is not None] for some in (listed, fakes)
        ]
        return [] if looks[0] == looks[1] else [f"{operator}: its fake has {looks[1]} for {looks[0]}"]
