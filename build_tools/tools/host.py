"""Compiling for the host: the hermetic C and C++ compilers, and the judgement that what they made runs everywhere."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from build_tools.errors import WheelError
from build_tools.files.reproducible import epoch, write_atomic
from build_tools.files.run import run
from build_tools.tools.fetch import cache_folder
from build_tools.tools.hermetic import package_folder
from build_tools.tools.pins import Pins

GLIBC: Final = (2, 28)
PLATFORM: Final = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"
#: cmake's questions to the compiler are answered without a link: it would wait for zig's C++ library.
QUESTIONS: Final = "CMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"
_TIMEOUT: Final = 3600.0
_JUDGED: Final = re.compile(r"manylinux_(\d+)_(\d+)_x86_64")


def environment_of(pinned: Pins) -> dict[str, str]:
    """Build the environment of a build of host code.

    The compilers, the pinned time, this environment's cmake and ninja first.

    Raises:
        ToolchainError: the zig package is not installed.
    """
    zig = package_folder(pinned.tools["ziglang"]) / "zig"
    return {
        **host_compiler(zig, cache_folder()),
        "SOURCE_DATE_EPOCH": str(epoch()),
        # cmake and ninja come from this environment's packages; without this a system cmake could win.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }


def host_compiler(zig: Path, cache: Path) -> dict[str, str]:
    """``CC`` and ``CXX`` scripts for the host: clang of the zig package against glibc 2.28, its C++ library linked statically.

    Always stripped: zig keeps one C++ library for programs with symbols and one for those without, and makes each in a minute of
    two cores. cmake's questions to the compiler would ask for the one that nothing is linked with.
    """
    target = f"x86_64-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    zig_cache = cache / "zig"
    folder = cache / "host"
    made = {}
    for variable, verb in (("CC", "cc"), ("CXX", "c++")):
        lines = [
            "#!/bin/sh",
            f"export ZIG_GLOBAL_CACHE_DIR={_quoted(zig_cache)} ZIG_LOCAL_CACHE_DIR={_quoted(zig_cache)}",
            f'exec {_quoted(zig)} {verb} -target {target} -s "$@"',
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


def compile_project(
    what: str, source: Path, folder: Path, settings: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Configure and build the cmake project ``source`` in ``folder``; what is up to date there is not compiled again.

    Raises:
        WheelError: the compile failed, with the compiler's words.
    """
    configure: list[str | Path] = [
        "cmake",
        "-G",
        "Ninja",
        "-S",
        source,
        "-B",
        folder,
        "-DCMAKE_BUILD_TYPE=Release",
        f"-D{QUESTIONS}",
    ]
    build: list[str | Path] = ["cmake", "--build", folder]
    with library_ahead(environment):
        for command in ([*configure, *settings], build):
            outcome = run(command, cwd=source, env=dict(environment), timeout=_TIMEOUT)
            if not outcome.ok:
                raise WheelError(
                    f"compile {what}",
                    f"{outcome.describe()}\n{outcome.output}",
                    "Mend what the compiler says",
                )


@contextmanager
def library_ahead(environment: Mapping[str, str]) -> Iterator[None]:
    """Link nothing, beside what is done meanwhile. The first link of all has zig make its C++ library, file by file on one core
    in a minute and a half; the compiles do not need it yet.
    """
    with tempfile.TemporaryDirectory(prefix="library-") as folder:
        words = [environment["CXX"], "-shared", "-x", "c++", os.devnull, "-o", str(Path(folder) / "nothing")]
        with ThreadPoolExecutor(1) as pool:
            # What is wrong with it, the link that counts says better.
            pool.submit(run, words, env=dict(environment), timeout=_TIMEOUT)
            yield


def put_library(data: bytes, place: Path) -> Path:
    """Put a library that was built beside its package in ``src``; its path there."""
    write_atomic(place, data)
    place.chmod(0o755)
    return place
