"""A step of ``nox -s demo``: one operator end to end on the GPU that is here, with no torch in the process.

Memory comes straight from the driver; the operator gets raw addresses; the numbers are compared with a float64 reference in
plain Python. Where there is no GPU with an installed bundle it says that nothing was executed. Exit status: 0 right or nothing
executed, 1 wrong numbers.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Sequence
from typing import Final

from aiter_prebuilt import device, dispatch, locate
from aiter_prebuilt.device_memory import DeviceMemory

ROWS: Final = 7
COLUMNS: Final = 2880
EPSILON: Final = 1e-6
#: Half a unit in the last place of f16, relative, plus what the fp32 sum of 2880 squares may lose.
BOUND: Final = 2.0**-11 * 1.01
NAN: Final = struct.pack("<e", float("nan"))


def rms_norm(row: Sequence[float], weight: Sequence[float]) -> list[float]:
    """Zhang and Sennrich's root mean square norm of one row, in float64."""
    scale = (sum(x * x for x in row) / len(row) + EPSILON) ** -0.5
    return [x * scale * w for x, w in zip(row, weight, strict=True)]


def worst_error(found: Sequence[float], row: Sequence[float], weight: Sequence[float]) -> float:
    """The largest relative error of one row; NaN counts as infinite. Subnormal results are measured against 2**-14."""
    wanted = rms_norm(row, weight)
    errors = (abs(a - b) / max(abs(b), 2.0**-14) for a, b in zip(found, wanted, strict=True))
    return max(error if error == error else float("inf") for error in errors)


def find() -> tuple[device.DeviceFacts, str] | None:
    """The first device that an installed bundle serves, and its driver library."""
    targets = {bundle.target for bundle in locate.installed()}
    for vendor in device.VENDORS:
        driver = device.probe(vendor)
        for facts in driver.devices:
            if facts.target in targets:
                return facts, driver.path
    return None


def main() -> int:
    """Run and compare; see the module's docstring."""
    found = find()
    if found is None:
        print("no GPU with an installed bundle on this machine: nothing was executed")
        return 0
    facts, path = found
    seed = random.randrange(2**32)
    source = random.Random(seed)
    count = ROWS * COLUMNS
    halves = struct.Struct(f"<{count}e")
    x = halves.unpack(halves.pack(*(source.gauss(0, 1) for _ in range(count))))
    weight = struct.unpack(
        f"<{COLUMNS}e", struct.pack(f"<{COLUMNS}e", *(source.uniform(0.5, 1.5) for _ in range(COLUMNS)))
    )
    memory = DeviceMemory(facts, path)
    place = (facts.vendor, facts.ordinal)
    input_ = (memory.upload(halves.pack(*x)), "f16", (ROWS, COLUMNS), None, place)
    scale = (memory.upload(struct.pack(f"<{COLUMNS}e", *weight)), "f16", (COLUMNS,), None, place)
    out = memory.upload(NAN * count)
    operator = dispatch.operator("rms_norm")
    operator(input_, scale, (out, "f16", (ROWS, COLUMNS), None, place), EPSILON, stream=0)
    result = halves.unpack(memory.download(out, halves.size))
    rows = [slice(at, at + COLUMNS) for at in range(0, count, COLUMNS)]
    error = max(worst_error(result[row], x[row], weight) for row in rows)
    verdict = "right" if error <= BOUND else "WRONG"
    print(
        f"rms_norm f16 [{ROWS}, {COLUMNS}] executed on {facts}: {verdict}, largest relative error {error:.3e}, seed {seed}"
    )
    print(f"compilers in this process: {sorted({'triton', 'torch', 'flydsl'} & set(sys.modules)) or 'none'}")
    return 0 if error <= BOUND else 1


if __name__ == "__main__":
    raise SystemExit(main())
