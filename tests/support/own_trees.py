"""Trees of kernels of one's own for tests: a small one, the commands, and programs on the embedded device beside its wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCALE = """\
#include "csrc/kernels/hip/common.hpp"
AP_KERNEL(256)
void own_scale(float* out, const float* x, ap::i64 x_row, ap::i32 columns, float factor) {
  const ap::i64 row = ap::block_x();
  for (ap::i32 column = ap::thread_x(); column < columns; column += 256) {
    out[row * columns + column] = x[row * x_row + column] * factor;
  }
}
"""
SCALES = """\
edition = 2

[kernels.scale]
backend = "hip"
targets = ["gfx942"]
source = "scale.hip"
symbol = "own_scale"
when = ["N < 2147483392"]
grid = ["M"]
block = [256]
args = ["ptr out", "ptr x", "i64 x_row", "i32 N", "f32 factor"]

[operators.own_scale]
python = "(x: Tensor, factor: float) -> Tensor"
module = "module_own"
summary = "`x * factor`, rounded once."
source = "nobody"
arguments.x = "f32[*M, N] strides [x_row, 1]"
returns.out = "f32[*M, N]"
kernels = ["scale"]
"""
REFERENCE = """\
from build_tools.cases.near import Near, Values, near


def own_scale(x: Values, factor: float) -> Near:
    return near(x * factor, relative=2.0**-24)
"""
CASES = """\
[own_scale]
golden = "M=2 N=5 factor=0.5"
calls = ["M=3 N=300 factor=1.5&-0.25 x_row=304&320", "M=(2,2) N=64&1 factor=3.0"]
"""


def run(*words: str | Path) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    command = [sys.executable, "-m", "build_tools", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def emulated(site: Path, cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the embedded device, with a tree's wheel in ``site``, and only its bundle."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(site), str(ROOT / "src"))),
        "AITER_PREBUILT_BUNDLES": str(site / "aiter_prebuilt_bundles"),
        "XDG_CACHE_HOME": str(cache),
    }
    command = [sys.executable, "-m", "aiter_prebuilt_emulator", "run", "--devices", "gfx942", "--"]
    return subprocess.run(
        [*command, sys.executable, *words], cwd=site, env=env, capture_output=True, text=True, timeout=900
    )


def unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder
