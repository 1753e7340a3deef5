"""Tensors that a device cannot read, through the emulator's torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import proof
from support.torch_programs import run_tests


@pytest.mark.parametrize("target", proof.TARGETS)
def test_refused_tensors(target: str, tmp_path: Path) -> None:
    assert run_tests("refused_tensors", tmp_path, target).startswith("15 passed")
