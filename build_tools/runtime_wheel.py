"""The runtime wheel: scikit-build-core compiles the extension with the hermetic host compiler, auditwheel judges it, then
it gets its manylinux tag, the notices and the bill of materials, and the pinned times.

    python -m build_tools.runtime_wheel --unpack dist     put the extension of the wheel in ``dist`` beside its sources

Nothing is grafted: the extension links the C library only, opens the GPU drivers at first use, and has its C++ library inside.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from build_tools import licences, pins, sbom
from build_tools.archive import RUNTIME, write_members
from build_tools.errors import WheelError
from build_tools.fetch import cache_folder, fetch
from build_tools.hermetic import package_folder
from build_tools.reproducible import epoch, write_atomic
from build_tools.run import run

GLIBC: Final = (2, 28)
PLATFORM: Final = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"
TAG: Final = f"cp310-abi3-{PLATFORM}"
EXTENSION: Final = "aiter_prebuilt/_native.abi3.so"
_JUDGED: Final = re.compile(r"manylinux_(\d+)_(\d+)_x86_64")
_SOURCES: Final = ("CMakeLists.txt", "pyproject.toml", "csrc/runtime", "src/aiter_prebuilt")
_SUFFIXES: Final = frozenset((".py", ".typed", ".cpp", ".h", ".c", ".txt", ".toml", ".cmake"))
_TIMEOUT: Final = 1800.0


def host_compiler(zig: Path, cache: Path) -> dict[str, str]:
    """``CC`` and ``CXX`` scripts for the host: clang of the zig package against glibc 2.28, its C++ library linked statically."""
    target = f"x86_64-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    zig_cache = cache / "zig"
    folder = cache / "host"
    made = {}
    for variable, verb in (("CC", "cc"), ("CXX", "c++")):
        lines = [
            "#!/bin/sh",
            f"export ZIG_GLOBAL_CACHE_DIR={_quoted(zig_cache)} ZIG_LOCAL_CACHE_DIR={_quoted(zig_cache)}",
            f'exec {_quoted(zig)} {verb} -target {target} "$@"',
            "",
        ]
        path = folder / verb
        text = "\n".join(lines).encode()
        if not path.is_file() or path.read_bytes() != text:
            write_atomic(path, text)
        path.chmod(0o755)
        made[variable] = str(path)
    return made


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def build_runtime_wheel(root: Path, output: Path) -> Path:
    """Build, judge and finish the runtime wheel into ``output``.

    Raises:
        ToolchainError, FetchError: the compiler or the zstd sources are not there.
        WheelError: the compile failed, or the extension needs more than manylinux_2_28 has.
    """
    pinned = pins.load(root)
    cache = cache_folder()
    zig = package_folder(pinned.tools["ziglang"]) / "zig"
    zstd = fetch("zstd", root)
    environment = {
        **host_compiler(zig, cache),
        "SOURCE_DATE_EPOCH": str(epoch()),
        # cmake and ninja come from this environment's packages; without this a system cmake could win.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    with tempfile.TemporaryDirectory(prefix="runtime-wheel-") as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            "-w",
            folder,
        ]
        setting = f"cmake.define.APB_ZSTD_SOURCE={zstd}"
        outcome = run([*command, "-C", setting, root], cwd=root, env=environment, timeout=_TIMEOUT)
        found = list(Path(folder).glob("*.whl"))
        if not outcome.ok or len(found) != 1:
            raise WheelError(
                "build the runtime wheel",
                f"{outcome.describe()}\n{outcome.output}",
                "Mend what the compiler says",
            )
        judge(found[0])
        return finish(found[0], root, output, {"ziglang": pinned.tools["ziglang"].version, **_packers()})


def _packers() -> dict[str, str]:
    from importlib import metadata

    return {name: metadata.version(name) for name in ("cmake", "ninja", "scikit-build-core")}


def judge(wheel: Path) -> None:
    """Ask auditwheel which platforms the wheel runs on; refuse what :data:`PLATFORM` does not promise.

    Raises:
        WheelError: it needs a later C library, a library that is not there, or an instruction set extension.
    """
    outcome = run([sys.executable, "-m", "auditwheel", "show", "--json", wheel], timeout=300.0)
    start, end = outcome.output.find("{"), outcome.output.rfind("}")
    asked = f"judge {wheel.name} with auditwheel"
    if not outcome.ok or start < 0:
        raise WheelError(
            asked,
            f"{outcome.describe()}\n{outcome.output}",
            "Is auditwheel of pyproject.toml's group 'build' installed?",
        )
    verdict: dict[str, Any] = json.loads(outcome.output[start : end + 1])
    tag = _JUDGED.fullmatch(str(verdict["overall_tag"]))
    if (
        tag is None
        or (int(tag[1]), int(tag[2])) > GLIBC
        or verdict["external_libs"]
        or verdict["unsupported_isa"]
    ):
        needs = {
            name: verdict[name]
            for name in ("overall_tag", "versioned_symbols", "external_libs", "unsupported_isa")
        }
        raise WheelError(
            asked, f"not {PLATFORM}: {json.dumps(needs)}", "Build with the hermetic host compiler"
        )


def finish(wheel: Path, root: Path, output: Path, tools: Mapping[str, str]) -> Path:
    """The wheel again with its manylinux tag, THIRD_PARTY.txt and bill of materials; same content, same bytes."""
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
    header = members[f"{info}/WHEEL"].decode().splitlines()
    kept = [line for line in header if line and not line.startswith("Tag:")]
    members[f"{info}/WHEEL"] = "\n".join([*kept, f"Tag: {TAG}", ""]).encode()
    about = members[f"{info}/METADATA"].decode()
    members[f"{info}/METADATA"] = about.replace(
        "\nLicense-File: LICENSE\n", "\nLicense-File: LICENSE\nLicense-File: THIRD_PARTY.txt\n"
    ).encode()
    members[f"{info}/licenses/THIRD_PARTY.txt"] = licences.notices([licences.RUNTIME]).encode()
    version = stem.split("-")[1]
    sources = sbom.file_hashes(root, source_files(root))
    members[f"{info}/sboms/{sbom.FILE_NAME}"] = sbom.write(
        RUNTIME,
        version,
        licences.expression([licences.RUNTIME]),
        members[EXTENSION],
        tools,
        [licences.RUNTIME],
        sources,
    )
    path = output / f"{stem}-{TAG}.whl"
    write_members(path, members, executables=[EXTENSION])
    return path


def source_files(root: Path) -> tuple[str, ...]:
    """The repository's files that the runtime wheel is made of."""
    found = []
    for name in _SOURCES:
        place = root / name
        files = (
            [place] if place.is_file() else [path for path in place.rglob("*") if path.suffix in _SUFFIXES]
        )
        found += [path.relative_to(root).as_posix() for path in files]
    return tuple(sorted(found))


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
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m build_tools.runtime_wheel")
    parser.add_argument(
        "--unpack", type=Path, required=True, metavar="FOLDER", help="a folder with the runtime wheel"
    )
    options = parser.parse_args()
    unpack_extension(options.unpack, Path(__file__).resolve().parents[1])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
