"""How the ELF is taken out of FlyDSL's text, and the environment of a compile. No FlyDSL is needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_tools.compile.backends.flydsl_compile import (
    FlydslCompileError,
    builder_of,
    compile_environment,
    decode_mlir_string,
    extract_code_object,
    write_libraries,
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


def test_a_kernel_is_found_among_others() -> None:
    assert extract_code_object(module(ELF, "k"), "k") == ELF
    assert extract_code_object(module(ELF, "k", "l"), "k") == ELF
    assert extract_code_object(module(ELF, "k", "l"), "l") == ELF


def test_an_object_that_is_linked_with_libraries_of_its_source_is_found() -> None:
    text = module(ELF, "k").replace("@kernels  [", "@kernels <#fly.explicit_module> [")
    assert extract_code_object(text, "k") == ELF


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("module {}", "found 0 gpu.binary"),
        (module(ELF, "k", copies=2), "found 2 gpu.binary"),
        (module(ELF, "other"), "holds other; name one of them"),
        (module(ELF, "l", "m"), "holds l, m; name one of them"),
        (module(ELF), "holds no kernel"),
        (module(b"\x7fELF\x01\x01" + ELF[6:], "k"), "not an AMDGPU ELF"),
        (module(ELF[:18] + b"\x3e\x00" + ELF[20:], "k"), "not an AMDGPU ELF"),
        (module(b"", "k"), "not an AMDGPU ELF"),
    ],
)
def test_anything_else_is_refused(text: str, words: str) -> None:
    with pytest.raises(FlydslCompileError, match=words):
        extract_code_object(text, "k")


def test_nothing_of_the_caller_steers_the_compile(tmp_path: Path) -> None:
    caller = {
        "PATH": "/bin", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO": "1", "LLVM_OPTIONS": "x", "ARCH": "gfx90a", "FA_PP": "0",
        "HOME": "/root", "HSA_OVERRIDE_GFX_VERSION": "9.0.10",
    }  # fmt: skip
    got = compile_environment(caller, "gfx950", tmp_path)
    assert got["PATH"] == "/bin"
    assert (got["ARCH"], got["FLYDSL_GPU_ARCH"], got["COMPILE_ONLY"]) == ("gfx950", "gfx950", "1")
    assert "FLYDSL_DEBUG_ENABLE_DEBUG_INFO" not in got
    assert not {"LLVM_OPTIONS", "FA_PP", "HSA_OVERRIDE_GFX_VERSION"} & got.keys()
    places = ("ROCM_PATH", "FLYDSL_DUMP_DIR", "HOME", "TMPDIR")
    assert all(Path(got[name]).is_relative_to(tmp_path) for name in places)


def test_linker_script_keeps_its_words_apart(tmp_path: Path) -> None:
    write_linker(tmp_path, ["printf", "%s|", "it's $HOME", "a b"])
    script = tmp_path / "llvm" / "bin" / "ld.lld"
    assert os.access(script, os.X_OK)
    done = subprocess.run([script, "-o", "x y"], capture_output=True, text=True, check=True)
    assert done.stdout == "it's $HOME|a b|-o|x y|"


def test_device_libraries_lie_where_a_rocm_has_them(tmp_path: Path) -> None:
    (tmp_path / "ocml.bc").write_bytes(b"code")
    write_libraries(tmp_path / "rocm", [str(tmp_path / "ocml.bc")])
    assert (tmp_path / "rocm" / "amdgcn" / "bitcode" / "ocml.bc").read_bytes() == b"code"


def test_a_builder_has_the_kernel_s_name_or_is_the_one_for_all() -> None:
    source = ModuleType("source")
    source.__file__ = "rows.py"

    def build(constants: object) -> object:
        return constants

    def rows(constants: object) -> object:
        return constants

    vars(source).update({"build": build, "rows": rows, "columns": object()})
    assert builder_of(source, "rows") is rows
    assert builder_of(source, "columns") is build  # a kernel of that name is no function
    del source.build
    with pytest.raises(FlydslCompileError, match=r"no function 'columns'.*none 'build'"):
        builder_of(source, "columns")
