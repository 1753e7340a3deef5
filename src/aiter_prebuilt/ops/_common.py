"""Refuse options and allocate outputs, without importing torch."""

from __future__ import annotations

import sys
from math import pi
from numbers import Real
from operator import index as _index
from typing import TYPE_CHECKING, Any, Final, cast

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.devices import native
from aiter_prebuilt.errors import (
    AiterPrebuiltError,
    ArgumentDTypeError,
    ArgumentKindError,
    ArgumentShapeError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

#: What Python raises when an argument is no tensor, or has too few dims.
NOT_A_TENSOR: Final = (
    AttributeError, IndexError, TypeError, ValueError, RuntimeError, ZeroDivisionError, OverflowError,
)  # fmt: skip

#: Functions of an fp32 product, with AITER's formulas.
ACTIVATIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "gelu": lambda x: 0.5 * x * (1 + (x * 0.5**0.5).erf()),
    "gelu_tanh": lambda x: 0.5 * x * (1 + ((x + 0.044715 * x * x * x) * (2 / pi) ** 0.5).tanh()),
    "silu": lambda x: x * x.sigmoid(),
    "silu_exp2": lambda x: x * x.sigmoid(),
    "relu": lambda x: x.relu(),
    "relu6": lambda x: x.clamp(0, 6),
}


def refuse(function: str, option: str, value: object, covered: str) -> UnsupportedError:
    """Build the error for an unsupported option.

    A tensor's values are not read for it.
    """
    said = "..." if hasattr(value, "shape") else repr(value)
    return UnsupportedError(
        f"{function}({option}={said})",
        "no prebuilt kernel covers it",
        f"Use {option}={covered}. For all options, see help(aiter_prebuilt.{function})",
    )


def refuse_shuffled(function: str, tensor: str) -> UnsupportedError:
    """Build the error for a shuffled weight.

    ``shuffle_weight`` has marked it, and every kernel reads it as its shape says.
    """
    return UnsupportedError(
        f"{function}({tensor} with is_shuffled=True)",
        "no prebuilt kernel covers it",
        f"Pass {tensor} as it was before shuffle_weight. For all arguments, see help(aiter_prebuilt.{function})",
    )


def splits(function: str, value: int | None) -> int:
    """Parts of K as the native call has them: 0 where it chooses.

    Raises:
        UnsupportedError: less than one part, or no number.
    """
    if value is None:
        return 0
    parts = number(value)
    if not isinstance(parts, int) or parts < 1:
        raise refuse(function, "splitK", value, "None or 1 and more")
    return parts


def halvings(function: str, value: int | None) -> int:
    """Return the native call's logarithm of parts of K.

    -1 where it chooses.

    Raises:
        UnsupportedError: less than one part, or more than AITER splits into; or no number.
    """
    if value is None:
        return -1
    power = number(value)
    if not isinstance(power, int) or not 0 <= power <= 4:
        raise refuse(function, "log2_k_split", value, "None or 0 to 4")
    return power


def scale_of(function: str, value: Any, option: str = "softmax_scale") -> None:
    """AITER's assembly hides keys by scores of minus infinity before it scales them.

    Raises:
        UnsupportedError: a scale that would not leave them there.
    """
    if not (isinstance(value, Real) and float(value) > 0):
        raise refuse(function, option, value, "a number above 0")


def number(value: Any) -> Any:
    """Convert a member of an enumeration to its number.

    Python's, or that of an extension, as AITER's are; anything else stays.
    """
    if type(value) is int:  # at once: this stands before a launch
        return value
    found = getattr(value, "value", value)
    try:
        return _index(found)
    except TypeError:
        return value


def window_of(queries: int, keys: int, is_causal: bool, left: int, right: int) -> tuple[int, int]:
    """Count the keys that a query sees to its left and right.

    -1: all. AITER reads a right window of all keys so, too, but where there are more queries the first of them does not see the
    last key then.
    """
    everything = right >= max(keys, queries - 1)
    return -1 if left >= keys else left, 0 if is_causal else -1 if everything else right


