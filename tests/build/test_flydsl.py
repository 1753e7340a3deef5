"""FlyDSL kernels compiled for real, one process each: same bytes from anywhere, and refusals that say why."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flydsl")
pytest.importorskip("ziglang")

from build_tools.compile.backends.built import CHILD_PATH
from build_tools.objects import codeobject

SOURCES = Path(__file__).resolve().parents[2] / "csrc" / "kernels" / "flydsl"
SOFTMAX = {"T": "bf16", "BLOCK": 256, "WIDE": 1, "TILES": 2, "CACHED": 0}
GEMM = {"T": "bf16", "FP8": "e4m3fn", "BM": 16, "BN": 16, "BK": 512, "WAVES_K": 4}


def compile_in(
    folder: Path, source: str, symbol: str, target: str, constants: dict[str, object], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the compile script on a copy of the source in ``folder``; the object becomes ``folder/out.co``."""
    folder.mkdir(parents=True)
    shutil.copy(SOURCES / source, folder / source)
    argv = [
        *(
            sys.executable,
            "-m",
            "build_tools.compile.backends.flydsl_compile",
            "--source",
            str(folder / source),
        ),
        *("--symbol", symbol, "--target", target, "--constants", json.dumps(constants)),
        *("--output", str(folder / "out.co")),
    ]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **CHILD_PATH, **variables}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


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
    first = compile_in(tmp_path / "a", source, symbol, target, constants)
    assert first.returncode == 0, first.stderr
    second = compile_in(
        tmp_path / "another" / "folder", source, symbol, target, constants, FLYDSL_DEBUG_ENABLE_DEBUG_INFO="1"
    )
    assert second.returncode == 0, second.stderr
    data = (tmp_path / "a" / "out.co").read_bytes()
    assert data == (tmp_path / "another" / "folder" / "out.co").read_bytes()
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
    done = compile_in(tmp_path / "a", "softmax.py", symbol, "gfx942", constants)
    assert done.returncode == 1
    assert words in done.stderr
    assert not (tmp_path / "a" / "out.co").exists()
