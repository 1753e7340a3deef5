"""AMD's Python bindings of HIP, unmodified: ``rocm.bindings.hip`` (rocm-bindings-hip) or ``hip.hip`` (hip-python 7).

``python bindings_client.py MODULE CODE_OBJECT``: the code object's kernel ``kernel(data)`` adds 1 to every 32-bit word of one
workgroup of 64.
"""

from __future__ import annotations

import array
import ctypes
import importlib
import sys
from pathlib import Path
from typing import Any


def checked(answer: Any) -> Any:
    """What a binding returned, without its error code, which must be success."""
    status, *values = answer if isinstance(answer, tuple) else (answer,)
    assert int(status) == 0, status
    return values[0] if len(values) == 1 else values


def text(name: bytes | str) -> str:
    """The older bindings give bytes."""
    return name.decode() if isinstance(name, bytes) else name


def main() -> int:
    hip = importlib.import_module(sys.argv[1])
    image = Path(sys.argv[2]).read_bytes()
    assert checked(hip.hipGetDeviceCount()) >= 1
    if sys.argv[1].startswith("rocm."):  # these bindings return what HIP writes through a pointer
        properties = checked(hip.hipGetDeviceProperties(0))
    else:
        properties = hip.hipDeviceProp_t()
        checked(hip.hipGetDeviceProperties(properties, 0))
    print("device", text(properties.name), text(properties.gcnArchName), properties.multiProcessorCount)
    values = array.array("I", range(100, 164))
    size = len(values) * values.itemsize
    memory = checked(hip.hipMalloc(size))
    checked(hip.hipMemcpy(memory, values, size, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    module = checked(hip.hipModuleLoadData(image))
    kernel = checked(hip.hipModuleGetFunction(module, b"kernel"))
    stream = checked(hip.hipStreamCreate())
    checked(
        hip.hipModuleLaunchKernel(
            kernel, gridDimX=1, gridDimY=1, gridDimZ=1, blockDimX=64, blockDimY=1, blockDimZ=1, sharedMemBytes=0,
            stream=stream, kernelParams=None, extra=(memory,),
        )
    )  # fmt: skip
    checked(hip.hipStreamSynchronize(stream))
    checked(hip.hipMemcpy(values, memory, size, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert list(values) == list(range(101, 165)), values
    start, stop = checked(hip.hipEventCreate()), checked(hip.hipEventCreate())
    checked(hip.hipEventRecord(start, stream))
    checked(hip.hipEventRecord(stop, stream))
    checked(hip.hipEventSynchronize(stop))
    assert checked(hip.hipEventElapsedTime(start, stop)) >= 0
    missing = hip.hipModuleGetFunction(module, b"not there")
    assert int((missing if isinstance(missing, tuple) else (missing,))[0]) == int(
        hip.hipError_t.hipErrorNotFound
    )
    checked(hip.hipModuleUnload(module))
    checked(hip.hipStreamDestroy(stream))
    checked(hip.hipFree(memory))
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    print("right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
