"""Graphs of the embedded device: nodes, order, copies, changes without a new instantiation."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from support.assembly import code_object
from support.hip import (  # fmt: skip
    ADD_ONE,
    DEFAULT,
    FROM_DEVICE,
    INVALID_VALUE,
    STREAM_PER_THREAD,
    SUCCESS,
    call,
    code,
    download,
    dwords,
    function,
    handle,
    launch,
    size,
    upload,
    words,
)
from support.hip_graphs import (
    ALLOCATE_TYPE,
    COPY_TYPE,
    GRAPH_TYPE,
    SET_TYPE,
    AllocateParams,
    HostParams,
    KernelParams,
    SetParams,
    add,
    begin,
    end,
    executable,
    kernel_params,
    nodes,
    run,
    types,
)

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
UPDATE_FAILURE = 910


@pytest.fixture
def stream() -> Iterator[ctypes.c_void_p]:
    out = handle("hipStreamCreateWithFlags", 1)
    yield out
    graph = ctypes.c_void_p()
    code("hipStreamEndCapture", out, ctypes.byref(graph))
    code("hipStreamDestroy", out)


@pytest.fixture
def other() -> Iterator[ctypes.c_void_p]:
    out = handle("hipStreamCreateWithFlags", 1)
    yield out
    code("hipStreamDestroy", out)


@pytest.fixture
def kernel() -> Iterator[ctypes.c_void_p]:
    module, out = function(code_object("gfx942", ADD_ONE))
    yield out
    call("hipModuleUnload", module)


@pytest.fixture
def data() -> Iterator[ctypes.c_void_p]:
    out = upload(dwords([10] * 64))
    yield out
    code("hipFree", out)


def test_nodes_run_after_what_they_depend_on(data: ctypes.c_void_p) -> None:
    """Added backwards, ordered by edges; each host node says its name."""
    said: list[int] = []
    say = HOST_FUNCTION(lambda value: said.append(value or 0))
    graph = handle("hipGraphCreate", 0)
    made = [
        add(
            "hipGraphAddHostNode",
            graph,
            [],
            ctypes.byref(HostParams(ctypes.cast(say, ctypes.c_void_p), number)),
        )
        for number in range(1, 6)
    ]
    for before, after in ((4, 3), (3, 2), (2, 1), (1, 0)):
        edge = [(ctypes.c_void_p * 1)(made[index].value) for index in (before, after)]
        call("hipGraphAddDependencies", graph, *edge, size(1))
    run(graph)
    assert said == [5, 4, 3, 2, 1]
    ends = [(ctypes.c_void_p * 1)(made[index].value) for index in (0, 4)]
    assert code("hipGraphAddDependencies", graph, *ends, size(1)) == INVALID_VALUE, "a circle"
    count = ctypes.c_size_t()
    call("hipGraphGetEdges", graph, None, None, ctypes.byref(count))
    assert count.value == 4
    call("hipGraphRemoveDependencies", graph, *reversed(ends), size(0))
    call("hipGraphDestroyNode", made[2])
    call("hipGraphGetEdges", graph, None, None, ctypes.byref(count))
    assert count.value == 2 and len(nodes(graph)) == 4
    call("hipGraphDestroy", graph)
    assert code("hipGraphDestroy", graph) == INVALID_VALUE
    assert code("hipGraphDestroyNode", made[0]) == INVALID_VALUE


def test_every_kind_of_node(kernel: ctypes.c_void_p, data: ctypes.c_void_p) -> None:
    graph, out = handle("hipGraphCreate", 0), ctypes.create_string_buffer(256)
    fill = add("hipGraphAddMemsetNode", graph, [], ctypes.byref(SetParams(data, 4, 1, 256, 41, 64)))
    params, keep = kernel_params(kernel, data)
    compute = add("hipGraphAddKernelNode", graph, [fill], ctypes.byref(params))
    empty = add("hipGraphAddEmptyNode", graph, [compute])
    event = handle("hipEventCreate")
    record = add("hipGraphAddEventRecordNode", graph, [empty], event)
    copy = add("hipGraphAddMemcpyNode1D", graph, [record], out, data, size(256), FROM_DEVICE)
    add("hipGraphAddEventWaitNode", graph, [copy], event)
    child = handle("hipGraphCreate", 0)
    add("hipGraphAddMemsetNode", child, [], ctypes.byref(SetParams(data, 2, 1, 256, 0x1234, 128)))
    add("hipGraphAddChildGraphNode", graph, [copy], child)
    call("hipGraphDestroy", child)
    del keep
    run(graph)
    assert out.raw == dwords([42] * 64)
    assert words(data, 64) == [0x12341234] * 64
    assert code("hipEventQuery", event) == SUCCESS
    back = KernelParams()
    call("hipGraphKernelNodeGetParams", compute, ctypes.byref(back))
    assert (back.func, back.grid.x, back.block.x) == (kernel.value, 1, 64)
    first = ctypes.cast(back.params, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))[0][0]
    assert first == data.value
    assert code("hipGraphKernelNodeGetParams", fill, ctypes.byref(back)) == INVALID_VALUE
    call("hipGraphDestroy", graph)


def test_changing_what_runs(kernel: ctypes.c_void_p, data: ctypes.c_void_p) -> None:
    """The executable graph is a copy: it changes by its own calls only."""
    second, third = upload(dwords([0] * 64)), upload(dwords([0] * 64))
    graph = handle("hipGraphCreate", 0)
    (params, keep), (to_second, keep2), (to_third, keep3) = (
        kernel_params(kernel, one) for one in (data, second, third)
    )
    node = add("hipGraphAddKernelNode", graph, [], ctypes.byref(params))
    made = executable(graph)
    call("hipGraphKernelNodeSetParams", node, ctypes.byref(to_third))
    call("hipGraphLaunch", made, None)
    call("hipGraphExecKernelNodeSetParams", made, node, ctypes.byref(to_second))
    call("hipGraphLaunch", made, None)
    assert [words(one, 1)[0] for one in (data, second, third)] == [11, 1, 0]
    call("hipGraphNodeSetEnabled", made, node, 0)
    call("hipGraphLaunch", made, None)
    enabled = ctypes.c_uint(7)
    call("hipGraphNodeGetEnabled", made, node, ctypes.byref(enabled))
    assert enabled.value == 0 and words(second, 1) == [1]
    call("hipGraphNodeSetEnabled", made, node, 1)
    culprit, result = ctypes.c_void_p(), ctypes.c_int()
    call("hipGraphExecUpdate", made, graph, ctypes.byref(culprit), ctypes.byref(result))
    call("hipGraphLaunch", made, None)
    assert [words(one, 1)[0] for one in (data, second, third)] == [11, 1, 1]
    add("hipGraphAddEmptyNode", graph, [node])
    assert (
        code("hipGraphExecUpdate", made, graph, ctypes.byref(culprit), ctypes.byref(result)) == UPDATE_FAILURE
    )
    assert result.value == 2
    fill = SetParams(data, 4, 1, 256, 1, 64)
    assert code("hipGraphExecMemsetNodeSetParams", made, node, ctypes.byref(fill)) == INVALID_VALUE
    call("hipGraphExecDestroy", made)
    assert code("hipGraphLaunch", made, None) == INVALID_VALUE
    del keep, keep2, keep3


def test_clone_is_apart(data: ctypes.c_void_p) -> None:
    graph = handle("hipGraphCreate", 0)
    node = add("hipGraphAddMemsetNode", graph, [], ctypes.byref(SetParams(data, 4, 1, 256, 1, 64)))
    copy = handle("hipGraphClone", graph)
    twin = handle("hipGraphNodeFindInClone", node, copy)
    assert twin.value != node.value
    call("hipGraphMemsetNodeSetParams", twin, ctypes.byref(SetParams(data, 4, 1, 256, 2, 64)))
    run(graph)
    assert words(data, 1) == [1]
    run(copy)
    assert words(data, 1) == [2]
    read = SetParams()
    call("hipGraphMemsetNodeGetParams", twin, ctypes.byref(read))
    assert (read.dst, read.value, read.width) == (data.value, 2, 64)
    foreign = (ctypes.c_void_p * 1)(twin.value)
    assert (
        code("hipGraphAddEmptyNode", ctypes.byref(ctypes.c_void_p()), graph, foreign, size(1))
        == INVALID_VALUE
    )
    for one in (graph, copy):
        call("hipGraphDestroy", one)


def test_memory_of_a_graph(data: ctypes.c_void_p) -> None:
    graph, params = handle("hipGraphCreate", 0), AllocateParams(1, 0, 1, 0)
    params.bytes = 512
    node = add("hipGraphAddMemAllocNode", graph, [], ctypes.byref(params))
    assert params.dptr
    fill = add(
        "hipGraphAddMemsetNode", graph, [node], ctypes.byref(SetParams(params.dptr, 4, 1, 512, 9, 128))
    )
    copy = add(
        "hipGraphAddMemcpyNode1D", graph, [fill], data, ctypes.c_void_p(params.dptr), size(256), DEFAULT
    )
    add("hipGraphAddMemFreeNode", graph, [copy], ctypes.c_void_p(params.dptr))
    assert types(graph) == [ALLOCATE_TYPE, SET_TYPE, COPY_TYPE, 11]
    run(graph, 2)
    assert words(data, 64) == [9] * 64
    call("hipGraphDestroy", graph)
    assert code("hipMemset", ctypes.c_void_p(params.dptr), 0, size(4)) == INVALID_VALUE


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hipGraphLaunch", (ctypes.c_void_p(0x1000), None)),
        ("hipGraphExecDestroy", (ctypes.c_void_p(0x1000),)),
        ("hipGraphDestroy", (None,)),
        ("hipGraphCreate", (None, 0)),
        ("hipGraphGetNodes", (ctypes.c_void_p(0x1000), None, None)),
        ("hipGraphInstantiate", (None, ctypes.c_void_p(0x1000), None, None, ctypes.c_size_t(0))),
        (
            "hipGraphAddKernelNode",
            (ctypes.byref(ctypes.c_void_p()), ctypes.c_void_p(0x1000), None, ctypes.c_size_t(0), None),
        ),
        ("hipGraphNodeGetType", (ctypes.c_void_p(0x1000), ctypes.byref(ctypes.c_int()))),
        ("hipStreamEndCapture", (None, None)),
        ("hipStreamIsCapturing", (None, None)),
        ("hipThreadExchangeStreamCaptureMode", (ctypes.byref(ctypes.c_int(9)),)),
    ],
)
def test_bad_arguments(name: str, arguments: tuple[Any, ...]) -> None:
    assert code(name, *arguments) == INVALID_VALUE


def test_a_graph_outlives_its_module(data: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
    """Unloading takes the handles away; a graph that holds the kernel still runs it."""
    module, kernel = function(code_object("gfx942", ADD_ONE))
    begin(stream)
    assert launch(kernel, data, stream=stream) == SUCCESS
    made = executable(end(stream))
    call("hipModuleUnload", module)
    call("hipGraphLaunch", made, stream)
    assert words(data, 64) == [11] * 64
    assert launch(kernel, data) != SUCCESS
    assert download(data, 4) == dwords([11])
    call("hipGraphExecDestroy", made)


def test_memory_of_a_capture(kernel: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
    """hipMallocAsync in a capture: an address at once, usable by what follows."""
    out, memory = ctypes.create_string_buffer(256), ctypes.c_void_p()
    begin(stream)
    call("hipMallocAsync", ctypes.byref(memory), size(256), stream)
    call("hipMemsetAsync", memory, 0, size(256), stream)
    assert launch(kernel, memory, stream=stream) == SUCCESS
    call("hipMemcpyAsync", out, memory, size(256), FROM_DEVICE, stream)
    call("hipFreeAsync", memory, stream)
    graph = end(stream)
    made = executable(graph)
    call("hipGraphDestroy", graph)
    for _ in range(2):
        call("hipGraphLaunch", made, stream)
        assert out.raw == dwords([1] * 64)
    used = ctypes.c_void_p(memory.value)
    assert code("hipMemset", used, 0, size(4)) == SUCCESS
    call("hipGraphExecDestroy", made)
    assert code("hipMemset", used, 0, size(4)) == INVALID_VALUE


def test_captured_graph_launch_is_a_child(data: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
    begin(STREAM_PER_THREAD)
    call("hipMemsetAsync", data, 3, size(4), STREAM_PER_THREAD)
    inner = executable(end(STREAM_PER_THREAD))
    begin(stream)
    call("hipGraphLaunch", inner, stream)
    outer = end(stream)
    assert types(outer) == [GRAPH_TYPE]
    run(outer)
    assert words(data, 1) == [0x03030303]
