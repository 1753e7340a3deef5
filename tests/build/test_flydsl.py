"""FlyDSL kernels compiled for real, several in one process: same bytes from anywhere, and refusals that say why."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flydsl")
pytest.importorskip("ziglang")

from build_tools.compile.backends.built import CHILD_PATH
from build_tools.objects import codeobject

SOURCES = Path(__file__).resolve().parents[2] / "csrc" / "kernels" / "flydsl"
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
    request, answers = folder / "request.json", folder / "answers.jsonl"
    asked = [
        {
            "source": str(folder / source),
            "symbol": symbol,
            "constants": constants,
            "output": str(folder / f"{at}.co"),
        }
        for at, (symbol, constants) in enumerate(jobs)
    ]
    linker = [sys.executable, "-m", "ziglang", "ld.lld"]
    request.write_text(json.dumps({"target": target, "linker": linker, "jobs": asked}))
    argv = [sys.executable, "-m", "build_tools.compile.backends.flydsl_compile", str(request), str(answers)]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **CHILD_PATH, **variables}
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
