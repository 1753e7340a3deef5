"""AITER's assembly, FlyDSL's or a HIP kernel, and the Triton kernel of ours, serve the same products alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.emulator import bundles, library_path

from .product_backends_program import CALLS, OURS

ROOT = Path(__file__).resolve().parents[2]
#: The kernel that serves each operator's calls where no row names ours.
FIRST = {
    "gemm_a8w8_bpreshuffle": "gemm_a8w8_bpreshuffle",
    "gemm_a4w4_asm": "f4gemm",
    "gemm_a4w4": "f4gemm",
    "gemm_a16w16_fp32": "bf16gemm",
    "gemm_a8w8_blockscale_bpreshuffle": "blockscale_few",
    "deepgemm": "few",
    "smoothquant_fwd": "smooth_row",
}


def served(target: str, fp8: str, file: Path, *words: str) -> dict[str, np.ndarray]:
    """What the child's calls made."""
    (path,) = bundles(target, "ck-free")
    environment = (
        os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(ROOT)]),
            "AITER_PREBUILT_HIP": str(library_path()),
            "AITER_PREBUILT_EMULATOR": target,
            "AITER_PREBUILT_EMULATOR_CHECKS": "all,report",  # AITER's objects have findings of the others: hsa/findings.toml
            "AITER_PREBUILT_BUNDLES": str(path),
        }
    )
    command = [sys.executable, "-m", "emulator.product_backends_program", target, fp8, str(file), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr[-4000:]
    with np.load(file) as found:
        return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "fp8"), [("gfx942", "e4m3fnuz"), ("gfx950", "e4m3fn")])
def test_two_backends_give_the_same_products(target: str, fp8: str, tmp_path: Path) -> None:
    first, ours = served(target, fp8, tmp_path / "a.npz"), served(target, fp8, tmp_path / "b.npz", "ours")
    for number, (name, *_) in enumerate(CALLS[target]):
        chosen = [str(each[f"kernel{number}"]) for each in (first, ours)]
        assert chosen == [FIRST[name], OURS[name][0]], (number, name)
        one, other = (each[f"out{number}"] for each in (first, ours))
        if name == "smoothquant_fwd":  # its codes are one apart at most, where a number lies between two
            scales, theirs = (each[f"scales{number}"] for each in (first, ours))
            assert np.abs(scales / theirs - 1).max() < 2.0**-22 and np.abs(one).max() == 127, number
            assert np.abs(one - other).max() <= 1 and (one == other).mean() > 0.999, number
            continue
        # Both add in fp32, in orders of their own, and round to bf16 once: a sum that cancels is off by what its addends lose.
        largest = np.abs(one).max()
        assert largest > 0 and np.isfinite(one).all()
        rounded = name != "gemm_a16w16_fp32"
        assert np.abs(one - other).max() <= (2.0**-8 if rounded else 2.0**-18) * largest, (number, name)
        assert not rounded or (one == other).mean() > 0.99, (number, name)
