"""Rows and MX scales in the order of a mixture's sorted ids, on torch of the embedded device."""

from __future__ import annotations

import pytest
from support import proof
from support.torch_programs import run_program


@pytest.mark.parametrize("target", proof.TARGETS)
def test_sorted_rows_and_scales_equal_the_host(target: str) -> None:
    done = run_program("sorted_scales", target)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    steps = ["scales are sorted", "codes are made and scales sorted", "rows are smoothed"]
    assert done.stdout.splitlines() == steps
