"""What stands in for torch while a FlyDSL kernel is compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from build_tools.compile.backends.flydsl_torch import _TYPES, DType, Tensor, install

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in; whatever of torch was imported is put back afterwards."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", sys)  # so that what install() puts there is taken away
    for name in ("cuda", "autograd", "nn", "nn.functional", "distributed", "_C", "library"):
        monkeypatch.setitem(sys.modules, f"torch.{name}", sys)
    install()
    return sys.modules["torch"]


def test_placeholders_of_every_type(torch: Any) -> None:
    for name, size in _TYPES.items():
        made = torch.empty(2, 3, dtype=getattr(torch, name))
        assert isinstance(made, Tensor) and isinstance(made.dtype, DType)
        assert (made.shape, made.stride(), made.element_size(), made.numel()) == ((2, 3), (3, 1), size, 6)
        assert (made.device.type, made.data_ptr(), repr(made.dtype)) == ("cpu", 0, f"torch.{name}")
    assert torch.half is torch.float16 and torch.long is torch.int64


def test_sizes_and_strides(torch: Any) -> None:
    assert torch.zeros((4, 5)).dtype is torch.float32
    strided = torch.empty_strided((2, 3), (8, 1), dtype=torch.int8)
    assert (strided.stride(0), strided.is_contiguous(), strided.contiguous().stride()) == (8, False, (3, 1))
    assert torch.ones(2, 3, 4).view(-1, 4).shape == (6, 4)
    assert torch.ones(4).view(torch.int32).dtype is torch.int32
    assert (strided.size(1), strided.dim(), strided.size()) == (3, 2, (2, 3))
    with pytest.raises(ValueError, match="2 sizes has 1 strides"):
        torch.empty_strided((2, 3), (1,))
    with pytest.raises(ValueError, match="other sizes"):
        strided.view(torch.int32)


MODULE = """
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> "torch.Tensor":
        return torch.rsqrt(x)


class Layer(nn.Module):
    pass


@torch.no_grad()
def helper(x, dtype: torch.dtype = torch.bfloat16):
    return F.pad(x, (0, 1)).to(dtype)


_raw = getattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)
assert _raw(0) == 0 and not torch.cuda.is_available()
"""


def test_modules_that_define_gradients_are_imported(torch: Any) -> None:
    made: dict[str, Any] = {}
    exec(compile(MODULE, "norms.py", "exec"), made)  # a source of a kernel
    assert issubclass(made["Norm"], torch.autograd.Function)
    with pytest.raises(AttributeError, match=r"torch\.nn\.functional\.pad: .* no 'pad'"):
        made["helper"](torch.empty(2))


def test_what_would_compute_says_its_name(torch: Any) -> None:
    with pytest.raises(AttributeError, match=r"torch\.rsqrt: .*compiled without torch.* no 'rsqrt'"):
        torch.rsqrt  # noqa: B018
    with pytest.raises(AttributeError, match=r"placeholder tensor .* no 'item'"):
        torch.empty(2).item()
    assert not hasattr(torch.empty(2), "__dlpack__")


def test_it_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from build_tools.compile.backends import flydsl_torch; flydsl_torch.install()\n"
        "import torch; print(torch.empty(1, dtype=torch.bfloat16).element_size())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"
