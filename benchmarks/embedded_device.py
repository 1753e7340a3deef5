"""How fast the embedded device is: one command, one table, every ratio between numbers of the same run.

    python benchmarks/embedded_device.py [--target gfx950] [--json]

Needs a build (``python -m build_tools build``, ``python -m build_tools emulator``), torch and Triton in this environment. Each
figure is the median of several launches in a process of its own; ``TRITON_INTERPRET=1`` runs the same Triton source with the same
constants and inputs, once, since it is slow.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]
GEMM: Final = (512, 512, 512)
ROWS: Final = (1024, 8192)
#: What the project promises on two cores: seconds, or a factor.
BARS: Final = {"gemm": 2.0, "rms_norm": 1.0, "load": 0.05, "checks": 3.0}
LARGE: Final = 200_000


def median(run: Callable[[], object], repeat: int = 5) -> float:
    """Seconds of the median run."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeat // 2]


def on_the_emulator(target: str) -> dict[str, Any]:
    """Both kernels through the production runtime; and a large code object loaded and decoded through HIP."""
    import torch

    from aiter_prebuilt.devices import device
    from aiter_prebuilt.devices.device_memory import DeviceMemory
    from aiter_prebuilt.execute.array import DeviceArray
    from aiter_prebuilt.launch import dispatch

    torch.manual_seed(1)
    (facts,) = (driver := device.probe("amd")).devices
    memory = DeviceMemory(facts, driver.path)

    def put(*shape: int) -> DeviceArray:
        data = torch.randn(*shape).bfloat16().view(torch.uint8).numpy().tobytes()
        return DeviceArray(memory, "bf16", shape, data)

    m, n, k = GEMM
    out, y = (DeviceArray(memory, "bf16", shape) for shape in ((m, n), ROWS))
    calls: dict[str, tuple[list[Any], list[Any]]] = {
        "gemm_a16w16": ([put(m, k), put(n, k), None, out], []),
        "rms_norm": ([put(*ROWS), put(ROWS[1]), y], [1e-6]),
    }
    found: dict[str, Any] = {}
    for name, (tensors, attributes) in calls.items():
        operator = dispatch.operator(name)
        decisions = operator.explain(
            dispatch.bundles_of(target, str(facts)), facts.compute_units, tensors, attributes
        )
        (step,) = next(row for row in decisions if row["chosen"])["steps"]
        call = partial(operator, *tensors, *attributes, stream=0)
        call()
        found[name] = {"seconds": median(call), "entry": step["entry"]}
    return found


def loading(target: str) -> dict[str, Any]:
    """``hipModuleLoadData`` of the largest code object of our own bundles and of one with at least 200 KB of the same code."""
    from aiter_prebuilt.contract.bundle import Bundle
    from aiter_prebuilt_emulator import memory
    from build_tools.objects.unpack import decompress

    bundle = Bundle((ROOT / "build" / "bundles" / f"{target}-ck-free.apb").read_bytes(), decompress)
    operators = [bundle.operator(name) for name in bundle.names]
    images = {bundle.code_object(entry) for operator in operators for entry in operator.entries}
    image = max(images, key=len)
    large = lengthened(image, target)

    def load(data: bytes) -> float:
        def once() -> None:
            module = ctypes.c_void_p()
            memory.call("hipModuleLoadData", ctypes.byref(module), data)
            memory.call("hipModuleUnload", module)

        return median(once)

    return {
        "ours": {"bytes": len(image), "seconds": load(image)},
        "large": {"bytes": len(large), "seconds": load(large)},
    }


