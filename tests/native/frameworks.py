"""Other people's tensors over the embedded device's memory, one process each: ``python -m native.frameworks PART``.

The driver is opened once per process and the tests beside this file open the stub, so each part runs in a process of its own.
A part that returns has proved what its docstring says; an assertion ends the process with status 1.
"""

# ruff: noqa: PT017  # not run by pytest: this is its child

from __future__ import annotations

import ctypes
import importlib.abc
import math
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import aiter_prebuilt
from aiter_prebuilt import errors
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator.memory import DeviceArray
from native import exchange

ROWS, COLUMNS = 3, 64
VALUES = [((i * 7) % 13 - 6) / 4 for i in range(ROWS * 2 * COLUMNS)]


def f16(values: Sequence[float]) -> bytes:
    """As binary16."""
    return struct.pack(f"{len(values)}e", *values)


def silu_rows(values: Sequence[float]) -> list[float]:
    """silu(first half) * second half of each row, in double precision."""
    found = []
    for start in range(0, len(values), 2 * COLUMNS):
        row = values[start : start + 2 * COLUMNS]
        found += [g / (1 + math.exp(-g)) * up for g, up in zip(row[:COLUMNS], row[COLUMNS:], strict=True)]
    return found


def close(found: Sequence[float], wanted: Sequence[float]) -> None:
    """Equal but for the rounding to binary16."""
    assert len(found) == len(wanted)
    worst = max(abs(f - w) - 2**-10 * abs(w) for f, w in zip(found, wanted, strict=True))
    assert worst <= 1e-4, worst


def read(array: DeviceArray) -> list[float]:
    """The binary16 values on the device."""
    return list(struct.unpack(f"{array.nbytes // 2}e", array.read()))


def pair() -> tuple[DeviceArray, DeviceArray]:
    """An input of silu_and_mul and its poisoned output."""
    return DeviceArray("f16", (ROWS, 2 * COLUMNS), f16(VALUES)), DeviceArray("f16", (ROWS, COLUMNS))


def foreign(tensor: object) -> Any:
    """A tensor that is not torch's, where the functions' types name torch's: they take all that these parts pass."""
    return tensor


class Missing(importlib.abc.MetaPathFinder):
    """torch and everything like it is not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] in ("torch", "numpy", "cupy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def raw() -> None:
    """Raw pointers with no torch installed: values, the driver's own stream, and an output that cannot be allocated says so."""
    sys.meta_path.insert(0, Missing())
    x, out = pair()
    aiter_prebuilt.silu_and_mul(foreign(out.raw), foreign(x.raw))
    close(read(out), silu_rows(VALUES))
    norm, weight = DeviceArray("f16", (ROWS, COLUMNS)), DeviceArray("f16", (COLUMNS,), f16([0.5] * COLUMNS))
    source = DeviceArray("f16", (ROWS, COLUMNS), f16(VALUES[: ROWS * COLUMNS]))
    dispatch.operator("rms_norm")(source.raw, weight.raw, norm.raw, 1e-6, stream=0)
    wanted = []
    for start in range(0, ROWS * COLUMNS, COLUMNS):
        row = VALUES[start : start + COLUMNS]
        scale = 0.5 / math.sqrt(sum(v * v for v in row) / COLUMNS + 1e-6)
        wanted += [v * scale for v in row]
    close(read(norm), wanted)
    try:
        aiter_prebuilt.rms_norm(foreign(source.raw), foreign(weight.raw), 1e-6)
    except errors.ArgumentKindError as error:
        assert "the output cannot be allocated" in str(error), error
    else:
        raise AssertionError("rms_norm allocated without a framework")
    assert not {"torch", "numpy", "cupy"} & set(sys.modules)


