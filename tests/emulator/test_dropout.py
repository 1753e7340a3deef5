"""Attention with dropout, on torch of the embedded device, beside float64 with the mask of its random bytes."""

from __future__ import annotations

import pytest
from support import proof
from support.torch_programs import run_program


@pytest.mark.parametrize("target", proof.TARGETS)
def test_dropout_is_that_of_its_bytes(target: str) -> None:
    """Results and gradients, shares of each row, column and head, equal masks for equal states, refusals."""
    done = run_program("dropout", target)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
