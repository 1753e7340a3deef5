"""Calls that are said with other tensors, since no kernel walks theirs, on torch of the embedded device."""

from __future__ import annotations

import pytest
from support import proof
from support.torch_programs import run_program


@pytest.mark.parametrize("target", proof.TARGETS)
def test_the_same_as_with_dense_tensors(target: str) -> None:
    done = run_program("restated", target)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
