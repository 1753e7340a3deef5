"""The heap of the Triton children (``triton_heap.c``): built once for each version of it and of the compiler."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from build_tools.errors import ToolchainError
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import run
from build_tools.tools.hermetic import package_folder
from build_tools.tools.host import GLIBC
from build_tools.tools.toolchain import Toolchain

SOURCE: Final = Path(__file__).resolve().parent / "triton_heap.c"


def steady(toolchain: Toolchain) -> dict[str, str]:
    """Build the variables for a heap at a fixed place.

    The child allocates with one thread.

    Raises:
        ToolchainError: it does not compile, with the compiler's words.
    """
    # MLIR's passes run on threads of a pool: who allocates first is then a matter of the machine's load.
    return {"LD_PRELOAD": str(_library(toolchain)), "MLIR_DISABLE_MULTITHREADING": "1"}


def _library(toolchain: Toolchain) -> Path:
    pin = toolchain.pins.tools["ziglang"]
    library = toolchain.cache / "heap" / f"{sha256_file(SOURCE)[:16]}-{pin.version}.so"
    if library.is_file():
        return library
    words = ["cc", "-target", f"x86_64-linux-gnu.{GLIBC[0]}.{GLIBC[1]}", "-s", "-O2", "-shared", "-fPIC"]
    cache = {name: str(toolchain.cache / "zig") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    with tempfile.TemporaryDirectory(prefix="heap-") as folder:
        made = Path(folder) / library.name
        outcome = run([package_folder(pin) / "zig", *words, "-o", made, SOURCE], env=cache)
        if not outcome.ok:
            raise ToolchainError(
                f"compile {SOURCE.name}", f"{outcome.describe()}\n{outcome.output}", "Mend what it says"
            )
        write_atomic(library, made.read_bytes())
    return library
