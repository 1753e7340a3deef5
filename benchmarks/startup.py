"""What starting costs, each sample in a fresh process: import, opening a large bundle, the first launch of a kernel, memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from rows import Row, middle
from samples import LOADED

SAMPLES: Final = 15
#: Milliseconds, milliseconds, MB, MB.
BAR_IMPORT, BAR_OPEN, BAR_TOUCHED, BAR_MEMORY = 20.0, 1.0, 1.0, 10.0
BAR_LAUNCH: Final = {"40 KB": 1.0, "200 KB": 3.0}


def child(*words: str, **environment: str) -> dict[str, Any]:
    """One sample in a process of its own, isolated from the user's site and environment."""
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("samples.py")), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(stub: Path, large: Path, launches: Path, sizes: dict[str, int]) -> list[Row]:
    """All rows of this file."""
    imports = [child("import", "package") for _ in range(SAMPLES)]
    deep = [child("import", "operator") for _ in range(SAMPLES)]
    foreign = sorted({name for found in imports + deep for name in found["foreign"]})
    opened = [child("open", str(large)) for _ in range(SAMPLES)]
    table = [
        Row("import", "import aiter_prebuilt", middle(found["ms"] for found in imports), "ms", BAR_IMPORT),
        Row("import", "and an operator, with the native extension", middle(found["ms"] for found in deep), "ms"),
        Row("import", "modules outside the standard library", float(len(foreign)), "", 0.0, " ".join(foreign)),
    ]  # fmt: skip
    group = f"opening a bundle of {opened[0]['entries']} entries ({large.stat().st_size / 1e6:.1f} MB)"
    table += [
        Row(group, "time", middle(found["ms"] for found in opened), "ms", BAR_OPEN),
        Row(group, "of the file read or mapped in", max(found["touched"] for found in opened) / 1e6, "MB", BAR_TOUCHED),
    ]  # fmt: skip
    for name, size in sizes.items():
        samples = [child("launch", str(stub), str(launches), str(size)) for _ in range(5)]
        spent = middle(ms for found in samples for ms in found["ms"])
        table.append(
            Row("first launch of a kernel, stub driver", f"code object of {name}", spent, "ms", BAR_LAUNCH[name])
        )  # fmt: skip
    settings = {"AITER_PREBUILT_HIP": str(stub), "AITER_PREBUILT_BUNDLES": str(large.parent)}
    empty = middle(child("memory", str(stub), "", **settings)["bytes"] for _ in range(5))
    full = middle(child("memory", str(stub), str(large), **settings)["bytes"] for _ in range(5))
    group = "resident memory, above an interpreter with the stub driver"
    table.append(Row(group, f"bundle open, {LOADED} kernels loaded", (full - empty) / 1e6, "MB", BAR_MEMORY))
    return table
