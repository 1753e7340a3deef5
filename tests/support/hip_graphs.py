"""Capture and graphs for tests: parameter structs, nodes, launches."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from support.hip import Dim3, call, code, handle, pointers, size

#: hipStreamCaptureMode, hipStreamCaptureStatus, hipGraphNodeType.
GLOBAL: Final = 0
THREAD_LOCAL: Final = 1
RELAXED: Final = 2
NONE: Final = 0
ACTIVE: Final = 1
INVALIDATED: Final = 2
KERNEL_TYPE: Final = 0
COPY_TYPE: Final = 1
SET_TYPE: Final = 2
GRAPH_TYPE: Final = 4
ALLOCATE_TYPE: Final = 10


class KernelParams(ctypes.Structure):
    """`hipKernelNodeParams`."""

    _fields_ = (
        ("block", Dim3), ("extra", ctypes.c_void_p), ("func", ctypes.c_void_p), ("grid", Dim3), ("params", ctypes.c_void_p),
        ("lds", ctypes.c_uint),
    )  # fmt: skip


class HostParams(ctypes.Structure):
    """`hipHostNodeParams`."""

    _fields_ = (("fn", ctypes.c_void_p), ("data", ctypes.c_void_p))


class SetParams(ctypes.Structure):
    """`hipMemsetParams`."""

    _fields_ = (
        ("dst", ctypes.c_void_p), ("element", ctypes.c_uint), ("height", ctypes.c_size_t), ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint), ("width", ctypes.c_size_t),
    )  # fmt: skip


class AllocateParams(ctypes.Structure):
    """`hipMemAllocNodeParams`; the pool's properties are 88 bytes: type, handle types, location, and what stays zero."""

    _fields_ = (
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int), ("device", ctypes.c_int),
        ("rest", ctypes.c_char * 72), ("access", ctypes.c_void_p), ("count", ctypes.c_size_t), ("bytes", ctypes.c_size_t),
        ("dptr", ctypes.c_void_p),
    )  # fmt: skip


def begin(stream: ctypes.c_void_p, mode: int = GLOBAL) -> None:
    """Starts a capture."""
    call("hipStreamBeginCapture", stream, mode)


def end(stream: ctypes.c_void_p) -> ctypes.c_void_p:
    """Ends it; the graph."""
    out = ctypes.c_void_p()
    call("hipStreamEndCapture", stream, ctypes.byref(out))
    return out


def end_code(stream: ctypes.c_void_p) -> int:
    """Ends it with an error and no graph; the code."""
    out = ctypes.c_void_p(1)
    status = code("hipStreamEndCapture", stream, ctypes.byref(out))
    assert not out.value
    return status


def executable(graph: ctypes.c_void_p) -> ctypes.c_void_p:
    """Instantiated."""
    return handle("hipGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))


def run(graph: ctypes.c_void_p, times: int = 1) -> None:
    """Instantiates, launches on the null stream, destroys."""
    made = executable(graph)
    for _ in range(times):
        call("hipGraphLaunch", made, None)
    call("hipGraphExecDestroy", made)


def state(stream: ctypes.c_void_p) -> int:
    """hipStreamCaptureStatus."""
    out = ctypes.c_int(-1)
    call("hipStreamIsCapturing", stream, ctypes.byref(out))
    return out.value


def nodes(graph: ctypes.c_void_p, name: str = "hipGraphGetNodes") -> list[int]:
    """A list of nodes, from one of the calls that fill one."""
    count = ctypes.c_size_t()
    call(name, graph, None, ctypes.byref(count))
    out = (ctypes.c_void_p * max(count.value, 1))()
    call(name, graph, out, ctypes.byref(count))
    return [value or 0 for value in out[: count.value]]


def types(graph: ctypes.c_void_p) -> list[int]:
    """hipGraphNodeType of every node, in the order of their making."""
    out = ctypes.c_int()
    found = []
    for node in nodes(graph):
        call("hipGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(out))
        found.append(out.value)
    return found


def add(name: str, graph: ctypes.c_void_p, after: list[ctypes.c_void_p], *arguments: Any) -> ctypes.c_void_p:
    """Adds a node after others."""
    list_ = (ctypes.c_void_p * max(len(after), 1))(*[node.value for node in after])
    return handle(name, graph, list_ if after else None, size(len(after)), *arguments)


def kernel_params(kernel: ctypes.c_void_p, address: ctypes.c_void_p) -> tuple[KernelParams, Any]:
    """`hipKernelNodeParams` of a kernel that takes one pointer, and what must live as long."""
    keep = pointers(address)
    return KernelParams(Dim3(64, 1, 1), None, kernel, Dim3(1, 1, 1), ctypes.addressof(keep), 0), keep
