"""What a launch costs end to end on the NVIDIA GPU that is here: one command, one table, every ratio of one run.

    python benchmarks/gpu_launch.py [--json]

An operator of three tensors and an int, whose kernel stores one number, through: ``cuLaunchKernel`` in a loop of C, this
runtime, Triton's own launcher, and beside them ``torch.add(out=)``. A figure is the median, over interleaved samples, of the time
until a call returned; the device is waited for between samples, so that its queue is never full. The calling thread is kept on
the core that is quickest now (the same loop took 2.6 to 5.1 ms on the 16 cores of one shared host), and the device is driven for
two seconds first (a card that has just started answers late). Needs an installed ``aiter-prebuilt``, torch, Triton and a C
compiler (``CC``, or cc; Triton needs one itself). Exit status: 0 the bars are met, 1 one is missed, 2 no NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import torch
import triton
import triton.language as tl

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from native import synthetic
from native.synthetic import A, Op, R, S, T
from rows import Row, middle, report

from aiter_prebuilt import _native
from aiter_prebuilt.devices import device

ROWS, COLUMNS, K = 4, 256, 7
CALLS: Final = 200
SAMPLES: Final = 101
#: Microseconds above raw; share of Triton's.
BAR_ABOVE_RAW: Final = 0.5
BAR_OF_TRITON: Final = 1 / 3
#: Seconds of launches before anything is measured.
WARM: Final = 2.0
SYMBOL: Final = "store_k"
#: out[0] = k, stored by one thread: the launch is what is measured, and the number proves it happened.
PTX: Final = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry store_k(.param .u64 o, .param .u64 x, .param .u64 y, .param .u32 m, .param .u32 n, .param .u32 r, .param .u32 k)
{
  .reg .pred %p; .reg .b32 %t; .reg .b32 %c; .reg .b32 %v; .reg .b64 %a;
  mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; or.b32 %t, %t, %c;
  setp.ne.u32 %p, %t, 0;
  @%p bra done;
  ld.param.u64 %a, [o]; ld.param.u32 %v, [k];
  cvta.to.global.u64 %a, %a;
  st.global.u32 [%a], %v;
done:
  ret;
}
"""
Sample = Callable[[], float]


def operator(folder: Path) -> Any:
    """The operator over a bundle whose code object is the kernel as PTX, which the driver takes like a cubin."""
    tensors = [T(name, "i32", ["M", "N"], [f"{name}_row", "1"]) for name in ("out", "x", "y")]
    step = S(SYMBOL, ["ptr out", "ptr x", "ptr y", "i32 M", "i32 N", "i32 x_row", "i32 k"], ["M"])
    op = Op(
        "add_like", tensors, [A("k", "int")], recipes=[R(steps=[step], when=["N % 8 == 0", "aligned(x, 16)"])]
    )
    path = folder / "add_like.apb"
    with mock.patch.object(synthetic, "code_object", return_value=PTX.encode() + b"\0"):
        path.write_bytes(synthetic.bundle_bytes([op], vendor=1, target="sm_90", lds_bytes=232448, wave=32))
    bundle = _native.Bundle(str(path))
    return _native.Operator("add_like", lambda *_: ((bundle,), 132))


class Arguments(ctypes.Structure):
    """``Arguments`` of raw_launch.c."""

    _fields_ = [("out", ctypes.c_void_p), ("x", ctypes.c_void_p), ("y", ctypes.c_void_p)] + [
        (name, ctypes.c_int32) for name in ("rows", "columns", "x_row", "k")
    ]


class Raw:
    """The loops of ``raw_launch.c`` over the same PTX, loaded through the driver by hand."""

    def __init__(self, folder: Path, tensors: list[torch.Tensor]) -> None:
        self.loops = ctypes.PyDLL(str(_compiled(folder)))
        self.cuda = ctypes.CDLL(_native.open_driver("nvidia", None)["path"])
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        codes = [
            self.cuda.cuModuleLoadData(ctypes.byref(module), PTX.encode() + b"\0"),
            self.cuda.cuModuleGetFunction(ctypes.byref(function), module, SYMBOL.encode()),
        ]
        if any(codes):
            raise SystemExit(f"the driver does not take the kernel: {codes}")
        self.function = function
        addresses = [tensor.data_ptr() for tensor in tensors]
        self.arguments = Arguments(*addresses, ROWS, COLUMNS, COLUMNS, K)
        self.objects = (ctypes.c_void_p * 3)(*[id(tensor) for tensor in tensors])
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        self.table = capsule and get(capsule, b"dlpack_exchange_api")
        for name in ("raw_params", "raw_buffer", "raw_with_torch"):
            getattr(self.loops, name).restype = ctypes.c_int64

    def _address(self, name: str) -> ctypes.c_void_p:
        return ctypes.cast(getattr(self.cuda, name), ctypes.c_void_p)

    def sample(self, name: str) -> float:
        """Nanoseconds of one call in a loop of :data:`CALLS`."""
        failed = ctypes.c_int(0)
        launch, given = self._address("cuLaunchKernel"), ctypes.byref(self.arguments)
        rest = (given, CALLS, ctypes.byref(failed))
        if name == "raw_with_torch":
            spent = self.loops.raw_with_torch(
                launch, self._address("cuCtxGetCurrent"), ctypes.c_void_p(self.table), self.function,
                given, self.objects, CALLS, ctypes.byref(failed),
            )  # fmt: skip
        else:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            spent = getattr(self.loops, name)(launch, self.function, stream, *rest)
        if failed.value:
            raise SystemExit(f"{name}: launches failed")
        return float(spent) / CALLS


