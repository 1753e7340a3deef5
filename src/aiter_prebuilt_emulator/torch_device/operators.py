"""Run torch's functions on tensors of a device.

They run on the processor, and results go where a GPU would have them.

A mode of torch sees every call of its Python functions. The tensors are the processor's for torch itself; that they say ``cuda``
is a property of their class, which is silent while torch's own code runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from aiter_prebuilt_emulator.torch_device import generators, growth, memory, streams

#: Functions that look at a tensor and not at its elements: nothing is waited for, and nothing moves.
_LOOKS: Final = frozenset(
    (
        "__get__", "__set__", "__delete__", "__len__", "__hash__", "__dir__", "data_ptr", "untyped_storage", "storage",
        "typed_storage",
        "size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "storage_offset", "is_contiguous",
        "is_complex", "is_floating_point", "is_signed", "is_inference", "is_neg", "is_conj", "is_same_size", "is_storage",
        "requires_grad_", "retain_grad", "detach_", "has_names", "result_type", "is_tensor", "can_cast",
        "get_default_dtype", "is_set_to", "numpy_T", "dense_dim",
        "promote_types", "set_default_dtype", "is_grad_enabled", "_is_view", "_version",
    )
)  # fmt: skip
#: Those that only make another view: nothing is waited for.
_VIEWS: Final = frozenset(
    (
        "view", "view_as", "expand", "expand_as", "permute", "transpose", "t", "unsqueeze", "squeeze", "narrow", "select",
        "as_strided", "detach", "unbind", "split", "chunk", "movedim", "swapaxes", "swapdims", "diagonal", "unfold", "alias",
        "as_subclass", "view_as_real", "view_as_complex", "empty", "empty_like", "empty_strided", "new_empty", "flatten_view",
    )
)  # fmt: skip


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Find the tensors among arguments or results."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_in(each)


def _without_gpus(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], int | None, bool]:
    """Arguments in which the processor is named in the place of a device; which device that was, and was any named at all."""
    target, named = None, False
    if kwargs.get("device") is not None:
        named, target = True, streams.gpu_of(kwargs["device"])
        if target is not None:
            kwargs["device"] = "cpu"
    if any(isinstance(each, torch.device) for each in args):
        named = True
        for each in args:
            if isinstance(each, torch.device) and each.type == "cuda":
                target = streams.gpu_of(each)
        args = tuple(
            torch.device("cpu") if isinstance(each, torch.device) and each.type == "cuda" else each
            for each in args
        )
    return args, target, named


def run(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Any function of torch's."""
    name = getattr(func, "__name__", "")
    default = memory.STATE.default
    if default is not None and kwargs.get("device") is None and func in _device_constructors():
        kwargs["device"] = default
    if _operator_of(func) in PROGRAMS:
        return _programs(func, args, kwargs)
    args, target, named = _without_gpus(args, kwargs)
    given = [*tensors_in(args), *tensors_in(kwargs)]
    places = {place for place in map(memory.ordinal_of, given) if place is not None}
    if not named and places:
        target = next(place for place in map(memory.ordinal_of, given) if place is not None)
    if target is None and not places:
        return _pinned(func, args, kwargs)
    kwargs.pop("pin_memory", None)
    if name not in _VIEWS and name not in _EMPTY and not _is_view(name, args):
        for place in places:
            streams.settle(place)
    if name in _EMPTY and target is not None:
        return _make_empty(func, args, kwargs, target)
    drawn = next(iter(places), target) if target is None else target
    with generators.drawing(name, _generator(args, kwargs), drawn or 0), memory.inside():
        grows = kwargs.get("out") is not None
        out = growth.called(func, args, kwargs) if grows else func(*args, **kwargs)
    if target is None:
        return out
    # What is the caller's own stays where it is: a tensor of the processor that a copy went to, or a view of one.
    kept = {id(each) for each in given} | {_address(each) for each in given}
    for each in tensors_in(out):
        if id(each) not in kept and _address(each) not in kept and memory.place_of(each) is None:
            memory.put(each, target)
    return out


def _is_view(name: str, args: tuple[Any, ...]) -> bool:
    """Tell whether a function that copies on demand copies nothing here."""
    if not args or not isinstance(args[0], torch.Tensor):
        return False
    if name not in {"reshape", "flatten"} and not (name == "contiguous" and len(args) == 1):
        return False
    with torch._C.DisableTorchFunction():
        return bool(args[0].is_contiguous())


