"""The program between a process of a farm and its children (``leash.c``): built once for each version of it and of zig."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from build_tools.errors import ToolchainError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.tools.fetch import cache_folder
from build_tools.tools.hermetic import package_folder
from build_tools.tools.host import GLIBC
from build_tools.tools.pins import Pins

SOURCE: Final = Path(__file__).resolve().with_name("leash.c")


def leash(pins: Pins) -> Path:
    """Build the program, unless the cache has it.

    Raises:
        ToolchainError: it does not compile, with the compiler's words.
    """
    pin, cache = pins.tools["ziglang"], cache_folder()
    program = cache / "leash" / f"{sha256_file(SOURCE)[:16]}-{pin.version}"
    if program.is_file():
        return program
    zig = {name: str(cache / "zig") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".leash.", dir=program.parent) as folder:
        made = Path(folder) / "leash"
        target = (
            f"x86_64-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"  # as what else runs here: zig has its parts already
        )
        words: list[str | Path] = ["cc", "-target", target, "-s", "-O2", "-o", made, SOURCE]
        outcome = run([package_folder(pin) / "zig", *words], env=zig)
        if not outcome.ok:
            raise ToolchainError(
                f"compile {SOURCE.name}", f"{outcome.describe()}\n{outcome.output}", "Mend what it says"
            )
        made.chmod(0o755)
        made.replace(program)
    return program
