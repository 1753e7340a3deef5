"""Gradients: autograd computes them on the processor; what a program's own backward is given lies where its forward was."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from aiter_prebuilt_emulator.torch_device import memory, operators


def _place(node: Any) -> int | None:
    """Where the tensors are that it has saved, or the leaves that its gradients go to."""
    try:
        saved = list(node.saved_tensors)
    except RuntimeError:
        saved = []
    leaves = [getattr(each, "variable", None) for each, _ in node.next_functions]
    others = [each for each in vars(node).values() if isinstance(each, torch.Tensor)]
    for each in (*saved, *leaves, *others):
        place = None if each is None else memory.ordinal_of(each)
        if place is not None:
            return place
    return None


def _wrapped(own: Any) -> Any:
    def apply(node: Any, *gradients: Any) -> Any:
        with operators.program():
            place = _place(node)
            if place is not None:
                for each in operators.tensors_in(gradients):
                    if memory.place_of(each) is None:
                        memory.put(each, place)
            return own(node, *gradients)

    return apply


def install() -> None:
    """For every subclass of ``torch.autograd.Function``."""
    kind: Any = BackwardCFunction
    for name in ("apply", "apply_boxed"):
        if hasattr(kind, name):
            setattr(kind, name, _wrapped(getattr(kind, name)))
