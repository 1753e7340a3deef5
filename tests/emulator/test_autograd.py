"""Attention with gradients by torch's engine, on torch of the embedded device, beside autograd in float64."""

from __future__ import annotations

import pytest
from support import proof
from support.torch_programs import run_program


@pytest.mark.parametrize("target", proof.TARGETS)
@pytest.mark.parametrize("checked", [False, True])
def test_gradients_are_those_of_float64(target: str, checked: bool) -> None:
    """Also where values are looked at before each launch."""
    check = {"AITER_PREBUILT_CHECK": "1"} if checked else {}
    done = run_program("autograd", target, **check)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
