"""How the ELF is taken out of FlyDSL's text, and the environment of a compile. No FlyDSL is needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_tools.compile.backends.flydsl_compile import (
    FlydslCompileError,
    compile_environment,
    decode_mlir_string,
    extract_code_object,
    write_linker,
)

ELF = b"\x7fELF\x02\x01\x01@" + bytes(10) + (224).to_bytes(2, "little") + bytes(range(256))


def as_literal(data: bytes) -> str:
    """Bytes as MLIR prints them: printable ASCII as it is, quote and backslash escaped, the rest in hex."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else "\\\\" if byte == 92 else f"\\{byte:02X}"
        for byte in data
    )


def module(data: bytes, *kernels: str, copies: int = 1) -> str:
    rows = ", ".join(f'#gpu.kernel_metadata<"{name}", !llvm.func<void (ptr<1>)>>' for name in kernels)
    binary = (
        f'  gpu.binary @kernels  [#gpu.object<#rocdl.target<chip = "gfx942">, kernels = <[{rows}]>, '
        f'bin = "{as_literal(data)}">]\n'
    )
    return "module {\n" + binary * copies + '  llvm.func @launch() attributes {note = "bin = \\"no\\""}\n}\n'


@given(st.binary())
def test_every_byte_string_survives(data: bytes) -> None:
    assert decode_mlir_string(as_literal(data)) == data


def test_escaped_quote_and_backslash() -> None:
    assert decode_mlir_string('a\\"b\\\\c\\0A') == b'a"b\\c\n'


def test_the_one_kernel_is_found() -> None:
    assert extract_code_object(module(ELF, "k"), "k") == ELF


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("module {}", "found 0 gpu.binary"),
        (module(ELF, "k", copies=2), "found 2 gpu.binary"),
        (module(ELF, "other"), r"holds \['other'\]"),
        (module(ELF, "k", "l"), r"holds \['k', 'l'\]"),
        (module(b"\x7fELF\x01\x01" + ELF[6:], "k"), "not an AMDGPU ELF"),
        (module(ELF[:18] + b"\x3e\x00" + ELF[20:], "k"), "not an AMDGPU ELF"),
        (module(b"", "k"), "not an AMDGPU ELF"),
    ],
)
def test_anything_else_is_refused(text: str, words: str) -> None:
    with pytest.raises(FlydslCompileError, match=words):
        extract_code_object(text, "k")


def test_nothing_of_the_caller_steers_the_compile(tmp_path: Path) -> None:
    caller = {"PATH": "/bin", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO": "1", "LLVM_OPTIONS": "x", "ARCH": "gfx90a"}
    got = compile_environment(caller, "gfx950", tmp_path)
    assert got["PATH"] == "/bin"
    assert (got["ARCH"], got["FLYDSL_GPU_ARCH"], got["COMPILE_ONLY"]) == ("gfx950", "gfx950", "1")
    assert "FLYDSL_DEBUG_ENABLE_DEBUG_INFO" not in got
    assert "LLVM_OPTIONS" not in got
    assert all(Path(got[name]).is_relative_to(tmp_path) for name in ("ROCM_PATH", "FLYDSL_DUMP_DIR"))


def test_linker_script_keeps_its_words_apart(tmp_path: Path) -> None:
    write_linker(tmp_path, ["printf", "%s|", "it's $HOME", "a b"])
    script = tmp_path / "llvm" / "bin" / "ld.lld"
    assert os.access(script, os.X_OK)
    done = subprocess.run([script, "-o", "x y"], capture_output=True, text=True, check=True)
    assert done.stdout == "it's $HOME|a b|-o|x y|"