def lengthened(image: bytes, target: str) -> bytes:
    """A code object of more than LARGE bytes: the instructions of ``image`` over and over in one kernel."""
    from elftools.elf.elffile import ELFFile
    from support.assembly import code_object

    section = ELFFile(io.BytesIO(image)).get_section_by_name(".text")
    assert section is not None, "a code object without instructions"
    code = section.data()
    words = [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]
    return code_object(target, "\n".join(f".long {word:#x}" for word in words * (LARGE // len(code) + 1)))


def interpreted(target: str, entries: dict[str, str]) -> dict[str, float]:
    """The same Triton kernels, constants and sizes in Triton's interpreter (this process has TRITON_INTERPRET=1)."""
    import torch

    from build_tools.compile.inputs import inputs_of
    from build_tools.manifest.parse import load
    from build_tools.plan.plan import make_plan

    plan = make_plan(load(ROOT / "manifests"), ROOT, inputs_of(ROOT), (), (target,))
    jobs = {job.id: job for job in plan.jobs}
    torch.manual_seed(1)
    m, n, k = GEMM
    a, b, out = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16(), torch.empty(m, n).bfloat16()
    x, w, y = torch.randn(*ROWS).bfloat16(), torch.randn(ROWS[1]).bfloat16(), torch.empty(*ROWS).bfloat16()
    times = {}
    for name, arguments in (
        ("gemm_a16w16", (out, a, b, a, m, n, k, k, k, n, 0)),
        ("rms_norm", (y, x, w, *ROWS, ROWS[1], ROWS[1], 1e-6)),
    ):
        job = jobs[entries[name]]
        spec = importlib.util.spec_from_file_location("kernels", ROOT / job.source)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, job.symbol)
        values: dict[str, Any] = {key: value for key, value in job.constants if key in kernel.arg_names}
        rows = values.get("BM", values.get("ROWS", 1))
        grid = (-(-arguments[0].shape[0] // rows) * -(-n // values["BN"] if "BN" in values else 1),)
        start = time.perf_counter()
        kernel[grid](*arguments, **values)
        times[name] = time.perf_counter() - start
    return times


def child(task: str, target: str, environment: dict[str, str], *words: str) -> Any:
    """A task in a process of its own, with ``environment`` on top of this one's."""
    from aiter_prebuilt_emulator import library

    bundles = ROOT / "build" / "bundles" / f"{target}-ck-free.apb"
    settings = {
        "AITER_PREBUILT_HIP": library(),
        "AITER_PREBUILT_EMULATOR": target,
        "AITER_PREBUILT_BUNDLES": str(bundles),
    }
    command = [sys.executable, __file__, "--target", target, "--child", task, *words]
    done = subprocess.run(
        command, env={**os.environ, **settings, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{task} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def measure(target: str) -> list[dict[str, Any]]:
    """All rows of the table."""
    plain = child("emulator", target, {})
    checked = child("emulator", target, {"AITER_PREBUILT_EMULATOR_CHECKS": "all"})
    loads = child("loading", target, {})
    entries = {name: plain[name]["entry"] for name in plain}
    slow = child("interpreter", target, {"TRITON_INTERPRET": "1"}, json.dumps(entries))
    rows = []
    for name, bar in (("gemm_a16w16", "gemm"), ("rms_norm", "rms_norm")):
        seconds, with_checks = plain[name]["seconds"], checked[name]["seconds"]
        size = "x".join(map(str, GEMM if bar == "gemm" else ROWS))
        rows.append(
            {"what": f"{name} {size} bf16", "seconds": seconds, "bar": BARS[bar], "ok": seconds < BARS[bar]}
        )
        rows.append({"what": f"{name}: all checks on, times as long", "ratio": with_checks / seconds, "bar": BARS["checks"],
                     "ok": with_checks / seconds <= BARS["checks"]})  # fmt: skip
        rows.append(
            {
                "what": f"{name}: TRITON_INTERPRET=1, times as long",
                "ratio": slow[name] / seconds,
                "seconds": slow[name],
            }
        )
    rows.append(
        {
            "what": f"load and decode {loads['ours']['bytes']} bytes (our largest)",
            "seconds": loads["ours"]["seconds"],
        }
    )
    seconds = loads["large"]["seconds"]
    rows.append(
        {
            "what": f"load and decode {loads['large']['bytes']} bytes",
            "seconds": seconds,
            "bar": BARS["load"],
            "ok": seconds < BARS["load"],
        }
    )
    return rows


def main() -> int:
    """Print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="gfx942")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        tasks: dict[str, Callable[[], Any]] = {
            "emulator": lambda: on_the_emulator(options.target),
            "loading": lambda: loading(options.target),
            "interpreter": lambda: interpreted(options.target, json.loads(options.words[0])),
        }
        print(json.dumps(tasks[options.child]()))
        return 0
    rows = measure(options.target)
    if options.json:
        print(
            json.dumps(
                {"version": 1, "target": options.target, "cores": os.cpu_count(), "rows": rows}, indent=1
            )
        )
    else:
        for row in rows:
            figure = f"{row['ratio']:9.2f} x" if "ratio" in row else f"{row['seconds'] * 1e3:9.2f} ms"
            bar = "" if "bar" not in row else f"bar {row['bar']:g}  {'met' if row['ok'] else 'MISSED'}"
            print(f"{row['what']:58} {figure}   {bar}")
    return 0 if all(row.get("ok", True) for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
