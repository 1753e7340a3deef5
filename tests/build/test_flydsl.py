"""FlyDSL kernels compiled for real, several in one process: same bytes from anywhere, and refusals that say why."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flydsl")
pytest.importorskip("ziglang")

from build_tools.compile.backends.built import CHILD_PATH
from build_tools.compile.backends.flydsl_sources import sources_of
from build_tools.errors import ToolchainError
from build_tools.objects import codeobject
from build_tools.tools.toolchain import find

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "csrc" / "kernels" / "flydsl"
SOFTMAX = {"T": "bf16", "BLOCK": 256, "WIDE": 1, "TILES": 2, "CACHED": 0}
GEMM = {"T": "bf16", "FP8": "e4m3fn", "BM": 16, "BN": 16, "BK": 512, "WAVES_K": 4}


def compile_in(
    folder: Path, source: str, target: str, *jobs: tuple[str, dict[str, object]], **variables: str
) -> list[dict[str, Any]]:
    """Run the child on a copy of the source in ``folder``, with these symbols and constants; objects become ``folder/0.co``, and
    so on. Its answers.
    """
    folder.mkdir(parents=True)
    shutil.copy(SOURCES / source, folder / source)
    return compiled(folder, source, [source], target, *jobs, variables=variables)


def compiled(
    folder: Path,
    source: str,
    inputs: list[str],
    target: str,
    *jobs: tuple[str, dict[str, object]],
    libraries: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """As :func:`compile_in`, of a source that lies there, with the files that are its inputs."""
    request, answers = folder / "request.json", folder / "answers.jsonl"
    asked = [
        {
            "source": source,
            "inputs": inputs,
            "symbol": symbol,
            "constants": constants,
            "output": str(folder / f"{at}.co"),
        }
        for at, (symbol, constants) in enumerate(jobs)
    ]
    linker = [sys.executable, "-m", "ziglang", "ld.lld"]
    told = {
        "target": target, "root": str(folder), "linker": linker, "libraries": list(libraries), "jobs": asked
    }  # fmt: skip
    request.write_text(json.dumps(told))
    argv = [sys.executable, "-m", "build_tools.compile.backends.flydsl_compile", str(request), str(answers)]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **CHILD_PATH, **(variables or {})}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in answers.read_text().splitlines()]


@pytest.mark.parametrize(
    ("source", "symbol", "target", "constants", "kernarg"),
    [
        ("softmax.py", "softmax_rows", "gfx942", SOFTMAX, [(0, 8), (8, 8), (16, 4), (24, 8), (32, 8)]),
        (
            *("gemm_a8w8_bpreshuffle.py", "gemm_a8w8_bpreshuffle", "gfx950", GEMM),
            [*((at, 8) for at in range(0, 40, 8)), *((at, 4) for at in range(40, 64, 4))],
        ),
    ],
)
def test_bytes_do_not_depend_on_folder_or_environment(
    tmp_path: Path,
    source: str,
    symbol: str,
    target: str,
    constants: dict[str, object],
    kernarg: list[tuple[int, int]],
) -> None:
    job = (symbol, constants)
    (first,) = compile_in(tmp_path / "a", source, target, job)
    assert first["ok"], first
    debug = {"FLYDSL_DEBUG_ENABLE_DEBUG_INFO": "1"}
    (second,) = compile_in(tmp_path / "another" / "folder", source, target, job, **debug)
    assert second["ok"], second
    data = (tmp_path / "a" / "0.co").read_bytes()
    assert data == (tmp_path / "another" / "folder" / "0.co").read_bytes()
    assert str(tmp_path).encode() not in data
    facts = codeobject.read(data)
    assert facts.target == target
    (kernel,) = facts.kernels
    assert kernel.symbol == symbol
    assert [(offset, size) for offset, size, *_ in kernel.args] == kernarg
    assert not kernel.hidden
    assert (kernel.vgpr_spills, kernel.sgpr_spills, kernel.scratch) == (0, 0, 0)


@pytest.mark.parametrize(
    ("symbol", "constants", "words"),
    [
        ("softmax_rows", {**SOFTMAX, "BLOCK": 96}, "BLOCK: 96 is not a multiple of 64"),
        ("softmax_rows", {"T": "bf16"}, "KeyError: 'BLOCK'"),
        ("softmax_columns", SOFTMAX, "no function 'softmax_columns'"),
    ],
)
def test_refusals_name_the_cause(
    tmp_path: Path, symbol: str, constants: dict[str, object], words: str
) -> None:
    wrong, right = compile_in(
        tmp_path / "a", "softmax.py", "gfx942", (symbol, constants), ("softmax_rows", SOFTMAX)
    )
    assert not wrong["ok"]
    assert words in wrong["error"]
    assert not (tmp_path / "a" / "0.co").exists()
    assert right["ok"], "the job after it"


def test_bytes_do_not_depend_on_what_the_child_compiled_before(tmp_path: Path) -> None:
    other = {**SOFTMAX, "T": "f32", "TILES": 1}
    jobs = [("softmax_rows", constants) for constants in (SOFTMAX, other, SOFTMAX)]
    compile_in(tmp_path / "a", "softmax.py", "gfx942", *jobs)
    compile_in(tmp_path / "b", "softmax.py", "gfx942", jobs[1])
    first, second, third = ((tmp_path / "a" / f"{at}.co").read_bytes() for at in range(3))
    assert first == third != second
    assert second == (tmp_path / "b" / "0.co").read_bytes()


#: A package that defines a gradient beside what its kernels use, as norms do.
HELPERS = """
import torch
import flydsl.expr as fx


class Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.rsqrt(x)


@torch.no_grad()
def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.special.erf(x)


def error(value):
    return fx.math.erf(value)
"""
#: Two kernels of one launcher, on a strided tensor of three dims.
PAIR = """
import os
import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from helpers.maths import error, reference

assert os.environ.get("FA_PP") is None


def build(constants):
    @flyc.kernel(name="ones")
    def ones(out: fx.Tensor, n: fx.Int32):
        row = fx.slice(fx.rocdl.make_buffer_tensor(out), (fx.block_idx.y, fx.block_idx.x, None))
        place(row, fx.Float32(1.0))

    @flyc.kernel
    def errors(out: fx.Tensor, factor: fx.Float32):
        row = fx.slice(fx.rocdl.make_buffer_tensor(out), (fx.block_idx.y, fx.block_idx.x, None))
        place(row, error(factor) if constants["ERF"] else factor)

    def place(row, value):
        held = fx.make_rmem_tensor(1, fx.BFloat16)
        fx.memref_store_vec(fx.Vector.from_elements([value.to(fx.BFloat16)], fx.BFloat16), held)
        elements = fx.logical_divide(row, fx.make_layout(1, 1))
        fx.copy(fx.make_copy_atom(fx.rocdl.BufferCopy16b(), 16), held, fx.slice(elements, (None, fx.thread_idx.x)))

    @flyc.jit
    def launch(out: fx.Tensor, n: fx.Int32, factor: fx.Float32):
        ones(out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))
        errors(out, factor).launch(grid=(1, 1, 1), block=(64, 1, 1))

    def wrapped(*arguments):
        return launch(*arguments)

    placeholder = torch.empty(2, 2, 2, dtype=torch.bfloat16)
    return (wrapped if constants["WRAPPED"] else launch), (placeholder, fx.Int32(1), fx.Float32(1.0))
"""


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    folder = tmp_path / "pair"
    (folder / "helpers").mkdir(parents=True)
    (folder / "pair.py").write_text(PAIR)
    (folder / "helpers" / "maths.py").write_text(HELPERS)
    return folder


def device_libraries() -> tuple[str, ...]:
    try:
        return tuple(map(str, find("hermetic", ROOT).clang.device_libraries))
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_kernels_of_one_object_with_packed_sizes_and_device_libraries(pair: Path, target: str) -> None:
    inputs = list(sources_of("pair.py", pair))
    assert inputs == ["pair.py", "helpers/maths.py"]
    jobs: list[tuple[str, dict[str, object]]] = [
        ("ones", {"ERF": 1, "WRAPPED": 0}), ("errors_1", {"ERF": 1, "WRAPPED": 0}), ("ones", {"ERF": 1, "WRAPPED": 1}),
        ("errors_0", {"ERF": 1, "WRAPPED": 0}),
    ]  # fmt: skip
    *answers, none = compiled(
        pair, "pair.py", inputs, target, *jobs, libraries=device_libraries(), variables={"FA_PP": "1"}
    )
    assert all(answer["ok"] for answer in answers), answers
    first, second, third = ((pair / f"{at}.co").read_bytes() for at in range(3))
    assert first == second == third
    kernels = {kernel.symbol: kernel for kernel in codeobject.read(first).kernels}
    assert kernels.keys() == {"ones", "errors_1"}
    # An address; three sizes of 4 bytes and two strides of 8 that are packed, where C would have 32 bytes; a number.
    assert [(offset, size) for offset, size, *_ in kernels["ones"].args] == [(0, 8), (8, 28), (36, 4)]
    assert not none["ok"] and "the code object holds errors_1, ones" in none["error"]


def test_without_device_libraries_their_functions_are_not_found(pair: Path) -> None:
    """What the test before this one would not notice, were no function of theirs called."""
    inputs = list(sources_of("pair.py", pair))
    jobs: list[tuple[str, dict[str, object]]] = [
        ("ones", {"ERF": 1, "WRAPPED": 0}), ("ones", {"ERF": 0, "WRAPPED": 0})
    ]  # fmt: skip
    wrong, right = compiled(pair, "pair.py", inputs, "gfx942", *jobs)
    assert not wrong["ok"] and right["ok"], (wrong, right)


def test_what_the_key_does_not_cover_is_refused_by_name(pair: Path) -> None:
    (answer,) = compiled(pair, "pair.py", ["pair.py"], "gfx942", ("ones", {"ERF": 0, "WRAPPED": 0}))
    assert not answer["ok"] and "No module named 'helpers' in a FlyDSL compile" in answer["error"]
    (pair / "table.json").write_text("{}")
    (pair / "reads.py").write_text("TABLE = open(__file__.replace('reads.py', 'table.json')).read()\n")
    (answer,) = compiled(pair, "reads.py", ["reads.py"], "gfx942", ("ones", {}))
    assert not answer["ok"] and "table.json, which is not among the files of its key" in answer["error"]
