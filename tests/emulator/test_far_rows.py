"""Rows that are 2**31 elements apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import proof
from support.torch_programs import run_tests


@pytest.mark.parametrize("target", proof.TARGETS)
def test_far_rows(target: str, tmp_path: Path) -> None:
    assert run_tests("far_rows", tmp_path, target).startswith("11 passed")
