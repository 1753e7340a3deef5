"""One measurement in a fresh process; prints a JSON object. ``startup.py`` runs it.

Only what every interpreter has loaded is imported here before the measurement: a module that the runtime imports has to be paid
for inside of it.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOADED = 20
X = 0x7F0000000000


def sample_import(deep: str) -> dict[str, Any]:
    """Milliseconds of the import, and what it loaded that is neither the standard library's nor ours. ``deep``: an operator too,
    which loads the native extension.
    """
    before = set(sys.modules)
    start = time.perf_counter()
    import aiter_prebuilt

    if deep == "operator":
        _ = aiter_prebuilt.rms_norm
    spent = time.perf_counter() - start
    tops = {name.split(".")[0] for name in set(sys.modules) - before}
    return {"ms": spent * 1e3, "foreign": sorted(tops - sys.stdlib_module_names - {"aiter_prebuilt"})}


def resident(path: str | None) -> int:
    """Bytes of this process in memory; of the mapping of one file only when ``path`` is given."""
    total, inside = 0, path is None
    with open("/proc/self/smaps") as maps:  # noqa: PTH123 - pathlib would be counted
        lines = maps.read().splitlines()
    for line in lines:
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            inside = path is None or line.endswith(path)
        elif inside and name == "Rss:":
            total += int(rest.split()[0]) * 1024
    return total


def bytes_read() -> int:
    """Bytes that this process got from system calls; asking costs less than a hundred of them."""
    with open("/proc/self/io") as counters:  # noqa: PTH123 - pathlib would be counted
        return int(counters.readline().split()[1])


def sample_open(path: str) -> dict[str, Any]:
    """Milliseconds of the first opening in a process; bytes of the file that it read, or that its mapping brought into memory."""
    from aiter_prebuilt import _native

    read = bytes_read()
    start = time.perf_counter()
    bundle = _native.Bundle(path)
    spent = time.perf_counter() - start
    read = bytes_read() - read
    return {"ms": spent * 1e3, "touched": read + resident(path), "entries": bundle.entry_count}


def sample_launch(stub: str, path: str, size: str) -> dict[str, Any]:
    """Milliseconds of the first launch of each kernel of one size: operator block, choice, decode, hash, load, launch."""
    from aiter_prebuilt import _native

    _native.open_driver("amd", stub)
    bundle = _native.Bundle(path)
    spent = []
    for name in bundle.names:
        if name.startswith(f"launch_{size}_"):
            operator = _native.Operator(name, lambda *_: ((bundle,), 304))
            start = time.perf_counter()
            operator((X, "f32", (4096,), None, ("amd", 0)))
            spent.append((time.perf_counter() - start) * 1e3)
            if operator.stats()["launches"] != 1:
                raise SystemExit("nothing was launched")
    return {"ms": spent}


def sample_memory(stub: str, path: str) -> dict[str, Any]:
    """Resident bytes; with a bundle: opened, and :data:`LOADED` kernels loaded and launched."""
    import ctypes

    library = ctypes.CDLL(stub)
    if path:
        from aiter_prebuilt.launch import dispatch

        names = [f"rms_norm_{copy}" for copy in range(1, 6)] + [f"softmax_{copy}" for copy in range(1, 6)]
        for columns in (512, 4096):
            x, weight, out = ((X + at, "bf16", shape, None, ("amd", 0)) for at, shape in
                              ((0, (64, columns)), (1 << 24, (columns,)), (1 << 25, (64, columns))))  # fmt: skip
            for name in names:
                arguments = (x, weight, out, 1e-6) if name.startswith("rms") else (x, out)
                dispatch.operator(name)(*arguments)
        if library.stub_loads() != LOADED:
            raise SystemExit(f"{library.stub_loads()} code objects were loaded, not {LOADED}")
    return {"bytes": resident(None)}


def main() -> int:
    """One sample."""
    sys.path.insert(0, __file__.rpartition("/benchmarks/")[0] + "/src")
    task, *words = sys.argv[1:]
    samples: dict[str, Any] = {
        "import": sample_import,
        "open": sample_open,
        "launch": sample_launch,
        "memory": sample_memory,
    }
    found = samples[task](*words)
    import json

    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