def _generator(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Find the generator among arguments; None if there is none."""
    return kwargs.get("generator") or next(
        (each for each in args if isinstance(each, generators.Generator)), None
    )


#: Operators whose kernels a program has registered: ``namespace::name``, see ``libraries.py``.
PROGRAMS: Final[set[str]] = set()


def _operator_of(func: Any) -> str:
    """Return the qualified name of an operator of torch's dispatcher; "" of other functions."""
    packet = getattr(func, "overloadpacket", func)
    name: str = getattr(packet, "_qualified_op_name", "")
    return name


def _programs(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator whose kernel is the program's: what it gives back lies where the program put it."""
    words = dict(kwargs)
    args, target, _ = _without_gpus(args, words)
    before, memory.STATE.asked = memory.STATE.asked, target
    try:
        with memory.inside():
            return func(*args, **words)
    finally:
        memory.STATE.asked = before


def as_asked(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a kernel's arguments with the GPU that the program named, which the dispatcher got as the processor."""
    target = memory.STATE.asked
    if target is None:
        return args, dict(kwargs)
    cpu, gpu = torch.device("cpu"), torch.device("cuda", target)
    swapped = tuple(gpu if isinstance(each, torch.device) and each == cpu else each for each in args)
    return swapped, {
        name: gpu if isinstance(each, torch.device) and each == cpu else each for name, each in kwargs.items()
    }


def _address(tensor: torch.Tensor) -> int:
    """Return a storage's address as a negative key.

    It is negative so that it is no `id`; 0 where there is no storage.
    """
    with torch._C.DisableTorchFunction():
        if tensor.layout is not torch.strided:
            return 0
        return -tensor.untyped_storage().data_ptr() or 1


#: Nothing is computed for these, and the processor's memory is not touched.
_EMPTY: Final = frozenset(
    (
        "empty",
        "zeros",
        "empty_strided",
        "empty_like",
        "zeros_like",
        "new_empty",
        "new_zeros",
        "new_empty_strided",
    )
)


def _make_empty(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], target: int) -> Any:
    with memory.inside():
        shape = func(*args, **{**kwargs, "device": "meta", "requires_grad": False})
    out = memory.empty(shape, target, zeros="zeros" in func.__name__)
    return out.requires_grad_() if kwargs.get("requires_grad") else out


def _pinned(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not kwargs.pop("pin_memory", False):
        return func(*args, **kwargs)
    return memory.put(func(*args, **kwargs), memory.PINNED)


#: Functions of torch's that have one of ours: add_special().
_SPECIAL: Final[dict[Any, Callable[..., Any]]] = {}


def _traces() -> bool:
    """Tell whether a compiler traces: its tensors have no elements, and a GPU is only a name."""
    native: Any = torch._C
    # Dynamo reads this function, too, and knows only the first name.
    return (
        torch.compiler.is_dynamo_compiling()
        or native._get_dispatch_mode(native._TorchDispatchModeKey.FAKE) is not None
    )


class Mode(TorchFunctionMode):
    """Sees the calls of the thread that has entered it."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """One call."""
        del types
        if func is torch.device or _traces():
            return func(*args, **(kwargs or {}))
        special = _SPECIAL.get(func)
        if special is not None:
            return special(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in _LOOKS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        return run(func, args, dict(kwargs or {}))


MODE: Final = Mode()


@contextmanager
def program() -> Iterator[None]:
    """Make a function that runs the program's code, called by torch."""
    with MODE, memory.inside(False):
        yield


def _install_properties() -> None:
    kind: Any = torch.Tensor
    own = torch._C.TensorBase.device

    def device(tensor: torch.Tensor) -> torch.device:
        place = None if memory.STATE.inside else memory.ordinal_of(tensor)
        if place is not None:
            return torch.device("cuda", place)
        with torch._C.DisableTorchFunction():
            out: torch.device = own.__get__(tensor)
        return out

    kind.device = property(device)
    kind.is_cuda = property(lambda tensor: device(tensor).type == "cuda")
    kind.is_cpu = property(lambda tensor: device(tensor).type == "cpu")


def install() -> None:
    """In this thread, and in each that starts from now on."""
    _install_properties()
    mode: Any = MODE
    mode.__enter__()
    begin: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def in_mode(thread: threading.Thread) -> None:
        with MODE:
            begin(thread)

    threading.Thread._bootstrap_inner = in_mode  # type: ignore[attr-defined]


def add_special(func: Any, ours: Callable[..., Any]) -> None:
    """Register our function for one of torch's."""
    _SPECIAL[func] = ours
