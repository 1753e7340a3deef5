"""What the runtime costs its caller: one command, one table, every ratio between figures of the same run.

    python benchmarks/runtime.py [--json] [--source BUNDLE]

Needs the native extension (``python -m build_tools develop``), a build's bundle (``python -m build_tools
build``) and torch in this environment; apache-tvm-ffi is measured beside ours where it is installed. No GPU: the driver is
``tests/native/stub_hip.c``, which counts launches and does nothing. Exit status: 0 all bars met, 1 one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import bundles
import startup
from rows import Row, report

from build_tools.tools import host, pins
from build_tools.tools.fetch import fetch

BUILD: Final = ROOT / "build" / "bench"


def compiled(source: Path, name: str, *flags: str) -> Path:
    """A shared library from one C file, made by the hermetic host compiler."""
    environment = host.environment_of(pins.load(ROOT))
    output = BUILD / name
    warnings = ["-Wall", "-Werror"]
    command = [
        environment["CC"],
        "-O2",
        *warnings,
        "-shared",
        "-fPIC",
        *flags,
        str(source),
        "-o",
        str(output),
    ]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return output


def host_cost(stub: Path, exchange: Path, source: Path) -> list[Row]:
    """The rows of ``host_cost.py``, run with the stub as the driver and ``source`` as the installed bundle."""
    settings = {"AITER_PREBUILT_HIP": str(stub), "AITER_PREBUILT_BUNDLES": str(source)}
    script = Path(__file__).with_name("host_cost.py")
    command = [sys.executable, str(script), str(stub), str(exchange), str(BUILD)]
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return [Row(*fields) for fields in json.loads(done.stdout.splitlines()[-1])]


def main() -> int:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--source", type=Path, default=ROOT / "build" / "bundles" / "gfx942-ck-free.apb",
                        help="a bundle for gfx942 of our own build")  # fmt: skip
    options = parser.parse_args()
    if not options.source.is_file():
        raise SystemExit(f"{options.source} is not there: run 'python -m build_tools build' first")
    installed = BUILD / "installed"
    installed.mkdir(parents=True, exist_ok=True)
    stub = compiled(ROOT / "tests" / "native" / "stub_hip.c", "libstub_driver.so", "-DSTUB_COUNTS_ONLY")
    rebadge = Path(__file__).with_name("rebadge.c")
    exchange = compiled(rebadge, "librebadge.so", f"-I{fetch('dlpack', ROOT)}")
    large, launches = installed / "gfx942-ck-free.apb", BUILD / "launches.apb"
    bundles.large_bundle(options.source, large)
    bundles.launch_bundle(options.source, launches)
    rows = [
        *host_cost(stub, exchange, options.source),
        *startup.rows(stub, large, launches, bundles.SIZES),
    ]
    facts = {"python": platform.python_version(), "processor": platform.processor() or platform.machine()}
    return report(rows, options.json, facts)


if __name__ == "__main__":
    sys.exit(main())
