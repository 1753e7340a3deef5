"""Child process of the FlyDSL backend: ``python -m build_tools.compile.backends.flydsl_compile REQUEST.json ANSWERS.jsonl``.

The request names a target, the words of a linker, and jobs: each a kernel source and its constants in, a bare AMDGPU ELF out.
One line of JSON is appended to the answers as each is done. FlyDSL asks for its target once a process.

The source file has, for each kernel symbol, a function of that name: it takes the constants (a dict) and
returns the `@flyc.jit` launcher and the placeholder arguments that give its types. No GPU, no ROCm and no
network are used.

How the ELF is obtained. FlyDSL lowers to a `gpu.binary` operation that holds the linked code object as a
string attribute. The documented variables COMPILE_ONLY and FLYDSL_DUMP_IR make it write that stage as MLIR
text, and the string is decoded from there. `export_to_c` would wrap the same bytes in a host object, and
needs a host linker and objcopy for it.

The kernarg segment follows the kernel's parameters with natural alignment: `fx.Pointer` is one 64-bit global
address; `fx.Int32`, `fx.Int64` and `fx.Float32` are by value. `fx.Tensor` with a dynamic layout would add a
packed struct of sizes and strides, so kernels here do not use it. There are no hidden arguments.

The bytes depend on the source text, the constants, the target and the versions of flydsl and of the linker
alone: debug locations are off, kernels have explicit names, and every variable that steers FlyDSL is set or
cleared here.
"""

import importlib
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from build_tools.compile.backends.child import answer_each

Launch: TypeAlias = tuple[Any, tuple[Any, ...]]

_BINARY: Final = re.compile(
    r'gpu\.binary @\w+\s+\[#gpu\.object<(?P<head>.*?), bin = "(?P<body>(?:[^"\\]|\\.)*)"', re.DOTALL
)
_KERNEL: Final = re.compile(r'#gpu\.kernel_metadata<"(?P<name>[^"]+)"')
_ESCAPE: Final = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_PREFIXES: Final = ("FLYDSL_", "MLIR_", "LLVM_")
_STAGE: Final = "*_gpu_module_to_binary.mlir"
_TORCH_TYPES: Final = (
    "float16", "bfloat16", "float32", "float64", "bool", "uint8", "int8", "int16", "int32", "int64",
)  # fmt: skip
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
    """The one AMDGPU ELF in the text of a lowered module, which must hold the kernel ``symbol`` and no other.

    Raises:
        FlydslCompileError: there is not exactly one binary with exactly that kernel in it.
    """
    binaries = list(_BINARY.finditer(mlir))
    if len(binaries) != 1:
        raise FlydslCompileError(f"{symbol}: found {len(binaries)} gpu.binary operations, expected one")
    kernels = _KERNEL.findall(binaries[0]["head"])
    if kernels != [symbol]:
        raise FlydslCompileError(f"{symbol}: the code object holds {kernels}; name the @flyc.kernel so")
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


def compile_environment(base: Mapping[str, str], target: str, scratch: Path) -> dict[str, str]:
    """``base`` without anything that steers FlyDSL, plus what a compile for ``target`` with no GPU needs."""
    kept = {name: value for name, value in base.items() if not name.startswith(_PREFIXES)}
    return kept | {
        "ARCH": target,
        "FLYDSL_GPU_ARCH": target,
        "COMPILE_ONLY": "1",
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "FLYDSL_RUNTIME_CACHE_DIR": str(scratch / "cache"),
        "FLYDSL_DUMP_IR": "1",
        "FLYDSL_DUMP_DIR": str(scratch / "stages"),
        "ROCM_PATH": str(scratch / "rocm"),
        "ZIG_GLOBAL_CACHE_DIR": str(scratch / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(scratch / "zig"),
    }


def load_source(path: Path) -> ModuleType:
    """Import one kernel source by its path, without leaving bytecode beside it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FlydslCompileError(f"{path}: not a Python source file")
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in_for_torch() -> None:
    """Give FlyDSL the few names of torch that it mentions when it is imported.

    FlyDSL knows torch tensors as one kind of argument; the kernels here take pointers and numbers. torch would be 200 MB to
    gigabytes in the environment of a build that never touches a tensor, and 1.3 s of every compile.
    """
    torch, cuda = ModuleType("torch"), ModuleType("torch.cuda")
    for name in _TORCH_TYPES:
        setattr(torch, name, name)
    torch.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    cuda.Stream = type("Stream", (), {})  # type: ignore[attr-defined]
    cuda.is_available = lambda: False  # type: ignore[attr-defined]
    torch.cuda = cuda  # type: ignore[attr-defined]
    sys.modules.update({"torch": torch, "torch.cuda": cuda})


def compile_kernel(source: Path, symbol: str, constants: Mapping[str, Any], stages: Path) -> bytes:
    """Compile ``symbol`` of ``source`` with FlyDSL, whose variables are already set, and return the ELF. ``stages``: a folder of
    this compile alone.

    Raises:
        FlydslCompileError: the source has no such builder, or no binary stage was left in ``stages``.
    """
    os.environ["FLYDSL_DUMP_DIR"] = str(stages)
    flyc = importlib.import_module("flydsl.compiler")  # not sooner: it reads variables when it is imported
    builder: Callable[[Mapping[str, Any]], Launch] | None = getattr(load_source(source), symbol, None)
    if builder is None:
        raise FlydslCompileError(
            f"{source}: no function '{symbol}', which would build the kernel of that name"
        )
    launcher, arguments = builder(constants)
    # With the stages it would write the kernel's assembly, for which it generates all code a second time.
    vars(importlib.import_module("flydsl.compiler.jit_function"))["_dump_isa"] = lambda **_: None
    flyc.compile(launcher, *arguments)
    found = sorted(stages.rglob(_STAGE))
    if len(found) != 1:
        raise FlydslCompileError(f"{symbol}: FlyDSL wrote {len(found)} files '{_STAGE}', expected one")
    return extract_code_object(found[0].read_text(encoding="utf-8"), symbol)


def compile_job(job: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    """Compile one job of a request and write its code object.

    Raises:
        FlydslCompileError: the builder refuses the constants, or as :func:`compile_kernel`.
    """
    with tempfile.TemporaryDirectory(prefix="stages-", dir=scratch) as stages:
        try:
            data = compile_kernel(
                Path(job["source"]).resolve(), job["symbol"], job["constants"], Path(stages)
            )
        except (ValueError, KeyError) as error:
            raise FlydslCompileError(f"{type(error).__name__}: {error}") from error
    Path(job["output"]).write_bytes(data)
    return {"output": job["output"]}


def main(argv: Sequence[str]) -> int:
    """Do every job of the request; 0 also when some failed, since each answer says so."""
    request, answers = (Path(word).resolve() for word in argv)
    asked = json.loads(request.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="flydsl-") as folder:
        scratch = Path(folder)
        write_linker(scratch / "rocm", asked["linker"])
        environment = compile_environment(os.environ, asked["target"], scratch)
        os.environ.clear()
        os.environ.update(environment)
        stand_in_for_torch()
        answer_each(asked["jobs"], answers, lambda job: compile_job(job, scratch), FlydslCompileError)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
