"""``AITER_PREBUILT_CHECK=1`` with whole functions on torch of the embedded device."""

from __future__ import annotations

import pytest
from support.torch_programs import run_program


@pytest.mark.parametrize(("check", "code"), [("1", 0), ("0", 1)])
def test_an_index_map_is_no_mask(check: str, code: int) -> None:
    done = run_program("value_checks", "gfx942", AITER_PREBUILT_CHECK=check)
    assert done.returncode == code, done.stdout + done.stderr[-3000:]
    if check == "1":
        assert done.stdout == (
            "fused_moe(expert_mask=...): element 0 is -1. It must be 0 or 1, with 2 ones (found by AITER_PREBUILT_CHECK=1).\n"
        )
