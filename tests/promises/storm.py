"""Many threads, first use of the same and of different kernels at once, on every device: ``python storm.py [THREADS] [ROUNDS]``.

Standard library only, so that sanitizers see the runtime and the embedded device and nothing else. Prints one line of JSON:
what is wrong, the modules that the driver loaded, and how many different ones the choices name.
"""

from __future__ import annotations

import array
import json
import math
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

from aiter_prebuilt.devices import device
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator.memory import DeviceArray

Job = tuple[str, list[DeviceArray | None], list[Any], Callable[[], bool]]


def _floats(kind: str, values: list[float]) -> bytes:
    return array.array("f", values).tobytes() if kind == "f32" else struct.pack(f"<{len(values)}e", *values)


def _close(out: DeviceArray, wanted: list[float], bound: float) -> bool:
    data = out.read()
    size = out.itemsize
    found = struct.unpack(f"<{len(data) // size}{'f' if size == 4 else 'e'}", data)
    return all(abs(a - b) <= bound * max(1.0, abs(b)) for a, b in zip(found, wanted, strict=True))


def _rows(seed: int, rows: int, columns: int) -> list[float]:
    return [((seed * 31 + i * 17) % 23 - 11) / 4 for i in range(rows * columns)]


def softmax(ordinal: int, seed: int) -> Job:
    """Rows of 37, 5 columns more for each seed."""
    rows, columns = 3, 37 + 5 * (seed % 4)
    x = _rows(seed, rows, columns)
    powers = [math.exp(v) for v in x]
    sums = [sum(powers[r * columns : (r + 1) * columns]) for r in range(rows)]
    wanted = [p / sums[i // columns] for i, p in enumerate(powers)]
    source = DeviceArray("f32", (rows, columns), _floats("f32", x), ordinal=ordinal)
    out = DeviceArray("f32", (rows, columns), ordinal=ordinal)
    return "softmax", [source, out], [], lambda: _close(out, wanted, 1e-5)


def silu(ordinal: int, seed: int) -> Job:
    """A gated activation."""
    rows, columns = 2, 24 + 8 * (seed % 3)
    x = _rows(seed, rows, 2 * columns)
    pairs = [
        (x[r * 2 * columns + c], x[r * 2 * columns + columns + c])
        for r in range(rows)
        for c in range(columns)
    ]
    wanted = [gate / (1 + math.exp(-gate)) * up for gate, up in pairs]
    source = DeviceArray("f16", (rows, 2 * columns), _floats("f16", x), ordinal=ordinal)
    out = DeviceArray("f16", (rows, columns), ordinal=ordinal)
    return "silu_and_mul", [out, source], [0.0], lambda: _close(out, wanted, 4e-3)


def gemm(ordinal: int, seed: int) -> Job:
    """A product of small integers: exact. K of 4096 makes it split K, with a workspace."""
    m, n, k = 4, 16, (32, 64, 4096)[seed % 3]
    a, b = ([float((seed + i * s) % 3 - 1) for i in range(r * k)] for s, r in ((7, m), (5, n)))
    wanted = [sum(a[i * k + t] * b[j * k + t] for t in range(k)) for i in range(m) for j in range(n)]
    left, right = (
        DeviceArray("f16", (r, k), _floats("f16", v), ordinal=ordinal) for r, v in ((m, a), (n, b))
    )
    out = DeviceArray("f16", (m, n), ordinal=ordinal)
    return "gemm_a16w16", [left, right, None, out], [], lambda: _close(out, wanted, 2e-3)


def _modules(job: Job, ordinal: int) -> set[tuple[int, str]]:
    """(device, hash) of the code objects that the call will launch."""
    name, tensors, attributes, _ = job
    facts = device.facts("amd", ordinal)
    bundles = dispatch.bundles_of(facts.target, str(facts))
    rows = dispatch.operator(name).explain(
        bundles, facts.compute_units, [t and t.raw for t in tensors], attributes
    )
    return {(ordinal, step["sha256"]) for row in rows if row["chosen"] for step in row["steps"]}


def main(words: list[str]) -> int:
    """See the module's docstring."""
    threads, rounds = int(words[0]) if words else 32, int(words[1]) if len(words) > 1 else 3
    sys.setswitchinterval(1e-5)
    ordinals = [facts.ordinal for facts in device.probe("amd").devices]
    kinds = (softmax, silu, gemm)
    jobs = [
        [kinds[(i // 2) % 3](ordinals[i % len(ordinals)], (i // 6) * (turn + 1)) for turn in range(rounds)]
        for i in range(threads)
    ]
    expected = {
        one for i, row in enumerate(jobs) for job in row for one in _modules(job, ordinals[i % len(ordinals)])
    }
    wrong: list[str] = []
    start = threading.Barrier(threads)

    def work(place: int) -> None:
        start.wait()
        for name, tensors, attributes, check in jobs[place]:
            try:
                dispatch.operator(name)(*[t and t.raw for t in tensors], *attributes, stream=0)
                if not check():
                    wrong.append(f"thread {place}: {name} is wrong")
            except Exception as error:  # noqa: BLE001  # the line reports it
                wrong.append(f"thread {place}: {name}: {type(error).__name__}: {error}")

    running = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    stats = dispatch.operator("softmax").stats()
    print(json.dumps({"wrong": wrong[:10], "loaded": stats["modules_loaded"], "different": len(expected)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
