"""AITER's ``flash_attn_func`` with lengths of padded batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import proof
from support.torch_programs import run_tests


@pytest.mark.parametrize("target", proof.TARGETS)
def test_padded_batches(target: str, tmp_path: Path) -> None:
    assert run_tests("padded_batch", tmp_path, target).startswith("26 passed")
