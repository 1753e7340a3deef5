"""Lists of works and what attention makes of them, on the embedded device: ``get_mla_metadata_v1`` with ``mla_decode_fwd`` and
its two halves, contexts of 0 to 2900 keys, and on each rank of context parallelism; ``get_ps_metadata_v1`` with
``mla_prefill_ps_asm_fwd`` and ``mla_reduce_v1``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("program", ["latent_program", "latent_ranks_program", "prompt_program"])
@pytest.mark.parametrize(("target", "fp8"), [("gfx942", "e4m3fnuz"), ("gfx950", "e4m3fn")])
def test_lists_from_the_device_give_attention(target: str, fp8: str, program: str) -> None:
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
    command = [sys.executable, "-m", f"emulator.{program}", target, fp8]
    if program == "latent_ranks_program":
        pytest.importorskip("torch")
        command[2:3] = ["aiter_prebuilt_emulator.torch", str(Path(__file__).with_name(f"{program}.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr[-4000:]
