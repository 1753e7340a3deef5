"""AITER's assembly and the kernel of ours for ``mla_decode_fwd`` serve the same calls alike: results, logarithms, and parts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.emulator import bundles, library_path

from .latent_backends_program import CALLS

ROOT = Path(__file__).resolve().parents[2]


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
    command = [sys.executable, "-m", "emulator.latent_backends_program", target, fp8, str(file), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr[-4000:]
    with np.load(file) as found:
        return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "fp8"), [("gfx942", "e4m3fnuz"), ("gfx950", "e4m3fn")])
def test_two_backends_give_the_same_attention(target: str, fp8: str, tmp_path: Path) -> None:
    assembly, ours = served(target, fp8, tmp_path / "a.npz"), served(target, fp8, tmp_path / "b.npz", "ours")
    for number, (_, _, narrow, _, parts) in enumerate(CALLS):
        chosen = [str(each[f"kernel{number}"]) for each in (assembly, ours)]
        assert chosen[0].startswith("decode_") and chosen[1] in ("ours", "ours_one"), chosen
        assert parts == 1 or f"parts{number}" in ours
        # Probabilities are bf16 in one and bf16 or fp8 in the other, and results bf16.
        for name, off in {
            "o": 0.05 if narrow else 0.01,
            "parts": 0.1 if narrow else 0.02,
            "lse": 1e-3,
        }.items():
            if f"{name}{number}" in assembly:
                one, other = (each[f"{name}{number}"] for each in (assembly, ours))
                assert np.array_equal(np.isfinite(one), np.isfinite(other)), (number, name)
                there = np.isfinite(one)
                assert np.abs(one[there] - other[there]).max() <= off, (number, name)
