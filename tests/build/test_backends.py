"""Every backend compiles for every target, the audit agrees, and the bytes do not depend on the folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from build_tools.compile.backends.table import BACKENDS
from build_tools.compile.compile import compile_alone
from build_tools.errors import JobFailedError
from build_tools.judge import audit
from build_tools.objects import codeobject
from build_tools.records import CompileJob, CompileResult
from build_tools.tools.toolchain import Toolchain

from .conftest import ROOT, MakeJob, write_sources

SMALL = [(backend, target) for backend in ("hip", "asm", "triton") for target in ("gfx942", "gfx950")] + [
    ("triton", "sm_90"),
    ("hip", "sm_90"),
]


def compiled(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> CompileResult:
    workdir.mkdir(parents=True)
    built = compile_alone(job, toolchain, root, workdir)
    return CompileResult(
        job, "key", True, path=built.path, symbol=built.symbol, threads=built.threads, extra=built.extra
    )


def read(result: CompileResult) -> bytes:
    assert result.path is not None
    return result.path.read_bytes()


@pytest.mark.parametrize(("backend", "target"), SMALL)
def test_a_job_compiles_and_is_judged_right(
    backend: str, target: str, make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path
) -> None:
    result = compiled(make_job(backend, target), toolchain, root, tmp_path / "work")
    report = audit.judge(result, codeobject.read(read(result)))
    assert (report.problems, report.notes) == ((), ())


@pytest.mark.parametrize(("backend", "target"), SMALL)
def test_two_folders_give_the_same_bytes_and_name_neither(
    backend: str, target: str, make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path
) -> None:
    other = write_sources(tmp_path / "quite" / "another" / "place")
    first = read(compiled(make_job(backend, target), toolchain, root, tmp_path / "one"))
    second = read(compiled(make_job(backend, target, other), toolchain, other, tmp_path / "longer name"))
    assert first == second
    for path in (tmp_path, root, ROOT):
        assert str(path).encode() not in first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "target"), [("ck", "gfx950"), ("flydsl", "gfx942"), ("flydsl", "gfx950")]
)
def test_ck_and_flydsl(
    backend: str, target: str, make_job: MakeJob, toolchain: Toolchain, tmp_path: Path
) -> None:
    if backend == "flydsl":
        pytest.importorskip("torch", reason="flydsl imports it")
    other = tmp_path / "another place"
    shutil.copytree(ROOT / "csrc", other / "csrc", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    first = compiled(make_job(backend, target, ROOT), toolchain, ROOT, tmp_path / "one")
    second = compiled(make_job(backend, target, other), toolchain, other, tmp_path / "two")
    assert read(first) == read(second)
    report = audit.judge(first, codeobject.read(read(first)))
    assert (report.problems, report.notes) == ((), ())


def test_every_constant_reaches_the_compiler(
    make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path
) -> None:
    changes: list[tuple[str, dict[str, int]]] = [
        ("hip", {}), ("hip", {"DOUBLED": True}), ("hip", {"BLOCK": 128}), ("asm", {}), ("asm", {"VALUE": 8}),
        ("triton", {}), ("triton", {"SUM": False}), ("triton", {"num_warps": 1}),
    ]  # fmt: skip
    objects = {
        read(compiled(make_job(backend, "gfx942", **changed), toolchain, root, tmp_path / f"{place}"))
        for place, (backend, changed) in enumerate(changes)
    }
    assert len(objects) == 8


def test_inputs_are_the_files_that_are_read(root: Path) -> None:
    assert BACKENDS["hip"].expand("k/scale.hip", "scale", root) == ("k/scale.hip", "k/scale.hpp")
    assert BACKENDS["triton"].expand("k/add.py", "add", root) == ("k/add.py", "k/shared.py")
    assert BACKENDS["asm"].expand("k/put.s", "put", root) == ("k/put.s", "k/head.inc")
    names = BACKENDS["ck"].expand("csrc/kernels/ck/gen_instances.py", "", ROOT)
    assert {"csrc/kernels/ck/instances.toml", "csrc/kernels/ck/include/aiter_ck/config.hpp"} <= set(names)
    with pytest.raises(JobFailedError, match="no such file"):
        BACKENDS["hip"].expand("k/missing.hip", "scale", root)


def test_triton_reports_what_the_launch_must_know(
    make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path
) -> None:
    result = compiled(make_job("triton", "gfx942"), toolchain, root, tmp_path / "work")
    assert result.threads == 128
    assert result.extra["warps"] == "2"
    assert int(result.extra["lds"]) > 0, "a sum over two warps goes through LDS"


def test_a_mangled_kernel_is_found(
    make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path
) -> None:
    source = root / "k/scale.hip"
    source.write_text(source.read_text().replace('extern "C" ', "namespace deep { ") + "}\n")
    result = compiled(make_job("hip", "gfx942"), toolchain, root, tmp_path / "work")
    assert result.symbol.startswith("_ZN4deep5scale")
    assert audit.judge(result, codeobject.read(read(result))).ok


def test_a_kernel_that_is_not_there_names_those_that_are(
    make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path
) -> None:
    source = root / "k/scale.hip"
    source.write_text(source.read_text().replace("void scale(", "void rescale("))
    with pytest.raises(JobFailedError, match="the code object has rescale"):
        compiled(make_job("hip", "gfx942"), toolchain, root, tmp_path / "work")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"SUM": True, "OTHER": 3},
            "constant 'OTHER' is neither a constexpr of the kernel nor a compile option",
        ),
        ({"n": 3}, "constant 'n' is neither"),
    ],
)
def test_triton_constants_that_do_not_fit(
    changed: dict[str, object],
    words: str,
    make_job: MakeJob,
    toolchain: Toolchain,
    root: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(JobFailedError, match=words):
        compiled(make_job("triton", "gfx942", **changed), toolchain, root, tmp_path / "work")


def test_triton_arguments_that_do_not_fit(
    make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path
) -> None:
    source = root / "k/add.py"
    source.write_text(source.read_text().replace("(out, x, y, n,", "(out, y, x, n,"))
    with pytest.raises(JobFailedError, match="argument 'y' would get the manifest's 'x'"):
        compiled(make_job("triton", "gfx942"), toolchain, root, tmp_path / "swapped")
    source.write_text(source.read_text().replace("(out, y, x, n,", "(out, y, x, n, more,"))
    with pytest.raises(JobFailedError, match=r"5 arguments \(out, y, x, n, more\), the manifest 4"):
        compiled(make_job("triton", "gfx942"), toolchain, root, tmp_path / "more")


def test_an_adopted_code_object_is_taken_unchanged_or_refused(
    make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path
) -> None:
    from dataclasses import replace

    made = compiled(make_job("asm", "gfx942"), toolchain, root, tmp_path / "made")
    (root / "hsa").mkdir()
    (root / "hsa/put.co").write_bytes(read(made))
    digest = codeobject.read(read(made)).sha256
    job = replace(make_job("asm", "gfx942"), source="hsa/put.co", inputs=("hsa/put.co", "hsa/put.co.toml"))

    def table(**changed: object) -> None:
        row = {
            "sha256": digest,
            "target": "gfx942",
            "symbol": "put",
            "kernarg_size": 8,
            "origin": "a test",
            **changed,
        }
        text = "".join(
            f"{key} = {value if isinstance(value, int) else repr(value)}\n" for key, value in row.items()
        )
        (root / "hsa/put.co.toml").write_text(text)

    table()
    assert read(compiled(job, toolchain, root, tmp_path / "adopted")) == read(made)
    refusals = {
        "sha256": ("0" * 64, "has sha256"),
        "target": ("gfx950", "it is for gfx950"),
        "symbol": ("get", "its kernel is get"),
        "kernarg_size": (16, "takes 8 bytes of arguments and not 16"),
        "colour": ("red", "unknown keys colour"),
    }
    for place, (key, (value, words)) in enumerate(refusals.items()):
        table(**{key: value})
        with pytest.raises(JobFailedError, match=words):
            compiled(job, toolchain, root, tmp_path / f"refused{place}")
