"""Child process of the FlyDSL backend: ``python -m build_tools.compile.backends.flydsl_compile REQUEST.json ANSWERS.jsonl``.

The request names a target, the words of a linker, and jobs: each a kernel source and its constants in, a bare AMDGPU ELF out.
One line of JSON is appended to the answers as each is done. FlyDSL asks for its target once a process.

The source file has, for each kernel symbol, a function of that name, or one function `build` for all of them: it takes the
constants (a dict) and returns the `@flyc.jit` launcher and the placeholder arguments that give its types, or a function that
compiles such a launcher when it is called with them. What a launcher launches becomes one code object, with all of its kernels.
The source may import modules and packages that lie beside it, as far as the job lists them (flydsl_sources.py); anything else
is refused (flydsl_guard.py). No GPU, no ROCm and no network are used.

How the ELF is obtained. FlyDSL lowers to a `gpu.binary` operation that holds the linked code object as a
string attribute. The documented variables COMPILE_ONLY and FLYDSL_DUMP_IR make it write that stage as MLIR
text, and the string is decoded from there. `export_to_c` would wrap the same bytes in a host object, and
needs a host linker and objcopy for it.

The kernarg segment follows the kernel's parameters with natural alignment: `fx.Pointer` is one 64-bit global
address; `fx.Int32`, `fx.Int64` and `fx.Float32` are by value. `fx.Tensor` is an address, and behind it a packed struct of the
sizes (32 bits each) and the strides (64 bits each) that its placeholder leaves open. There are no hidden arguments.

The bytes depend on the texts of the sources, the constants, the target, the version of flydsl, the linker and the device
libraries alone: debug locations are off, and of the environment nothing is left that steers FlyDSL or a source.
"""

import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from build_tools.compile.backends import flydsl_torch
from build_tools.compile.backends.child import answer_each
from build_tools.compile.backends.flydsl_guard import NotInKeyError, only

Launch: TypeAlias = tuple[Any, tuple[Any, ...]]

_BINARY: Final = re.compile(
    r'gpu\.binary @\w+\s+(?:<[^\[]*>\s*)?\[#gpu\.object<(?P<head>.*?), bin = "(?P<body>(?:[^"\\]|\\.)*)"',
    re.DOTALL,
)
_KERNEL: Final = re.compile(r'#gpu\.kernel_metadata<"(?P<name>[^"]+)"')
_ESCAPE: Final = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_STAGE: Final = "*_gpu_module_to_binary.mlir"
#: What a process needs to start others; all else in the environment could steer FlyDSL, or a source that asks for it.
_KEPT: Final = ("PATH", "LD_LIBRARY_PATH")
#: The function that builds all kernels of a source which have none of their own.
_BUILDER: Final = "build"
_ELF64_LITTLE: Final = b"\x7fELF\x02\x01"
_EM_AMDGPU: Final = 224


class FlydslCompileError(Exception):
    """The compile gave no usable code object; the message says what was asked and what was found."""


def decode_mlir_string(text: str) -> bytes:
    r"""Bytes of an MLIR string literal: ``\XX`` is a byte in hex; else the backslash is dropped."""

    def unescape(match: re.Match[bytes]) -> bytes:
        token = match.group(1)
        return bytes.fromhex(token.decode()) if len(token) == 2 else token

    return _ESCAPE.sub(unescape, text.encode("utf-8"))


def extract_code_object(mlir: str, symbol: str) -> bytes:
    """Extract the AMDGPU ELF from a lowered module's text.

    It must hold the kernel ``symbol``, and may hold others.

    Raises:
        FlydslCompileError: there is not exactly one binary, or it has no such kernel.
    """
    binaries = list(_BINARY.finditer(mlir))
    if len(binaries) != 1:
        raise FlydslCompileError(f"{symbol}: found {len(binaries)} gpu.binary operations, expected one")
    kernels = _KERNEL.findall(binaries[0]["head"])
    if symbol not in kernels:
        raise FlydslCompileError(
            f"{symbol}: the code object holds {', '.join(kernels) or 'no kernel'}; name one of them in the manifest, or the "
            "@flyc.kernel so"
        )
    data = decode_mlir_string(binaries[0]["body"])
    if data[:6] != _ELF64_LITTLE or int.from_bytes(data[18:20], "little") != _EM_AMDGPU:
        raise FlydslCompileError(f"{symbol}: not an AMDGPU ELF, it starts with {data[:20].hex()}")
    return data


def write_linker(folder: Path, command: Sequence[str]) -> None:
    """Make ``folder`` a ROCM_PATH for FlyDSL: its ``llvm/bin/ld.lld`` is a script that runs ``command``."""
    binary = folder / "llvm" / "bin" / "ld.lld"
    binary.parent.mkdir(parents=True)
    quoted = " ".join("'" + part.replace("'", "'\\''") + "'" for part in command)
    binary.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', encoding="utf-8")
    binary.chmod(0o755)


