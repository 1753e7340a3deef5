"""The clang of an installed ROCm: found by ``ROCM_PATH`` or at its usual place, told apart from any other in the content key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from build_tools.errors import ToolchainError
from build_tools.files.filehash import FileHashes
from build_tools.files.run import run
from build_tools.tools.clang import Clang, ToolRow

VARIABLE: Final = "ROCM_PATH"
USUAL: Final = Path("/opt/rocm")
_DRIVERS: Final = ("bin/amdclang++", "llvm/bin/amdclang++", "lib/llvm/bin/amdclang++")
_LINKERS: Final = ("llvm/bin/ld.lld", "lib/llvm/bin/ld.lld")


def find(hashes: FileHashes, environ: Mapping[str, str] = os.environ) -> Clang:
    """ROCm's own clang with its own headers and device libraries.

    Raises:
        ToolchainError: no ROCm there, or its compiler does not start.
    """
    chosen = environ.get(VARIABLE)
    root = Path(chosen) if chosen else USUAL
    driver = _first(root, _DRIVERS)
    linker = _first(root, _LINKERS)
    if driver is None or linker is None:
        missing = "amdclang++" if driver is None else "ld.lld"
        raise ToolchainError(
            "use the ROCm toolchain",
            f"{root} ({VARIABLE if chosen else 'its usual place'}) has no {missing}",
            f"Install ROCm, or set {VARIABLE} to its folder, or leave out `--toolchain rocm`: the hermetic one needs pip alone",
        )
    banner = run([driver, "--version"], timeout=60)
    if not banner.ok:
        raise ToolchainError(
            "use the ROCm toolchain",
            f"{driver} --version: {banner.describe()}\n{banner.output}",
            "Mend that ROCm",
        )
    version = _version(root, banner.output)
    bitcode = _device_libraries(root)
    # The driver's file names only the version's shared libraries; banner and release number tell apart what it hides.
    facts = [
        version,
        _without_paths(banner.output),
        hashes.sha256(driver.resolve()),
        "".join(hashes.tree(folder) for folder in bitcode),
    ]
    identity = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    hashes.save()
    return Clang(
        driver=(str(driver),),
        lld=(str(linker),),
        hip_flags=(f"--rocm-path={root}",),
        libraries=(),
        identity=f"rocm {identity}",
        rows=(
            ToolRow("ROCm", version, str(root)),
            ToolRow("amdclang++", version, str(driver), hashes.sha256(driver.resolve())),
        ),
        device_libraries=tuple(folder / name for folder in bitcode for name in ("ocml.bc", "ockl.bc")),
    )


def _first(root: Path, names: tuple[str, ...]) -> Path | None:
    return next((root / name for name in names if os.access(root / name, os.X_OK)), None)


def _version(root: Path, banner: str) -> str:
    path = root / ".info" / "version"
    return (
        path.read_text(encoding="utf-8").strip()
        if path.is_file()
        else (banner.splitlines() or ["unknown"])[0]
    )


def _without_paths(banner: str) -> str:
    """Remove a banner's lines with paths."""
    return "\n".join(
        line for line in banner.splitlines() if not line.startswith(("InstalledDir", "Configuration file"))
    )


def _device_libraries(root: Path) -> list[Path]:
    """Return the folder of the device libraries' bitcode, if there is one."""
    folders = [*root.glob("amdgcn/bitcode"), *root.glob("lib/llvm/lib/clang/*/lib/amdgcn/bitcode")]
    return [folders[0].resolve()] if folders else []
