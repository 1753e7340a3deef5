"""Every operator as ``torch.ops.aiter_prebuilt.NAME``: schema, fake function and kernel, from the manifests' signatures.

    import aiter_prebuilt.tracing.library          # now torch.ops.aiter_prebuilt.rms_norm exists

``torch.compile`` needs no such line: tracing ``aiter_prebuilt.rms_norm`` imports this module, and so does a call with tensors of
a trace. Eager calls of ``aiter_prebuilt.*`` with plain tensors never come here: they go around torch's dispatcher.

The schema has a manifest's arguments, then its attributes; written tensors are marked, returned ones are new. A returned tensor
whose type no argument says has an ``out_dtype`` (the signature's first type when None). The overload ``NAME.out`` of an operator
that returns tensors has the arguments of the native call, with memory for the results. There is no derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.tracing.shapes import Bound, dtypes, rule, symbols_of
from aiter_prebuilt.tracing.signatures import Signature, Tensor, load

NAMESPACE: Final = "aiter_prebuilt"

#: Some of torch has no types.
_TORCH: Final[Any] = torch

#: Kept alive: torch takes the registrations back with the object.
_LIBRARY: Final = _TORCH.library.Library(NAMESPACE, "FRAGMENT")

#: From the arguments of a call to its tensors: what an output is allocated like.
_Allocate = Callable[[tuple[Any, ...]], Any]


def _padded(signature: Signature) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Restore the arguments that the dispatcher leaves out.

    They are trailing ones that have their default values.
    """
    defaults = (
        *(None for _ in signature.arguments),
        *(attribute.value for attribute in signature.attributes),
        *(None for _ in signature.free_types),
    )
    return lambda args: args if len(args) == len(defaults) else (*args, *defaults[len(args) :])


def _dtype(signature: Signature, spec: Tensor) -> Callable[[tuple[Any, ...]], torch.dtype]:
    """Make a function that gives a returned tensor's element type.

    It reads a full list of arguments.
    """
    free = signature.free_types
    if spec.name in free:
        place = len(signature.arguments) + len(signature.attributes) + free.index(spec.name)
        usual = dtypes(signature, spec)[0]
        return lambda args: args[place] or usual
    for place, argument in enumerate(signature.arguments):
        if argument.type == spec.type and not argument.optional:
            return lambda args: args[place].dtype
    fixed = dtypes(signature, spec)[0]
    return lambda _: fixed


def _allocator(signature: Signature, spec: Tensor) -> _Allocate:
    """Allocates a returned tensor. Each dim is read off the first argument that has it; the launch compares the others."""
    for place, argument in enumerate(signature.arguments):
        same = (argument.dims, argument.star, argument.type) == (spec.dims, spec.star, spec.type)
        if same and not argument.optional:
            like = torch.contiguous_format  # the argument may be strided, what is returned is dense
            return lambda args: torch.empty_like(args[place], memory_format=like)
    sizes: list[tuple[int, int] | None] = []
    dtype_of = _dtype(signature, spec)
    arguments = [(i, each) for i, each in enumerate(signature.arguments) if not each.optional]
    for place, text in enumerate(spec.dims):
        star = spec.star and place == 0
        found = [
            (i, each.dims.index(text) - len(each.dims))
            for i, each in arguments
            if text in each.dims and (each.star and each.dims[0] == text) is star
        ]
        sizes.append(found[0] if found else None)
    count = len(signature.arguments)
    if None in sizes:  # a dim that has to be computed
        return lambda args: args[0].new_empty(
            Bound(signature, args[:count]).shape(spec), dtype=dtype_of(args)
        )
    read = [each for each in sizes if each is not None]
    if spec.star:
        (first, behind), rest = read[0], read[1:]
        behind += 1  # the star's own place is -len(dims); what follows it is not leading

        def star_shape(args: tuple[Any, ...]) -> Any:
            shape = args[first].shape
            leading = shape[: len(shape) + behind]
            return args[0].new_empty((*leading, *(args[i].shape[d] for i, d in rest)), dtype=dtype_of(args))

        return star_shape
    return lambda args: args[0].new_empty([args[i].shape[d] for i, d in read], dtype=dtype_of(args))


def _kernel(signature: Signature) -> Callable[..., Any]:
    """Call the operator for real tensors of any device.

    A value that is no tensor of a GPU is refused by the native side.
    """
    native, pad = operator(signature.name), _padded(signature)
    count, attributes = len(signature.arguments), len(signature.arguments) + len(signature.attributes)
    written = [i for i, each in enumerate(signature.arguments) if each.role in ("out", "inout")]
    allocators = [_allocator(signature, each) for each in signature.returns]

    def in_place(*args: Any) -> None:
        full = pad(args)
        native(*full)
        for i in written:
            tensor = full[i]
            if (
                tensor is not None and not tensor.is_inference()
            ):  # an inference tensor has no version to count
                torch.autograd.graph.increment_version(tensor)

    def returning(*args: Any) -> Any:
        full = pad(args)
        made = [allocate(full) for allocate in allocators]
        native(*full[:count], *made, *full[count:attributes])
        return made[0] if len(made) == 1 else tuple(made)

    return returning if allocators else in_place


def _refuse_gradients(signature: Signature, args: tuple[Any, ...]) -> None:
    """Refuse tensors that require gradients, as the native side does.

    Tensors of a trace have no memory; csrc/runtime/tensors/gradient.cpp refuses real ones.
    """
    if signature.detached or not torch.is_grad_enabled():
        return
    for spec, tensor in zip(signature.arguments, args, strict=False):
        if tensor is not None and tensor.requires_grad:
            raise UnsupportedError(
                f"{signature.name}(requires_grad=True)",
                f"{spec.name} requires a gradient, and no prebuilt kernel covers it: there is no backward",
                "Pass it detached (.detach()), or call it under torch.no_grad() or torch.inference_mode()",
            )


def _fake(signature: Signature) -> Callable[..., Any]:
    """Call the operator for tensors without memory.

    It checks all that is known, and allocates the results.
    """
    pad, count = _padded(signature), len(signature.arguments)
    types = [_dtype(signature, each) for each in signature.returns]

    def fake(*args: Any) -> Any:
        full = pad(args)
        _refuse_gradients(signature, full)
        bound = Bound(signature, full[:count])
        like = next(each for each in full[:count] if each is not None)
        made = [
            like.new_empty(bound.shape(spec), dtype=dtype_of(full))
            for spec, dtype_of in zip(signature.returns, types, strict=True)
        ]
        return (made[0] if len(made) == 1 else tuple(made)) if made else None

    return fake


def _tags() -> tuple[Any, ...]:
    # Kernels look at strides (rows may be strided, the rest must be dense): the compiler must not choose others.
    strict = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    return (torch.Tag.pt2_compliant_tag, strict)


def _register(signature: Signature, overload: str = "") -> None:
    symbols = symbols_of(signature)
    for text in {text for spec in signature.tensors for text in spec.dims} - {"_"}:
        rule(text, symbols)  # a dim that cannot be computed shows here, not in somebody's trace
    name = f"{signature.name}.{overload}" if overload else signature.name
    _LIBRARY.define(signature.schema(overload), tags=_tags())
    _LIBRARY.impl(name, _kernel(signature), "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", _fake(signature), lib=_LIBRARY)


for _signature in load().values():
    _register(_signature)
    if _signature.returns:
        _register(_signature.into_memory(), "out")
