"""The calls of vLLM's ``--quantization fp8``, singly, on torch of the embedded device: ``client_fp8_program.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.torch_programs import run_tests


@pytest.mark.slow
def test_each_call_beside_float64(tmp_path: Path) -> None:
    run_tests("client_fp8", tmp_path, "gfx942", "gfx950")
