"""The toolchain that pip alone installs: clang and ld.lld of the ziglang wheel, with the parts it lacks from two others.

Nothing of the host is read: no system header, no system library, no PATH but one folder with the linker's two names.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Final

from build_tools.errors import ToolchainError
from build_tools.files.filehash import FileHashes
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import run
from build_tools.records import TargetFacts
from build_tools.tools.clang import CODE_OBJECT_VERSION, Clang, ToolRow
from build_tools.tools.pins import Pins, ToolPin

PACKAGES: Final = ("ziglang", "clang-tidy", "triton")
_MODULES: Final = {"ziglang": "ziglang", "clang-tidy": "clang_tidy", "triton": "triton", "flydsl": "flydsl"}
_INSTALL: Final = "Run `pip install --no-deps --require-hashes -r build_tools/requirements.txt`"

# libc++ keeps the choices of its installation in a site header; zig gives them on the command line instead.
_LIBCXX: Final = {
    "_LIBCPP_ABI_VERSION": "1",
    "_LIBCPP_ABI_NAMESPACE": "__1",
    "_LIBCPP_HAS_THREADS": "1",
    "_LIBCPP_HAS_MONOTONIC_CLOCK": "1",
    "_LIBCPP_HAS_TERMINAL": "0",
    "_LIBCPP_HAS_MUSL_LIBC": "0",
    "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS": "0",
    "_LIBCPP_HAS_FILESYSTEM": "0",
    "_LIBCPP_HAS_RANDOM_DEVICE": "0",
    "_LIBCPP_HAS_LOCALIZATION": "1",
    "_LIBCPP_HAS_UNICODE": "1",
    "_LIBCPP_HAS_WIDE_CHARACTERS": "1",
    "_LIBCPP_HAS_TIME_ZONE_DATABASE": "0",
    "_LIBCPP_PSTL_BACKEND_SERIAL": "1",
    "_LIBCPP_HARDENING_MODE": "_LIBCPP_HARDENING_MODE_NONE",
    "_LIBCPP_ASSERTION_SEMANTIC_DEFAULT": "_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
    "__GLIBC_MINOR__": "28",
}

# ocml and ockl ask these for the rounding, the denormal mode and the target; ROCm has one bitcode file for each value.
_CONSTANTS: Final = """\
#define CONTROL __attribute__((visibility("hidden"), address_space(4)))
const CONTROL unsigned char __oclc_finite_only_opt = 0;
const CONTROL unsigned char __oclc_unsafe_math_opt = 0;
const CONTROL unsigned char __oclc_daz_opt = 0;
const CONTROL unsigned char __oclc_correctly_rounded_sqrt32 = 1;
const CONTROL unsigned char __oclc_wavefrontsize64 = {wave64};
const CONTROL unsigned int __oclc_ISA_version = {isa};
const CONTROL unsigned int __oclc_ABI_version = {abi};
"""


def package_folder(pin: ToolPin) -> Path:
    """Folder of an installed package, of exactly the pinned version. Does not import it.

    Raises:
        ToolchainError: not installed, or of another version.
    """
    asked = f"use {pin.name} {pin.version}, which is pinned in manifests/toolchains.toml"
    try:
        version = metadata.version(pin.name)
        spec = importlib.util.find_spec(_MODULES[pin.name])
    except (metadata.PackageNotFoundError, ModuleNotFoundError):
        spec = None
        version = ""
    if spec is None or spec.origin is None:
        raise ToolchainError(asked, "it is not installed in this Python environment", _INSTALL)
    if version != pin.version:
        raise ToolchainError(asked, f"version {version} is installed", _INSTALL)
    return Path(spec.origin).parent


def check_package(pin: ToolPin, hashes: FileHashes) -> ToolRow:
    """Version and pinned files of an installed package.

    Raises:
        ToolchainError: missing, of another version, or a pinned file has other bytes.
    """
    folder = package_folder(pin)
    digest = ""
    for name, wanted in pin.installed.items():
        path = folder.parent / name
        digest = hashes.sha256(path) if path.is_file() else "nothing"
        if digest != wanted:
            raise ToolchainError(
                f"use {pin.name} {pin.version}",
                f"{name} has sha256 {digest} and not {wanted}",
                f"{_INSTALL} with --force-reinstall",
            )
    first = next(iter(pin.installed.values()), "")
    return ToolRow(pin.name, pin.version, str(folder), first)


def find(pins: Pins, cache: Path, hashes: FileHashes) -> Clang:
    """Return the hermetic clang.

    Makes the linker's names in ``cache`` when they are not there.

    Raises:
        ToolchainError: a package is missing or is not what is pinned.
    """
    rows = tuple(check_package(pins.tools[name], hashes) for name in PACKAGES)
    folders = [Path(row.where) for row in rows]
    zig, tidy, triton = (
        folders[0] / "zig",
        folders[1] / "data/lib/clang/22/include",
        folders[2] / "backends/amd",
    )
    library = folders[0] / "lib"
    includes = [
        # First: cmath and algorithm of this folder wrap those of the C++ library, with #include_next.
        tidy / "cuda_wrappers",
        library / "libcxx/include",
        library / "libcxxabi/include",
        tidy,
        *(
            library / "libc/include" / name
            for name in ("x86-linux-gnu", "generic-glibc", "x86-linux-any", "any-linux-any")
        ),
        triton / "include",
    ]
    flags = ["-nogpulib", "-nogpuinc", "-nostdinc", "-D__HIP_PLATFORM_AMD__"]
    flags += [f"-D{name}={value}" for name, value in _LIBCXX.items()]
    flags += [word for folder in includes for word in ("-isystem", str(folder))]
    pinned = "\n".join(f"{row.tool} {row.version} {row.sha256}" for row in rows)
    own = hashlib.sha256((pinned + repr(sorted(_LIBCXX.items())) + _CONSTANTS).encode()).hexdigest()
    bitcode = (triton / "lib/ocml.bc", triton / "lib/ockl.bc")
    return Clang(
        driver=(str(zig), "clang"),
        lld=(str(zig), "ld.lld"),
        hip_flags=tuple(flags),
        libraries=bitcode,
        identity=f"hermetic {own}",
        rows=rows,
        env={"PATH": str(_linker_folder(zig, cache))},
        device_libraries=bitcode,
    )


def _linker_folder(zig: Path, cache: Path) -> Path:
    """Return a folder with ``lld`` and ``ld.lld``.

    Clang starts the linker by these names from PATH, the first with ``-flavor gnu``.
    """
    name = hashlib.sha256(str(zig).encode()).hexdigest()[:16]
    folder = cache / "toolchain" / name / "bin"
    quoted = "'" + str(zig).replace("'", "'\\''") + "'"
    plain = f'#!/bin/sh\nexec {quoted} ld.lld "$@"\n'
    dropping = f'#!/bin/sh\n[ "$1" = -flavor ] && shift 2\nexec {quoted} ld.lld "$@"\n'
    for script, text in (("ld.lld", plain), ("lld", dropping)):
        path = folder / script
        if not path.is_file() or path.read_text(encoding="utf-8") != text or not os.access(path, os.X_OK):
            write_atomic(path, text.encode())
            path.chmod(0o755)
    return folder


def control_constants(clang: Clang, target: TargetFacts, cache: Path) -> Path:
    """Compile the control constants' bitcode for ``target`` once.

    It lies in ``cache``.

    Raises:
        ToolchainError: clang did not compile its eight lines.
    """
    text = _CONSTANTS.format(
        wave64=int(target.wave == 64), isa=target.isa_version, abi=CODE_OBJECT_VERSION * 100
    )
    key = hashlib.sha256(f"{clang.identity}\n{target.name}\n{text}".encode()).hexdigest()[:16]
    path = cache / "toolchain" / key / f"oclc-{target.name}.bc"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        (Path(folder) / "oclc.c").write_text(text, encoding="utf-8")
        triple = [
            "-target",
            "amdgcn-amd-amdhsa",
            f"-mcpu={target.name}",
            f"-mcode-object-version={CODE_OBJECT_VERSION}",
        ]
        outcome = run(
            [*clang.driver, *triple, "-nogpulib", "-emit-llvm", "-c", "oclc.c", "-o", "oclc.bc"],
            cwd=Path(folder),
            env=clang.env,
        )
        if not outcome.ok:
            raise ToolchainError(
                f"compile the device library's constants for {target.name}",
                f"{outcome.describe()}\n{outcome.output}",
                _INSTALL,
            )
        (Path(folder) / "oclc.bc").replace(path)
    return path
