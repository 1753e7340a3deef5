"""``in place of``: each operator whose signature says so is executed in place, in every variant that it has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from emulator.rope_in_place import ROPE
from support.emulator import bundles, library_path

from aiter_prebuilt.contract.bundle import Bundle
from build_tools.objects.unpack import decompress

ROOT = Path(__file__).resolve().parents[2]
#: (operator, output, input) that ``in_place_program`` executes.
IN_PLACE = {
    ("silu", "out", "input"),
    ("fused_qk_rope_reshape_and_cache", "q_out", "q"),
    ("fused_qk_rope_reshape_and_cache", "k_out", "k"),
    *((name, out, into) for name, pairs in ROPE.items() for out, into in pairs),
}


@pytest.fixture(params=["gfx942", "gfx950"])
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_all_that_may_be_in_place_is_listed_here(target: str) -> None:
    found = set()
    for path in bundles(target, "ck-full"):
        bundle = Bundle(path.read_bytes(), decompress)
        for name in bundle.names:
            tensors = bundle.operator(name).tensors
            found |= {
                (name, tensor.name, tensors[tensor.in_place - 1].name)
                for tensor in tensors
                if tensor.in_place
            }
    assert found == IN_PLACE


def test_in_place_is_what_out_of_place_is(target: str) -> None:
    (path,) = bundles(target, "ck-free")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": f"{target}:cus=2",
        "AITER_PREBUILT_BUNDLES": str(path),
        "AITER_PREBUILT_TRACE": "1",
    }
    command = [sys.executable, "-m", "emulator.in_place_program"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr[-4000:]
    block = Bundle(path.read_bytes(), decompress).operator("silu")
    chosen = set(re.findall(r"act_elementwise\[([^\]]+)\] T=(\w+)", done.stderr))
    assert chosen == {(recipe.variant, kind) for recipe in block.recipes for kind in ("bf16", "f16")}
