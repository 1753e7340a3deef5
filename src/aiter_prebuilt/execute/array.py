"""A tensor in device memory without a framework: what the public functions take where there is no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiter_prebuilt.contract.dtype import BY_NAME, DTYPES, DType
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import ArgumentDTypeError
from aiter_prebuilt.execute.layout import Layout, dense
from aiter_prebuilt.execute.values import POISON

if TYPE_CHECKING:
    from typing_extensions import Self

#: What the native side takes as a tensor: (address, element type, shape, strides, (vendor, ordinal)).
Raw: TypeAlias = tuple[int, str, tuple[int, ...], tuple[int, ...], tuple[str, int]]
_BY_TORCH_NAME: Final = {kind.torch: kind for kind in DTYPES}


def dtype_named(dtype: object) -> DType:
    """Return the element type that ``dtype`` names.

    A caller writes ``"bf16"``, ``"bfloat16"`` or ``torch.bfloat16``.

    Raises:
        ArgumentDTypeError: it is none of these.
    """
    name = str(dtype).removeprefix("torch.")
    found = BY_NAME.get(name) or _BY_TORCH_NAME.get(name)
    if found is None:
        raise ArgumentDTypeError(
            f"make a tensor of {dtype!r}", "no element type has this name", f"use one of {', '.join(BY_NAME)}"
        )
    return found


class DeviceArray(Raw):
    """The tuple that the native side takes, with what a public function asks of a tensor. As a sequence it is those five.

    The memory belongs to ``memory``, which frees it. What is not written holds NaN, or a value that no case wants.
    """

    memory: DeviceMemory
    layout: Layout
    #: The first byte of the allocation; the first element lies ``layout.offset`` elements behind it.
    base: int
    #: Bytes behind the last element that belong to the allocation.
    slack: int
    requires_grad: Final = False

    def __new__(  # noqa: D102  # the class says it
        cls,
        memory: DeviceMemory,
        dtype: object,
        shape: Sequence[int],
        data: bytes | None = None,
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        slack: int = 0,
    ) -> Self:
        kind = dtype_named(dtype)
        sizes = tuple(map(int, shape))
        steps = dense(sizes) if strides is None else tuple(strides)
        layout = Layout(sizes, steps, offset, kind.itemsize)
        if data is None:
            data = _poison(kind.name, layout.nbytes)
        if len(data) != layout.nbytes:
            raise ValueError(f"{len(data)} bytes for a tensor whose memory has {layout.nbytes}")
        base = memory.upload(data + _poison(kind.name, slack))
        made = super().__new__(cls, (base + offset * kind.itemsize, kind.name, sizes, steps, memory.device))
        made.memory, made.layout, made.base, made.slack = memory, layout, base, slack
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dim."""
        return self[2]

    @property
    def dtype(self) -> str:
        """The element type's manifest name: ``"bf16"``."""
        return self[1]

    @property
    def device(self) -> tuple[str, int]:
        """(vendor, ordinal)."""
        return self[4]

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def new_empty(self, shape: Sequence[int], dtype: object = None) -> DeviceArray:
        """Return a new dense tensor beside this one, poisoned.

        ``dtype``: a name, or torch's own; this tensor's type when None.
        """
        return DeviceArray(self.memory, self.dtype if dtype is None else dtype, shape)

    def read(self) -> bytes:
        """All bytes of the memory, those between the elements too, after everything that was launched is done."""
        return self.memory.download(self.base, self.layout.nbytes)

    def changed_behind(self) -> bool:
        """Was anything written behind the last element?"""
        end = self.base + self.layout.nbytes
        return bool(self.slack) and self.memory.download(end, self.slack) != _poison(self.dtype, self.slack)

    def poison(self) -> bytes:
        """Return the bytes that memory without data is filled with."""
        return _poison(self.dtype, self.layout.nbytes)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.device[0]}:{self.device[1]})"

    def __reduce__(self) -> Any:
        raise TypeError("device memory cannot be pickled: read() gives its bytes")


def _poison(dtype: str, size: int) -> bytes:
    return bytes([POISON[dtype]]) * size