def _compiled(folder: Path) -> Path:
    source, output = ROOT / "benchmarks" / "raw_launch.c", folder / "libraw.so"
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("no C compiler: set CC")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(output)], check=True)
    return output


@triton.jit
def store_k(
    out: tl.tensor, x: tl.tensor, y: tl.tensor, m: tl.tensor, n: tl.tensor, row: tl.tensor, k: tl.tensor  # noqa: ARG001
) -> None:  # fmt: skip
    if tl.program_id(0) == 0:
        tl.store(out, k)


def _loop(call: Callable[..., object], a: Any, b: Any, c: Any, k: int) -> float:
    times = range(CALLS)
    start = time.perf_counter_ns()
    for _ in times:
        call(a, b, c, k)
    return (time.perf_counter_ns() - start) / CALLS


def stay_on_the_quickest_core() -> None:
    """Move this thread, and none of the driver's, which have started by now."""
    allowed = sorted(os.sched_getaffinity(0))

    def cost(core: int) -> float:
        os.sched_setaffinity(0, {core})
        spent = []
        for _ in range(9):
            start = time.perf_counter_ns()
            sum(range(200_000))
            spent.append(float(time.perf_counter_ns() - start))
        return middle(spent)

    os.sched_setaffinity(0, {min(allowed, key=cost)})


def warm(sample: Sample) -> None:
    """Drive the device until its clocks are up."""
    end = time.monotonic() + WARM
    while time.monotonic() < end:
        sample()
        torch.cuda.synchronize()


@torch.no_grad()
def samples(folder: Path) -> dict[str, float]:
    """Microseconds of one call of each, as a server calls: no gradients are recorded, but in the one row that says so."""
    out, x, y = (torch.zeros(ROWS, COLUMNS, dtype=torch.int32, device="cuda") for _ in range(3))
    held = [torch.zeros_like(x) for _ in range(3)]
    owners = [tensor.__dlpack__(stream=-1) for tensor in held]
    op, raw = operator(folder), Raw(folder, [out, x, y])

    def through_triton(a: Any, b: Any, c: Any, k: int) -> None:
        store_k[(ROWS,)](a, b, c, ROWS, COLUMNS, COLUMNS, k)

    def recorded() -> float:
        with torch.enable_grad():
            return _loop(op, out, x, y, K)

    def through_torch(a: Any, b: Any, c: Any, _: int) -> None:
        torch.add(b, c, out=a)

    calls: dict[str, Sample] = {
        "raw": lambda: raw.sample("raw_params"),
        "raw buffer": lambda: raw.sample("raw_buffer"),
        "ours": lambda: _loop(op, out, x, y, K),
        "ours held": lambda: _loop(op, held[0], held[1], held[2], K),
        "ours recorded": recorded,
        "triton": lambda: _loop(through_triton, out, x, y, K),
        "torch": lambda: _loop(through_torch, out, x, y, K),
    }
    if raw.table:
        calls["raw torch"] = lambda: raw.sample("raw_with_torch")
    for name, tensors in (("ours", [out, x, y]), ("triton", [out, x, y]), ("raw buffer", [out, x, y])):
        tensors[0].zero_()
        calls[name]()
        torch.cuda.synchronize()
        if int(out[0, 0]) != K:
            raise SystemExit(f"{name}: the kernel did not run")
    stay_on_the_quickest_core()
    warm(calls["ours"])
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(SAMPLES + 5):
        for name, sample in calls.items():
            torch.cuda.synchronize()
            spent = sample()
            if turn >= 5:
                found[name].append(spent / 1e3)
    del owners
    return {name: middle(values) for name, values in found.items()}


def table(found: dict[str, float]) -> list[Row]:
    """The rows, with the bars."""
    group = "3 tensors and an int, end to end, until the call returned"
    raw, ours = found["raw"], found["ours"]
    names = {
        "raw": "cuLaunchKernel in C, arguments by pointers",
        "raw buffer": "cuLaunchKernel in C, arguments as one buffer",
        "raw torch": "the same, and torch's tensors, stream and context read",
        "ours": "ours: tensors that only Python owns (activations)",
        "ours held": "ours: tensors that C++ owns too (parameters)",
        "ours recorded": "ours: each tensor asked whether it wants a gradient",
        "triton": "Triton's own launcher, the same kernel",
        "torch": "torch.add(out=)",
    }
    rows = [
        Row(group, names[name], found[name], "us", None, f"{found[name] / raw:.2f} of raw")
        for name in names
        if name in found
    ]
    rows.append(Row("bars", "ours above raw", ours - raw, "us", BAR_ABOVE_RAW))
    rows.append(Row("bars", "ours of Triton's", ours / found["triton"], "x", BAR_OF_TRITON))
    return rows


def main() -> int:
    """Measure on device 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available() or torch.version.hip or not device.probe("nvidia").devices:
        print("no NVIDIA GPU here: nothing was measured")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        found = samples(Path(folder))
    facts = device.facts("nvidia", 0)
    about = {
        "device": facts.name,
        "driver": facts.driver_version,
        "torch": torch.__version__,
        "calls": CALLS * SAMPLES,
    }
    return report(table(found), options.json, about)


if __name__ == "__main__":
    sys.exit(main())
