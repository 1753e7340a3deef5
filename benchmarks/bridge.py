"""What the bridge costs: each start of Python, each import of another package, ``import aiter``, and a call through each path.

    python benchmarks/bridge.py [--tree FOLDER] [--json] [--source BUNDLE]

FOLDER holds the package ``aiter`` (a checkout, or an unpacked wheel); the pinned wheel is unpacked when none is given. The driver
is a stub. AITER's own import asks programs: there it asks two that print what a machine with one MI300X would say. Exit status: 0
all bars met, 1 one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from rows import Row, middle, report
from runtime import BUILD, compiled

from build_tools.pack.bridge_wheel import HOOK
from build_tools.tools import pins
from build_tools.tools.fetch import cache_folder, fetch
from build_tools.tools.tree import Tree

SAMPLES: Final = 15
IMPORTS: Final = 3
#: Milliseconds of a start of Python; nanoseconds above a call of our own function.
BAR_START, BAR_CALL = 0.3, 150.0
PROGRAMS: Final = {
    "hipconfig": "echo 7.0.0",
    "rocminfo": "echo 'Agent 1'; echo '  Name: gfx942'; echo '  Device Type: GPU'; echo '  Compute Unit: 304'",
}
_SAMPLES: Final = Path(__file__).with_name("bridge_samples.py")


def child(*words: str, **environment: str) -> Any:
    """One sample in a process of its own; isolated where it needs nothing of its surroundings."""
    flags = [] if environment else ["-I", "-S"]
    command = [sys.executable, *flags, str(_SAMPLES), *words]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr[-3000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def pinned_tree(folder: Path) -> Path:
    """The pinned wheel, unpacked into ``folder``."""
    pin = pins.load(ROOT).trees["aiter"]
    if not (folder / "aiter").is_dir():
        parts = ("aiter/", "aiter_meta/csrc/include/", "aiter_meta/csrc/cpp_itfs/", "amd_aiter")
        with zipfile.ZipFile(Tree(pin, cache_folder(), None).fetched() / pin.file) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(parts)])
    return folder


def starts() -> list[Row]:
    """What every program in the environment pays."""
    found = [child("start", HOOK) for _ in range(SAMPLES)]
    return [
        Row("each start of Python", "the line of the .pth", middle(each["ms"] for each in found), "ms", BAR_START),
        Row("each start of Python", "modules that it imports beside the bridge's own", float(len(found[0]["others"])), "", 0.0),
        Row("each import of another package", "asking the finder", middle(each["ask_ns"] for each in found), "ns"),
    ]  # fmt: skip


def imports(settings: dict[str, str]) -> list[Row]:
    """``import aiter``, torch and Triton imported before."""
    programs = BUILD / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    for name, says in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{says}\n")
        (programs / name).chmod(0o755)
    own = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "AITER_PREBUILT_BRIDGE": "0"}
    times: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(IMPORTS):
        times["without"].append(child("import", **settings, **own)["s"])
        times["with"].append(child("import", **settings)["s"])
    return [
        Row(
            "import aiter",
            "without the bridge, its first module compiled already",
            middle(times["without"]),
            "s",
        ),
        Row("import aiter", "with the bridge", middle(times["with"]), "s"),
    ]


def calls(settings: dict[str, str], stub: Path, exchange: Path) -> list[Row]:
    """``silu_and_mul`` and ``rms_norm`` on the stub, above the empty call."""
    found = child("calls", str(stub), str(exchange), **settings)
    programs = {"PATH": f"{BUILD / 'programs'}{os.pathsep}{os.environ['PATH']}", "AITER_PREBUILT_BRIDGE": "0"}
    found["AITER's own stub, ours in AITER_JIT_DIR"] = child("own", str(exchange), **settings, **programs)[
        "ns"
    ]
    direct = found["ours: silu_and_mul"]
    return [
        Row("a call, above an empty one", name, spent, "ns", direct + BAR_CALL if name == "aiter.silu_and_mul" else None)
        for name, spent in found.items()
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tree", type=Path, help="a folder with the package aiter")
    parser.add_argument("--source", type=Path, default=ROOT / "build" / "bundles" / "gfx942-ck-free.apb")
    options = parser.parse_args()
    if not options.source.is_file():
        raise SystemExit(f"{options.source} is not there: run 'python -m build_tools build' first")
    BUILD.mkdir(parents=True, exist_ok=True)
    stub = compiled(ROOT / "tests" / "native" / "stub_hip.c", "libstub_driver.so", "-DSTUB_COUNTS_ONLY")
    exchange = compiled(Path(__file__).with_name("rebadge.c"), "librebadge.so", f"-I{fetch('dlpack', ROOT)}")
    tree = options.tree or pinned_tree(BUILD / "aiter")
    settings = {
        "TREE": str(tree.resolve()),
        "AITER_JIT_DIR": str(BUILD / "jit"),
        "AITER_PREBUILT_HIP": str(stub),
        "AITER_PREBUILT_BUNDLES": str(options.source),
    }
    child("folder", str(BUILD / "jit"), **settings)
    rows = [*starts(), *imports(settings), *calls(settings, stub, exchange)]
    facts = {"python": platform.python_version(), "tree": tree.name}
    return report(rows, options.json, facts)


if __name__ == "__main__":
    sys.exit(main())
