"""The emulator: compile ``csrc/emulator`` with the hermetic host compiler, and pack it with its Python package as a wheel.

The decoder's tables are made from the pinned tinygrad package while it compiles; nothing of that package is in the wheel but
the facts. The compile works in ``build/emulator`` and is incremental; the linked file does not say where it was built, so it is
kept by what it was made of.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.version import VERSION
from build_tools.pack import dist_info, licences, sbom
from build_tools.pack.archive import RUNTIME, write_members
from build_tools.tools import host, pins
from build_tools.tools.host import PLATFORM, compile_project, environment_of, judge, put_library
from build_tools.tools.host_cache import kept, key_of

DISTRIBUTION: Final = f"{RUNTIME}-emulator"
PACKAGE: Final = "aiter_prebuilt_emulator"
LIBRARY: Final = f"{PACKAGE}/lib/libamdhip64.so"
TAG: Final = f"py3-none-{PLATFORM}"
_SOURCES: Final = (
    "csrc/emulator",
    f"src/{PACKAGE}",
)
_SUFFIXES: Final = frozenset((".py", ".typed", ".cpp", ".h", ".inc", ".txt", ".map"))
_BUILDERS: Final = ("cmake", "ninja")
_ABOUT: Final = dist_info.About(
    summary="A libamdhip64 that executes gfx942 and gfx950 code objects on the processor",
    description=f"The emulator of [{RUNTIME}](https://pypi.org/project/{RUNTIME}/): HIP's C API over emulated GPUs.\n"
    "Any HIP program opens it by path; `aiter-prebuilt-emulator run -- COMMAND` sets the variables.\n"
    "The processor must have AVX2 and FMA.\n",
    requires=(),
    tag=TAG,
    pure=False,
)


def compile_emulator(root: Path) -> Path:
    """Compile the library and put it beside the package in ``src``; its path.

    Raises:
        ToolchainError: the compiler is not there. WheelError: the compile failed.
    """
    library = root / "src" / LIBRARY
    pinned = pins.load(root)

    def compiled() -> bytes:
        folder = root / "build" / "emulator"
        # The generator of the decoder's tables is run by cmake, as a module below the root.
        environment = {**environment_of(pinned), "PYTHONPATH": str(root)}
        settings = [f"-DPython3_EXECUTABLE={sys.executable}"]
        compile_project("the emulator", root / "csrc" / "emulator", folder, settings, environment)
        return (folder / library.name).read_bytes()

    files = (pins.FILE, *(name for name in source_files(root) if name.startswith("csrc/")))
    key = key_of(root, files, (Path(__file__), Path(host.__file__)), sbom.builders(*_BUILDERS))
    return put_library(kept(root, "emulator", key, compiled), library)


def build_emulator_wheel(root: Path, output: Path) -> Path:
    """Compile, pack and judge the emulator's wheel into ``output``; the same sources give the same bytes.

    Raises:
        ToolchainError: the compiler is not there.
        WheelError: the compile failed, or the library needs more than manylinux_2_28 has.
    """
    library = compile_emulator(root).read_bytes()
    package = root / "src" / PACKAGE
    pinned = pins.load(root)
    tools = {name: pinned.tools[name].version for name in ("ziglang", "tinygrad")}
    bill = sbom.Bill(
        DISTRIBUTION,
        VERSION,
        library,
        (licences.EMULATOR,),
        tools | sbom.builders(*_BUILDERS),
        sbom.file_hashes(root, source_files(root)),
    )
    inside = {
        f"{PACKAGE}/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in package.rglob("*")
        if path.suffix in (".py", ".typed")
    }
    stem = dist_info.stem(bill)
    scripts = f"[console_scripts]\n{DISTRIBUTION} = {PACKAGE}.__main__:main\n"
    inside |= {LIBRARY: library, f"{stem}.dist-info/entry_points.txt": scripts.encode()}
    members = inside | dist_info.members(_ABOUT, bill, root, pinned)
    path = output / f"{stem}-{TAG}.whl"
    write_members(path, members, executables=[LIBRARY])
    judge(path)
    return path


def source_files(root: Path) -> tuple[str, ...]:
    """Return the repository's files that the wheel is made of."""
    found: list[Path] = []
    for name in _SOURCES:
        place = root / name
        files = [place] if place.is_file() else place.rglob("*")
        found += [path for path in files if path.suffix in _SUFFIXES]
    return tuple(sorted(path.relative_to(root).as_posix() for path in found))