class Legacy(ctypes.Structure):
    """DLManagedTensor of DLPack before 1.0."""

    _fields_ = [("tensor", exchange.Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_NEW = ctypes.pythonapi.PyCapsule_New
_GIVEN_BACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Cupy:
    """An array as CuPy on ROCm has it: ``__dlpack__`` with a stream and, from CuPy 14 on, a version."""

    def __init__(self, array: DeviceArray, versioned: bool) -> None:
        self.array, self.versioned = array, versioned
        self.streams: list[Any] = []
        self.given, self.back = 0, 0
        self._keep: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return exchange.ROCM, self.array.ordinal

    def __dlpack__(self, *, stream: Any = None, **rest: Any) -> Any:
        if rest and not self.versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        assert not rest or rest["max_version"] >= (1, 0)
        self.streams.append(stream)
        kept = exchange.DeviceTensor(
            self.array.address,
            self.array.dtype,
            self.array.shape,
            self.array.strides,
            (exchange.ROCM, self.array.ordinal),
        )
        managed = (
            exchange.Managed(1, 0, None, exchange.DELETER(), 0, kept.tensor)
            if self.versioned
            else Legacy(kept.tensor)
        )
        destroy = _GIVEN_BACK(self._destroyed)
        self._keep += [kept, managed, destroy]
        self.given += 1
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        _NEW.restype, _NEW.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._keep.append(name)
        return _NEW(ctypes.addressof(managed), name, ctypes.cast(destroy, ctypes.c_void_p))

    def _destroyed(self, _: int) -> None:
        self.back += 1


def cupy() -> None:
    """Arrays with DLPack, of both generations: values, ROCm's stream numbers, and every export given back, refused or not."""
    for versioned in (True, False):
        x, out = pair()
        inputs, outputs = Cupy(x, versioned), Cupy(out, versioned)
        aiter_prebuilt.silu_and_mul(foreign(outputs), foreign(inputs))
        close(read(out), silu_rows(VALUES))
        narrow = Cupy(DeviceArray("f16", (ROWS, COLUMNS), poison=0), versioned)
        try:
            aiter_prebuilt.silu_and_mul(foreign(outputs), foreign(narrow))
        except errors.ArgumentShapeError as error:
            assert "dim 1 must be 128" in str(error), error
        else:
            raise AssertionError("a wrong shape was accepted")
        for array in (inputs, outputs, narrow):
            assert array.given == array.back > 0, (array.given, array.back)
            assert set(array.streams) == {0}, "ROCm's default stream is 0"
        other = ctypes.c_void_p()
        from aiter_prebuilt_emulator import memory

        memory.call("hipStreamCreate", ctypes.byref(other))
        assert other.value
        dispatch.operator("silu_and_mul")(outputs, inputs, 0.0, stream=other.value)
        assert inputs.streams[-1] == other.value
        close(read(out), silu_rows(VALUES))


def numpy() -> None:
    """NumPy arrays: on the CPU, refused before any driver or bundle is asked for."""
    import numpy as np

    x, out = np.zeros((ROWS, 2 * COLUMNS), np.float16), np.zeros((ROWS, COLUMNS), np.float16)
    for _ in range(2):
        try:
            aiter_prebuilt.silu_and_mul(foreign(out), foreign(x))
        except errors.ArgumentDeviceError as error:
            assert "CPU" in str(error) and "Move" in str(error), error
        else:
            raise AssertionError("a NumPy array was accepted")
    assert not dispatch.operator("silu_and_mul").stats()["launches"]


def refusals() -> None:
    """Shipped operators on gfx942: what does not fit is refused by the class that says why, cold and warm."""
    smooth, product = dispatch.operator("smoothquant_fwd"), dispatch.operator("gemm_a16w16")
    arrays = [
        DeviceArray("f16", (ROWS, COLUMNS), f16(VALUES[: ROWS * COLUMNS])),
        *(DeviceArray(kind, shape, poison=0) for kind, shape in (
            ("f32", (COLUMNS,)), ("e4m3fnuz", (ROWS, COLUMNS)), ("f32", (ROWS, 1)),
            ("f16", (COLUMNS, COLUMNS)), ("f16", (COLUMNS,)), ("f16", (ROWS, COLUMNS)),
        )),
    ]  # fmt: skip
    x, scale, codes, rows, weight, bias, out = (array.raw for array in arrays)

    def like(tensor: Any, **changed: Any) -> Any:
        return tuple(
            {
                **dict(zip(("at", "type", "shape", "strides", "device"), tensor, strict=True)),
                **changed,
            }.values()
        )

    wrong = (
        (
            smooth,
            (like(codes, type="e4m3fn"), x, scale, rows),
            errors.ArgumentDTypeError,
            "the type of this GPU",
        ),
        (smooth, (like(codes, type="u8"), x, scale, rows), errors.ArgumentDTypeError, "Convert it first"),
        (
            smooth,
            (codes, like(x, at=x[0] + 1), scale, rows),
            errors.ArgumentAlignmentError,
            "must be aligned to 2 bytes",
        ),
        (
            smooth,
            (codes, x, like(scale, strides=(2,)), rows),
            errors.ArgumentStrideError,
            "Call contiguous()",
        ),
        (
            smooth,
            (codes, like(x, strides=(COLUMNS, 2)), scale, rows),
            errors.ArgumentStrideError,
            "must have stride 1 in dim 1",
        ),
        (smooth, (codes, x, scale, like(rows, device=("amd", 1))), errors.ArgumentDeviceError, "one device"),
        (smooth, (codes, x, scale, like(rows, at=0)), errors.ArgumentDeviceError, "no memory"),
        (
            smooth,
            (codes, x, scale, like(rows, shape=(ROWS, 2))),
            errors.ArgumentShapeError,
            "dim 1 must be 1",
        ),
        (smooth, (codes, x, None, rows), errors.ArgumentKindError, "must be a tensor, got None"),
        (smooth, (codes, x, scale), errors.ArgumentCountError, "Its signature is"),
        (
            product,
            (x, weight, like(bias, strides=(2,)), out),
            errors.ArgumentStrideError,
            "Call contiguous()",
        ),
    )
    for warm in range(2):
        for operator, arguments, kind, words in wrong:
            try:
                operator(*arguments, stream=0)
            except kind as error:
                assert type(error) is kind and words in str(error), str(error)
            else:
                raise AssertionError(f"accepted: {arguments}")
        assert [smooth.stats()["launches"], product.stats()["launches"] > 0] == [warm, bool(warm)]
        smooth(codes, x, scale, rows, stream=0)
        product(x, weight, bias, out, stream=0)
    empty = [DeviceArray(kind, (0, COLUMNS)) for kind in ("f16", "f16")]
    aiter_prebuilt.silu_and_mul(like(empty[0].raw, shape=(0, COLUMNS // 2)), foreign(empty[1].raw))
    assert dispatch.operator("silu_and_mul").stats()["launches"] == 0, "no rows need no launch"


def main(words: list[str]) -> int:
    """Run one part."""
    parts: dict[str, Callable[[], None]] = {"raw": raw, "cupy": cupy, "numpy": numpy, "refusals": refusals}
    if words[0] not in parts:
        from native import torch_frameworks

        parts = torch_frameworks.PARTS
    parts[words[0]]()
    print(f"{words[0]}: done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
