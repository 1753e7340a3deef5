"""What must not drift: the generated layout, the ABI declarations, the error classes, the exported symbols."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiter_prebuilt import errors
from aiter_prebuilt.contract import records, version
from build_tools.generate import layout
from native.conftest import HERE, ROOT, host_compiler, native_sources

RUNTIME = ROOT / "csrc" / "runtime"


def compile_only(output: Path, source: str, *flags: str) -> None:
    command = [
        *host_compiler("CXX"),
        "-std=c++20",
        "-Wno-deprecated",
        f"-I{RUNTIME}",
        *flags,
        "-c",
        str(HERE / source),
        "-o",
        str(output),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_committed_layout_is_what_the_contract_says() -> None:
    assert layout.HEADER.read_text() == layout.render(), "run: python -m build_tools generate"
    records.check_layout()


def test_layout_has_every_record_and_field() -> None:
    text = layout.render()
    for record, rows in records.LAYOUT.items():
        assert f"static_assert(sizeof({record.__name__}) == {records.record_size(record)});" in text
        for name, _ in rows:
            assert not name or f"offsetof({record.__name__}, {layout._field(name)})" in text


def test_python_abi_against_the_real_header(tmp_path: Path) -> None:
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").is_file():
        pytest.skip("no Python.h here")
    compile_only(tmp_path / "check.o", "abi_check.cpp", f"-I{include}")


def test_python_abi_alone(tmp_path: Path) -> None:
    compile_only(tmp_path / "check.o", "own_structs_check.cpp")


def test_dlpack_layout_of_the_pinned_header(tmp_path: Path) -> None:
    compile_only(tmp_path / "check.o", "dlpack_check.cpp", f"-I{native_sources()['APB_DLPACK_INCLUDE']}")


def test_dlpack_layout_of_torchs_header(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("torch")
    include = Path(spec.origin).parent / "include" if spec is not None and spec.origin is not None else None
    if include is None or not (include / "ATen/dlpack.h").is_file():
        pytest.skip("no torch headers here")
    compile_only(tmp_path / "check.o", "dlpack_check.cpp", "-DWITH_TORCH", f"-I{include}")


def test_dlpack_is_declared_by_its_own_header_alone() -> None:
    assert "#include <dlpack/dlpack.h>" in (RUNTIME / "tensors" / "call.h").read_text()
    text = "".join(path.read_text() for path in RUNTIME.rglob("*") if path.suffix in (".h", ".cpp"))
    assert not re.findall(r"\b(?:struct|enum class|enum|namespace)\s+(?:\w+::)*(?:DL[A-Z]\w*|dlpack)\b", text)
    assert not list(ROOT.joinpath("csrc").rglob("dlpack.h"))


def test_every_error_class_is_known_to_both_sides() -> None:
    table = (RUNTIME / "errors.h").read_text().split("kErrorClasses{", 1)[1].split("};", 1)[0]
    native = set(re.findall(r'"(\w+)"', table))
    python = {name for name in vars(errors) if name.endswith("Error")}
    assert native <= python
    # Bases are never raised themselves; the extension knows of no bridge, signature, value of a tensor, tuning or certificate.
    tuning = {"MissLogError", "OtherTableError", "WorkerError"}
    signed = {"KeyFileError", "OldBundleError", "SignatureError", "UnsignedError", "WrongKeyError"}
    assert python - native == {
        "AiterPrebuiltError", "ArgumentError", "ArgumentValueError", "DescribedError", "FreeThreadedError",
        "NoBridgeError", "UnfinishedError", *signed, *tuning,
    }  # fmt: skip


def test_contract_numbers(native: ModuleType) -> None:
    assert native.contract() == (version.BUNDLE_FORMAT, version.RECIPE, version.NATIVE_ABI)
    assert native.abi() == version.NATIVE_ABI


def test_only_the_module_init_is_exported_and_nothing_of_a_gpu_is_linked(extension_path: Path) -> None:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    with extension_path.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        defined = {
            s.name
            for s in symbols.iter_symbols()
            if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["bind"] != "STB_LOCAL"
        }
        python = {
            s.name
            for s in symbols.iter_symbols()
            if s["st_shndx"] == "SHN_UNDEF" and re.match(r"_?Py", s.name)
        }
        dynamic = elf.get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        tags: list[Any] = list(dynamic.iter_tags("DT_NEEDED"))  # their attributes are made at run time
        needed = {tag.needed for tag in tags}
    assert defined == {"PyInit__native"}
    assert needed <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "libm.so.6", "ld-linux-x86-64.so.2"}
    declared = set(re.findall(r"\b(_?Py\w+)\(|\b(_?Py\w+);", (RUNTIME / "python_abi.h").read_text()))
    assert python <= {name for pair in declared for name in pair}, (
        "a Python symbol that python_abi.h does not declare"
    )


def test_every_python_function_declared_is_used() -> None:
    declared = re.findall(r"\b(Py[A-Z]\w+|Py_\w+)\(", (RUNTIME / "python_abi.h").read_text())
    inline = (RUNTIME / "python_abi.h").read_text().split("namespace apb::py", 1)[1]
    sources = inline + "".join(
        path.read_text() for path in RUNTIME.rglob("*.*") if path.name != "python_abi.h"
    )
    assert [name for name in sorted(set(declared)) if not re.search(rf"\b{name}\b", sources)] == []


def test_cmake_lists_every_source() -> None:
    listed = set(re.findall(r"\$\{runtime\}/([\w/]+\.cpp)", (ROOT / "CMakeLists.txt").read_text()))
    assert listed == {path.relative_to(RUNTIME).as_posix() for path in RUNTIME.rglob("*.cpp")}


def test_sha256_both_paths(native: ModuleType) -> None:
    import hashlib
    import random

    rng = random.Random(1)
    for size in [*range(200), 1000, 4096, 100_003]:
        data = rng.randbytes(size)
        digest = hashlib.sha256(data).digest()
        assert native.sha256(data, True) == digest and native.sha256(data, False) == digest, size


def test_zstd(native: ModuleType) -> None:
    zstandard = pytest.importorskip("zstandard")
    reference, data = b"\x7fELF" + bytes(range(256)) * 40, b"\x7fELF" + bytes(range(256)) * 40 + b"tail"
    raw = zstandard.ZstdCompressionDict(reference, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    frame = zstandard.ZstdCompressor(level=19, dict_data=raw, write_dict_id=False).compress(data)
    assert len(frame) < 60
    assert native.zstd_decompress(frame, len(data), reference) == data
    for wrong in ((frame, len(data) - 1, reference), (frame, len(data) + 1, reference), (frame[:-1], len(data), reference),
                  (b"", 4, None), (frame, -1, reference), (frame, 2**40, reference), (b"text", 4, None)):  # fmt: skip
        with pytest.raises(ValueError):  # noqa: PT011 - the words are zstd's own
            native.zstd_decompress(*wrong)
