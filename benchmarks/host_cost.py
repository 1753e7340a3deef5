"""What one call costs on the host: the stub driver, CPU tensors that say they are on a GPU, medians of interleaved samples.

Run by ``runtime.py`` in a process of its own (it changes what torch says about its tensors). Prints rows as JSON.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("src", "tests", "")]

from native import synthetic
from native.synthetic import A, Op, R, S, T
from rows import Row, middle

import aiter_prebuilt
from aiter_prebuilt import _native
from aiter_prebuilt.launch import dispatch

SAMPLES: Final = 41
CALLS: Final = 2000
#: Nanoseconds.
BAR_CALL: Final = 250.0
BAR_ALLOCATING: Final = 300.0
#: A call with a shape never seen, when the memo is full, against the same when it is empty.
BAR_STREAM: Final = 1.25
MEMO: Final = 1024
#: Py_tp_descr_get of CPython's typeslots.h.
TP_DESCR_GET: Final = 54
Call = Callable[..., object]
Timed = tuple[Call, Any, Any, Any, Any]


def _loop(call: Call, a: Any, b: Any, c: Any, d: Any, times: range) -> int:
    start = time.thread_time_ns()
    for _ in times:
        call(a, b, c, d)
    return time.thread_time_ns() - start


def medians(calls: dict[str, Timed]) -> dict[str, float]:
    """Nanoseconds of one call of each, the loop included. Samples are interleaved, so that a busy moment hits all alike, and each
    candidate has a copy of the loop, so that the interpreter specialises it for that candidate.
    """
    loops = {
        name: FunctionType(_loop.__code__.replace(co_name=f"loop_{place}"), globals())
        for place, name in enumerate(calls)
    }
    times = range(CALLS)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(SAMPLES + 2):
        for name, arguments in calls.items():
            spent = loops[name](*arguments, times)
            if turn >= 2:  # warm
                samples[name].append(spent / CALLS)
    return {name: middle(values) for name, values in samples.items()}


def rebadge(library: str) -> ctypes.PyDLL:
    """Give torch.Tensor the exchange table of ``rebadge.c``."""
    loaded = ctypes.PyDLL(library)
    loaded.rebadged.restype, loaded.rebadged.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"dlpack_exchange_api"
    table = loaded.rebadged(get(torch.Tensor.__dlpack_c_exchange_api__, name))
    torch.Tensor.__dlpack_c_exchange_api__ = new(table, name, None)
    return loaded


def three_tensors(folder: Path) -> Any:
    """An operator of three tensors and an int with the checks of a real one: types, shapes, strides, alignment, device."""
    tensors = [T(name, "T", ["M", "N"], [f"{name}_row", "1"]) for name in ("out", "x", "y")]
    step = S("k", ["ptr out", "ptr x", "ptr y", "i32 M", "i32 N", "i32 x_row", "i32 k"], ["M"])
    recipe = R(types=("bf16",), steps=[step], when=["N % 8 == 0", "x_row % 8 == 0", "aligned(x, 16)"])
    op = Op("add_like", tensors, [A("k", "int")], types={"T": ["bf16"]}, recipes=[recipe])
    path = folder / "three_tensors.apb"
    path.write_bytes(synthetic.bundle_bytes([op]))
    bundle = _native.Bundle(str(path))
    return _native.Operator("add_like", lambda *_: ((bundle,), 304))


def bfloat16(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.bfloat16)


def _empty(a: Any, b: Any, c: Any, d: Any) -> None:
    """An empty Python call."""


def gradient_answers(library: ctypes.PyDLL, tensors: list[torch.Tensor]) -> float:
    """Nanoseconds torch takes to say of each of three tensors whether it wants a gradient, called from C."""
    descriptor = torch.Tensor.requires_grad
    slot, release = ctypes.pythonapi.PyType_GetSlot, ctypes.pythonapi.Py_DecRef
    slot.restype, slot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    library.ask_gradients.restype = ctypes.c_int64
    objects = (ctypes.c_void_p * 3)(*[id(tensor) for tensor in tensors])
    spent = [
        library.ask_gradients(
            ctypes.c_void_p(slot(type(descriptor), TP_DESCR_GET)), release, ctypes.py_object(descriptor),
            ctypes.py_object(torch.Tensor), objects, CALLS,
        ) / CALLS
        for _ in range(SAMPLES)
    ]  # fmt: skip
    return middle(spent)


def others(library: ctypes.PyDLL) -> tuple[dict[str, Call], list[str]]:
    """What else launches a kernel on torch tensors from Python, each doing nothing; and what is not installed."""
    plain = library.plain_launch
    plain.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64]

    def through_ctypes(out: Any, x: Any, y: Any, k: int) -> None:
        plain(out.data_ptr(), x.data_ptr(), y.data_ptr(), k)

    @torch.library.custom_op("aiter_prebuilt_bench::nothing", mutates_args=("out",))
    def nothing(out: torch.Tensor, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
        pass

    found: dict[str, Call] = {
        "ctypes: data_ptr() of each tensor, no check": through_ctypes,
        "torch.library.custom_op, empty": nothing,
    }
    try:
        ffi = importlib.import_module("tvm_ffi")
    except ImportError:
        return found, ["apache-tvm-ffi"]
    found[f"apache-tvm-ffi {ffi.__version__}, empty"] = ffi.get_global_func("testing.nop")
    return found, []


def call_rows(library: ctypes.PyDLL, op: Any) -> list[Row]:
    """The call itself, beside the others, each over an empty Python call."""
    group = "host cost of 3 tensors and an int, stub driver, over an empty Python call"
    fresh = [bfloat16(128, 4096) for _ in range(3)]
    held = [bfloat16(128, 4096) for _ in range(3)]
    owners = [tensor.__dlpack__() for tensor in held]  # a reference from C++
    compared, missing = others(library)
    a, b, c = fresh
    calls: dict[str, Timed] = {"empty": (_empty, a, b, c, 3), "ours": (op, a, b, c, 3)}
    calls["ours, held"] = (op, held[0], held[1], held[2], 3)
    calls |= {name: (call, a, b, c, 3) for name, call in compared.items()}
    found = medians(calls)
    with torch.inference_mode():
        silent = medians({name: calls[name] for name in ("empty", "ours", "ours, held")})
    del owners
    cost = {name: value - found["empty"] for name, value in found.items()}
    # Where torch records gradients, each tensor is asked whether it wants one, and the answers are torch's own time.
    answers = gradient_answers(library, fresh)
    rows = [
        Row(group, "ours: tensors that only Python owns (activations)", cost["ours"], "ns"),
        Row(group, "  torch's three answers to requires_grad, from C", answers, "ns"),
        Row(group, "  the rest of ours", cost["ours"] - answers, "ns", BAR_CALL),
        Row(group, "ours: tensors that C++ owns too (parameters)", cost["ours, held"], "ns", BAR_CALL),
    ]
    rows += [
        Row(group, f"{name}, under torch.inference_mode()", silent[name] - silent["empty"], "ns", BAR_CALL)
        for name in ("ours", "ours, held")
    ]
    rows += [
        Row(group, name, cost[name], "ns", None, f"{cost[name] / cost['ours']:.2f} of ours")
        for name in compared
    ]
    rows += [Row(group, name, None, "ns", None, "not installed") for name in missing]
    return [*rows, Row(group, "(an empty Python call)", found["empty"], "ns")]


def allocating_rows() -> list[Row]:
    """A public function that allocates its output, against torch.empty_like and the in-place call."""
    group = "an operator that allocates its output: rms_norm"
    x, weight = bfloat16(128, 4096), bfloat16(4096)
    inplace = dispatch.operator("rms_norm")

    def by_hand(x: Any, weight: Any, epsilon: float, _: Any) -> torch.Tensor:
        out = torch.empty_like(x)
        inplace(x, weight, out, epsilon)
        return out

    found = medians(
        {
            "ours": (aiter_prebuilt.rms_norm, x, weight, 1e-6, 0),
            "by hand": (by_hand, x, weight, 1e-6, 0),
            "empty": (_empty, x, weight, 1e-6, 0),
        }
    )
    ours, parts = found["ours"] - found["empty"], found["by hand"] - found["empty"]
    return [
        Row(group, "aiter_prebuilt.rms_norm", ours, "ns"),
        Row(group, "torch.empty_like + the in-place call", parts, "ns"),
        Row(group, "difference", ours - parts, "ns", BAR_ALLOCATING),
    ]


def stream_rows(folder: Path) -> list[Row]:
    """An endless stream of new shapes: what the slow path costs when nothing is remembered, and when the memo overflows."""
    group = "an adversarial stream of shapes never seen"
    inputs, outputs = bfloat16(16 * MEMO, 64), bfloat16(16 * MEMO, 64)
    views = [(outputs[: rows + 1], inputs[: rows + 1]) for rows in range(16 * MEMO)]
    chunk = 128

    def cost(op: Any, some: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
        spent = []
        for start in range(0, len(some), chunk):
            begin = time.thread_time_ns()
            for out, view in some[start : start + chunk]:
                op(out, view, view, 3)
            spent.append((time.thread_time_ns() - begin) / chunk)
        return spent

    empty, full = [], []
    for turn in range(4):
        op = three_tensors(folder)
        op(views[0][0], views[0][1], views[0][1], 0)
        found = cost(op, views)
        stats = op.stats()
        if stats["memo_size"] > MEMO or stats["memo_hits"]:
            raise SystemExit(f"the memo is not bounded, or the stream was not new: {stats}")
        if turn:
            empty += found[: MEMO // chunk // 2]
            full += found[-MEMO // chunk * 4 :]
    return [
        Row(group, "memo empty", middle(empty), "ns"),
        Row(group, f"memo full ({MEMO} entries)", middle(full), "ns"),
        Row(group, "full over empty", middle(full) / middle(empty), "x", BAR_STREAM),
    ]


def main() -> int:
    stub, exchange, folder = sys.argv[1:]
    library = rebadge(exchange)
    _native.open_driver("amd", stub)
    op = three_tensors(Path(folder))
    rows = [*call_rows(library, op), *allocating_rows(), *stream_rows(Path(folder))]
    launches = ctypes.CDLL(stub).stub_launches()
    if op.stats()["launches"] > launches:
        raise SystemExit("the stub driver saw fewer launches than were made")
    print(json.dumps([[row.group, row.what, row.value, row.unit, row.bar, row.note] for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
