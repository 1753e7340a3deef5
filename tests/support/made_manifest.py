"""The manifests of one made-up operator, right as they are: to be planned, and to be made wrong in one point."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from build_tools.errors import ManifestError
from build_tools.manifest.parse import load
from build_tools.plan.plan import make_plan
from build_tools.records import Plan

ROOT = Path(__file__).resolve().parents[2]

GOOD = """
edition = 2

[kernels.scale]
backend = "triton"
targets = ["gfx942", "gfx950", "sm_90"]
source = "kernel.py"
symbol = "scale_kernel"
when = ["N <= BLOCK", "mode == 'exact' or not given(bias)"]
cost = "BLOCK * cdiv(M, CUS)"
grid = ["M"]
args = ["ptr out", "ptr input", "ptr bias", "i32 N", "i64 in_row", "f32 epsilon"]
constants = { num_warps = 2, FP8 = "{fp8}" }
variants = { BLOCK = [1024, 4096], EVEN = [0, 1] }
except = ["EVEN and BLOCK == 4096 and target == 'gfx942'"]
assume = { when_constant = "EVEN", divisible = ["input", "N"] }

[operators.scale]
python = "(out: Tensor, input: Tensor, bias: Tensor | None, epsilon: float, mode: str = 'exact', fast: bool = False) -> None"
module = "module_norm"
summary = "made up"
source = "nobody"
covered.mode = ["fast", "exact"]
covered.fast = [false]
types.T = ["bf16", "f16"]
types.Q = ["fp8", "i8"]
kernels = ["scale"]

[operators.scale.arguments]
out = "out Q[*M, N] strides [out_row, 1]"
input = "T[*M, N] strides [in_row, 1] align 2"
bias = "T[N] optional"
"""


def placed(root: Path) -> Path:
    """``manifests/`` of a repository at ``root``."""
    manifests = root / "manifests"
    manifests.mkdir()
    for name in ("targets", "profiles", "catalogue"):
        shutil.copy(ROOT / "manifests" / f"{name}.toml", manifests)
    (root / "kernel.py").write_text("")
    (manifests / "norm").mkdir()
    (manifests / "norm" / "operators.toml").write_text(GOOD)
    return manifests


def plan_of(folder: Path, profiles: tuple[str, ...] = (), targets: tuple[str, ...] = ()) -> Plan:
    """The plan of a folder of manifests."""
    return make_plan(load(folder), folder.parent, lambda _b, source, _s, _c: (source,), profiles, targets)


def problems_of(folder: Path, *changes: tuple[str, str]) -> list[str]:
    """List the problems of the manifest after text changes."""
    text = GOOD
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "norm" / "operators.toml").write_text(text)
    with pytest.raises(ManifestError) as caught:
        plan_of(folder)
    return list(caught.value.problems)


def changed(folder: Path, *changes: tuple[str, str]) -> Plan:
    """The plan of the good manifest with other texts."""
    text = GOOD
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    (folder / "norm" / "operators.toml").write_text(text)
    return plan_of(folder, targets=("gfx950",))