def integers(value: Any) -> tuple[int, ...] | None:
    """Convert a row of integers to a tuple.

    It is a tuple, a list or whatever else AITER takes; None if it cannot be read.
    """
    try:
        return tuple(map(int, value))
    except (TypeError, ValueError, OverflowError):
        return None


def no_output(function: str, error: Exception) -> ArgumentKindError:
    """Build the error for arguments that determine no output shape.

    They are not tensors, or have too few dims.

    Raises:
        torch.OutOfMemoryError: ``error`` is that; servers catch it by its class.
    """
    if type(error).__name__ == "OutOfMemoryError":
        raise error
    if isinstance(error, ArgumentKindError):
        return ArgumentKindError(function, error.found, error.fix)
    if isinstance(error, ZeroDivisionError):
        return ArgumentKindError(
            function,
            "a size is 0 that must be at least 1, such as the head size",
            f"For the shapes, see help(aiter_prebuilt.{function})",
        )
    return ArgumentKindError(
        function,
        "the output cannot be allocated from these arguments "
        f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'})",
        f"For their shapes, see help(aiter_prebuilt.{function})",
    )


def outputs(make: Callable[..., Any]) -> Callable[..., Any]:
    """``make``, which allocates what a function returns, with what it made remembered: torch takes half as long to make the like
    of a tensor as to make one of a shape, and nothing is asked for its shape then.

    What it makes hangs on shapes, element types and devices of the tensors that it is given by position, on ints and on which
    objects (element types) the rest are, and is contiguous. Numbers and None among it hang on no more.
    """
    made: Callable[..., Any] = native.module().Outputs(make, _prototypes)
    return made


def new_results(
    name: str, make: Callable[..., Any], kinds: str, told: tuple[int, ...], items: tuple[int, ...], count: int
) -> Callable[..., Any]:
    """Make a function that allocates results and launches.

    It takes the arguments that ``items`` names, the operator last, all by position, and returns the ``count`` results. An eager
    call that was seen before runs no Python.

    ``kinds`` has a letter for each argument, as ``_native.Plans`` says; ``make`` gets those at the places ``told``, and reads no
    more of them than their letters say; the operator gets those at the places ``items``, -1 - i being the i-th result.
    """

    def results(given: tuple[Any, ...]) -> tuple[Any, ...]:
        made = make(*(given[place] for place in told))
        return made if count > 1 else (made,)

    def function(*given: Any) -> Any:
        try:
            made = results(given)
        except (*NOT_A_TENSOR, KeyError) as error:
            raise no_output(name, error) from error
        given[-1](*(given[place] if place >= 0 else made[-1 - place] for place in items))
        return made if count > 1 else made[0]

    def plan(*given: Any) -> tuple[Any, ...] | None:
        try:
            kept = _prototypes(results(given))
        except (AiterPrebuiltError, *NOT_A_TENSOR):
            return None  # the function has the words
        if kept is None or not isinstance(given[-1], native.module().Operator):
            return None  # it has no framework, or somebody watches
        makings = tuple(each for each in kept if isinstance(each, tuple))
        numbers = iter(range(len(makings)))
        answers = tuple((-1 - next(numbers),) if isinstance(each, tuple) else each for each in kept)
        said = tuple((place,) if place >= 0 else answers[-1 - place] for place in items)
        return makings, ((given[-1], said),), answers if count > 1 else answers[0]

    made: Callable[..., Any] = native.module().Plans(function, plan, kinds)
    return made


def _prototypes(made: Any) -> tuple[Any, ...] | None:
    """Describe results so that a plan can allocate them again.

    Each is a tensor of torch without memory, as ``_native.Outputs`` and a plan take it; numbers and None stay. None for others.
    """
    torch: Any = sys.modules.get("torch")
    items = made if isinstance(made, tuple) else (made,)
    plain = tuple(each is None or isinstance(each, (int, float)) for each in items)
    tensors = [each for each, stays in zip(items, plain, strict=True) if not stays]
    if torch is None or not all(type(each) is torch.Tensor and each.is_contiguous() for each in tensors):
        return None
    return tuple(each if stays else _prototype(torch, each) for each, stays in zip(items, plain, strict=True))


def _prototype(torch: Any, tensor: Any) -> tuple[Any, ...]:
    """Make a prototype of ``tensor`` by torch's general way.

    Torch's compiled programs use the other way, in half the time, which makes it on the current device.
    """
    kept = torch.empty_like(tensor)
    storage = kept.untyped_storage()
    if storage.resizable():  # memory that a device lends, as the embedded one does, is kept
        storage.resize_(0)
    always = (torch.empty_like, (kept,))
    guards: Any = getattr(getattr(vars(torch)["_C"], "_dynamo", None), "guards", None)
    near: Any = getattr(guards, f"_empty_strided_{tensor.device.type}", None)
    given = (tuple(tensor.shape), tensor.stride(), tensor.dtype)
    try:
        made = near(*given)
        same = (tuple(made.shape), made.stride(), made.dtype) == given and made.device == tensor.device
    except (TypeError, RuntimeError):  # this torch has none, or it has no such device
        same = False
    if not same:
        return always
    vendor = "amd" if torch.version.hip else "nvidia"
    device = None if tensor.device.index is None else (vendor, tensor.device.index)
    return (*always, near, given, device)


def like(tensor: torch.Tensor) -> torch.Tensor:
    """Allocate a contiguous tensor of the same shape, type and device.

    With torch, half the time of ``new_empty(shape)``.
    """
    torch: Any = sys.modules.get("torch")
    try:
        made: Any = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    except (AttributeError, TypeError):  # there is no torch, or it is a tensor of another kind
        made = tensor.new_empty(tensor.shape)
    return made


def element_type(tensor: torch.Tensor, name: str) -> torch.dtype:
    """Return the element type ``name`` ("f32") as ``tensor`` calls its own.

    ``torch.float32``, or the name where that is one.
    """
    kind: Any = tensor.dtype
    made: Any = name if isinstance(kind, str) else getattr(sys.modules["torch"], BY_NAME[name].torch)
    return made


def is_type(kind: Any, name: str) -> bool:
    """Is ``kind`` the element type ``name``, of torch or of a tensor without a framework?"""
    torch: Any = sys.modules.get("torch")
    return (
        kind == name
        if isinstance(kind, str)
        else kind is not None and kind is getattr(torch, BY_NAME[name].torch, None)
    )


def is_result(kind: Any, tensor: Any, names: str) -> bool:
    """Is ``kind`` one of the element types ``names`` ("f32 bf16"), as ``tensor`` calls them?"""
    return any(kind == element_type(tensor, name) for name in names.split())


def result_of(product: Callable[..., Any], kind: Any, memory: Any, **given: Any) -> torch.Tensor:
    """Return an fp32 product in the element type ``kind``.

    It is rounded once, or stays fp32.

    Args:
        product: takes ``given`` and memory for its result, ``y``.
        kind: fp32 or a 16-bit type.
        memory: the caller's memory for the result, or None.
        **given: the arguments of ``product``.

    Raises:
        ArgumentDTypeError, ArgumentShapeError: ``memory`` is of another type or shape.
    """
    if is_type(kind, "f32"):
        return cast("torch.Tensor", product(**given, y=memory))
    return _rounded(product.__name__, product(**given), kind, memory)


