"""The runtime wheel: scikit-build-core compiles the extension with the hermetic host compiler and packs it under its tag,
auditwheel judges whether the tag is true, then the wheel gets its bill of materials and the pinned times.

    python -m build_tools.pack.runtime_wheel --unpack dist     put the extension of the wheel in ``dist`` beside its sources

Nothing is grafted: the extension links the C library only, opens the GPU drivers at first use, and has its C++ library inside.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from aiter_prebuilt.contract.version import VERSION
from build_tools.errors import WheelError
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import run
from build_tools.pack import licences, sbom
from build_tools.pack.archive import RUNTIME, write_members
from build_tools.tools import host, pins
from build_tools.tools.fetch import native_sources
from build_tools.tools.host import (
    PLATFORM,
    QUESTIONS,
    compile_project,
    environment_of,
    judge,
    library_ahead,
    put_library,
)
from build_tools.tools.host_cache import kept, key_of
from build_tools.tools.pins import Pins

TAG: Final = f"cp310-abi3-{PLATFORM}"
EXTENSION: Final = "aiter_prebuilt/_native.abi3.so"
_SOURCES: Final = ("CMakeLists.txt", "pyproject.toml", "csrc/runtime", "src/aiter_prebuilt")
_SUFFIXES: Final = frozenset(
    (".py", ".pyi", ".json", ".typed", ".cpp", ".h", ".c", ".txt", ".toml", ".cmake")
)
#: What else the wheel has inside: ``pyproject.toml`` names them.
_WHEEL_FILES: Final = ("README.md", "LICENSE", "THIRD_PARTY.txt")
_BUILDERS: Final = ("cmake", "ninja", "scikit-build-core")
_TIMEOUT: Final = 1800.0


def build_runtime_wheel(root: Path, output: Path) -> Path:
    """Build, judge and finish the runtime wheel into ``output``.

    Raises:
        ToolchainError, FetchError: the compiler, or the sources of zstd or DLPack, are not there.
        WheelError: the compile failed, or the extension needs more than manylinux_2_28 has.
    """
    made = compile_runtime_wheel(root)
    with tempfile.TemporaryDirectory(prefix="runtime-wheel-") as folder:
        stem = f"{RUNTIME.replace('-', '_')}-{VERSION}-{TAG}.whl"
        path = Path(folder) / stem
        path.write_bytes(made)
        judge(path)
        return finish(path, root, output, pins.load(root))


def compile_runtime_wheel(root: Path) -> bytes:
    """Build the wheel, kept by its inputs.

    It is neither judged nor finished.

    Raises:
        ToolchainError, FetchError, WheelError: as :func:`build_runtime_wheel`.
    """
    pinned = pins.load(root)
    files = (pins.FILE, *_WHEEL_FILES, *source_files(root))
    code = (Path(__file__), Path(__file__).with_name("source_build.py"), Path(host.__file__))
    key = key_of(root, files, code, sbom.builders(*_BUILDERS))
    with tempfile.TemporaryDirectory(prefix="runtime-wheel-") as folder:
        return kept(root, "runtime-wheel", key, lambda: _compiled(root, Path(folder), pinned))


def _compiled(root: Path, folder: Path, pinned: Pins) -> bytes:
    """Return the wheel as the build backend makes it."""
    sources = [f"cmake.define.{setting}={place}" for setting, place in native_sources(root).items()]
    environment = environment_of(pinned)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(folder),
    ]
    questions = f"cmake.define.{QUESTIONS}"
    # Kept: what is up to date is not compiled again.
    kept_folder = f"build-dir={root / 'build' / 'runtime-wheel'}"
    words = (*sources, questions, f"wheel.tags={TAG}", kept_folder)
    settings = [word for setting in words for word in ("-C", setting)]
    with library_ahead(environment):
        outcome = run([*command, *settings, root], cwd=root, env=environment, timeout=_TIMEOUT)
    found = list(folder.glob("*.whl"))
    if not outcome.ok or len(found) != 1:
        raise WheelError(
            "build the runtime wheel",
            f"{outcome.describe()}\n{outcome.output}",
            "Mend what the compiler says",
        )
    return found[0].read_bytes()


def finish(wheel: Path, root: Path, output: Path, pinned: Pins) -> Path:
    """Add the bill of materials to a wheel.

    It also pins times and stores members; same content, same bytes.
    """
    with ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    stem = "-".join(wheel.name.split("-")[:2])
    info = f"{stem}.dist-info"
    if EXTENSION not in members:
        raise WheelError(
            f"finish {wheel.name}",
            f"it has no {EXTENSION}",
            "See CMakeLists.txt: the target _native installs it",
        )
    del members[f"{info}/RECORD"]
    bill = sbom.Bill(
        RUNTIME,
        stem.split("-")[1],
        members[EXTENSION],
        (licences.RUNTIME,),
        {
            "ziglang": pinned.tools["ziglang"].version,
            **sbom.builders(*_BUILDERS),
        },
        sbom.file_hashes(root, source_files(root)),
    )
    members[f"{info}/sboms/{sbom.FILE_NAME}"] = sbom.write(bill, pinned)
    path = output / wheel.name
    write_members(path, members, executables=[EXTENSION])
    return path


def source_files(root: Path) -> tuple[str, ...]:
    """Return the repository's files that the runtime wheel is made of."""
    found = []
    for name in _SOURCES:
        place = root / name
        files = (
            [place] if place.is_file() else [path for path in place.rglob("*") if path.suffix in _SUFFIXES]
        )
        found += [path.relative_to(root).as_posix() for path in files]
    return tuple(sorted(found))


def compile_extension(root: Path) -> Path:
    """Compile the extension in ``build`` and put it beside its sources; seconds when little has changed.

    Raises:
        ToolchainError, FetchError: the compiler, or the sources of zstd or DLPack, are not there. WheelError: the compile failed.
    """
    folder = root / "build" / "native"
    settings = [f"-D{setting}={place}" for setting, place in native_sources(root).items()]
    compile_project("the native extension", root, folder, settings, environment_of(pins.load(root)))
    return put_library((folder / Path(EXTENSION).name).read_bytes(), root / "src" / EXTENSION)


def unpack_extension(folder: Path, root: Path) -> Path:
    """Put the extension of the runtime wheel in ``folder`` into ``src``, so that the checkout is importable as it is.

    Raises:
        WheelError: there is not exactly one such wheel.
    """
    found = sorted(folder.glob(f"aiter_prebuilt-*-{TAG}.whl"))
    if len(found) != 1:
        raise WheelError(
            "unpack the extension",
            f"{len(found)} runtime wheels in {folder}",
            "Run python -m build_tools wheels",
        )
    path = root / "src" / EXTENSION
    with ZipFile(found[0]) as archive:
        write_atomic(path, archive.read(EXTENSION))
    path.chmod(0o755)
    return path


def main() -> int:
    """Run the command of the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m build_tools.pack.runtime_wheel")
    parser.add_argument(
        "--unpack", type=Path, required=True, metavar="FOLDER", help="a folder with the runtime wheel"
    )
    options = parser.parse_args()
    unpack_extension(options.unpack, Path(__file__).resolve().parents[2])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