def write_libraries(folder: Path, libraries: Sequence[str]) -> None:
    """Put the device libraries (``ocml.bc``, ``ockl.bc``) where a ROCM_PATH has them: what FlyDSL lowers to calls of theirs, as
    ``fx.math.erf``, is linked from there.
    """
    place = folder / "amdgcn" / "bitcode"
    place.mkdir(parents=True)
    for path in map(Path, libraries):
        (place / path.name).symlink_to(path.resolve())


def compile_environment(base: Mapping[str, str], target: str, scratch: Path) -> dict[str, str]:
    """Build the environment of a compile for ``target`` without a GPU.

    Of ``base`` it keeps the variables that a process needs to start others.
    """
    kept = {
        name: value for name, value in base.items() if name in _KEPT or name.startswith(("PYTHON", "LC_"))
    }
    return kept | {
        "ARCH": target,
        "FLYDSL_GPU_ARCH": target,
        "COMPILE_ONLY": "1",
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "FLYDSL_RUNTIME_CACHE_DIR": str(scratch / "cache"),
        "FLYDSL_DUMP_IR": "1",
        "FLYDSL_DUMP_DIR": str(scratch / "stages"),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "ROCM_PATH": str(scratch / "rocm"),
        "ZIG_GLOBAL_CACHE_DIR": str(scratch / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(scratch / "zig"),
    }


def builder_of(module: ModuleType, symbol: str) -> Callable[[Mapping[str, Any]], Launch]:
    """Find the function that builds the kernel ``symbol``.

    It is the one of its name, or the source's one for all.

    Raises:
        FlydslCompileError: the source has neither.
    """
    for name in (symbol, _BUILDER):
        found: Callable[[Mapping[str, Any]], Launch] | None = getattr(module, name, None)
        if isfunction(found):  # a kernel that is called so is none
            return found
    raise FlydslCompileError(
        f"{module.__file__}: no function {symbol!r}, which would build the kernel of that name, and none {_BUILDER!r} for all"
    )


def compile_kernel(module: ModuleType, symbol: str, constants: Mapping[str, Any], stages: Path) -> bytes:
    """Compile ``symbol`` of a source with FlyDSL, whose variables are already set, and return the ELF. ``stages``: a folder of
    this compile alone.

    Raises:
        FlydslCompileError: the source has no such builder, or no binary stage was left in ``stages``.
    """
    os.environ["FLYDSL_DUMP_DIR"] = str(stages)
    launcher, arguments = builder_of(module, symbol)(constants)
    jit = importlib.import_module("flydsl.compiler.jit_function")
    # With the stages it would write the kernel's assembly, for which it generates all code a second time.
    vars(jit)["_dump_isa"] = lambda **_: None
    if vars(jit)["_unwrap_jit_function"](launcher)[0] is None:
        launcher(*arguments)
    else:
        importlib.import_module("flydsl.compiler").compile(launcher, *arguments)
    found = sorted(stages.rglob(_STAGE))
    if len(found) != 1:
        raise FlydslCompileError(f"{symbol}: FlyDSL wrote {len(found)} files '{_STAGE}', expected one")
    return extract_code_object(found[0].read_text(encoding="utf-8"), symbol)


def compile_job(job: Mapping[str, Any], root: Path, scratch: Path) -> dict[str, Any]:
    """Compile one job of a request, whose files lie below ``root``, and write its code object.

    Raises:
        FlydslCompileError: the builder refuses the constants, the source reads what its key does not cover, or as
            :func:`compile_kernel`.
    """
    with tempfile.TemporaryDirectory(prefix="stages-", dir=scratch) as stages:
        try:
            with only(job["source"], job["inputs"], root, scratch) as module:
                data = compile_kernel(module, job["symbol"], job["constants"], Path(stages))
        except (ValueError, KeyError, NotInKeyError, ModuleNotFoundError) as error:
            raise FlydslCompileError(f"{type(error).__name__}: {error}") from error
    Path(job["output"]).write_bytes(data)
    return {"output": job["output"]}


def main(argv: Sequence[str]) -> int:
    """Do every job of the request; 0 also when some failed, since each answer says so."""
    request, answers = (Path(word).resolve() for word in argv)
    asked = json.loads(request.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="flydsl-") as folder:
        scratch, root = Path(folder), Path(asked["root"]).resolve()
        write_linker(scratch / "rocm", asked["linker"])
        write_libraries(scratch / "rocm", asked["libraries"])
        environment = compile_environment(os.environ, asked["target"], scratch)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # it remembers the folder of the variable that was
        flydsl_torch.install()
        importlib.import_module("flydsl.compiler")  # not sooner: it reads variables when it is imported
        importlib.import_module("flydsl.expr")
        answer_each(asked["jobs"], answers, lambda job: compile_job(job, root, scratch), FlydslCompileError)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
