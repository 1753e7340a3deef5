"""Long contexts, many sequences, AITER's assembly and our kernels asked for the same, and a page that is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = pytest.mark.parametrize("target", ["gfx942", "gfx950"])


def run(target: str, what: str, checks: str = "all") -> subprocess.CompletedProcess[str]:
    """The child that does it."""
    (path,) = bundles(target, "ck-free")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(ROOT)]),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": target,
        "AITER_PREBUILT_EMULATOR_CHECKS": checks,
        "AITER_PREBUILT_BUNDLES": str(path),
    }
    command = [sys.executable, "-m", "emulator.attention_program", what]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def found(target: str, what: str, checks: str = "all") -> dict[str, float]:
    """What it says."""
    done = run(target, what, checks)
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
@TARGETS
@pytest.mark.parametrize("what", ["long_ragged", "long_paged", "long_latent"])
def test_contexts_of_131072_tokens(target: str, what: str) -> None:
    # Sums of so many values that cancel are about 0.01.
    assert found(target, what, "all,report")["far"] < 5e-4


@pytest.mark.slow
@TARGETS
def test_1024_sequences_in_one_call(target: str) -> None:
    far = found(target, "many")
    assert max(far.values()) < 0.02, far


@pytest.mark.slow
@TARGETS
def test_aiters_assembly_and_our_kernels_agree(target: str) -> None:
    # Of AITER's objects the embedded device has more to say: hsa/findings.toml.
    far = found(target, "backends", "all,report")
    assert len(far) == 6 and max(far.values()) < 0.04, far


@TARGETS
def test_a_page_that_is_not_there_is_named(target: str) -> None:
    done = run(target, "beyond")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "ragged_attn_fwd_kernel" in line and "0x" in line]
    assert "illegal address" in line and "global_load" in line, line


@TARGETS
@pytest.mark.parametrize(
    ("what", "kernel"),
    [
        ("beyond_decode", "mla_decode_kernel"), ("beyond_decode_below", "mla_decode_kernel"),
        ("beyond_prompt", "mla_decode_kernel"),
        ("beyond_prefix", "extend_attn_fwd_kernel"), ("beyond_prefix_whole", "extend_attn_fwd_kernel"),
    ],
)  # fmt: skip
def test_a_row_that_is_not_there_is_named(target: str, what: str, kernel: str) -> None:
    done = run(target, what)
    assert done.returncode != 0, "numbers of another row"
    (line,) = [line for line in done.stderr.splitlines() if kernel in line and "0x" in line]
    assert "illegal address" in line and "load" in line, line
