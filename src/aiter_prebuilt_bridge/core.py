"""``module_aiter_core`` without a compile: AITER's enumerations with its values, and its tensor as ours read one.

Where AITER's compiled one is there (an image that was built with it), that is used: what else was compiled knows its types.
"""

from __future__ import annotations

from enum import IntEnum
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from aiter_prebuilt.ops import enumerations

#: Element types by AITER's number (``AITER_DTYPE_*`` of its ``aiter_enum.h``) as torch calls them.
DTYPES: Final = (
    "float8", "float8_e8m0fnu", "float16", "bfloat16", "float32", "int4x2", "float4_e2m1fn_x2",
    "uint32", "int32", "int16", "int8", "uint8", "int64", "uint64",
)  # fmt: skip
#: Enumerations that no operator of ours takes.
_OTHERS: Final = {
    "MlaVersion": {"V32": 0, "V40": 1},
    "MxScaleRoundMode": {"RoundDown": 0, "RoundUp": 1, "Even": 2, "Ceil": 3},
    "MxDtype": {"FP4_E2M1": 0, "FP8_E4M3": 1, "FP8_E4M3_FNUZ": 2},
}
_DEFAULT_ROUND_MODE: Final = 1


class aiter_tensor_t:  # noqa: N801  # AITER's name
    """A tensor that AITER took apart: what native code reads of it, as a torch without DLPack's exchange API shows it. So torch
    is asked for the stream, as for any of its tensors.
    """

    def __init__(
        self, data_ptr: int, numel: int, ndim: int, shape: Any, strides: Any, dtype: int, device_id: int
    ) -> None:
        """``ndim`` follows from ``shape``."""
        del ndim
        self._pointer, self._numel, self._strides = data_ptr, numel, tuple(strides)
        self.shape = tuple(shape)
        self.device = SimpleNamespace(type="cuda", index=device_id)
        self.dtype = fp8_of(device_id) if dtype == 0 else DTYPES[dtype]
        self.requires_grad = False

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._pointer

    def stride(self) -> tuple[int, ...]:
        """In elements."""
        return self._strides

    def numel(self) -> int:
        """Count the elements."""
        return self._numel


def fp8_of(ordinal: int) -> str:
    """AITER has one number for both flavours: a device has one of them."""
    from aiter_prebuilt.devices import device

    return "float8_e4m3fnuz" if device.facts("amd", ordinal).target == "gfx942" else "float8_e4m3fn"


def _enumeration(name: str, members: dict[str, int]) -> type[IntEnum]:
    functional: Any = IntEnum
    made: type[IntEnum] = functional(name, members, module="module_aiter_core")
    # AITER tells an enumeration from a function by this.
    made.__doc__ = "Members:\n" + "\n".join(f"  {member}" for member in members)
    return made


def fill(names: dict[str, Any]) -> None:
    """Put what the compiled module has into a module with these globals."""
    for each in (enumerations.ActivationType, enumerations.QuantType):
        members = {member.name: member.value for member in each}
        names[each.__name__] = _enumeration(each.__name__, members)
    for name, numbers in _OTHERS.items():
        names[name] = _enumeration(name, numbers)
    names["kDefaultMxScaleRoundMode"] = _DEFAULT_ROUND_MODE
    names["aiter_tensor_t"] = aiter_tensor_t
    names["_set_current_hip_stream"] = lambda stream: None  # noqa: ARG005  # torch is asked, call by call


class _Loader:
    """Makes the module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create an empty module."""
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        fill(vars(module))


def spec(name: str) -> ModuleSpec:
    """Return the spec of the module under one of its names."""
    made = ModuleSpec(name, _Loader(), origin=__file__)  # type: ignore[arg-type]  # a loader needs no base class
    made.has_location = True  # AITER logs where each module lies
    return made
