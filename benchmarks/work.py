"""What operators cost a compute unit: AITER's objects beside our kernels for the same work, by the embedded device's counters.

    python benchmarks/work.py [--target gfx950] [--json]

Needs a build (``python -m build_tools build``, ``python -m build_tools emulator``). Each call runs in a process of its own. Bytes
are those that waves ask of memory, beside those of all tensors once: what caches keep is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from work_attention import ATTENTION
from work_delta import DELTA
from work_experts import EXPERTS
from work_products import PRODUCTS, PRODUCTS_GFX942, PRODUCTS_GFX950
from work_tensors import Tensors

ROOT: Final = Path(__file__).resolve().parents[1]
LIBRARY: Final = ROOT / "src/aiter_prebuilt_emulator/lib/libamdhip64.so"


#: What is asked -> who answers -> the call; the first is whom others are compared with.
WORK: Final = {
    "gfx942": ATTENTION | PRODUCTS | EXPERTS | DELTA | PRODUCTS_GFX942,
    "gfx950": ATTENTION | PRODUCTS | EXPERTS | DELTA | PRODUCTS_GFX950,
}


def measured(target: str, work: str, who: str) -> dict[str, Any]:
    """Counters of all launches of one call, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        counters = Path(folder) / "counters.json"
        environment = {
            **os.environ,
            "AITER_PREBUILT_HIP": str(LIBRARY),
            "AITER_PREBUILT_EMULATOR": target,
            "AITER_PREBUILT_EMULATOR_COUNTERS": str(counters),
            "AITER_PREBUILT_BUNDLES": str(ROOT / f"build/bundles/{target}-ck-free.apb"),
        }
        command = [sys.executable, __file__, "--call", work, who]
        ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        kernels = json.loads(counters.read_text(encoding="utf-8"))["kernels"]
    counts = [kernel["instructions"] for kernel in kernels]
    total, mfma = (sum(each[name] for each in counts) for name in ("total", "mfma"))
    moved = sum(kernel["global_read_bytes"] + kernel["global_written_bytes"] for kernel in kernels)
    return {
        "target": target, "work": work, "kernel": who, "launches": [kernel["kernel"] for kernel in kernels],
        "instructions": total,
        "others_per_mfma": (total - mfma) / mfma if mfma else 0.0, "bytes_over_least": moved / int(ran.stdout),
    }  # fmt: skip


def _call(work: str, who: str) -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    tensors = Tensors()
    WORK[tensors.target][work][who](tensors)
    tensors.memory.synchronize()
    print(tensors.bytes)


def main() -> int:
    """The table, or its JSON with a version."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", choices=tuple(WORK), action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.call:
        _call(*asked.call)
        return 0
    rows = [
        measured(target, work, who)
        for target in asked.target or tuple(WORK)
        for work, calls in WORK[target].items()
        for who in calls
    ]
    if asked.json:
        print(json.dumps({"version": 1, "rows": rows}, indent=1))
        return 0
    place = ""
    for row in rows:
        if place != (place := f"{row['target']}: {row['work']}"):
            print(f"\n{place}")
            first = row["instructions"]
        print(
            f"  {row['kernel']:<14} {row['instructions']:>9,} instructions ({row['instructions'] / first:4.2f} of the first), "
            f"{row['others_per_mfma']:5.1f} others per MFMA, bytes {row['bytes_over_least']:5.2f} of the least"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
