"""SGLang 0.5.23's layers on stock AITER through the bridge: four of its files whose calls reach AITER, on the embedded device.
``CLIENT_WHEELS`` names a folder with SGLang's wheel (``nox -s servers``).
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from emulator import test_bridge
from emulator.test_bridge import World, kind_of

pytestmark = test_bridge.pytestmark
tree, world = test_bridge.tree, test_bridge.world  # its fixtures

CALLS = (
    "RMSNorm.forward_aiter",
    "SiluAndMul.forward_aiter",
    "aiter_w8a8_block_fp8_linear",
    "aiter_dsv3_router_gemm",
)


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Python files of SGLang's wheel."""
    found = sorted(Path(os.environ.get("CLIENT_WHEELS", "/none")).glob("sglang-*.whl"))
    if not found:
        pytest.skip("CLIENT_WHEELS names no folder with SGLang's wheel")
    folder = tmp_path_factory.mktemp("sglang")
    with zipfile.ZipFile(found[-1]) as archive:
        names = [name for name in archive.namelist() if name.startswith("sglang/srt/layers/")]
        archive.extractall(folder, [name for name in names if name.endswith(".py")])
    return folder


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_layers_that_call_aiter_are_right(tree: Path, world: World, sglang: Path, target: str) -> None:
    report, _ = world.run(tree, target, "sglang", str(sglang), AITER_PREBUILT_BRIDGE="strict")
    want: dict[str, list[str]] = {name: [] for name in CALLS}
    if kind_of(tree) == "wheel" and target == "gfx950":
        # SGLang imports there what AITER had not in November 2025.
        want["aiter_dsv3_router_gemm"] = ["ModuleNotFoundError: No module named 'aiter.ops.triton.fusions'"]
    assert report == want
