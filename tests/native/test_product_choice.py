"""Choices among kernels of matrix products, with the real bundles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.emulator import bundles

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("gfx942", "gfx950")
#: Cycles of a second launch, as the condition of gemm_splitk counts them.
LAUNCH = 6000


def accepted(target: str, call: str) -> list[dict[str, Any]]:
    """The decisions of a call that accept it."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, bundles(target, "ck-free"))),
    }  # fmt: skip
    command = [sys.executable, "-m", "aiter_prebuilt", "explain", *call.split(), "--target", target, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in json.loads(done.stdout)["decisions"] if each["accepted"]]


def chosen(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The one that is taken."""
    (row,) = [each for each in rows if each["chosen"]]
    return row


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [64, 100, 256, 512])
def test_few_tiles_and_a_long_k_split_k(target: str, rows: int) -> None:
    """AITER's measured winners of M=128, 256 and 512, N=1280, K=8192 on gfx950 split K in 6, 4 and 2 parts."""
    found = accepted(target, f"gemm_a16w16 M={rows} N=1280 K=8192 T=bf16 bias=none")
    taken = chosen(found)
    assert taken["kernel"] == "gemm_splitk"
    whole = min(each["cost"] for each in found if each["kernel"] == "gemm_tile")
    assert taken["cost"] + LAUNCH < whole


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "sizes", ["M=1024 N=8192 K=1024", "M=256 N=28672 K=4096", "M=4096 N=1280 K=8192", "M=512 N=4096 K=256"]
)
def test_k_stays_whole_where_a_split_gains_nothing(target: str, sizes: str) -> None:
    """Enough tiles, more rows than a split is for, or a K that a second launch takes as long as."""
    assert chosen(accepted(target, f"gemm_a16w16 {sizes} T=bf16 bias=none"))["kernel"] == "gemm_tile"


@pytest.mark.parametrize("target", TARGETS)
def test_of_equal_work_fewer_tiles_are_taken(target: str) -> None:
    """Five rounds of 16 columns were as cheap as two of 64: each tile begins and ends."""
    found = accepted(target, "gemm_a8w8_bpreshuffle M=256 N=1280 K=8192 KW=8192 T=bf16")
    taken = chosen(found)
    assert (taken["kernel"], taken["variant"]) == ("gemm_a8w8_bpreshuffle", "16x64")
