"""AITER's assembled attention where a tensor has a stride of 0 over the sequence."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import proof
from support.torch_programs import run_tests


@pytest.mark.parametrize("target", proof.TARGETS)
def test_shared_rows(target: str, tmp_path: Path) -> None:
    assert run_tests("shared_rows", tmp_path, target).startswith("16 passed")