def finished(
    function: str,
    product: Callable[..., Any],
    activation: Any,
    kinds: tuple[Any, ...],
    memory: Any,
    **given: Any,
) -> torch.Tensor:
    """Add a bias to an fp32 product, apply an activation, and round once.

    Args:
        function: the public function, for errors.
        product: takes ``given`` and returns fp32.
        activation: a name in ``ACTIVATIONS``, empty or None.
        kinds: what the options of the result's element type say: fp32, a 16-bit type or None.
        memory: the caller's memory for the result, or None.
        **given: the tensors ``A``, ``B`` and ``bias``; a bias of the type of ``A`` is the product's to add.

    Raises:
        UnsupportedError: an activation, a result's type or a gradient that nothing serves.
        ArgumentDTypeError, ArgumentShapeError: ``bias`` or ``memory`` does not fit.
    """
    rows, bias = given["A"], given["bias"]
    asked = [kind for kind in kinds if kind is not None]
    kind = asked[0] if asked else rows.dtype if memory is None else memory.dtype
    if any(each != kind for each in asked) or not is_result(kind, rows, "f32 bf16 f16"):
        raise refuse(
            function,
            "otype",
            asked[-1] if asked else kind,
            "None or fp32 or bf16 or fp16, with dtype the same or None",
        )
    if activation and not (isinstance(activation, str) and activation in ACTIVATIONS):
        raise refuse(function, "activation", activation, f"None or {' or '.join(map(repr, ACTIVATIONS))}")
    if bias is not None and not is_result(bias.dtype, rows, "f32 bf16 f16"):
        raise ArgumentDTypeError(function, f"bias must be fp32, bf16 or fp16, got {bias.dtype}", "")
    added = bias is not None and bias.dtype != rows.dtype
    if added and bias.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise UnsupportedError(
            f"{function}(requires_grad=True)",
            "bias requires a gradient, and no prebuilt kernel covers it: there is no backward",
            "Pass it detached (.detach()), or call it under torch.no_grad() or torch.inference_mode()",
        )
    if added and tuple(bias.shape) != (given["B"].shape[0],):
        raise ArgumentShapeError(
            function,
            f"bias must be {[given['B'].shape[0]]}, got {list(bias.shape)}",
            "",
        )
    made: Any = product(**(given | {"bias": None} if added else given))
    if added:
        made = made.add_(bias)
    if activation:
        made = ACTIVATIONS[activation](made)
    return _rounded(function, made, kind, memory)


def _rounded(function: str, made: Any, kind: Any, memory: Any) -> torch.Tensor:
    """Return ``made`` in the element type ``kind``, in the caller's ``memory`` if there is any."""
    if memory is None:
        return cast("torch.Tensor", made.to(kind))
    if memory.dtype != kind:
        raise ArgumentDTypeError(function, f"y must be {kind}, got {memory.dtype}", "")
    if memory.shape != made.shape:
        raise ArgumentShapeError(
            function,
            f"y must be {list(made.shape)}, got {list(memory.shape)}",
            "",
        )
    return cast("torch.Tensor", memory.copy_(made))


def as_type(tensor: Any, name: str) -> Any:
    """None, or the tensor in the element type ``name``: itself where it has it."""
    if tensor is None:
        return None
    wanted = element_type(tensor, name)
    return tensor if tensor.dtype == wanted else tensor.to(wanted)


def same_shape(a: Any, b: Any) -> bool:
    """Have two tensors the same dims? False where one is None, or no tensor."""
    found, other = getattr(a, "shape", None), getattr(b, "shape", None)
    return found is not None and other is not None and tuple(found) == tuple(other)


def codes(tensor: Any, kind: str) -> Any:
    """View a tensor of ``kind`` as its bytes.

    Anything else stays: the native call says what is wrong with it.
    """
    found = getattr(tensor, "dtype", None)
    if found == kind:  # it has no framework
        address, _, shape, strides, device = tensor
        return (address, "u8", shape, strides, device)
    torch: Any = sys.modules.get("torch")
    if torch is not None and found is not None and found is getattr(torch, BY_NAME[kind].torch, None):
        return tensor.view(torch.uint8)
    return tensor


def with_probabilities(q: Any, out: Any, lse: Any, wanted: bool, drawn: Any = None) -> Any:
    """Return what attention made as AITER does.

    Args:
        q: the queries.
        out: the result.
        lse: the log-sum-exp, or None where it is not wanted.
        wanted: whether the probabilities are, which are empty without dropout.
        drawn: the random bytes of dropout, which stand for them, or None.

    Returns:
        ``out``, or a tuple of it and of those of the others that are wanted.
    """
    shown = q.new_empty((0,)) if wanted and drawn is None else drawn
    found = [out, *(() if lse is None else (lse,)), *((shown,) if wanted else ())]
    return found[0] if len(found) == 1 else tuple(found)
