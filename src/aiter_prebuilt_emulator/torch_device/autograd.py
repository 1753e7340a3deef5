"""Gradients: autograd computes them on the processor; what a program's own backward is given lies where its forward was."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.utils.hooks import BackwardHook

from aiter_prebuilt_emulator.torch_device import memory, operators


def _place(node: Any) -> int | None:
    """Find the device of a node's leaves or saved tensors.

    Those come last: a checkpoint computes them anew when they are first asked for, and refuses to do so twice.
    """
    leaves = [getattr(each, "variable", None) for each, _ in node.next_functions]
    others = [each for each in vars(node).values() if isinstance(each, torch.Tensor)]
    place = _first_place([*leaves, *others])
    if place is not None:
        return place
    try:
        with operators.program():  # a hook of the program's may make tensors
            return _first_place(list(node.saved_tensors))
    except RuntimeError:
        return None


def _first_place(tensors: Iterable[torch.Tensor | None]) -> int | None:
    places = (None if each is None else memory.ordinal_of(each) for each in tensors)
    return next((place for place in places if place is not None), None)


def _wrapped(own: Any) -> Any:
    def apply(node: Any, *gradients: Any) -> Any:
        return _called(own, _place(node), node, *gradients)

    return apply


def _called(own: Any, place: int | None, *words: Any) -> Any:
    """Call the program's function with its arguments on its device."""
    with operators.program():
        if place is not None:
            for each in operators.tensors_in(words):
                if memory.place_of(each) is None:
                    memory.put(each, place)
        return own(*words)


def _hook(own: Any) -> Any:
    """``Tensor.register_hook`` and its kin: the hook gets gradients where the tensor is."""

    def register(tensor: torch.Tensor, hook: Any) -> Any:
        return own(tensor, partial(_called, hook, memory.ordinal_of(tensor)))

    return register


class _Node:
    """A node of autograd's graph, for hooks of a module."""

    def __init__(self, node: Any, place: int) -> None:
        self._node, self._place = node, place

    def register_hook(self, hook: Any) -> Any:
        """Register a hook on the node."""
        return self._node.register_hook(partial(_called, hook, self._place))


def _install_modules() -> None:
    kind: Any = BackwardHook
    own: Any = kind._apply_on_tensors

    def apply(hook: Any, fn: Any, args: Any) -> Any:
        places = (memory.ordinal_of(each) for each in operators.tensors_in(args))
        place = next((each for each in places if each is not None), None)
        return own(hook, fn if place is None else lambda node: fn(_Node(node, place)), args)

    kind._apply_on_tensors = apply


def install() -> None:
    """For every subclass of ``torch.autograd.Function``, and for hooks."""
    tensor: Any = torch.Tensor
    for each in (tensor.register_hook, tensor.register_post_accumulate_grad_hook):
        operators.add_special(each, _hook(each))
    _install_modules()
    kind: Any = BackwardCFunction
    for name in ("apply", "apply_boxed"):
        if hasattr(kind, name):
            setattr(kind, name, _wrapped(getattr(kind, name)))
