"""Wrappers around Composable Kernel's gridwise kernels: what a compile reads, and the source that it is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import planned

from build_tools.compile.backends import ck
from build_tools.errors import JobFailedError
from build_tools.records import CompileJob

WRAPPER = "kernels/xdl/gemm.hip"


def files(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = root / "kernels" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files(
        tmp_path,
        xdl__gemm_DOT_hip='// says what it is\n#include "gemm.hpp"\nint body;\n',
        xdl__gemm_DOT_hpp='#include "xdl.hpp"\n',
        xdl__xdl_DOT_hpp="",
        xdl__other_DOT_hpp="",
        xdl__ck__config_DOT_h="",
        xdl__std__string="",
        include__hip__hip_fp16_DOT_h="",
        include__tiles__config_DOT_hpp="",
        gen_DOT_py="",
        instances_DOT_toml="",
    )
    return tmp_path


def job(**constants: int | str) -> CompileJob:
    return CompileJob(
        "id",
        planned.target(),
        "ck",
        WRAPPER,
        "k",
        tuple(sorted(constants.items())),
        (),
        0,
        (64, 1, 1),
        (WRAPPER,),
    )


def test_a_wrapper_is_made_of_what_it_includes(root: Path) -> None:
    """Of another family's header, or a generator's, nothing: a change there compiles no instance again."""
    assert ck.expand(WRAPPER, "", root) == (
        WRAPPER, "kernels/xdl/gemm.hpp", "kernels/xdl/xdl.hpp", "kernels/xdl/std/string", "kernels/include/hip/hip_fp16.h",
        "kernels/xdl/ck/config.h",
    )  # fmt: skip


def test_a_generator_is_made_of_its_tables_and_headers(root: Path) -> None:
    assert ck.expand("kernels/gen.py", "", root) == (
        "kernels/gen.py", "kernels/include/hip/hip_fp16.h", "kernels/include/tiles/config.hpp", "kernels/instances.toml",
    )  # fmt: skip


def test_no_such_source(root: Path) -> None:
    with pytest.raises(JobFailedError) as caught:
        ck.expand("kernels/none.hip", "", root)
    assert caught.value.args == (
        "compile kernels/none.hip", "there is no such file in the repository", "Correct source in the manifest",
    )  # fmt: skip


def test_macros_stand_behind_the_first_header(root: Path) -> None:
    """Before it they would rename template parameters of CK's own."""
    written = ck._wrapped(job(V=8, PAD=True, Q="i8"), root / WRAPPER, root / "wrapped.hip")
    assert written.read_text().splitlines() == [
        '#include "gemm.hpp"', "#define PAD 1", "#define Q i8", "#define V 8", '#include "gemm.hip"',
    ]  # fmt: skip


def test_a_wrapper_that_includes_nothing_is_refused(root: Path) -> None:
    (root / WRAPPER).write_text("int body;\n")
    with pytest.raises(JobFailedError) as caught:
        ck._wrapped(job(V=8), root / WRAPPER, root / "wrapped.hip")
    assert caught.value.args == (
        "compile id", "gemm.hip includes nothing", "Let it include its header first",
    )  # fmt: skip
