"""A step that fills a tensor, or the workspace, with zero bytes: for kernels that add to what is there.

It is a launch as any other, of a kernel of ours (``csrc/kernels/hip/zero.hip``): a memset of the driver would be another thing to
capture, to time and to emulate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from aiter_prebuilt.contract import dtype
from build_tools.manifest.model import Kernel, Step
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan.slots import Slots
from build_tools.plan.variants import Variant

SOURCE: Final = "csrc/kernels/hip/zero.hip"
SYMBOL: Final = "zero_bytes"
WORKSPACE: Final = "workspace"
_THREADS: Final = 256
#: Of one workgroup: four times 16 bytes a lane.
_BYTES: Final = _THREADS * 64


def zero_step(kernel: Kernel, spec: Step, variant: Variant, slots: Slots, problems: Problems) -> Step | None:
    """Build the launch that ``spec.zero`` means.

    None, and why in ``problems``, when there is none.
    """
    assert spec.zero is not None
    for key in (
        "symbol",
        "demangled",
        "backend",
        "source",
        "grid",
        "block",
        "lds",
        "args",
        "slot",
        "uses",
        "assume",
    ):
        if getattr(spec, key) is not None:
            problems.add("a step with zero has no other key than if", key)
            return None
    size = (
        _workspace(kernel, problems)
        if spec.zero == WORKSPACE
        else _tensor(spec.zero, slots, variant, problems)
    )
    if size is None:
        return None
    return _launch(spec.zero, size, spec.only_if)


@lru_cache(maxsize=512)
def _launch(zero: str, size: str, only_if: str | None) -> Step:
    launch: dict[str, Any] = {
        "symbol": SYMBOL, "backend": "hip", "source": SOURCE, "grid": [f"cdiv({size}, {_BYTES})"], "block": [_THREADS],
        "args": [f"ptr {zero}", f"i64 {size}"], "uses": [], "only_if": only_if,
    }  # fmt: skip
    return Step.model_validate(launch)


def _workspace(kernel: Kernel, problems: Problems) -> str | None:
    if kernel.workspace is None:
        problems.add("the kernel has no workspace to fill", "zero")
        return None
    return f"({kernel.workspace})"


def _tensor(name: str, slots: Slots, variant: Variant, problems: Problems) -> str | None:
    """Return the tensor's bytes, as an expression."""
    place = slots.tensor_index(name)
    if place is None:
        known = [*(spec.name for spec in slots.tensors), WORKSPACE]
        problems.add(f"{name!r} is not a tensor of the operator{suggestion(name, known)}", "zero")
        return None
    spec = slots.tensors[place]
    if spec.role == "in":
        problems.add(f"{name!r} is only read", "zero")
        return None
    if spec.strides is not None:
        problems.add(
            f"{name!r} need not be contiguous: bytes between its elements are not the operator's", "zero"
        )
        return None
    kind = str(variant.constants[spec.type]) if spec.type in slots.types else spec.type
    size = dtype.resolve(kind, variant.target.fp8).itemsize
    return " * ".join([*(f"({dim})" for dim in spec.dims), str(size)])
