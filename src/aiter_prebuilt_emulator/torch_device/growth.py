"""Tensors that grow: ``resize_`` and outputs of another size. torch cannot make a device's storage larger, and says so only after
the tensor has its new shape; so the tensor gets a new storage, and views of it stay on the old one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import memory, streams

#: What torch says of a storage whose memory is not its own.
_REFUSAL: Final = "storage that is not resizable"


def _take(tensor: torch.Tensor, target: torch.Tensor, ordinal: int) -> None:
    """Memory for the shape of ``target``, which begins with what the tensor's storage has now."""
    old = tensor.untyped_storage()
    span = memory.span_of(tuple(target.shape), target.stride())
    offset = int(tensor.storage_offset())
    new = memory.allocate((offset + span) * tensor.element_size(), ordinal)
    if ordinal != memory.PINNED:
        streams.settle(ordinal)
    ctypes.memmove(new.data_ptr(), old.data_ptr(), min(old.nbytes(), new.nbytes()))
    tensor.set_(new, offset, target.shape, target.stride())


_RESIZE: Final[Any] = torch.UntypedStorage.resize_
_RESIZABLE: Final[Any] = torch.UntypedStorage.resizable


def resize_storage(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
    """``UntypedStorage.resize_``: all tensors on it see the new memory, which begins with the old bytes."""
    ordinal = memory.place_of_storage(storage)
    if ordinal is None:
        _RESIZE(storage, size)
        return storage
    size = int(size)
    if size == storage.nbytes():
        return storage
    if ordinal != memory.PINNED:
        streams.settle(ordinal)
    native: Any = storage
    with torch._C.DisableTorchFunction():
        old = memory.allocate(0, ordinal)
        native._swap_data_ptr_(old)
        if size:
            new = memory.allocate(size, ordinal)
            ctypes.memmove(new.data_ptr(), old.data_ptr(), min(old.nbytes(), size))
            native._swap_data_ptr_(new)
    return storage


def _resizable(storage: torch.UntypedStorage) -> bool:
    return memory.place_of_storage(storage) is not None or bool(_RESIZABLE(storage))


def install() -> None:
    """Let storages of a device be resized in place, where this torch can give a storage other memory."""
    kind: Any = torch.UntypedStorage
    if hasattr(kind, "_swap_data_ptr_"):
        kind.resize_, kind.resizable = resize_storage, _resizable


def resize(tensor: torch.Tensor, *sizes: Any, **form: Any) -> torch.Tensor:
    """``Tensor.resize_``."""
    place = memory.place_of(tensor)
    with torch._C.DisableTorchFunction():
        if place is None or tensor.requires_grad:
            return tensor.resize_(*sizes, **form)
        target = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")
        target.resize_(*sizes, **form)
        span = memory.span_of(tuple(target.shape), target.stride())
        if (tensor.storage_offset() + span) * tensor.element_size() <= tensor.untyped_storage().nbytes():
            return tensor.resize_(*sizes, **form)
        _take(tensor, target, place)
    return tensor


def resize_as(tensor: torch.Tensor, other: torch.Tensor, *, memory_format: Any = None) -> torch.Tensor:
    """``Tensor.resize_as_``."""
    if memory_format is torch.preserve_format:
        last = not other.is_contiguous() and other.is_contiguous(memory_format=torch.channels_last)
        memory_format = torch.channels_last if last else torch.contiguous_format
    return resize(tensor, other.shape, memory_format=memory_format or torch.contiguous_format)


def _listed(out: Any) -> list[torch.Tensor]:
    return (
        [out] if isinstance(out, torch.Tensor) else [each for each in out if isinstance(each, torch.Tensor)]
    )


def called(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``func`` where outputs may have to grow.

    After a refusal the outputs are as before.

    Raises:
        RuntimeError: torch's own.
    """
    outs = _listed(kwargs["out"])
    before = [(each.untyped_storage(), each.storage_offset(), each.shape, each.stride()) for each in outs]
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        for each, form in zip(outs, before, strict=True):
            if each.shape != form[2]:
                each.set_(*form)
        if _REFUSAL not in str(error):
            raise
    return _grown(func, args, kwargs)


def _grown(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Into memory of the processor's, then into new memory of the outputs'."""
    out, one = kwargs["out"], isinstance(kwargs["out"], torch.Tensor)
    outs = _listed(out)
    fresh = [torch.empty(0, dtype=each.dtype) for each in outs]
    made = func(*args, **{**kwargs, "out": fresh[0] if one else type(out)(fresh)})
    for each, new in zip(outs, fresh, strict=True):
        place = memory.place_of(each)
        each.set_(new if place is None else memory.put(new, place))
    return out if one else type(made)(outs)
