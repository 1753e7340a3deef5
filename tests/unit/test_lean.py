"""What a launch never needs is never loaded: it is memory in each of a server's processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"


def test_the_way_to_a_launch_loads_neither_the_python_reader_nor_openssl() -> None:
    code = "import sys, json, aiter_prebuilt.launch.dispatch, aiter_prebuilt.ops.generated.norm; "
    code += "print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "NativeError" in done.stderr:
        pytest.skip("the native extension is not built here")
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "aiter_prebuilt.bundles.locate" in loaded
    assert not loaded & {
        "aiter_prebuilt.contract.bundle",
        "aiter_prebuilt.contract.records",
        "hashlib",
        "ssl",
        "torch",
    }


def test_outputs_are_contiguous_and_like_their_input() -> None:
    torch = pytest.importorskip("torch")
    from aiter_prebuilt.ops._common import like

    x = torch.zeros(6, 10, dtype=torch.bfloat16)[:, :8]
    made = like(x)
    assert made.shape == x.shape and made.dtype is x.dtype and made.is_contiguous() and not x.is_contiguous()
