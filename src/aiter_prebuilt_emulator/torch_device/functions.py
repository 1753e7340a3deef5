"""Functions of torch's that do something of their own with tensors on a device: moves, numpy, pinned memory, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import growth, memory, operators, streams

_ARRAY: Final[Any] = torch.Tensor.__array__
_TO_CPU: Final = "can't convert cuda device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."


def _move(tensor: torch.Tensor, target: int | None, copy: bool = False, **form: Any) -> torch.Tensor:
    """To a device, or to the processor (None): the same object where it is there already."""
    place = memory.ordinal_of(tensor)
    if place is not None:
        streams.settle(place)
    with memory.inside(), torch._C.DisableTorchFunction():
        out = tensor.to(copy=copy, **form)
        if out is tensor and place == target:
            return tensor
        if out is tensor:
            out = tensor.clone(memory_format=form.get("memory_format", torch.preserve_format))
    return out if target is None or memory.place_of(out) == target else memory.put(out, target)


def _to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    target, form = memory.ordinal_of(tensor), dict(kwargs)
    form.pop("non_blocking", None)
    copy = bool(form.pop("copy", False))
    device = form.pop("device", None)
    other = form.pop("other", None)
    rest = list(args)
    for each in args:
        if isinstance(each, torch.dtype):
            form["dtype"] = each
        elif isinstance(each, torch.Tensor):
            other = each
        elif isinstance(each, bool):
            copy = copy or (
                rest.index(each) == len(rest) - 1 and len([b for b in args if isinstance(b, bool)]) == 2
            )
        elif isinstance(each, (str, torch.device, int)):
            device = each
    if isinstance(other, torch.Tensor):
        form["dtype"], target = other.dtype, memory.ordinal_of(other)
    elif device is not None:
        target = streams.gpu_of(device)
        if target is None and torch.device(device).type != "cpu":
            return operators.run(torch.Tensor.to, (tensor, *args), kwargs)
    return _move(tensor, target, copy, **form)


def _cuda(tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, **form: Any) -> torch.Tensor:
    del non_blocking
    return _move(tensor, streams.index_of(device), **form)


def _cpu(tensor: torch.Tensor, **form: Any) -> torch.Tensor:
    return _move(tensor, None, **form)


def _no_numpy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if memory.ordinal_of(tensor) is not None:
        raise TypeError(_TO_CPU)
    with memory.inside():
        return torch.Tensor.numpy(tensor, **kwargs) if not args else _ARRAY(tensor, *args)


def _pin(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    if memory.ordinal_of(tensor) is not None:
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    if memory.place_of(tensor) == memory.PINNED:
        return tensor
    with torch._C.DisableTorchFunction():
        copied = tensor.clone()
    return memory.put(copied, memory.PINNED)


def _is_pinned(tensor: torch.Tensor, *_: Any, **__: Any) -> bool:
    return memory.place_of(tensor) == memory.PINNED


def _text(tensor: torch.Tensor, **kwargs: Any) -> str:
    place = memory.ordinal_of(tensor)
    text: str = operators.run(torch.Tensor.__repr__, (tensor,), kwargs)
    return text if place is None else f"{text[:-1]}, device='cuda:{place}')"


def _type(tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **form: Any) -> Any:
    """Return the name of a tensor's kind, or convert it."""
    del non_blocking
    place = memory.ordinal_of(tensor)
    if dtype is None:
        with torch._C.DisableTorchFunction():
            name: str = tensor.type(**form)
        return name if place is None else name.replace("torch.", "torch.cuda.", 1)
    if not isinstance(dtype, torch.dtype):
        name = dtype if isinstance(dtype, str) else torch.typename(dtype)
        on_gpu = name.startswith("torch.cuda.")
        place = (memory.STATE.device if place is None else place) if on_gpu else None
        with torch._C.DisableTorchFunction():
            dtype = torch.empty(0).type(name.replace("torch.cuda.", "torch.")).dtype
    return _move(tensor, place, dtype=dtype)


def _get_device(tensor: torch.Tensor) -> int:
    place = memory.ordinal_of(tensor)
    return -1 if place is None else place


def _grad(tensor: torch.Tensor, *words: Any) -> torch.Tensor | None:
    """Autograd made it on the processor."""
    with torch._C.DisableTorchFunction():
        grad: torch.Tensor | None = _GRAD(tensor, *words)
    place = memory.ordinal_of(tensor)
    if grad is not None and place is not None and memory.place_of(grad) is None:
        memory.put(grad, place)
    return grad


_GRAD: Final[Any] = getattr(torch.Tensor, "grad").__get__  # noqa: B009 - its type is a tensor's


def install() -> None:
    """In the place of torch's, for who calls them by a tensor's method or by name."""
    special: dict[Any, Callable[..., Any]] = {
        _GRAD: _grad,
        torch.Tensor.to: _to,
        torch.Tensor.cuda: _cuda,
        torch.Tensor.cpu: _cpu,
        torch.Tensor.numpy: _no_numpy,
        torch.Tensor.__array__: _no_numpy,
        torch.Tensor.pin_memory: _pin,
        torch.Tensor.is_pinned: _is_pinned,
        torch.Tensor.get_device: _get_device,
        torch.Tensor.type: _type,
        torch.Tensor.resize_: growth.resize,
        torch.Tensor.resize_as_: growth.resize_as,
        torch.resize_as_: growth.resize_as,
        torch.Tensor.__repr__: _text,
    }
    kind: Any = torch.Tensor
    kind.record_stream = memory.record_stream  # torch's own reads its arguments before it asks a mode
    for func, ours in special.items():
        operators.add_special(func, ours)
